// SPDX-License-Identifier: GPL-3.0-or-later
//
// PoolLayout: where the parts of the block pool's picture lie, for any size of view and any number of blocks.
// A cell is 50 x 32 at 100 % and gives way in steps: under 28 wide the slot bar goes, under 16 the id, under 6 all cells
// become one image; under 3 px several blocks share one dot.
#pragma once

#include <QRectF>

#include <cstdint>
#include <optional>

namespace kvloupe {

struct PoolLayout {
    double scale = 1;
    QRectF callout, calloutLink, table, counts, columnHeads, rowHeads, grid, legend, queue;  // empty: not shown
    std::uint32_t blocks = 0;
    std::uint32_t columns = 1, rows = 1;
    double cellWidth = 0, cellHeight = 0, gap = 0;
    bool slotBar = false, id = false;
    bool image = false;                 // one image instead of cells
    std::uint32_t blocksPerDot = 1;     // > 1: folded

    // tableRows: boxes of the block table at the left, 0 for none; queueStrip: a line at the bottom for the free queue.
    static PoolLayout compute(const QRectF& area, std::uint32_t blocks, std::uint32_t tableRows, double scale,
                              bool queueStrip = true);

    QRectF cell(std::uint32_t block) const;
    std::optional<std::uint32_t> blockAt(const QPointF& point) const;
    // Boxes of the block table that fit; the last of them says "n more" when boxes are left out.
    double boxHeight(std::uint32_t tableRows) const;
    std::uint32_t boxesShown(std::uint32_t tableRows) const;
    QRectF box(std::uint32_t index, std::uint32_t tableRows) const;
};

}  // namespace kvloupe
