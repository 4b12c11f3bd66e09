// SPDX-License-Identifier: GPL-3.0-or-later
//
// Cells of the block pool: who owns a block, what state it is in, what the step did to it.
#include "views/pool_view.h"

#include "views/canvas.h"
#include "views/format.h"
#include "views/picking.h"

#include <QPainterPath>

#include <algorithm>
#include <cmath>

namespace kvloupe {

QColor PoolView::valueColour(const Canvas& canvas, std::uint32_t block) const {
    const auto value = m_blocks.value(block);
    if (!value) return {};
    return canvas.colours().attentionColour(m_blocks.share(*value));
}

void PoolView::paintCell(const Canvas& canvas, const PoolLayout& layout, std::uint32_t block) const {
    if (compares()) return paintDifference(canvas, layout, block);
    if (block > 0 && m_state->blocks()[block].owners > 0)
        paintUsed(canvas, layout, block);
    else
        paintFree(canvas, layout, block);
    if (!m_blocks.evicted(block) || layout.cellWidth < canvas.u(16)) return;
    // It lost its hash in this step: dashed, with the cross of an eviction.
    const QRectF cell = layout.cell(block);
    canvas.outline(cell.adjusted(1.5, 1.5, -1.5, -1.5), canvas.colours().ink1, 1, Qt::DashLine);
    if (m_state->blocks()[block].owners < 2)
        canvas.glyph(EventKind::evict, QPointF(cell.right() - canvas.u(7), cell.top() + canvas.u(7)), 7, canvas.colours().ink1);
}

void PoolView::paintFree(const Canvas& canvas, const PoolLayout& layout, std::uint32_t block) const {
    const QRectF cell = layout.cell(block);
    const Palette& colours = canvas.colours();
    const BlockState& stored = m_state->blocks()[block];
    QColor fill = block == 0 ? colours.panel : colours.free;
    bool strong = false;
    if (m_colour != PoolColour::owner && m_colour != PoolColour::count && block > 0)
        if (const QColor value = valueColour(canvas, block); value.isValid()) {
            fill = value;
            strong = m_blocks.share(*m_blocks.value(block)) > 0.55;
        }
    canvas.painter().fillRect(cell, fill);
    if (block > 0 && (stored.hashed || stored.held)) canvas.hatch(cell, colours.hatch);
    canvas.outline(cell.adjusted(0.5, 0.5, -0.5, -0.5), colours.freeBorder, 1);
    if (!layout.id) return;
    const bool null = block == 0 && layout.cellWidth >= canvas.u(28);
    const QColor ink = strong ? colours.panel : colours.ink3;
    const TextStyle style = null ? TextStyle{11, QFont::Normal, ink, false}
                                 : TextStyle{layout.cellWidth < canvas.u(28) ? 9.0 : 11.0, QFont::Normal, ink, true};
    canvas.text(cell.adjusted(canvas.u(3), canvas.u(1), -canvas.u(1), 0), null ? tr("null") : QString::number(block), style,
                null ? Qt::AlignCenter : Qt::AlignLeft | Qt::AlignTop, Qt::ElideNone);
    if (block < m_place.size() && m_place[block] > 0 && layout.slotBar)
        canvas.text(cell.adjusted(canvas.u(3), 0, -canvas.u(4), -canvas.u(2)), tr("#%1").arg(m_place[block]),
                    {10.5, QFont::DemiBold, strong ? colours.panel : colours.ink1, false}, Qt::AlignRight | Qt::AlignBottom,
                    Qt::ElideNone);
}

void PoolView::paintUsed(const Canvas& canvas, const PoolLayout& layout, std::uint32_t block) const {
    const QRectF cell = layout.cell(block);
    const Palette& colours = canvas.colours();
    QPainter& painter = canvas.painter();
    const BlockState& stored = m_state->blocks()[block];
    const std::uint32_t first = stored.first_owner.valid() ? stored.first_owner.value : 0;
    const bool shared = stored.owners > 1;
    QColor ink = colours.ink1;
    if (m_colour != PoolColour::owner) {
        const QColor value = valueColour(canvas, block);
        painter.fillRect(cell, value.isValid() ? value : colours.panel);
        if (value.isValid() && m_blocks.share(*m_blocks.value(block)) > 0.55) ink = colours.panel;
    } else if (shared) {
        const auto owners = m_blocks.owners(block);
        for (std::size_t i = 0; i < owners.size(); ++i) {
            const double width = cell.width() / static_cast<double>(owners.size());
            canvas.ownerRect(QRectF(cell.left() + static_cast<double>(i) * width, cell.top(), width, cell.height()),
                             owners[i].sequence.value, canvas.ownerFill(owners[i].sequence.value));
        }
    } else if (stored.filled == 0) {
        canvas.ownerRect(cell, first, canvas.mix(colours.owner(first), colours.panel, 0.14));  // reserved, not yet written
    } else {
        canvas.ownerRect(cell, first, canvas.ownerFill(first));
    }
    const bool focus = !shared && stored.first_owner == cursor()->sequence();
    canvas.outline(cell.adjusted(0.5, 0.5, -0.5, -0.5),
                   shared ? colours.ink1 : m_colour == PoolColour::owner ? canvas.ownerBorder(first) : colours.freeBorder,
                   focus || (shared && layout.cellWidth >= canvas.u(16)) ? 1.6 : 1,
                   stored.filled == 0 && !shared ? Qt::DashLine : Qt::SolidLine);
    if (layout.id)
        canvas.text(cell.adjusted(canvas.u(layout.slotBar ? 5 : 3), canvas.u(layout.slotBar ? 2 : 0), -canvas.u(1), 0),
                    QString::number(block), {layout.cellWidth < canvas.u(28) ? 9.0 : 11.0, QFont::Bold, ink, true},
                    Qt::AlignLeft | Qt::AlignTop, Qt::ElideNone);
    if (layout.slotBar) paintSlots(canvas, cell, block);
    if (shared && layout.cellWidth >= canvas.u(16)) {
        const bool counted = layout.cellWidth >= canvas.u(28);
        const double side = counted ? std::min(canvas.u(17), cell.height() * 0.6) : canvas.u(6);
        painter.setPen(Qt::NoPen);
        painter.setBrush(colours.ink1);
        painter.drawPolygon(QPolygonF({cell.topRight() - QPointF(side, 0), cell.topRight(), cell.topRight() + QPointF(0, side)}));
        if (!counted) return;
        const QString count = stored.owners > 9 ? QStringLiteral("+") : QString::number(stored.owners);
        canvas.text(QRectF(cell.right() - canvas.u(9.5), cell.top() + canvas.u(0.5), canvas.u(9), canvas.u(10)), count,
                    {10, QFont::Bold, colours.panel, false}, Qt::AlignCenter, Qt::ElideNone);
    }
}

void PoolView::paintSlots(const Canvas& canvas, const QRectF& cell, std::uint32_t block) const {
    const Palette& colours = canvas.colours();
    QPainter& painter = canvas.painter();
    const BlockState& stored = m_state->blocks()[block];
    const std::uint32_t first = stored.first_owner.valid() ? stored.first_owner.value : 0;
    const std::uint32_t size = std::max(m_state->block_size(), 1u), filled = std::min(stored.filled, size);
    const QRectF bar(cell.left() + canvas.u(4), cell.bottom() - canvas.u(9), cell.width() - canvas.u(8), canvas.u(6));
    const bool byOwner = m_colour == PoolColour::owner;
    const QColor pure = stored.owners > 1 || !byOwner ? colours.ink1 : colours.owner(first);
    const double width = bar.width() / size;
    painter.fillRect(bar, canvas.mix(colours.panel, byOwner ? canvas.ownerFill(first) : colours.free, 0.65));
    if (width < canvas.u(2)) {
        painter.fillRect(QRectF(bar.left(), bar.top(), width * filled, bar.height()), pure);
    } else {
        for (std::uint32_t i = 0; i < filled; ++i)
            painter.fillRect(QRectF(bar.left() + i * width, bar.top(), width - canvas.u(0.7), bar.height()), pure);
    }
}

void PoolView::paintImage(const Canvas& canvas, const PoolLayout& layout) const {
    const Palette& colours = canvas.colours();
    QImage image(static_cast<int>(layout.columns), static_cast<int>(layout.rows), QImage::Format_RGB32);
    image.fill(colours.panel);
    const QRgb null = colours.ink3.rgb(), shared = colours.ink1.rgb(), cached = colours.hatch.rgb(), free = colours.free.rgb();
    const bool difference = compares(), byOwner = m_colour == PoolColour::owner;
    std::pair<std::uint32_t, QRgb> last{SequenceId::none().value, free};  // neighbours often have one owner
    const auto colourOf = [&](std::uint32_t block) {
        if (block == 0) return null;
        if (difference) return differenceDot(canvas, block).rgb();
        if (!byOwner) {
            const QColor colour = valueColour(canvas, block);
            return colour.isValid() ? colour.rgb() : free;
        }
        const BlockState& stored = m_state->blocks()[block];
        if (stored.owners > 1) return shared;
        if (stored.owners == 0) return stored.hashed || stored.held ? cached : free;
        if (stored.first_owner.value != last.first) last = {stored.first_owner.value, colours.owner(stored.first_owner.value).rgb()};
        return last.second;
    };
    std::vector<std::pair<QRgb, int>> votes;
    QRgb* row = nullptr;
    for (std::uint32_t dot = 0; std::uint64_t{dot} * layout.blocksPerDot < layout.blocks; ++dot) {
        const std::uint32_t begin = dot * layout.blocksPerDot, end = std::min(layout.blocks, begin + layout.blocksPerDot);
        QRgb chosen = colourOf(begin);
        if (end - begin > 1) {
            votes.clear();
            // Of blocks that share a dot those that differ count alone: a difference is what is looked for.
            const auto differs = [this](std::uint32_t block) { return m_difference.at(block) != BlockChange::same; };
            bool any = false;
            for (std::uint32_t block = begin; difference && block < end && !any; ++block) any = differs(block);
            for (std::uint32_t block = begin; block < end; ++block) {
                if (any && !differs(block)) continue;
                const QRgb colour = colourOf(block);
                const auto vote = std::find_if(votes.begin(), votes.end(), [colour](const auto& one) { return one.first == colour; });
                if (vote == votes.end()) votes.emplace_back(colour, 1);
                else ++vote->second;
            }
            chosen = std::max_element(votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; })->first;
        }
        if (dot % layout.columns == 0) row = reinterpret_cast<QRgb*>(image.scanLine(static_cast<int>(dot / layout.columns)));
        row[dot % layout.columns] = chosen;
    }
    canvas.painter().setRenderHint(QPainter::SmoothPixmapTransform, false);
    const QRectF target(layout.grid.left(), layout.grid.top(), layout.columns * layout.cellWidth, layout.rows * layout.cellHeight);
    canvas.painter().drawImage(target, image);
    canvas.outline(target, colours.line, 1);
}

// What a contiguous allocator gave in one piece: an ink bracket around its cells, broken at the ends of rows.
void PoolView::paintRegions(const Canvas& canvas, const PoolLayout& layout) const {
    if (layout.blocksPerDot > 1 || layout.cellWidth < 3) return;
    for (const PoolRegion& region : m_blocks.regions()) {
        const std::uint32_t end = std::min(region.first + region.count, layout.blocks);
        for (std::uint32_t begin = region.first; begin < end;) {
            const std::uint32_t rowEnd = std::min(end, (begin / layout.columns + 1) * layout.columns);
            const QRectF box = layout.cell(begin).united(layout.cell(rowEnd - 1));
            const double reach = layout.image ? 0 : std::min(layout.gap / 2, canvas.u(2.5));
            canvas.outline(box.adjusted(-reach, -reach, reach, reach),
                           region.sequence == cursor()->sequence() ? canvas.colours().ink1
                                                                   : canvas.ownerBorder(region.sequence.value),
                           region.sequence == cursor()->sequence() ? 2 : 1.5);
            begin = rowEnd;
        }
    }
}

// Source dashed, destination solid, an arrow between them that says what was moved.
void PoolView::paintCopies(const Canvas& canvas, const PoolLayout& layout) const {
    const Palette& colours = canvas.colours();
    const LaneRecord& lane = *cursor()->laneRecord();
    QPainter& painter = canvas.painter();
    constexpr std::size_t labelled = 4, drawn = 64;
    std::size_t count = 0;
    for (const PoolCopy& copy : m_blocks.copies()) {
        if (count++ == drawn) break;
        if (copy.source.value >= layout.blocks || copy.destination.value >= layout.blocks) continue;
        const QRectF from = layout.cell(copy.source.value).adjusted(-1, -1, 1, 1);
        const QRectF to = layout.cell(copy.destination.value).adjusted(-1, -1, 1, 1);
        canvas.outline(from, colours.panel, 2);  // what was outlined before gives way to the dashes
        canvas.outline(from, colours.focus, 2, Qt::DashLine);
        canvas.outline(to, colours.focus, 2);
        if (layout.image && layout.blocksPerDot > 1) continue;
        // From the side that faces the destination to the side that faces the source; within a row along its lower side.
        const bool up = to.bottom() <= from.top(), row = !up && to.top() < from.bottom();
        const QPointF a(from.center().x(), up ? from.top() : from.bottom());
        const QPointF b(to.center().x(), row || up ? to.bottom() : to.top());
        const QPointF out(0, up ? -1 : 1), in(0, row || up ? -1 : 1);  // directions of leaving and of arriving
        const double head = canvas.u(9), length = QLineF(a, b).length();
        const double reach = row ? canvas.u(22) : std::clamp(0.45 * length, canvas.u(8), canvas.u(60));
        const bool close = !row && length < canvas.u(14);
        const QPointF neck = close ? b : b - in * head;
        QPainterPath path(a);
        path.cubicTo(a + out * reach, neck - in * reach, neck);
        painter.save();
        painter.setBrush(Qt::NoBrush);
        painter.setPen(QPen(colours.panel, canvas.u(5)));
        if (!close) painter.drawPath(path);
        painter.setPen(QPen(colours.focus, canvas.u(2.2)));
        if (!close) painter.drawPath(path);
        painter.setPen(Qt::NoPen);
        painter.setBrush(colours.focus);
        const QPointF across(head * 0.6, 0);
        painter.drawPolygon(QPolygonF({b, b - in * head + across, b - in * head - across}));
        painter.restore();
        if (count > labelled || layout.cellWidth < canvas.u(28)) continue;
        const QString text = tr("%1 slots, %2").arg(copy.slots).arg(formatBytes(copy.slots * lane.info().bytes_per_token));
        const TextStyle style{11, QFont::DemiBold, colours.ink1, false};
        const double width = canvas.width(text, style) + canvas.u(24), height = canvas.u(18);
        const QPointF middle = path.pointAtPercent(0.5);
        QRectF label(middle.x() + (row ? -width / 2 : canvas.u(8)), middle.y() + (row ? canvas.u(4) : -height / 2), width, height);
        if (!row && label.right() > layout.grid.right()) label.moveRight(middle.x() - canvas.u(8));
        painter.fillRect(label, colours.panel);
        canvas.outline(label, colours.focus, 1);
        canvas.originMark(QPointF(label.left() + canvas.u(9), label.center().y()), Origin::derived);
        canvas.text(label.adjusted(canvas.u(17), 0, -canvas.u(4), 0), text, style);
    }
}

void PoolView::paintMarks(const Canvas& canvas, const PoolLayout& layout) const {
    const Palette& colours = canvas.colours();
    // Neighbours in a row are outlined as one: a region is one thing.
    for (std::size_t i = 0; i < m_touched.size() && m_touched[i] < layout.blocks;) {
        QRectF box = layout.cell(m_touched[i]);
        const double top = box.top();
        std::uint32_t last = m_touched[i];
        for (++i; i < m_touched.size() && m_touched[i] == last + 1 && m_touched[i] < layout.blocks &&
                  std::abs(layout.cell(m_touched[i]).top() - top) < 0.5;
             ++i) {
            last = m_touched[i];
            box = box.united(layout.cell(last));
        }
        canvas.outline(box.adjusted(-1, -1, 1, 1), colours.focus, layout.image ? 1 : 2);
    }
    const auto mark = [&](const Pick& pick, double width) {
        if (!pick.block || !meansBlock(pick, cursor()->lane(), *pick.block) || pick.block->value >= layout.blocks) return;
        const QRectF cell = layout.cell(pick.block->value);
        canvas.outline(cell.adjusted(-1, -1, 1, 1), colours.ink1, width);
        const std::uint32_t size = m_state->block_size();
        if (pick.position && layout.slotBar && size > 0) {
            const double slot = (cell.width() - canvas.u(8)) / size;
            canvas.painter().setPen(QPen(colours.ink1, canvas.u(1.2)));
            canvas.painter().setBrush(Qt::NoBrush);
            canvas.painter().drawRect(QRectF(cell.left() + canvas.u(4) + *pick.position % size * slot - canvas.u(0.8),
                                             cell.bottom() - canvas.u(11), std::max(slot, 2.0) + canvas.u(0.8), canvas.u(9.5)));
        }
        const auto rows = static_cast<std::uint32_t>(m_table.size());
        for (std::uint32_t i = 0; !layout.table.isEmpty() && i < layout.boxesShown(rows); ++i) {
            const std::uint32_t logical = tableRowShown(layout, i);
            if (logical < rows && m_table[logical] == *pick.block) canvas.outline(layout.box(i, rows), colours.ink1, width);
        }
    };
    mark(cursor()->hover(), 1);
    mark(cursor()->locked(), 2);
}

}  // namespace kvloupe
