// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/timeline_view.h"

#include "views/canvas.h"
#include "views/format.h"
#include "views/step_axis.h"

#include <algorithm>
#include <cmath>

namespace kvloupe {

void TimelineView::paintRun(const Canvas& canvas, const Bands& bands, const QRectF& area) {
    const auto paint = [&](const Canvas& on) {
        paintPrefill(on, bands);
        paintDecode(on, bands);
        paintMarks(on, bands);
    };
    if (canvas.painter().device() != this) return paint(canvas);
    const double ratio = devicePixelRatioF();
    const Kept now{cursor()->recording(), cursor()->lane(), m_data->steps(), m_data->mostPrefill(), (area.size() * ratio).toSize(), range(), unit(),
                   palette_().dark, cursor()->sequence(), cursor()->shown().event};
    if (m_kept != now || m_run.isNull()) {
        m_kept = now;
        m_run = QPixmap(now.pixels);
        m_run.setDevicePixelRatio(ratio);
        m_run.fill(Qt::transparent);
        QPainter painter(&m_run);
        painter.translate(-area.topLeft());
        paint(Canvas(painter, palette_(), font(), unit()));
    }
    canvas.painter().drawPixmap(area.topLeft(), m_run);
}

void TimelineView::paintLegend(const Canvas& canvas, const Bands& bands) const {
    // Names of the marks that occur, at the right end where the least is drawn; gone where there is no room.
    static constexpr EventKind kinds[] = {EventKind::arrive,        EventKind::prefix_hit, EventKind::fork,
                                          EventKind::copy_on_write, EventKind::evict,      EventKind::preempt,
                                          EventKind::reject,        EventKind::finish};
    const QString names[] = {tr("arrives"), tr("prefix hit"), tr("fork"), tr("copy-on-write"), tr("eviction"), tr("preemption"),
                             tr("rejected"), tr("finishes")};
    if (bands.prefill.height() < canvas.u(14) || bands.plot.width() < canvas.u(500)) return;
    const TextStyle style{10.5, QFont::Normal, canvas.colours().ink2, false};
    double x = bands.plot.right();
    for (int i = static_cast<int>(std::size(kinds)) - 1; i >= 0; --i) {
        if (!m_data->marked(kinds[i])) continue;
        const double width = canvas.width(names[i], style) + canvas.u(26);
        x -= width;
        const QRectF box(x, bands.prefill.top(), width, canvas.u(14));
        QColor under = canvas.colours().panel;
        under.setAlphaF(0.85f);
        canvas.painter().fillRect(box, under);
        canvas.glyph(kinds[i], QPointF(box.left() + canvas.u(8), box.center().y()), 8, canvas.colours().ink2);
        canvas.text(box.adjusted(canvas.u(16), 0, 0, 0), names[i], style);
    }
}

void TimelineView::paintPrefill(const Canvas& canvas, const Bands& bands) const {
    QPainter& painter = canvas.painter();
    const Palette& colours = canvas.colours();
    painter.setPen(QPen(colours.grid, 1));
    painter.drawLine(bands.prefill.bottomLeft(), bands.prefill.bottomRight());
    if (m_data->mostPrefill() == 0) return;
    const double perToken = bands.prefill.height() / m_data->mostPrefill();
    const auto& prefills = m_data->prefills();
    const auto [begin, end] = range();
    auto bar = std::lower_bound(prefills.begin(), prefills.end(), std::floor(begin),
                                [](const TimelineData::Prefill& p, double step) { return p.step < step; });
    // Steps that share a pixel: the tallest is drawn.
    double columnTop = 0;
    SequenceId columnOwner;
    int column = -1;
    const auto flush = [&] {
        if (column >= 0)
            painter.fillRect(QRectF(bands.plot.left() + column, bands.prefill.bottom() - columnTop, 1, columnTop),
                             colours.owner(columnOwner.value));
    };
    const bool folded = bands.perStep < 2;
    while (bar != prefills.end() && bar->step < end) {
        const std::uint32_t step = bar->step;
        double height = 0;
        SequenceId owner = bar->sequence;
        const double width = std::max(1.0, bands.perStep - (bands.perStep > 4 ? 1 : 0));
        for (; bar != prefills.end() && bar->step == step; ++bar) {
            const double part = bar->tokens * perToken;
            if (!folded)
                canvas.ownerRect(QRectF(bands.x(step), bands.prefill.bottom() - height - part, width, part), bar->sequence.value,
                                 colours.owner(bar->sequence.value));
            height += part;
        }
        if (!folded) continue;
        const int pixel = static_cast<int>(bands.x(step) - bands.plot.left());
        if (pixel != column) {
            flush();
            column = pixel;
            columnTop = 0;
        }
        if (height > columnTop) {
            columnTop = height;
            columnOwner = owner;
        }
    }
    if (folded) flush();
}

void TimelineView::paintDecode(const Canvas& canvas, const Bands& bands) const {
    QPainter& painter = canvas.painter();
    const Palette& colours = canvas.colours();
    if (m_rowCount == 0) return;
    const double pitch = std::min(canvas.u(12), bands.decode.height() / m_rowCount);
    const double height = std::max(1.0, pitch - std::min(canvas.u(3), pitch * 0.3));
    const auto [begin, end] = range();
    for (const TimelineData::Span& span : m_data->spans()) {
        if (span.end < begin || span.begin > end || span.sequence.value >= m_rows.size()) continue;
        const double y = bands.decode.top() + m_rows[span.sequence.value] * pitch;
        const QRectF box(bands.x(span.begin), y, std::max(1.0, (span.end - span.begin) * bands.perStep), height);
        if (span.waiting) {
            const QRectF thin(box.left(), box.center().y() - canvas.u(1), box.width(), canvas.u(2));
            painter.setPen(QPen(colours.hatch, canvas.u(1.5), Qt::DotLine));
            painter.drawLine(QPointF(thin.left(), thin.center().y()), QPointF(thin.right(), thin.center().y()));
            continue;
        }
        const QColor colour = colours.owner(span.sequence.value);
        if (bands.perStep < 4) {
            canvas.ownerRect(box, span.sequence.value, colour);
        } else {
            // One dash per step, only those in sight.
            const auto first = static_cast<std::uint32_t>(std::max<double>(span.begin, std::floor(begin)));
            const auto last = static_cast<std::uint32_t>(std::min<double>(span.end, std::ceil(end)));
            for (std::uint32_t step = first; step < last; ++step)
                painter.fillRect(QRectF(bands.x(step), y, bands.perStep - 1, height), colour);
        }
        if (span.sequence == cursor()->sequence()) {
            painter.setPen(QPen(colours.ink1, canvas.u(1)));
            painter.drawLine(QPointF(box.left(), box.bottom() + canvas.u(0.5)), QPointF(box.right(), box.bottom() + canvas.u(0.5)));
        }
    }
}

void TimelineView::paintMarks(const Canvas& canvas, const Bands& bands) {
    const auto [begin, end] = range();
    const auto isMeant = [this](const TimelineData::Mark& mark) { return cursor()->shown().event == mark.event; };
    const auto weight = [&isMeant](const TimelineData::Mark& mark) { return isMeant(mark) ? 100 : TimelineData::weight(mark.kind); };
    m_marks.clear();
    for (const TimelineData::Mark& mark : m_data->marks()) {
        if (mark.step < std::floor(begin) || mark.step > end) continue;
        const double x = bands.x(mark.step + 0.5);
        const double gap = m_marks.empty() ? 1e9 : x - m_marks.back().x;
        if (gap < canvas.u(3)) {  // one spot: the mark that tells most stays
            if (weight(mark) > weight(m_marks.back().mark)) m_marks.back().mark = mark;
            continue;
        }
        if (gap < canvas.u(7) && mark.kind == m_marks.back().mark.kind && !isMeant(mark)) continue;  // again on the same spot
        m_marks.push_back({x, mark});
    }
    for (const auto& [x, mark] : m_marks)
        canvas.glyph(mark.kind, QPointF(x, bands.marks.center().y()), mark.kind == EventKind::finish || mark.kind == EventKind::arrive ? 7 : 9,
                     canvas.colours().ink1);
}

// Again in the colour of the focus: the event that is meant, and what happened in the cursor's step.
void TimelineView::paintMarksOfStep(const Canvas& canvas, const Bands& bands) const {
    for (const auto& [x, mark] : m_marks) {
        const bool meant = cursor()->shown().event == mark.event, now = static_cast<int>(mark.step) == cursor()->step();
        if (!meant && (!now || mark.kind == EventKind::arrive)) continue;
        canvas.glyph(mark.kind, QPointF(x, bands.marks.center().y()), mark.kind == EventKind::finish || mark.kind == EventKind::arrive ? 7 : 9,
                     canvas.colours().focus);
    }
}

void TimelineView::paintAxis(const Canvas& canvas, const Bands& bands) const {
    const auto [begin, end] = range();
    const double step = StepAxis::stepsPerTick(end - begin, bands.plot.width() / canvas.u(80));
    canvas.painter().setPen(QPen(canvas.colours().line, 1));
    canvas.painter().drawLine(bands.axis.topLeft(), bands.axis.topRight());
    for (double at = std::ceil(begin / step) * step; at < end; at += step) {
        const double x = bands.x(at + 0.5);
        canvas.painter().setPen(QPen(canvas.colours().ink3, 1));
        canvas.painter().drawLine(QPointF(x, bands.axis.top()), QPointF(x, bands.axis.top() + canvas.u(3)));
        canvas.text(QRectF(x - canvas.u(30), bands.axis.top() + canvas.u(3), canvas.u(60), canvas.u(14)),
                    formatCount(static_cast<quint64>(at)), {10.5, QFont::Normal, canvas.colours().ink3, false},
                    Qt::AlignHCenter | Qt::AlignVCenter, Qt::ElideNone);
    }
}

void TimelineView::paintCursor(const Canvas& canvas, const Bands& bands) const {
    if (cursor()->step() < 0) return;
    const Palette& colours = canvas.colours();
    QPainter& painter = canvas.painter();
    const double x = bands.x(cursor()->step() + 0.5);
    if (x < bands.plot.left() - 1 || x > bands.plot.right() + 1) return;
    painter.setPen(QPen(colours.ink1, canvas.u(1.5)));
    painter.drawLine(QPointF(x, bands.plot.top()), QPointF(x, bands.axis.top()));
    const TextStyle style{11, QFont::Bold, colours.stepFlagText, false};
    const QString text = formatCount(static_cast<quint64>(cursor()->step()));
    const double width = canvas.width(text, style) + canvas.u(12);
    const double left = std::clamp(x - width / 2, bands.plot.left() - canvas.u(6), bands.plot.right() + canvas.u(6) - width);
    const QRectF flag(left, bands.axis.top() + canvas.u(1), width, canvas.u(16));
    painter.setPen(Qt::NoPen);
    painter.setBrush(colours.ink1);
    painter.drawRoundedRect(flag, canvas.u(3), canvas.u(3));
    painter.drawPolygon(QPolygonF({QPointF(x - canvas.u(4), bands.plot.top()), QPointF(x + canvas.u(4), bands.plot.top()),
                                   QPointF(x, bands.plot.top() + canvas.u(5))}));
    canvas.text(flag, text, style, Qt::AlignCenter, Qt::ElideNone);
}

}  // namespace kvloupe
