// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/prefix_tree_view.h"

#include "views/format.h"
#include "views/picking.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace kvloupe {

namespace {

enum class Look { owned, shared, cached, evicted };
constexpr std::size_t look_count = 4;
constexpr std::uint32_t nodes_per_pixel = 32;  // looked at where more are folded into one

Look lookOf(const PrefixTree::Node& node) {
    if (node.evicted) return Look::evicted;
    return node.owners > 1 ? Look::shared : node.owners == 1 ? Look::owned : Look::cached;
}

// Whether two neighbours look the same all over: cached, or full and of one owner.
bool alike(const PrefixTree::Node& a, const PrefixTree::Node& b, std::uint32_t blockSize) {
    const Look look = lookOf(a);
    if (look != lookOf(b)) return false;
    return look == Look::cached || (look == Look::owned && a.owner == b.owner && a.filled == blockSize && b.filled == blockSize);
}

}  // namespace

void PrefixTreeView::paintContent(QPainter& painter, const QRectF& area) {
    if (!m_state || m_tree.rows().empty()) return;
    const Canvas canvas(painter, palette_(), font(), unit());
    const Layout layout = layoutFor(area);
    painter.save();
    painter.setClipRect(QRectF(area.left(), area.top(), area.width(), area.height() - stripHeight()), Qt::IntersectClip);
    paintAxis(canvas, layout, area);
    painter.setClipRect(QRectF(area.left(), layout.plot.top(), area.width(), layout.plot.height()), Qt::IntersectClip);
    const double top = offset() / layout.row;
    const auto first = static_cast<std::uint32_t>(std::max(0.0, top));
    const auto last = std::min(static_cast<std::uint32_t>(m_tree.rows().size()),
                               static_cast<std::uint32_t>(std::ceil(top + layout.plot.height() / layout.row)));
    // A branch is drawn with the row it leads to; those below the last row in sight may begin above it.
    for (std::uint32_t row = first; row < m_tree.rows().size(); ++row) {
        if (row >= last && m_tree.rows()[row].depth == 0) break;
        if (row > last + 400) break;
        paintBranch(canvas, layout, row);
    }
    for (std::uint32_t row = first; row < last; ++row) paintRow(canvas, layout, row);
    paintMarks(canvas, layout);
    painter.restore();
    if (stripHeight() > 0) paintStrip(canvas, QRectF(area.left(), area.bottom() - stripHeight(), area.width(), stripHeight()));
}

void PrefixTreeView::paintAxis(const Canvas& canvas, const Layout& layout, const QRectF& area) const {
    QPainter& painter = canvas.painter();
    const Palette& colours = canvas.colours();
    const QRectF line(area.left(), area.top(), layout.plot.right() - area.left(), layout.plot.top() - area.top());
    const TextStyle style{10.5, QFont::Normal, colours.ink3, false};
    const QString title = tr("tokens from the root");
    double free = layout.plot.left();
    if (!m_range.zoomed()) {
        canvas.text(QRectF(layout.plot.left(), line.top(), layout.plot.width(), line.height()), title, style);
        free += canvas.width(title, style) + canvas.u(14);
    }
    // Ticks at whole blocks.
    const double wanted = std::max(1.0, layout.plot.width() / canvas.u(70));
    double blocks = 1;
    const double inSight = layout.plot.width() / layout.cell;
    for (double base = 1; blocks < inSight / wanted; base *= 2) blocks = base;
    const double step = blocks * m_blockSize;
    for (double token = std::ceil(layout.begin / step) * step; token <= layout.end && x(layout, token) <= layout.plot.right(); token += step) {
        const double at = x(layout, token);
        const QString text = formatCount(static_cast<quint64>(token));
        const double half = canvas.width(text, style) / 2;
        painter.setPen(QPen(colours.grid, 1));
        painter.drawLine(QPointF(at, layout.plot.top()), QPointF(at, layout.plot.bottom()));
        if (at - half < free || at + half > layout.plot.right() + canvas.u(8)) continue;
        canvas.text(QRectF(at - half - 2, line.top(), 2 * half + 4, line.height()), text, style, Qt::AlignCenter, Qt::ElideNone);
        free = at + half + canvas.u(8);
    }
}

void PrefixTreeView::paintBranch(const Canvas& canvas, const Layout& layout, std::uint32_t r) const {
    const PrefixTree::Row& row = m_tree.rows()[r];
    const PrefixTree::Node& first = m_tree.nodes()[m_tree.order()[row.begin]];
    QPainter& painter = canvas.painter();
    const double middle = layout.plot.top() + (r + 0.5) * layout.row - offset();
    const double left = x(layout, static_cast<double>(first.logical) * m_blockSize);
    if (row.parentRow != PrefixTree::none) {
        const PrefixTree::Row& parent = m_tree.rows()[row.parentRow];
        const PrefixTree::Node& last = m_tree.nodes()[m_tree.order()[parent.end - 1]];
        const double from = layout.plot.top() + (row.parentRow + 0.8) * layout.row - offset();
        const double stem = x(layout, (last.logical + 1.0) * m_blockSize) - canvas.u(3);
        if (stem < layout.plot.left() || stem > layout.plot.right()) return;
        painter.setPen(QPen(canvas.colours().ink3, canvas.u(1)));
        painter.drawLine(QPointF(stem, std::max(from, layout.plot.top())), QPointF(stem, std::min(middle, layout.plot.bottom())));
        painter.drawLine(QPointF(stem, middle), QPointF(std::min(left, layout.plot.right()), middle));
    } else if (first.orphan) {
        // What stood before it is gone.
        painter.setPen(QPen(canvas.colours().ink3, canvas.u(1), Qt::DotLine));
        const double from = std::max(layout.plot.left(), x(layout, 0));
        if (left - from < canvas.u(6)) return;
        painter.drawLine(QPointF(from, middle), QPointF(std::min(left, layout.plot.right()) - canvas.u(3), middle));
        canvas.glyph(EventKind::evict, QPointF((from + std::min(left, layout.plot.right())) / 2, middle), 7, canvas.colours().ink3);
    }
}

void PrefixTreeView::paintRow(const Canvas& canvas, const Layout& layout, std::uint32_t r) const {
    const PrefixTree::Row& row = m_tree.rows()[r];
    const Palette& colours = canvas.colours();
    QPainter& painter = canvas.painter();
    const double top = layout.plot.top() + r * layout.row - offset();
    const PrefixTree::Node& first = m_tree.nodes()[m_tree.order()[row.begin]];
    const PrefixTree::Node& last = m_tree.nodes()[m_tree.order()[row.end - 1]];
    // Name: who owns it, else what it says.
    const double room = layout.plot.left() - layout.left;
    QRectF name(layout.left + canvas.u(8), top, room - canvas.u(14), layout.row);
    if (first.owners == 1) {
        canvas.swatch(QRectF(name.left(), top + (layout.row - canvas.u(9)) / 2, canvas.u(9), canvas.u(9)), first.owner.value);
        name.setLeft(name.left() + canvas.u(14));
    }
    const bool owned = first.owners > 0;
    canvas.text(name, rowName(row), {owned ? 12.0 : 11.0, owned ? QFont::DemiBold : QFont::Normal, owned ? colours.ink1 : colours.ink2, false});
    painter.save();
    painter.setClipRect(layout.plot.adjusted(-1, 0, 0, 0), Qt::IntersectClip);
    if (layout.folded()) {
        paintFolded(canvas, layout, r);
    } else {
        const auto& order = m_tree.order();
        const auto begin = std::partition_point(order.begin() + row.begin, order.begin() + row.end, [&](std::uint32_t n) {
            return (m_tree.nodes()[n].logical + 1.0) * m_blockSize <= layout.begin;
        });
        // Neighbours of one kind are filled at once: a texture costs its clip, not its area.
        const auto place = [&](auto node) { return cell(layout, static_cast<std::uint32_t>(node - order.begin()), r); };
        for (auto node = begin; node != order.begin() + row.end;) {
            const PrefixTree::Node& run = m_tree.nodes()[*node];
            QRectF box = place(node);
            if (box.left() > layout.plot.right()) break;
            auto next = node + 1;
            while (next != order.begin() + row.end && alike(run, m_tree.nodes()[*next], m_blockSize) &&
                   m_tree.nodes()[*next].logical == m_tree.nodes()[*(next - 1)].logical + 1 && place(next).left() <= layout.plot.right())
                ++next;
            box.setRight(place(next - 1).right());
            const bool whole = alike(run, run, m_blockSize);
            if (whole) paintFill(canvas, box, run);
            for (; node != next; ++node) paintCell(canvas, place(node), m_tree.nodes()[*node], whole);
        }
    }
    const double end = x(layout, (last.logical + 1.0) * m_blockSize) + canvas.u(8);
    painter.restore();
    // As many facts as have room, each whole.
    const TextStyle style{11, QFont::Normal, colours.ink2, false};
    const double left = layout.plot.right() + canvas.u(6) - end;
    QStringList facts = rowFacts(row);
    const QString dot = QStringLiteral(" · ");
    while (!facts.isEmpty() && canvas.width(facts.join(dot), style) > left) facts.removeLast();
    if (end > layout.plot.left() && !facts.isEmpty())
        canvas.text(QRectF(end, top, left, layout.row), facts.join(dot), style, Qt::AlignLeft | Qt::AlignVCenter, Qt::ElideNone);
}

// Several blocks in a pixel: what most of them are.
void PrefixTreeView::paintFolded(const Canvas& canvas, const Layout& layout, std::uint32_t r) const {
    const PrefixTree::Row& row = m_tree.rows()[r];
    const auto& order = m_tree.order();
    const Palette& colours = canvas.colours();
    QPainter& painter = canvas.painter();
    const double top = layout.plot.top() + r * layout.row - offset() + layout.row * 0.2, height = layout.row * 0.6;
    const auto stride = std::max<std::uint32_t>(1, static_cast<std::uint32_t>(1 / layout.cell) / nodes_per_pixel);
    std::array<std::uint32_t, look_count> count{};
    unsigned owner = 0;
    int column = -1;
    const auto flush = [&] {
        if (column < 0) return;
        const auto most = std::max_element(count.begin(), count.end());
        const QRectF box(layout.plot.left() + column, top, std::max(1.0, layout.cell), height);
        switch (static_cast<Look>(most - count.begin())) {
        case Look::owned: painter.fillRect(box, canvas.ownerFill(owner)); break;
        case Look::shared: painter.fillRect(box, colours.ink1); break;
        case Look::cached: painter.fillRect(box, column % 3 ? colours.free : colours.hatch); break;
        case Look::evicted:
            if (column % 4 < 2) {
                painter.fillRect(QRectF(box.left(), top, box.width(), 1), colours.ink3);
                painter.fillRect(QRectF(box.left(), top + height - 1, box.width(), 1), colours.ink3);
            }
            break;
        }
        count.fill(0);
    };
    painter.setRenderHint(QPainter::Antialiasing, false);
    for (std::uint32_t place = row.begin; place < row.end; place += stride) {
        const PrefixTree::Node& node = m_tree.nodes()[order[place]];
        const double at = x(layout, static_cast<double>(node.logical) * m_blockSize) - layout.plot.left();
        if (at < 0) continue;
        if (at >= layout.plot.width()) break;
        const int pixel = static_cast<int>(at);
        if (pixel != column) {
            flush();
            column = pixel;
        }
        if (node.owners == 1) owner = node.owner.value;
        ++count[static_cast<std::size_t>(lookOf(node))];
    }
    flush();
    painter.setRenderHint(QPainter::Antialiasing, true);
}

void PrefixTreeView::paintFill(const Canvas& canvas, const QRectF& box, const PrefixTree::Node& node) const {
    if (node.owners == 1) {
        canvas.ownerRect(box, node.owner.value, canvas.ownerFill(node.owner.value));
        return;
    }
    canvas.painter().fillRect(box, canvas.colours().free);
    canvas.hatch(box, canvas.colours().hatch, 5);
}

void PrefixTreeView::paintCell(const Canvas& canvas, const QRectF& box, const PrefixTree::Node& node, bool filledAlready) const {
    QPainter& painter = canvas.painter();
    const Palette& colours = canvas.colours();
    const bool framed = box.width() >= canvas.u(5);
    const QRectF frame = box.adjusted(0.5, 0.5, -0.5, -0.5);
    const auto border = [&](const QColor& colour, Qt::PenStyle style = Qt::SolidLine) {
        painter.setPen(QPen(colour, 1, style));
        painter.setBrush(Qt::NoBrush);
        painter.drawRect(frame);
    };
    switch (lookOf(node)) {
    case Look::owned: {
        // Filled as far as its slots are; the rest is not written yet.
        QRectF filled = box;
        filled.setWidth(box.width() * std::min(1.0, static_cast<double>(node.filled) / m_blockSize));
        if (!filledAlready) paintFill(canvas, filled, node);
        if (framed) border(canvas.ownerBorder(node.owner.value));
        break;
    }
    case Look::shared: {
        if (box.width() < canvas.u(8)) {
            painter.fillRect(box, colours.ink1);
            break;
        }
        std::vector<SequenceId> owners = m_state->owners_of(node.block, 6);
        std::sort(owners.begin(), owners.end());
        const double part = box.width() / static_cast<double>(std::max<std::size_t>(1, owners.size()));
        for (std::size_t i = 0; i < owners.size(); ++i)
            canvas.ownerRect(QRectF(box.left() + static_cast<double>(i) * part, box.top(), part, box.height()), owners[i].value,
                             canvas.ownerFill(owners[i].value));
        border(colours.ink1);
        const QString count = QString::number(node.owners);
        const TextStyle style{10, QFont::Bold, colours.panel, false};
        const double width = canvas.width(count, style) + canvas.u(4);
        if (box.width() < width + canvas.u(6)) break;
        const QRectF notch(box.right() - width, box.top(), width, std::min(box.height(), canvas.u(11)));
        painter.fillRect(notch, colours.ink1);
        canvas.text(notch, count, style, Qt::AlignCenter, Qt::ElideNone);
        break;
    }
    case Look::cached:
        if (!filledAlready) paintFill(canvas, box, node);
        if (framed) border(colours.hatch);
        break;
    case Look::evicted:
        if (framed) border(colours.ink3, Qt::DotLine);
        break;
    }
    if (node.hits > 0 && box.width() >= canvas.u(7))
        canvas.glyph(EventKind::prefix_hit, QPointF(box.left() + canvas.u(4), box.bottom() - canvas.u(3.5)), 5, colours.ink1);
    if (node.next == 1 && box.width() >= canvas.u(7))
        canvas.glyph(EventKind::evict, box.center(), std::min(8.0, box.width() / canvas.u(1) - 1), colours.ink1);
}

void PrefixTreeView::paintMarks(const Canvas& canvas, const Layout& layout) const {
    const Palette& colours = canvas.colours();
    const auto outline = [&](std::uint32_t n, const QColor& colour, double width) {
        const std::uint32_t r = m_tree.rowOf(n);
        if (n == PrefixTree::none || r >= m_tree.rows().size()) return;
        const PrefixTree::Node& node = m_tree.nodes()[n];
        const double top = layout.plot.top() + r * layout.row - offset();
        QRectF box(x(layout, static_cast<double>(node.logical) * m_blockSize), top + layout.row * 0.2, layout.cell - (layout.cell > 6 ? 1 : 0),
                   layout.row * 0.6);
        if (box.width() < canvas.u(3)) box.setWidth(canvas.u(3));
        if (box.right() < layout.plot.left() || box.left() > layout.plot.right()) return;
        canvas.outline(box.adjusted(-1, -1, 1, 1), colour, width);
    };
    const auto blockOf = [&](const Pick& pick) {
        return pick.block && (!pick.lane || *pick.lane == cursor()->lane()) ? m_tree.nodeOf(*pick.block) : PrefixTree::none;
    };
    outline(blockOf(cursor()->hover()), colours.ink1, 1);
    outline(blockOf(cursor()->locked()), colours.ink1, 2);
    const Pick& pick = cursor()->shown();
    if (!pick.event || (pick.lane && *pick.lane != cursor()->lane()) || *pick.event >= cursor()->laneRecord()->events().size()) return;
    // The event in focus: the block it speaks of, if its content is still that of then.
    for (std::uint32_t n = 0; n < m_tree.nodes().size(); ++n)
        if (m_tree.nodes()[n].evicted && m_tree.nodes()[n].event == *pick.event) outline(n, colours.focus, 2);
    const Event& event = cursor()->laneRecord()->events()[*pick.event];
    if (event.kind != EventKind::prefix_hit && event.kind != EventKind::store) return;
    const std::uint32_t n = m_tree.nodeOf(event.block);
    if (n != PrefixTree::none && m_tree.nodes()[n].event <= *pick.event) outline(n, colours.focus, 2);
}

void PrefixTreeView::paintStrip(const Canvas& canvas, const QRectF& strip) const {
    const Palette& colours = canvas.colours();
    QPainter& painter = canvas.painter();
    const double line = canvas.u(20);
    painter.fillRect(strip, colours.panel);
    const QRectF rate(strip.left() + canvas.u(10), strip.bottom() - line - canvas.u(1), strip.width() - canvas.u(20), line);
    painter.setPen(QPen(colours.line, 1));
    painter.drawLine(QPointF(strip.left(), rate.top()), QPointF(strip.right(), rate.top()));
    const auto step = static_cast<std::uint32_t>(std::max(0, cursor()->stepOf(cursor()->lane())));
    const PrefixHistory::HitRate sum = m_history->hitRate(step);
    const TextStyle bold{11.5, QFont::DemiBold, colours.ink1, false}, plain{11, QFont::Normal, colours.ink2, false};
    canvas.originMark(QPointF(rate.left() + canvas.u(4), rate.center().y()), Origin::measured);
    const QString text = sum.queried ? tr("Hit rate %1 (%2 of %3 tokens queried)")
                                           .arg(formatPercent(static_cast<double>(sum.hit) / static_cast<double>(sum.queried)),
                                                formatCount(sum.hit), formatCount(sum.queried))
                                     : tr("No prefix was looked up yet");
    canvas.text(rate.adjusted(canvas.u(14), 0, 0, 0), text, bold);
    if (sum.resumedQueried) {
        const QString apart = tr("resumed requests counted apart: %1 of %2").arg(formatCount(sum.resumedHit), formatCount(sum.resumedQueried));
        const double room = rate.width() - canvas.u(14) - canvas.width(text, bold) - canvas.u(16);
        if (canvas.width(apart, plain) <= room) canvas.text(rate, apart, plain, Qt::AlignRight | Qt::AlignVCenter);
    }
    if (strip.height() < 2 * line) return;
    // Legend: states that occur.
    double at = strip.left() + canvas.u(10);
    const TextStyle small{10.5, QFont::Normal, colours.ink2, false};
    const auto entry = [&](const QString& name, const auto& draw) {
        const double width = canvas.width(name, small) + canvas.u(36);
        if (at + width > strip.right()) return;
        draw(QRectF(at, strip.top() + canvas.u(5), canvas.u(15), canvas.u(12)));
        canvas.text(QRectF(at + canvas.u(22), strip.top() + canvas.u(1), width, line), name, small);
        at += width;
    };
    PrefixTree::Node sample = m_occurs.ownedSample;
    if (m_occurs.owned) entry(tr("in use"), [&](const QRectF& box) { paintCell(canvas, box, sample); });
    if (m_occurs.shared) entry(tr("shared"), [&](const QRectF& box) { paintCell(canvas, box.adjusted(0, 0, canvas.u(3), 0), m_occurs.sharedSample); });
    sample.owners = 0;
    if (m_occurs.cached) entry(tr("free but cached"), [&](const QRectF& box) { paintCell(canvas, box, sample); });
    sample.evicted = true;
    if (m_occurs.evicted) entry(tr("evicted"), [&](const QRectF& box) { paintCell(canvas, box, sample); });
    if (m_occurs.hit) entry(tr("hit"), [&](const QRectF& box) { canvas.glyph(EventKind::prefix_hit, box.center(), 7, colours.ink1); });
    if (m_occurs.next || m_occurs.gone)
        entry(m_occurs.next ? tr("goes next") : tr("prefix gone"), [&](const QRectF& box) { canvas.glyph(EventKind::evict, box.center(), 8, colours.ink1); });
}

}  // namespace kvloupe
