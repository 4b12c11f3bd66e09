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
    const std::uint32_t peak = band == Band::tokens    ? data().peaks().tokens
                               : band == Band::running ? data().peaks().running
                                                       : data().peaks().waiting;
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
        const auto last = static_cast<std::uint32_t>(std::min<double>(data().steps(), std::ceil(axis.end)));
        for (auto step = static_cast<std::uint32_t>(std::max(0.0, axis.begin)); step < last; ++step) {
            // On whole pixels, so that neighbours meet.
            const double left = std::floor(axis.x(step)), right = std::floor(axis.x(step + 1.0));
            column(left, right - left - (axis.perStep > 8 ? 1 : 0), data().load(step, step + 1));
        }
    } else {
        const auto columns = static_cast<int>(area.width());
        for (int x = 0; x < columns; ++x) {
            const auto begin = static_cast<std::uint32_t>(axis.stepAt(area.left() + x));
            const auto end = std::max(begin + 1, static_cast<std::uint32_t>(axis.stepAt(area.left() + x + 1)));
            if (begin >= data().steps()) break;
            column(area.left() + x, 1, data().load(begin, end));
        }
    }
    painter.restore();
    if (!near) return;
    const double y = area.bottom() - limit * perValue;
    painter.setPen(QPen(colours.ink2, 1, Qt::DashLine));
    painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y));
}

void ScheduleView::paintLegend(const Canvas& canvas, const Layout& layout, const QRectF& area) const {
    // Right-aligned; what does not occur is left out, and the last where there is no room.
    const Palette& colours = canvas.colours();
    QPainter& painter = canvas.painter();
    const TextStyle style{10.5, QFont::Normal, colours.ink2, false};
    const auto box = [&](const QPointF& centre, double height) {
        return QRectF(centre.x() - canvas.u(8), centre.y() - canvas.u(height / 2), canvas.u(16), canvas.u(height));
    };
    const auto framed = [&](const QRectF& frame) {
        painter.setPen(QPen(colours.ink3, 1));
        painter.setBrush(Qt::NoBrush);
        painter.drawRect(frame.adjusted(0.5, 0.5, -0.5, -0.5));
    };
    const auto phase = [&](Doing doing, const QPointF& c) {
        switch (doing) {
        case Doing::prefill: painter.fillRect(QRectF(c.x() - canvas.u(6), c.y() - canvas.u(5), canvas.u(12), canvas.u(10)), colours.tokenStates); break;
        case Doing::decode: painter.fillRect(box(c, 5), colours.reserved); break;
        case Doing::waiting: framed(box(c, 6)); break;
        case Doing::preempted:
            canvas.hatch(box(c, 9), colours.ink3, 4);
            framed(box(c, 9));
            break;
        case Doing::swapped: {
            const QRectF frame = box(c, 9);
            canvas.hatch(frame, colours.ink3, 4);
            painter.save();
            painter.setClipRect(frame, Qt::IntersectClip);
            painter.setPen(QPen(colours.ink3, canvas.u(1)));
            for (double at = frame.left() - frame.height(); at < frame.right(); at += canvas.u(4))
                painter.drawLine(QPointF(at, frame.top()), QPointF(at + frame.height(), frame.bottom()));
            painter.restore();
            framed(frame);
            break;
        }
        }
    };
    struct Entry {
        QString name;
        std::optional<Doing> doing;
        EventKind kind = EventKind::arrive;
        double width = 0;
    };
    std::vector<Entry> entries;
    for (const Doing doing : {Doing::prefill, Doing::decode, Doing::waiting, Doing::preempted, Doing::swapped})
        if (data().anyPhase(doing)) entries.push_back({phaseName(doing), doing});
    const std::pair<EventKind, QString> kinds[] = {{EventKind::preempt, tr("preemption")}, {EventKind::copy_on_write, tr("copy-on-write")},
                                                   {EventKind::prefix_hit, tr("prefix hit")}, {EventKind::fork, tr("fork")},
                                                   {EventKind::resume, tr("resumes")}, {EventKind::reject, tr("rejected")}};
    if (layout.pitch >= canvas.u(9))  // else no marks are drawn
        for (const auto& [kind, name] : kinds)
            if (data().anyMark(kind)) entries.push_back({name, std::nullopt, kind});
    double total = 0;
    std::size_t count = 0;
    for (Entry& entry : entries) {
        entry.width = canvas.width(entry.name, style) + canvas.u(entry.doing ? 32 : 24);
        if (total + entry.width > area.width() - canvas.u(8)) break;
        total += entry.width;
        ++count;
    }
    double x = area.right() - total;
    for (std::size_t i = 0; i < count; ++i) {
        const Entry& entry = entries[i];
        const double sample = entry.doing ? 16 : 9;
        const QPointF centre(x + canvas.u(4 + sample / 2), area.center().y() + canvas.u(1));
        if (entry.doing) phase(*entry.doing, centre);
        else canvas.glyph(entry.kind, centre, 8, colours.ink2);
        canvas.text(QRectF(x + canvas.u(sample + 8), area.top() + canvas.u(1), entry.width, area.height()), entry.name, style);
        x += entry.width;
    }
}

}  // namespace kvloupe
