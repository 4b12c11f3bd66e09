// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/schedule_view.h"

#include "views/format.h"

#include <algorithm>
#include <cmath>

namespace kvloupe {

using Doing = ScheduleData::Phase;

void ScheduleView::paintBand(const Canvas& canvas, const Layout& layout, Band band, const QRectF& area) const {
    const StepAxis& axis = layout.axis;
    const Palette& colours = canvas.colours();
    QPainter& painter = canvas.painter();
    const CachePolicy& policy = cursor()->laneRecord()->info().policy;
    const std::uint32_t limit = band == Band::tokens ? policy.max_num_batched_tokens : band == Band::running ? policy.max_num_seqs : 0;
    const std::uint32_t peak = band == Band::tokens    ? m_data.peaks().tokens
                               : band == Band::running ? m_data.peaks().running
                                                       : m_data.peaks().waiting;
    // To the limit where the peak comes near it; else to the peak, and the label says what the limit is.
    const bool near = limit > 0 && peak * 4.0 >= limit;
    const double top = std::max<double>(1, near ? std::max(limit, peak) : peak);
    painter.setPen(QPen(colours.grid, 1));
    painter.drawLine(area.bottomLeft(), area.bottomRight());
    const double perValue = (area.height() - canvas.u(2)) / top;
    const QColor prefill = colours.tokenStates, decode = colours.reserved;
    const auto column = [&](double x, double width, const ScheduleData::Load& load) {
        double y = area.bottom();
        const auto part = [&](double value, const QColor& colour) {
            if (value <= 0) return;
            const double height = std::max(1.0, value * perValue);
            painter.fillRect(QRectF(x, y - height, width, height), colour);
            y -= height;
        };
        if (band == Band::tokens) {
            part(load.decode, decode);
            part(load.prefill, prefill);
        } else if (band == Band::running) {
            part(load.running, decode);
        } else {
            part(load.waiting, colours.hatch);
        }
    };
    painter.save();
    painter.setClipRect(area.adjusted(0, -canvas.u(2), 0, 1), Qt::IntersectClip);
    painter.setRenderHint(QPainter::Antialiasing, false);
    if (axis.perStep >= 1) {
        const auto last = static_cast<std::uint32_t>(std::min<double>(m_data.steps(), std::ceil(axis.end)));
        const double width = axis.perStep - (axis.perStep > 6 ? 1 : 0);
        for (auto step = static_cast<std::uint32_t>(std::max(0.0, axis.begin)); step < last; ++step)
            column(axis.x(step), width, m_data.load(step, step + 1));
    } else {
        const auto columns = static_cast<int>(area.width());
        for (int x = 0; x < columns; ++x) {
            const auto begin = static_cast<std::uint32_t>(axis.stepAt(area.left() + x));
            const auto end = std::max(begin + 1, static_cast<std::uint32_t>(axis.stepAt(area.left() + x + 1)));
            if (begin >= m_data.steps()) break;
            column(area.left() + x, 1, m_data.load(begin, end));
        }
    }
    painter.restore();
    if (!near) return;
    const double y = area.bottom() - limit * perValue;
    painter.setPen(QPen(colours.ink2, 1, Qt::DashLine));
    painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y));
}

void ScheduleView::paintLegend(const Canvas& canvas, const QRectF& area) const {
    // From the right; what does not occur is left out, what has no room too.
    const Palette& colours = canvas.colours();
    QPainter& painter = canvas.painter();
    const TextStyle style{10.5, QFont::Normal, colours.ink2, false};
    double x = area.right();
    const auto entry = [&](const QString& name, double sample, const auto& draw) {
        const double width = canvas.width(name, style) + canvas.u(sample + 14);
        if (x - width < area.left() + canvas.u(8)) return;
        x -= width;
        draw(QPointF(x + canvas.u(2 + sample / 2), area.center().y() + canvas.u(1)));
        canvas.text(QRectF(x + canvas.u(sample + 6), area.top() + canvas.u(1), width, area.height()), name, style);
    };
    static constexpr EventKind kinds[] = {EventKind::reject, EventKind::preempt, EventKind::copy_on_write, EventKind::fork,
                                          EventKind::prefix_hit, EventKind::resume};
    const QString names[] = {tr("rejected"), tr("preemption"), tr("copy-on-write"), tr("fork"), tr("prefix hit"), tr("resumes")};
    for (std::size_t i = 0; i < std::size(kinds); ++i)
        if (m_data.anyMark(kinds[i]))
            entry(names[i], 9, [&](const QPointF& centre) { canvas.glyph(kinds[i], centre, 8, colours.ink2); });
    const auto box = [&](const QPointF& centre, double height) {
        return QRectF(centre.x() - canvas.u(8), centre.y() - canvas.u(height / 2), canvas.u(16), canvas.u(height));
    };
    const auto framed = [&](const QRectF& frame) {
        painter.setPen(QPen(colours.ink3, 1));
        painter.setBrush(Qt::NoBrush);
        painter.drawRect(frame.adjusted(0.5, 0.5, -0.5, -0.5));
    };
    if (m_data.anyPhase(Doing::waiting)) entry(tr("waiting"), 16, [&](const QPointF& c) { framed(box(c, 6)); });
    if (m_data.anyPhase(Doing::swapped))
        entry(tr("swapped out"), 16, [&](const QPointF& c) {
            const QRectF frame = box(c, 9);
            canvas.hatch(frame, colours.ink3, 4);
            painter.save();
            painter.setClipRect(frame, Qt::IntersectClip);
            for (double at = frame.left() - frame.height(); at < frame.right(); at += canvas.u(4))
                painter.drawLine(QPointF(at, frame.top()), QPointF(at + frame.height(), frame.bottom()));
            painter.restore();
            framed(frame);
        });
    if (m_data.anyPhase(Doing::preempted))
        entry(tr("preempted"), 16, [&](const QPointF& c) {
            canvas.hatch(box(c, 9), colours.ink3, 4);
            framed(box(c, 9));
        });
    if (m_data.anyPhase(Doing::decode)) entry(tr("decode"), 16, [&](const QPointF& c) { painter.fillRect(box(c, 5), colours.reserved); });
    if (m_data.anyPhase(Doing::prefill)) entry(tr("prefill"), 12, [&](const QPointF& c) {
        painter.fillRect(QRectF(c.x() - canvas.u(6), c.y() - canvas.u(5), canvas.u(12), canvas.u(10)), colours.tokenStates);
    });
}

}  // namespace kvloupe
