// SPDX-License-Identifier: GPL-3.0-or-later
//
// How the list of requests is drawn.
#include "views/requests_view.h"

#include "views/canvas.h"
#include "views/format.h"

#include <algorithm>

namespace kvloupe {

void RequestsView::paintContent(QPainter& painter, const QRectF& area) {
    if (painter.device() != this) m_times.settle();  // exports show all
    const Canvas canvas(painter, palette_(), font(), unit());
    const Palette& colours = canvas.colours();
    const double width = area.width() - (this->width() - contentWidth());
    const auto first = std::partition_point(cards().begin(), cards().end(),
                                            [this](const Card& card) { return card.top + card.height < offset(); });
    for (auto i = static_cast<std::size_t>(first - cards().begin()); i < m_items.size() && i < cards().size(); ++i) {
        const Card& card = cards()[i];
        const QRectF box(area.left(), area.top() + card.top - offset(), width, card.height);
        if (box.top() > area.bottom()) break;
        const Entry& entry = this->entry(i);
        if (!entry.heading.isEmpty()) {
            canvas.text(box.adjusted(canvas.u(10), canvas.u(2), -canvas.u(10), 0), entry.heading,
                        {11, QFont::DemiBold, colours.ink2, false});
            continue;
        }
        if (entry.sequence.valid() && entry.sequence == cursor()->sequence()) {
            painter.fillRect(box, colours.selectedRow);
            painter.fillRect(QRectF(box.left(), box.top(), canvas.u(3), box.height()), colours.ink1);
        }
        paintEntry(canvas, box, entry.group == Group::running ? whole(entry) : entry);
        if (entry.sequence.valid() && cursor()->hover().sequence == entry.sequence)
            canvas.outline(box.adjusted(1, 1, -1, -1), colours.ink1, 1);
    }
}

void RequestsView::paintEntry(const Canvas& canvas, const QRectF& box, const Entry& entry) const {
    const Palette& colours = canvas.colours();
    QPainter& painter = canvas.painter();
    const bool cached = cursor()->laneRecord()->info().kv_cache;
    const TextStyle small{11, QFont::Normal, colours.ink2, false}, faint{11, QFont::Normal, colours.ink3, false};
    const double indent = canvas.u(std::min(entry.depth, 3) * 12);
    const QRectF inner = box.adjusted(canvas.u(10) + indent, canvas.u(3), -canvas.u(10), -canvas.u(3));
    if (entry.depth > 0)
        canvas.glyph(EventKind::fork, QPointF(inner.left() - canvas.u(7), box.top() + canvas.u(11)), 8, colours.ink3);
    const bool tall = entry.group == Group::running;
    const double line = tall ? canvas.u(16) : inner.height();
    const double side = canvas.u(9);
    const unsigned owner = entry.sequence.valid() ? entry.sequence.value : entry.request.value;
    const QRectF first(inner.left(), inner.top(), inner.width(), line);
    if (entry.group == Group::running || entry.group == Group::waiting) {
        canvas.swatch(QRectF(first.left(), first.center().y() - side / 2, side, side), owner);
    } else {
        canvas.ownerRect(QRectF(first.left(), first.center().y() - side / 2, side, side), owner,
                         canvas.mix(colours.owner(owner), colours.panel, 0.4));
    }
    double x = first.left() + side + canvas.u(6);
    const TextStyle nameStyle{12, tall ? QFont::DemiBold : QFont::Medium, tall ? colours.ink1 : colours.ink2, false};
    const double nameWidth = std::min(canvas.width(entry.name, nameStyle), canvas.u(80));
    canvas.text(QRectF(x, first.top(), nameWidth + 1, line), entry.name, nameStyle);
    x += nameWidth + canvas.u(8);
    const QString sequence = entry.sequence.valid() ? tr("seq %1").arg(entry.sequence.value) : QString();
    canvas.text(QRectF(x, first.top(), canvas.u(46), line), sequence, small);
    x += sequence.isEmpty() ? 0 : canvas.width(sequence, small) + canvas.u(10);
    if (!tall) {
        QString right = entry.tokens == 1 ? tr("1 token") : tr("%1 tokens").arg(formatCount(entry.tokens));
        if (m_order == Order::waste) right = tr("%1 wasted").arg(formatCount(entry.waste.total()));
        else if (entry.group == Group::waiting) right = entry.queue_ms ? right : tr("%1 in prompt").arg(formatCount(entry.prompt));
        canvas.text(first, right, small, Qt::AlignRight | Qt::AlignVCenter);
        canvas.text(QRectF(x, first.top(), first.right() - x - canvas.width(right, small) - canvas.u(8), line),
                    entry.group == Group::finished ? entry.outcome : entry.phase,
                    entry.outcome == QLatin1String("rejected") || entry.outcome == QLatin1String("failed")
                        ? TextStyle{11, QFont::Normal, colours.breakpoint, false} : small);
        return;
    }
    double used = 0;
    if (cached) used = canvas.number(first, Origin::derived, formatBytes(entry.bytes), {12});
    canvas.text(QRectF(x, first.top(), first.right() - x - used - canvas.u(6), line), entry.phase, small);
    const QRectF second = first.translated(0, line);
    QString right = !cached ? tr("no blocks") : entry.blocks == 1 ? tr("1 block") : tr("%1 blocks").arg(formatCount(entry.blocks));
    if (entry.shared > 0) right += tr(", %1 shared").arg(formatCount(entry.shared));
    canvas.text(second, right, small, Qt::AlignRight | Qt::AlignVCenter);
    canvas.text(second.adjusted(side + canvas.u(6), 0, -canvas.width(right, small) - canvas.u(6), 0),
                entry.parent.valid() ? tr("from %1 at %2").arg(entry.parentName, formatCount(entry.forkedAt))
                : entry.shared > 0   ? tr("%1 + %2 of %3").arg(formatCount(entry.prompt), formatCount(entry.tokens - entry.prompt),
                                                               formatCount(entry.limit - entry.prompt))
                                     : tr("%1 prompt + %2 new of %3").arg(formatCount(entry.prompt),
                                             formatCount(entry.tokens - entry.prompt),
                                                   formatCount(entry.limit - entry.prompt)), small);
    // Progress: prompt, new tokens, what may still come; what is not computed yet is hatched.
    const QRectF bar(inner.left() + side + canvas.u(6), second.bottom() + canvas.u(3), inner.width() - side - canvas.u(6), canvas.u(4));
    painter.fillRect(bar, colours.grid);
    const double perToken = bar.width() / std::max(entry.limit, 1u);
    painter.fillRect(QRectF(bar.left(), bar.top(), std::min(entry.tokens, entry.limit) * perToken, bar.height()), canvas.ownerPale(owner));
    painter.fillRect(QRectF(bar.left(), bar.top(), std::min(entry.computed, entry.limit) * perToken, bar.height()), colours.owner(owner));
    const double border = bar.left() + entry.prompt * perToken;
    painter.fillRect(QRectF(border - canvas.u(0.75), bar.top() - canvas.u(2), canvas.u(1.5), bar.height() + canvas.u(4)), colours.ink1);
    const QRectF third(inner.left() + side + canvas.u(6), bar.bottom() + canvas.u(2), inner.width() - side - canvas.u(6), canvas.u(14));
    double wasted = 0;
    if (cached && entry.waste.total() > 0) {
        const QString text = tr("%1 wasted").arg(formatCount(entry.waste.total()));
        wasted = canvas.number(third, Origin::predicted, text, small);
    }
    if (!entry.ttft_ms) {
        canvas.text(third.adjusted(0, 0, -wasted, 0), tr("no token yet"), faint);
        return;
    }
    double at = third.left();
    const auto time = [&](const QString& label, double ms) {
        const QString value = formatDuration(ms * 1e6);
        const double need = canvas.width(label, faint) + canvas.width(value, small) + canvas.u(17);
        if (at + need > third.right() - wasted + canvas.u(2)) return;
        canvas.text(QRectF(at, third.top(), need, third.height()), label, faint);
        canvas.number(QRectF(at, third.top(), need, third.height()), Origin::measured, value, small);
        at += need + canvas.u(10);
    };
    time(tr("TTFT"), *entry.ttft_ms);
    if (entry.itl_ms) time(tr("ITL"), *entry.itl_ms);
}

}  // namespace kvloupe
