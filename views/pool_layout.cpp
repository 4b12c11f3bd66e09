// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/pool_layout.h"

#include <algorithm>
#include <cmath>

namespace kvloupe {

namespace {

constexpr double largest_cell = 76, smallest_cell = 6;

// Columns that are pleasant to count with.
std::uint32_t pleasant(std::uint32_t columns) {
    if (columns >= 64) return columns / 16 * 16;
    if (columns >= 24) return columns / 8 * 8;
    if (columns >= 12) return columns / 4 * 4;
    return std::max(columns, 1u);
}

}  // namespace

PoolLayout PoolLayout::compute(const QRectF& area, std::uint32_t blocks, std::uint32_t tableRows, double scale,
                               bool queueStrip) {
    PoolLayout out;
    out.scale = scale;
    out.blocks = blocks;
    const auto u = [scale](double pixels) { return pixels * scale; };
    const double margin = u(10);
    QRectF room = area.adjusted(margin, u(6), -margin, -u(6));
    if (area.height() >= u(200)) {
        const double height = area.height() >= u(340) ? u(44) : u(28);  // cause beside the title, or below it
        out.callout = QRectF(room.left(), room.top(), room.width(), height);
        if (height > u(40) && area.width() >= u(560))
            out.calloutLink = QRectF(room.right() - u(180), room.top() + height / 2, u(170), height / 2 - u(4));
        room.setTop(room.top() + height + u(8));
    }
    if (queueStrip && area.height() >= u(250)) {
        out.queue = QRectF(room.left(), room.bottom() - u(20), room.width(), u(20));
        room.setBottom(room.bottom() - u(24));
    }
    if (area.height() >= u(160)) {
        out.legend = QRectF(room.left(), room.bottom() - u(18), room.width(), u(18));
        room.setBottom(room.bottom() - u(24));
    }
    if (area.width() >= u(420)) {
        const double width = area.width() >= u(640) ? u(132) : u(104);
        out.table = QRectF(room.left(), room.top(), width, room.height());
        if (room.height() >= u(190)) {
            out.counts = QRectF(room.left(), room.bottom() - u(100), width, u(100));
            out.table.setBottom(out.counts.top() - u(8));
        }
        room.setLeft(room.left() + width + u(tableRows ? 36 : 16));
    }
    const double heads = u(30);
    out.columnHeads = QRectF(room.left() + heads, room.top(), room.width() - heads, u(16));
    out.rowHeads = QRectF(room.left(), room.top() + u(18), heads - u(6), room.height() - u(18));
    const QRectF grid = room.adjusted(heads, u(18), 0, 0);
    out.grid = grid;
    if (blocks == 0 || grid.width() < 4 || grid.height() < 4) return out;

    for (double width = u(largest_cell); width >= u(smallest_cell); width -= u(1)) {
        const double height = width >= u(28) ? std::min(width * 0.64, u(40)) : width * 0.8;
        const double gap = width >= u(28) ? u(6) : std::max(u(1.5), width * 0.14);
        const auto columns = pleasant(static_cast<std::uint32_t>((grid.width() + gap) / (width + gap)));
        const std::uint32_t rows = (blocks + columns - 1) / columns;
        if (rows * (height + gap) - gap > grid.height()) continue;
        out.columns = columns;
        out.rows = rows;
        out.cellWidth = width;
        out.cellHeight = height;
        out.gap = gap;
        out.slotBar = width >= u(28) && height >= u(24);  // below, the bar would lie over the id
        out.id = width >= u(16);
        return out;
    }
    // One image: square dots without gaps, 3 px and up; beyond that several blocks share a dot.
    out.image = true;
    double side = std::floor(std::sqrt(grid.width() * grid.height() / blocks));
    while (side > 3 && std::floor(grid.width() / side) * std::floor(grid.height() / side) < blocks) side -= 1;
    side = std::max(side, 3.0);
    out.columns = std::max(1u, static_cast<std::uint32_t>(grid.width() / side));
    const auto fitting = std::max(1u, static_cast<std::uint32_t>(grid.height() / side));
    const std::uint64_t dots = std::uint64_t{out.columns} * fitting;
    out.blocksPerDot = static_cast<std::uint32_t>(std::max<std::uint64_t>(1, (blocks + dots - 1) / dots));
    const std::uint32_t used = (blocks + out.blocksPerDot - 1) / out.blocksPerDot;
    out.rows = (used + out.columns - 1) / out.columns;
    out.cellWidth = out.cellHeight = side;
    return out;
}

QRectF PoolLayout::cell(std::uint32_t block) const {
    const std::uint32_t dot = block / blocksPerDot;
    return QRectF(grid.left() + dot % columns * (cellWidth + gap), grid.top() + dot / columns * (cellHeight + gap),
                  cellWidth, cellHeight);
}

std::optional<std::uint32_t> PoolLayout::blockAt(const QPointF& point) const {
    if (cellWidth <= 0) return {};
    const double x = (point.x() - grid.left()) / (cellWidth + gap), y = (point.y() - grid.top()) / (cellHeight + gap);
    if (x < 0 || y < 0 || x >= columns || y >= rows) return {};
    const std::uint32_t dot = static_cast<std::uint32_t>(y) * columns + static_cast<std::uint32_t>(x);
    const std::uint64_t block = std::uint64_t{dot} * blocksPerDot;
    if (block >= blocks || !cell(static_cast<std::uint32_t>(block)).contains(point)) return {};
    return static_cast<std::uint32_t>(block);
}

double PoolLayout::boxHeight(std::uint32_t tableRows) const {
    const double room = table.height() - 20 * scale;
    if (tableRows == 0 || room <= 0) return 0;
    if (tableRows * 44 * scale <= room) return 38 * scale;
    return 19 * scale;
}

std::uint32_t PoolLayout::boxesShown(std::uint32_t tableRows) const {
    const double height = boxHeight(tableRows);
    if (height <= 0) return 0;
    const double step = height + (height > 30 * scale ? 6 : 3) * scale;
    const auto fitting = static_cast<std::uint32_t>((table.height() - 20 * scale) / step);
    return std::min(tableRows, fitting);
}

QRectF PoolLayout::box(std::uint32_t index, std::uint32_t tableRows) const {
    const double height = boxHeight(tableRows);
    const double step = height + (height > 30 * scale ? 6 : 3) * scale;
    return QRectF(table.left(), table.top() + 20 * scale + index * step, table.width(), height);
}

}  // namespace kvloupe
