// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/genealogy_view.h"

#include "views/format.h"
#include "views/picking.h"

#include <algorithm>
#include <cmath>

namespace kvloupe {

void GenealogyView::paintContent(QPainter& painter, const QRectF& area) {
    if (m_lineage.empty()) return;
    const Canvas canvas(painter, palette_(), font(), unit());
    const Layout layout = layoutFor(area);
    painter.save();
    const QRectF window(area.left(), area.top(), area.width(), area.height() - stripHeight());
    painter.setClipRect(window, Qt::IntersectClip);
    painter.translate(0, -offset());
    paintLines(canvas, layout, area);
    for (std::size_t i = 0; i < cards().size(); ++i) {
        const Card& card = cards()[i];
        if (card.top + card.height < offset() || card.top > offset() + window.height()) continue;
        const QRectF box(area.left(), area.top() + card.top, std::min(area.width(), contentWidth()), card.height);
        paintSentence(canvas, layout, box, m_lineage.events()[i]);
        if (static_cast<int>(i) == currentCard()) canvas.outline(box.adjusted(2, 0.5, -2, -0.5), canvas.colours().ink1, 1);
    }
    painter.restore();
    if (stripHeight() > 0) paintStrip(canvas, QRectF(area.left(), area.bottom() - stripHeight(), area.width(), stripHeight()));
}

void GenealogyView::paintLines(const Canvas& canvas, const Layout& layout, const QRectF& area) const {
    QPainter& painter = canvas.painter();
    const Palette& colours = canvas.colours();
    const LaneRecord& lane = *cursor()->laneRecord();
    const StepAxis& axis = layout.axis;
    const TextStyle name{12, QFont::DemiBold, colours.ink1, false}, caption{11, QFont::Normal, colours.ink2, false};
    for (std::size_t i = 0; i < layout.shown; ++i) {
        const BlockLineage::Line& line = m_lineage.lines()[i];
        const QRectF row(axis.plot.left(), axis.plot.top() + static_cast<double>(i) * layout.line, axis.plot.width(), layout.line);
        painter.setPen(QPen(colours.grid, 1));
        painter.drawLine(row.bottomLeft(), row.bottomRight());
        const double indent = std::min<double>(line.depth, 3) * canvas.u(7);
        const double left = area.left() + canvas.u(8) + indent;
        canvas.swatch(QRectF(left, row.center().y() - canvas.u(4.5), canvas.u(9), canvas.u(9)), line.sequence.value);
        const QRectF text(left + canvas.u(14), row.top(), axis.plot.left() - left - canvas.u(18), row.height());
        const QString label = sequenceName(*cursor()->recording(), lane, line.sequence);
        canvas.text(text, label, name);
        const double used = canvas.width(label, name) + canvas.u(6);
        const QString number = tr("seq %1").arg(line.sequence.value);
        if (used + canvas.width(number, caption) <= text.width()) canvas.text(text.adjusted(used, 0, 0, 0), number, caption);
    }
    painter.save();
    painter.setClipRect(axis.plot.adjusted(-canvas.u(5), -canvas.u(6), canvas.u(5), canvas.u(2)), Qt::IntersectClip);
    for (std::size_t i = 0; i < layout.shown; ++i) {
        const QRectF row(axis.plot.left(), axis.plot.top() + static_cast<double>(i) * layout.line, axis.plot.width(), layout.line);
        for (const std::uint32_t h : m_lineage.lines()[i].holds) paintHold(canvas, layout, row, m_lineage.holds()[h]);
    }
    paintJoints(canvas, layout, axis.plot.top());
    painter.restore();
    axis.paintTicks(canvas, cursor()->step());
    axis.paintFuture(canvas, cursor()->step(), QRectF(axis.ticks.topLeft(), axis.ticks.bottomRight()));
    axis.paintCursor(canvas, cursor()->step());
}

void GenealogyView::paintHold(const Canvas& canvas, const Layout& layout, const QRectF& row, const BlockLineage::Hold& hold) const {
    const StepAxis& axis = layout.axis;
    const Palette& colours = canvas.colours();
    QPainter& painter = canvas.painter();
    const double end = hold.end == BlockLineage::open_end ? cursor()->stepOf(cursor()->lane()) + 1.0 : hold.end;
    // A copy leaves one block and takes the other within a step: each gets its part of it.
    const bool copied = cursor()->laneRecord()->events()[hold.event].kind == EventKind::copy_on_write;
    const double left = std::max(axis.plot.left(), axis.x(hold.begin + (copied ? 0.5 : 0)));
    const double right = std::min(axis.plot.right(), axis.x(end));
    if (right < axis.plot.left() || left > axis.plot.right()) return;
    const QRectF bar(left, row.center().y() - canvas.u(3.5), std::max(2.0, right - left), canvas.u(11));
    if (hold.cached) {
        painter.fillRect(bar, colours.free);
        canvas.hatch(bar, colours.hatch, 5);
    } else {
        canvas.ownerRect(bar, hold.sequence.value, canvas.ownerFill(hold.sequence.value));
        painter.setPen(QPen(canvas.ownerBorder(hold.sequence.value), 1));
        painter.setBrush(Qt::NoBrush);
        painter.drawRect(bar.adjusted(0.5, 0.5, -0.5, -0.5));
    }
    const bool focus = hold.content == m_lineage.focus();
    const BlockId block = m_lineage.contents()[hold.content].block;
    const bool hovered = meansBlock(cursor()->hover(), cursor()->lane(), block);
    if (focus || hovered) canvas.outline(bar.adjusted(-0.5, -0.5, 0.5, 0.5), colours.ink1, focus && m_chosen ? 2 : 1);
    const TextStyle id{10.5, QFont::Bold, colours.ink1, true};
    const QString text = QString::number(block.value);
    if (bar.width() >= canvas.width(text, id) + canvas.u(14))
        canvas.text(bar.adjusted(canvas.u(9), 0, -canvas.u(4), 0), text, id);
}

// Forks and copies: from the parent's line down to the child's, and the glyphs of all events.
void GenealogyView::paintJoints(const Canvas& canvas, const Layout& layout, double top) const {
    const StepAxis& axis = layout.axis;
    const Palette& colours = canvas.colours();
    QPainter& painter = canvas.painter();
    const LaneRecord& lane = *cursor()->laneRecord();
    const auto middle = [&](std::size_t line) { return top + (static_cast<double>(line) + 0.5) * layout.line + canvas.u(2); };
    const auto colour = [&](std::uint64_t event) {
        const bool now = static_cast<int>(m_events.stepOf(event)) == cursor()->stepOf(cursor()->lane());
        const EventKind kind = lane.events()[event].kind;
        return cursor()->shown().event == event || (now && kind != EventKind::allocate) ? colours.focus : colours.ink1;
    };
    for (std::size_t i = 0; i < layout.shown; ++i) {
        const BlockLineage::Line& line = m_lineage.lines()[i];
        for (const std::uint32_t h : line.holds) {
            const BlockLineage::Hold& hold = m_lineage.holds()[h];
            if (hold.cached) continue;
            const Event& event = lane.events()[hold.event];
            const double x = axis.x(hold.begin + 0.5);
            if (x < axis.plot.left() - 1 || x > axis.plot.right() + 1) continue;
            double glyphX = x;
            if (event.kind == EventKind::fork && line.parent != BlockLineage::none && line.parent < layout.shown) {
                painter.setPen(QPen(colour(hold.event), canvas.u(1.2)));
                painter.drawLine(QPointF(x, middle(line.parent) + canvas.u(6)), QPointF(x, middle(i) - canvas.u(5.5)));
                // Beside the parent's own glyph where it came by an event of the same step.
                const auto& above = m_lineage.lines()[line.parent].holds;
                const bool taken = std::any_of(above.begin(), above.end(), [&](std::uint32_t other) { return m_lineage.holds()[other].begin == hold.begin; });
                canvas.glyph(event.kind, QPointF(x + (taken ? canvas.u(9) : 0), middle(line.parent) - canvas.u(8.5)), 8, colour(hold.event));
                continue;
            } else if (event.kind == EventKind::allocate) {
                glyphX = std::max(axis.plot.left(), axis.x(hold.begin)) + canvas.u(3.5);
            }
            const double y = event.kind == EventKind::copy_on_write ? middle(i) : middle(i) - canvas.u(8.5);
            canvas.glyph(event.kind, QPointF(glyphX, y), event.kind == EventKind::copy_on_write ? 10 : 8, colour(hold.event));
        }
    }
}

void GenealogyView::paintSentence(const Canvas& canvas, const Layout& layout, const QRectF& box, std::uint64_t index) const {
    const Palette& colours = canvas.colours();
    QPainter& painter = canvas.painter();
    const Told told = tell(index);
    const Event& event = cursor()->laneRecord()->events()[index];
    const bool meant = cursor()->shown().event == index;
    const bool now = static_cast<int>(told.step) == cursor()->stepOf(cursor()->lane());
    if (meant) painter.fillRect(box, colours.focusWash);
    painter.setPen(QPen(colours.grid, 1));
    painter.drawLine(box.bottomLeft() + QPointF(canvas.u(8), 0), box.bottomRight() - QPointF(canvas.u(8), 0));
    const TextStyle style{11.5, QFont::Normal, colours.ink1, false}, quiet{11, QFont::Normal, colours.ink2, false};
    const double line = layout.wide ? box.height() : canvas.u(18);
    QRectF first(box.left() + canvas.u(10), box.top(), box.width() - canvas.u(20), line);
    canvas.text(QRectF(first.left(), first.top(), canvas.u(44), line), formatCount(told.step), quiet, Qt::AlignRight | Qt::AlignVCenter);
    canvas.glyph(event.kind, QPointF(first.left() + canvas.u(58), first.center().y()), 9, meant || now ? colours.focus : colours.ink1);
    first.setLeft(first.left() + canvas.u(72));
    const QString place = told.position ? tr("at %1").arg(formatCount(*told.position)) : QString();
    canvas.text(QRectF(first.left(), first.top(), canvas.u(52), line), place, quiet);
    first.setLeft(first.left() + canvas.u(56));
    if (told.moved) {
        const double bytes = canvas.number(first, Origin::derived, formatBytes(told.bytes), style);
        first.setRight(first.right() - std::max(bytes + canvas.u(8), canvas.u(88)));
        const double slots = canvas.number(first, Origin::measured, told.slots == 1 ? tr("1 slot") : tr("%1 slots").arg(formatCount(told.slots)), style);
        first.setRight(first.right() - slots - canvas.u(10));
    }
    if (layout.wide) canvas.text(first, told.sentence, style);
    else canvas.text(QRectF(box.left() + canvas.u(10), first.bottom() - canvas.u(1), box.width() - canvas.u(20), box.bottom() - first.bottom()), told.sentence, style);
}

void GenealogyView::paintStrip(const Canvas& canvas, const QRectF& strip) const {
    const Palette& colours = canvas.colours();
    QPainter& painter = canvas.painter();
    painter.fillRect(strip, colours.panel);
    painter.setPen(QPen(colours.line, 1));
    painter.drawLine(strip.topLeft(), strip.topRight());
    const TextStyle bold{11.5, QFont::DemiBold, colours.ink1, false}, plain{11, QFont::Normal, colours.ink2, false};
    const double line = canvas.u(19);
    QRectF row(strip.left() + canvas.u(10), strip.top() + canvas.u(1), strip.width() - canvas.u(20), line);
    const auto say = [&](const QString& title, const QString& detail, std::uint64_t bytes) {
        const double used = canvas.number(row, Origin::derived, formatBytes(bytes), bold);
        canvas.text(row, title, bold);
        const double left = canvas.width(title, bold) + canvas.u(10);
        if (left + canvas.width(detail, plain) + used + canvas.u(12) <= row.width()) canvas.text(row.adjusted(left, 0, 0, 0), detail, plain);
        row.translate(0, line);
    };
    const std::uint64_t block = cursor()->laneRecord()->info().block_bytes;
    say(tr("Sharing saves"), m_saved.blocks == 0 ? tr("no block has two owners")
                             : m_saved.blocks == 1 ? tr("1 shared block of %1").arg(formatBytes(block))
                                                   : tr("%1 shared blocks of %2").arg(formatCount(m_saved.blocks), formatBytes(block)), m_saved.bytes);
    if (strip.height() >= 2 * line) say(tr("Counted by slots"), tr("only what their other owners have written of them"), m_saved.slotBytes);
}

}  // namespace kvloupe
