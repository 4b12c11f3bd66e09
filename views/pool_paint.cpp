// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/pool_view.h"

#include "views/canvas.h"
#include "views/format.h"
#include "views/picking.h"

#include <QPainterPath>

#include <algorithm>

namespace kvloupe {

void PoolView::paintContent(QPainter& painter, const QRectF& area) {
    if (!m_state) return;
    const Canvas canvas(painter, palette_(), font(), unit());
    const PoolLayout layout = layoutFor(area);
    paintCallout(canvas, layout);
    paintTable(canvas, layout);
    paintCounts(canvas, layout);
    paintHeads(canvas, layout);
    if (layout.image) {
        paintImage(canvas, layout);
    } else {
        for (std::uint32_t block = 0; block < layout.blocks; ++block) paintCell(canvas, layout, block);
    }
    paintRegions(canvas, layout);
    paintArrows(canvas, layout);
    paintMarks(canvas, layout);
    paintCopies(canvas, layout);
    paintLegend(canvas, layout);
    paintQueue(canvas, layout);
}

void PoolView::paintTable(const Canvas& canvas, const PoolLayout& layout) const {
    if (layout.table.isEmpty()) return;
    const Palette& colours = canvas.colours();
    const LaneRecord& lane = *cursor()->laneRecord();
    const SequenceId sequence = cursor()->sequence();
    canvas.text(QRectF(layout.table.left(), layout.table.top() - canvas.u(1), layout.table.width() + canvas.u(30), canvas.u(16)),
                lane.info().policy.groups.size() > 1
                    ? tr("Table of %1, group %2").arg(sequenceLabel(*cursor()->recording(), lane, sequence)).arg(m_group)
                    : tr("Block table of %1").arg(sequenceLabel(*cursor()->recording(), lane, sequence)),
                {11, QFont::Normal, colours.ink2, false});
    const auto rows = static_cast<std::uint32_t>(m_table.size());
    if (rows == 0) {
        canvas.paragraph(layout.table.adjusted(0, canvas.u(20), 0, 0), tr("It holds no blocks at this step."),
                         {11, QFont::Normal, colours.ink3, false});
        return;
    }
    const std::uint32_t size = m_state->block_size();
    for (std::uint32_t i = 0; i < layout.boxesShown(rows); ++i) {
        const std::uint32_t logical = tableRowShown(layout, i);
        const QRectF box = layout.box(i, rows);
        if (logical >= rows) {
            canvas.text(box, tr("… %1 more").arg(rows - layout.boxesShown(rows) + 1),
                        {11, QFont::Normal, colours.ink3, false}, Qt::AlignCenter);
            continue;
        }
        if (m_table[logical] == null_block_id) {
            canvas.outline(box.adjusted(0.5, 0.5, -0.5, -0.5), colours.freeBorder, 1, Qt::DashLine);
            canvas.text(box.adjusted(canvas.u(7), 0, -canvas.u(7), 0), tr("logical %1").arg(logical),
                        {10.5, QFont::Normal, colours.ink3, false});
            canvas.text(box.adjusted(canvas.u(7), 0, -canvas.u(7), 0), tr("null"), {11, QFont::Normal, colours.ink3, false},
                        Qt::AlignRight | Qt::AlignVCenter);
            continue;
        }
        const BlockState& block = m_state->blocks()[m_table[logical].value];
        const bool shared = block.owners > 1;
        canvas.ownerRect(box, sequence.value, shared ? colours.head : canvas.mix(colours.owner(sequence.value), colours.panel, 0.3));
        canvas.outline(box.adjusted(0.5, 0.5, -0.5, -0.5), shared ? colours.ink1 : canvas.ownerBorder(sequence.value), 1);
        const QRectF inner = box.adjusted(canvas.u(7), canvas.u(1), -canvas.u(7), -canvas.u(1));
        const TextStyle idStyle{12, QFont::Bold, colours.ink1, true};
        const TextStyle small{10.5, QFont::Normal, canvas.mix(colours.ink1, colours.ink2, 0.5), false};
        const QString id = QString::number(m_table[logical].value);
        const bool tall = box.height() > canvas.u(30);
        const QRectF line1(inner.left(), inner.top(), inner.width(), tall ? inner.height() / 2 : inner.height());
        canvas.text(line1, id, idStyle, Qt::AlignRight | Qt::AlignVCenter);
        canvas.text(line1.adjusted(0, 0, -canvas.width(id, idStyle) - canvas.u(4), 0), tr("logical %1").arg(logical), small);
        if (!tall) continue;
        const QRectF line2(inner.left(), inner.center().y(), inner.width(), inner.height() / 2);
        const QString fill = shared ? tr("%1 owners").arg(block.owners) : tr("%1 of %2").arg(block.filled).arg(size);
        canvas.text(line2, fill, small, Qt::AlignRight | Qt::AlignVCenter);
        canvas.text(line2.adjusted(0, 0, -canvas.width(fill, small) - canvas.u(4), 0),
                    QStringLiteral("%1–%2").arg(logical * size).arg(logical * size + std::max(block.filled, 1u) - 1), small);
    }
}

void PoolView::paintArrows(const Canvas& canvas, const PoolLayout& layout) const {
    if (layout.table.isEmpty() || m_table.empty()) return;
    const auto rows = static_cast<std::uint32_t>(m_table.size());
    const Pick& pick = cursor()->hover().block ? cursor()->hover() : cursor()->shown();
    QPainter& painter = canvas.painter();
    for (std::uint32_t i = 0; i < layout.boxesShown(rows); ++i) {
        const std::uint32_t logical = tableRowShown(layout, i);
        if (logical >= rows || m_table[logical] == null_block_id) continue;
        const bool meant = meansBlock(pick, cursor()->lane(), m_table[logical]);
        if (layout.cellWidth < canvas.u(16) && !meant) continue;  // too many to follow: only the one asked for
        const QRectF box = layout.box(i, rows), cell = layout.cell(m_table[logical].value);
        const bool shared = m_state->blocks()[m_table[logical].value].owners > 1;
        QColor colour = meant || shared ? canvas.colours().ink1 : canvas.ownerBorder(cursor()->sequence().value);
        if (!meant) colour.setAlphaF(0.75f);
        // Along the gap above the cell's row, then down into the cell.
        const QPointF from(box.right(), box.center().y());
        const double lane = cell.top() - std::max(layout.gap / 2, canvas.u(1.5));
        const double entry = layout.grid.left() - canvas.u(6), centre = cell.center().x();
        const double turn = canvas.u(5), head = canvas.u(4);
        QPainterPath path(from);
        const double middle = (from.x() + entry) / 2;
        path.cubicTo(QPointF(middle, from.y()), QPointF(middle, lane), QPointF(entry, lane));
        path.lineTo(QPointF(std::max(entry, centre - turn), lane));
        path.quadTo(QPointF(centre, lane), QPointF(centre, cell.top() + canvas.u(3)));
        painter.save();
        painter.setBrush(Qt::NoBrush);
        painter.setPen(QPen(colour, canvas.u(meant ? 2 : 1.2)));
        painter.drawPath(path);
        painter.setPen(Qt::NoPen);
        painter.setBrush(colour);
        const double tip = cell.top() + canvas.u(3) + head;
        painter.drawPolygon(QPolygonF({QPointF(centre, tip), QPointF(centre - head * 0.75, tip - head * 1.2),
                                       QPointF(centre + head * 0.75, tip - head * 1.2)}));
        painter.restore();
    }
}

void PoolView::paintCounts(const Canvas& canvas, const PoolLayout& layout) const {
    if (layout.counts.isEmpty()) return;
    const Palette& colours = canvas.colours();
    const double line = canvas.u(16);
    double y = layout.counts.top();
    canvas.text(QRectF(layout.counts.left(), y, layout.counts.width(), line), tr("Pool"), {11, QFont::DemiBold});
    const auto row = [&](const QString& name, Origin origin, const QString& value) {
        y += line;
        const QRectF area(layout.counts.left(), y, layout.counts.width(), line);
        canvas.text(area, name, {11, QFont::Normal, colours.ink2, false});
        canvas.number(area, origin, value, {11});
    };
    row(tr("In use"), Origin::measured, formatCount(m_state->used_blocks()));
    row(tr("Free"), Origin::measured, formatCount(m_freeBlocks));
    row(tr("of them cached"), Origin::measured, formatCount(m_cachedBlocks));
    row(tr("Shared"), Origin::measured, formatCount(m_sharedBlocks));
    row(tr("Slots unused"), Origin::derived, formatCount(m_unusedSlots));
}

void PoolView::paintHeads(const Canvas& canvas, const PoolLayout& layout) const {
    const TextStyle style{10.5, QFont::Normal, canvas.colours().ink3, false};
    const double pitch = layout.cellWidth + layout.gap;
    if (pitch <= 0) return;
    const auto every = [&](double size, double wanted) {
        return std::max(1u, static_cast<std::uint32_t>(std::ceil(canvas.u(wanted) / size)));
    };
    const std::uint32_t columnStep = every(pitch, 30), rowStep = every(layout.cellHeight + layout.gap, 16);
    for (std::uint32_t c = 0; c < layout.columns; c += columnStep)
        canvas.text(QRectF(layout.grid.left() + c * pitch - canvas.u(10), layout.columnHeads.top(),
                           layout.cellWidth + canvas.u(20), layout.columnHeads.height()),
                    QStringLiteral("+%1").arg(std::uint64_t{c} * layout.blocksPerDot), style, Qt::AlignHCenter | Qt::AlignVCenter);
    for (std::uint32_t r = 0; r < layout.rows; r += rowStep) {
        const double y = layout.grid.top() + r * (layout.cellHeight + layout.gap);
        canvas.text(QRectF(layout.rowHeads.left() - canvas.u(8), y, layout.rowHeads.width() + canvas.u(8),
                           std::max(layout.cellHeight, canvas.u(12))),
                    QString::number(std::uint64_t{r} * layout.columns * layout.blocksPerDot), style,
                    Qt::AlignRight | (layout.image ? Qt::AlignTop : Qt::AlignVCenter), Qt::ElideNone);
    }
}

}  // namespace kvloupe
