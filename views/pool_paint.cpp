// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/pool_view.h"

#include "views/canvas.h"
#include "views/format.h"
#include "views/picking.h"

#include <QPainterPath>

#include <algorithm>
#include <array>
#include <map>

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
    paintArrows(canvas, layout);
    paintMarks(canvas, layout);
    paintLegend(canvas, layout);
    paintQueue(canvas, layout);
}

void PoolView::paintCallout(const Canvas& canvas, const PoolLayout& layout) const {
    const QRectF& area = layout.callout;
    if (area.isEmpty()) return;
    const Palette& colours = canvas.colours();
    canvas.painter().fillRect(area, m_callout.happened ? colours.focusWash : colours.head);
    canvas.painter().fillRect(QRectF(area.left(), area.top(), canvas.u(3), area.height()),
                              m_callout.happened ? colours.focus : colours.line);
    QRectF text = area.adjusted(canvas.u(12), 0, -canvas.u(10), 0);
    if (!m_callout.size.isEmpty() && area.width() > canvas.u(360)) {
        const double used = canvas.number(text, Origin::derived, m_callout.size, {12});
        text.setRight(text.right() - used - canvas.u(10));
    }
    const TextStyle title{13, QFont::DemiBold, colours.ink1, false};
    canvas.text(text, m_callout.title, title);
    text.setLeft(text.left() + canvas.width(m_callout.title, title) + canvas.u(10));
    canvas.text(text, m_callout.cause, {12, QFont::Normal, colours.ink2, false});
}

void PoolView::paintTable(const Canvas& canvas, const PoolLayout& layout) const {
    if (layout.table.isEmpty()) return;
    const Palette& colours = canvas.colours();
    const LaneRecord& lane = *cursor()->laneRecord();
    const SequenceId sequence = cursor()->sequence();
    canvas.text(QRectF(layout.table.left(), layout.table.top() - canvas.u(1), layout.table.width() + canvas.u(30), canvas.u(16)),
                tr("Block table of %1").arg(sequenceLabel(*cursor()->recording(), lane, sequence)),
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
        if (logical >= rows) continue;
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

void PoolView::paintCell(const Canvas& canvas, const PoolLayout& layout, std::uint32_t block) const {
    const QRectF cell = layout.cell(block);
    const Palette& colours = canvas.colours();
    QPainter& painter = canvas.painter();
    const BlockState& stored = m_state->blocks()[block];
    const bool used = block > 0 && stored.owners > 0;
    const TextStyle idStyle{layout.cellWidth < canvas.u(28) ? 9.0 : 11.0, used ? QFont::Bold : QFont::Normal,
                            used ? colours.ink1 : colours.ink3, true};
    if (!used) {
        painter.fillRect(cell, block == 0 ? colours.panel : colours.free);
        if (block > 0 && stored.hashed) canvas.hatch(cell, colours.hatch);
        canvas.outline(cell.adjusted(0.5, 0.5, -0.5, -0.5), colours.freeBorder, 1);
        if (layout.id) {
            const bool null = block == 0 && layout.cellWidth >= canvas.u(28);
            canvas.text(cell.adjusted(canvas.u(3), canvas.u(1), -canvas.u(1), 0), null ? tr("null") : QString::number(block),
                        null ? TextStyle{11, QFont::Normal, colours.ink3, false} : idStyle,
                        null ? Qt::AlignCenter : Qt::AlignLeft | Qt::AlignTop, Qt::ElideNone);
        }
        return;
    }
    const std::uint32_t first = stored.first_owner.value;
    const bool shared = stored.owners > 1;
    if (shared) {
        const std::vector<BlockOwner> owners = ownersOf(*m_state, BlockId(block));
        for (std::size_t i = 0; i < owners.size(); ++i) {
            const double width = cell.width() / static_cast<double>(owners.size());
            canvas.ownerRect(QRectF(cell.left() + static_cast<double>(i) * width, cell.top(), width, cell.height()),
                             owners[i].sequence.value, canvas.ownerFill(owners[i].sequence.value));
        }
    } else {
        canvas.ownerRect(cell, first, canvas.ownerFill(first));
    }
    const bool focus = !shared && stored.first_owner == cursor()->sequence();
    canvas.outline(cell.adjusted(0.5, 0.5, -0.5, -0.5), shared ? colours.ink1 : canvas.ownerBorder(first), focus ? 1.6 : 1);
    if (layout.id)
        canvas.text(cell.adjusted(canvas.u(layout.slotBar ? 5 : 3), canvas.u(layout.slotBar ? 2 : 0), -canvas.u(1), 0),
                    QString::number(block), idStyle, Qt::AlignLeft | Qt::AlignTop, Qt::ElideNone);
    if (layout.slotBar) {
        const std::uint32_t size = std::max(m_state->block_size(), 1u), filled = std::min(stored.filled, size);
        const QRectF bar(cell.left() + canvas.u(4), cell.bottom() - canvas.u(9), cell.width() - canvas.u(8), canvas.u(6));
        const QColor pure = shared ? colours.ink1 : colours.owner(first);
        const double width = bar.width() / size;
        painter.fillRect(bar, canvas.mix(colours.panel, canvas.ownerFill(first), 0.65));
        if (width < canvas.u(2)) {
            painter.fillRect(QRectF(bar.left(), bar.top(), width * filled, bar.height()), pure);
        } else {
            for (std::uint32_t i = 0; i < filled; ++i)
                painter.fillRect(QRectF(bar.left() + i * width, bar.top(), width - canvas.u(0.7), bar.height()), pure);
        }
    }
    if (shared && layout.cellWidth >= canvas.u(16)) {
        const double side = canvas.u(15);
        painter.setPen(Qt::NoPen);
        painter.setBrush(colours.ink1);
        painter.drawPolygon(QPolygonF({cell.topRight() - QPointF(side, 0), cell.topRight(), cell.topRight() + QPointF(0, side)}));
        canvas.text(QRectF(cell.right() - canvas.u(9), cell.top(), canvas.u(8), canvas.u(11)), QString::number(stored.owners),
                    {10, QFont::Bold, colours.panel, false}, Qt::AlignCenter, Qt::ElideNone);
    }
}

void PoolView::paintImage(const Canvas& canvas, const PoolLayout& layout) const {
    const Palette& colours = canvas.colours();
    QImage image(static_cast<int>(layout.columns), static_cast<int>(layout.rows), QImage::Format_RGB32);
    image.fill(colours.panel);
    const auto colourOf = [&](std::uint32_t block) {
        const BlockState& stored = m_state->blocks()[block];
        if (block == 0) return colours.ink3.rgb();
        if (stored.owners > 1) return colours.ink1.rgb();
        if (stored.owners == 1) return colours.owner(stored.first_owner.value).rgb();
        return stored.hashed ? colours.hatch.rgb() : colours.free.rgb();
    };
    for (std::uint32_t dot = 0; std::uint64_t{dot} * layout.blocksPerDot < layout.blocks; ++dot) {
        const std::uint32_t begin = dot * layout.blocksPerDot, end = std::min(layout.blocks, begin + layout.blocksPerDot);
        QRgb chosen = colourOf(begin);
        if (end - begin > 1) {
            std::map<QRgb, int> votes;
            for (std::uint32_t block = begin; block < end; ++block) ++votes[colourOf(block)];
            chosen = std::max_element(votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; })->first;
        }
        image.setPixel(static_cast<int>(dot % layout.columns), static_cast<int>(dot / layout.columns), chosen);
    }
    canvas.painter().setRenderHint(QPainter::SmoothPixmapTransform, false);
    const QRectF target(layout.grid.left(), layout.grid.top(), layout.columns * layout.cellWidth, layout.rows * layout.cellHeight);
    canvas.painter().drawImage(target, image);
    canvas.outline(target, colours.line, 1);
}

void PoolView::paintMarks(const Canvas& canvas, const PoolLayout& layout) const {
    const Palette& colours = canvas.colours();
    for (const std::uint32_t block : m_touched)
        if (block < layout.blocks)
            canvas.outline(layout.cell(block).adjusted(-1, -1, 1, 1), colours.focus, layout.image ? 1 : 1.6);
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
