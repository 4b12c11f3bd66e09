// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/schedule_view.h"

#include "views/format.h"
#include "views/picking.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

namespace kvloupe {

using Doing = ScheduleData::Phase;

void ScheduleView::paintContent(QPainter& painter, const QRectF& area) {
    if (m_order.empty()) return;
    const Canvas canvas(painter, palette_(), font(), unit());
    const Layout layout = layoutFor(area);
    const Palette& colours = canvas.colours();
    const Pick& pick = cursor()->shown();
    if (layout.legend > canvas.u(10)) paintLegend(canvas, layout, QRectF(area.left(), area.top(), area.width() - canvas.u(14), layout.legend));
    painter.save();
    painter.setClipRect(QRectF(area.left(), layout.rows.top(), layout.rows.right() - area.left(), layout.rows.height()), Qt::IntersectClip);
    const auto rowArea = [&](SequenceId sequence) {
        return QRectF(area.left(), layout.rows.top() + (m_rowOf[sequence.value] - layout.first) * layout.pitch,
                      layout.rows.right() - area.left(), std::max(1.0, layout.pitch));
    };
    const auto known = [&](const Pick& p) { return p.sequence && p.sequence->value < m_rowOf.size(); };
    if (known(pick)) painter.fillRect(rowArea(*pick.sequence), colours.selectedRow);
    if (layout.pitch >= canvas.u(6)) {
        const auto first = static_cast<std::size_t>(layout.first);
        const auto last = std::min(m_order.size(), static_cast<std::size_t>(std::ceil(layout.first + layout.shown)));
        for (std::size_t row = first; row < last; ++row) {
            if (layout.pitch >= canvas.u(14)) {
                painter.setPen(QPen(colours.grid, 1));
                const double y = layout.rows.top() + (static_cast<double>(row) + 1 - layout.first) * layout.pitch;
                painter.drawLine(QPointF(layout.rows.left(), y), QPointF(layout.rows.right(), y));
            }
            paintRow(canvas, layout, m_order[row]);
        }
        paintChunks(canvas, layout);
        for (std::size_t row = first; row < last; ++row) paintMarks(canvas, layout, m_order[row]);
    } else {
        paintFolded(canvas, layout);
    }
    painter.restore();
    for (const auto& [band, place] : layout.bands) paintBand(canvas, layout, band, place);
    layout.axis.paintTicks(canvas, cursor()->step());
    layout.axis.paintFuture(canvas, cursor()->step(), QRectF(layout.axis.plot.topLeft(), layout.axis.ticks.bottomRight()));
    paintNames(canvas, layout);
    if (known(pick) && !layout.folded()) {
        const bool locked = !cursor()->locked().empty();
        painter.save();
        painter.setClipRect(QRectF(area.left(), layout.rows.top() - 1, area.width(), layout.rows.height() + 2), Qt::IntersectClip);
        QRectF row = rowArea(*pick.sequence).adjusted(1, 0.5, -1, -0.5);
        if (layout.pitch < canvas.u(10)) row.setLeft(layout.rows.left());  // rows without names
        canvas.outline(row, colours.ink1, locked ? 2 : 1);
        painter.restore();
    }
    if (m_rowsZoomed && layout.shown < static_cast<double>(m_order.size())) {
        // Where the rows in sight lie among all of them.
        const double whole = static_cast<double>(m_order.size());
        const QRectF track(layout.rows.right() + canvas.u(5), layout.rows.top(), canvas.u(4), layout.rows.height());
        painter.fillRect(track, colours.grid);
        painter.fillRect(QRectF(track.left(), track.top() + track.height() * layout.first / whole, track.width(),
                                std::max(canvas.u(6), track.height() * layout.shown / whole)), colours.ink3);
    }
    layout.axis.paintCursor(canvas, cursor()->step());
}

void ScheduleView::paintNames(const Canvas& canvas, const Layout& layout) const {
    const LaneRecord& lane = *cursor()->laneRecord();
    const double left = layout.rows.left() - layout.labels;
    const TextStyle caption{11, QFont::Normal, canvas.colours().ink2, false};
    const bool wide = layout.labels > canvas.u(80);
    if (layout.pitch >= canvas.u(10)) {
        const TextStyle name{std::clamp(layout.pitch / canvas.u(1) - 5, 8.0, 12.0), QFont::DemiBold, canvas.colours().ink1, false};
        const auto last = std::min<double>(static_cast<double>(m_order.size()), layout.first + layout.shown);
        for (auto row = static_cast<std::size_t>(layout.first); static_cast<double>(row) < last; ++row) {
            const double y = layout.rows.top() + (static_cast<double>(row) - layout.first) * layout.pitch;
            if (y < layout.rows.top() - 1 || y + layout.pitch > layout.rows.bottom() + 1) continue;
            const SequenceId sequence = m_order[row];
            const double side = std::min(canvas.u(9), layout.pitch - canvas.u(3));
            canvas.swatch(QRectF(left + canvas.u(8), y + (layout.pitch - side) / 2, side, side), sequence.value);
            const QRectF text(left + canvas.u(22), y, layout.labels - canvas.u(28), layout.pitch);
            const QString label = sequenceName(*cursor()->recording(), lane, sequence);
            canvas.text(text, label, name);
            const double used = canvas.width(label, name) + canvas.u(6);
            const QString number = tr("seq %1").arg(sequence.value);
            if (wide && used + canvas.width(number, caption) <= text.width()) canvas.text(text.adjusted(used, 0, 0, 0), number, caption);
        }
    } else {
        canvas.text(QRectF(left + canvas.u(4), layout.rows.top(), layout.labels - canvas.u(12), canvas.u(15)),
                    formatCount(m_order.size()), caption, Qt::AlignRight | Qt::AlignVCenter);
        canvas.text(QRectF(left + canvas.u(4), layout.rows.top() + canvas.u(14), layout.labels - canvas.u(12), canvas.u(15)),
                    wide ? tr("sequences") : tr("seqs"), caption, Qt::AlignRight | Qt::AlignVCenter);
    }
    const CachePolicy& policy = lane.info().policy;
    for (const auto& [band, place] : layout.bands) {
        const auto [title, peak, limit] = [&, b = band]() -> std::tuple<QString, std::uint32_t, std::uint32_t> {
            if (b == Band::tokens) return {tr("tokens"), data().peaks().tokens, policy.max_num_batched_tokens};
            if (b == Band::running) return {tr("running"), data().peaks().running, policy.max_num_seqs};
            return {tr("waiting"), data().peaks().waiting, 0u};
        }();
        const double line = canvas.u(13);
        if (!wide) {  // above the band; the tip has the numbers
            canvas.text(QRectF(place.left(), place.top() - line - canvas.u(1), place.width() / 2, line), title, {10.5, QFont::Normal, canvas.colours().ink2, false});
            continue;
        }
        const double top = place.center().y() - line;
        const QRectF first(left + canvas.u(4), top, layout.labels - canvas.u(12), line);
        canvas.text(first, title, caption, Qt::AlignRight | Qt::AlignVCenter);
        const QString reach = limit ? tr("%1 of %2").arg(formatCount(peak), formatCount(limit)) : tr("to %1").arg(formatCount(peak));
        canvas.number(first.translated(0, line), Origin::measured, reach, {10.5, QFont::Normal, canvas.colours().ink3, false});
    }
}

// Spans in pixels; several spans in one pixel become the one that covers most of it.
void ScheduleView::runsOf(const StepAxis& axis, const ScheduleData::Row& row, std::vector<Run>& runs) const {
    runs.clear();
    auto span = std::partition_point(row.spans.begin(), row.spans.end(),
                                     [&](const ScheduleData::Span& s) { return s.end <= axis.begin; });
    std::array<double, ScheduleData::phase_count> cover{};
    int column = -1;
    const auto flush = [&] {
        if (column < 0) return;
        const auto most = std::max_element(cover.begin(), cover.end());
        if (*most > 0) runs.push_back({axis.plot.left() + column, axis.plot.left() + column + 1, static_cast<Doing>(most - cover.begin())});
        cover.fill(0);
        column = -1;
    };
    for (; span != row.spans.end() && span->begin < axis.end; ++span) {
        const double left = std::max(axis.plot.left(), axis.x(span->begin));
        const double right = std::min(axis.plot.right(), axis.x(std::min(span->end, data().steps())));
        if (axis.perStep >= 1) {
            runs.push_back({left, right, span->phase});
            continue;
        }
        // Whole pixels as one run, the pixels at both ends by what covers most of them.
        for (double x = left; x < right;) {
            const int pixel = static_cast<int>(x - axis.plot.left());
            const double edge = axis.plot.left() + pixel + 1;
            if (pixel != column) flush();
            if (column < 0 && x == edge - 1 && right >= edge) {
                const double whole = std::floor(right - axis.plot.left()) + axis.plot.left();
                runs.push_back({x, whole, span->phase});
                x = whole;
                continue;
            }
            column = pixel;
            cover[static_cast<std::size_t>(span->phase)] += std::min(edge, right) - x;
            x = edge;
        }
    }
    flush();
}

void ScheduleView::paintRun(const Canvas& canvas, const Layout& layout, const QRectF& row, const Run& run, unsigned owner) const {
    QPainter& painter = canvas.painter();
    const Palette& colours = canvas.colours();
    const bool tall = layout.pitch >= canvas.u(12);
    const auto bar = [&](double share) {
        const double height = std::max(2.0, std::round(row.height() * (tall ? share : std::max(share, 0.7))));
        return QRectF(run.left, std::round(row.center().y() - height / 2), std::max(1.0, run.right - run.left), height);
    };
    const double step = layout.axis.perStep;
    switch (run.phase) {
    case Doing::waiting: {
        const QRectF box = bar(0.34).adjusted(0.5, 0.5, -0.5, -0.5);
        painter.fillRect(box, colours.panel);
        painter.setPen(QPen(colours.ink3, 1));
        painter.setBrush(Qt::NoBrush);
        if (box.width() > 1.5) painter.drawRect(box);
        else painter.drawLine(box.topLeft(), box.bottomLeft());
        break;
    }
    case Doing::prefill: {
        const QRectF box = bar(0.64);
        if (step >= canvas.u(8)) {
            for (double x = run.left; x < run.right - 0.5; x += step)
                canvas.ownerRect(QRectF(x, box.top(), std::min(step, run.right - x) - 1, box.height()), owner, colours.owner(owner));
        } else {
            canvas.ownerRect(box, owner, colours.owner(owner));
        }
        break;
    }
    case Doing::decode: {
        const QRectF box = bar(0.36);
        if (step >= canvas.u(12)) {
            canvas.ownerRect(box, owner, canvas.ownerFill(owner));
            painter.setPen(Qt::NoPen);
            painter.setBrush(canvas.ownerBorder(owner));
            const double radius = std::min(canvas.u(3), box.height() / 2 - 0.5);
            for (double x = run.left + step / 2; x < run.right; x += step) painter.drawEllipse(QPointF(x, box.center().y()), radius, radius);
        } else if (step >= canvas.u(8)) {
            for (double x = run.left; x < run.right - 0.5; x += step)
                canvas.ownerRect(QRectF(x, box.top(), std::min(step, run.right - x) - 1, box.height()), owner,
                                 canvas.mix(colours.owner(owner), colours.panel, 0.8));
        } else {
            canvas.ownerRect(box, owner, canvas.mix(colours.owner(owner), colours.panel, 0.8));
        }
        break;
    }
    case Doing::preempted:
    case Doing::swapped: {
        const QRectF box = bar(0.6).adjusted(0.5, 0.5, -0.5, -0.5);
        painter.fillRect(box, colours.panel);
        canvas.hatch(box, colours.ink3, 4);
        if (run.phase == Doing::swapped) {  // hatched both ways
            painter.save();
            painter.setClipRect(box, Qt::IntersectClip);
            painter.setPen(QPen(colours.ink3, canvas.u(1)));
            for (double x = box.left() - box.height(); x < box.right(); x += canvas.u(4))
                painter.drawLine(QPointF(x, box.top()), QPointF(x + box.height(), box.bottom()));
            painter.restore();
        }
        painter.setPen(QPen(canvas.ownerBorder(owner), 1));
        painter.setBrush(Qt::NoBrush);
        if (box.width() > 1.5) painter.drawRect(box);
        break;
    }
    }
}

void ScheduleView::paintRow(const Canvas& canvas, const Layout& layout, SequenceId sequence) const {
    const ScheduleData::Row& shown = data().rows()[sequence.value];
    const StepAxis& axis = layout.axis;
    const QRectF row(layout.rows.left(), layout.rows.top() + (m_rowOf[sequence.value] - layout.first) * layout.pitch, layout.rows.width(), layout.pitch);
    if (shown.first >= axis.end || (shown.last != ScheduleData::open_end && shown.last + 1.0 < axis.begin)) return;
    const Palette& colours = canvas.colours();
    // Runs without being scheduled: a thin line between its spans.
    const double end = axis.x(shown.last == ScheduleData::open_end ? data().steps() : shown.last + 1);
    const double left = std::max(row.left(), axis.x(shown.first)), right = std::min(row.right(), end);
    if (right > left) {
        canvas.painter().setPen(QPen(canvas.mix(colours.owner(sequence.value), colours.panel, 0.6), 1));
        canvas.painter().drawLine(QPointF(left, row.center().y()), QPointF(right, row.center().y()));
    }
    std::vector<Run> runs;
    runsOf(axis, shown, runs);
    for (const Run& run : runs) paintRun(canvas, layout, row, run, sequence.value);
    // "304 + 104" behind the end, where there is room.
    if (layout.pitch < canvas.u(13) || end > row.right()) return;
    const TextStyle style{11, QFont::Normal, colours.ink2, false};
    const QString text = shown.ending == EventKind::reject ? tr("rejected")
                                                          : tr("%1 + %2").arg(formatCount(shown.prompt), formatCount(shown.decoded));
    const QRectF room(end + canvas.u(8), row.top(), row.right() - end - canvas.u(8), row.height());
    if (canvas.width(text, style) <= room.width()) canvas.text(room, text, style);
}

// Tokens of each chunk, written into it where a step is wide enough.
void ScheduleView::paintChunks(const Canvas& canvas, const Layout& layout) const {
    const StepAxis& axis = layout.axis;
    if (axis.perStep < canvas.u(26) || layout.pitch < canvas.u(15)) return;
    const LaneRecord& lane = *cursor()->laneRecord();
    const auto last = static_cast<std::uint32_t>(std::min<double>(data().steps(), std::ceil(axis.end)));
    for (auto step = static_cast<std::uint32_t>(std::max(0.0, axis.begin)); step < last; ++step) {
        const LogRange events = lane.step(step).events;
        for (std::uint64_t i = events.begin; i < events.end; ++i) {
            const Event& event = lane.events()[i];
            if (event.kind != EventKind::prefill || event.cause == Cause::no_kv_cache || event.sequence.value >= m_rowOf.size()) continue;
            const QRectF cell(axis.x(step), layout.rows.top() + (m_rowOf[event.sequence.value] - layout.first) * layout.pitch, axis.perStep - 1, layout.pitch);
            const QColor under = canvas.colours().owner(event.sequence.value);
            const QColor ink = under.lightnessF() > 0.55 || (under.green() > 150 && under.red() > 150) ? QColor(0x1B, 0x23, 0x30) : QColor(Qt::white);
            canvas.text(cell, formatCount(event.tokens), {10.5, QFont::DemiBold, ink, false}, Qt::AlignCenter, Qt::ElideNone);
        }
    }
}

void ScheduleView::paintMarks(const Canvas& canvas, const Layout& layout, SequenceId sequence) const {
    if (layout.pitch < canvas.u(9)) return;
    const StepAxis& axis = layout.axis;
    const Palette& colours = canvas.colours();
    const double top = layout.rows.top() + (m_rowOf[sequence.value] - layout.first) * layout.pitch;
    const double size = layout.pitch >= canvas.u(14) ? 8 : 6.5;
    double lastX = -1e9;
    for (const ScheduleData::Mark& mark : data().rows()[sequence.value].marks) {
        if (mark.step + 1.0 < axis.begin || mark.step > axis.end || mark.kind == EventKind::finish) continue;
        const double x = axis.x(mark.step + 0.5);
        if (x - lastX < canvas.u(size * 0.7)) continue;
        const bool meant = cursor()->shown().event == mark.event;
        canvas.glyph(mark.kind, QPointF(x, top + canvas.u(size / 2)), size, meant ? colours.focus : colours.ink1);
        lastX = x;
    }
}

// One image; where several rows share a line, what most of them do.
QImage ScheduleView::foldedImage(const Canvas& canvas, const Layout& layout, const QSize& size) const {
    const Palette& colours = canvas.colours();
    const int width = size.width(), height = size.height();
    QImage image(size, QImage::Format_RGB32);
    image.fill(colours.panel);
    const QRgb waiting = colours.hatch.rgb(), held = colours.ink3.rgb(), panel = colours.panel.rgb();
    std::vector<std::array<double, ScheduleData::phase_count>> cover(static_cast<std::size_t>(width));
    std::vector<std::array<std::uint32_t, ScheduleData::phase_count>> owner(static_cast<std::size_t>(width));
    std::vector<Run> runs;
    double sharing = 0;
    for (int y = 0; y < height; ++y) {
        const auto first = static_cast<std::size_t>(layout.first + y / layout.pitch);
        const auto last = std::max(first + 1, static_cast<std::size_t>(layout.first + (y + 1) / layout.pitch));
        std::fill(cover.begin(), cover.end(), std::array<double, ScheduleData::phase_count>{});
        sharing = 0;
        for (std::size_t row = first; row < std::min(last, m_order.size()); ++row, ++sharing) {
            runsOf(layout.axis, data().rows()[m_order[row].value], runs);
            for (const Run& run : runs) {
                const auto phase = static_cast<std::size_t>(run.phase);
                const auto begin = static_cast<int>(run.left - layout.rows.left());
                const auto end = std::min(width, std::max(begin + 1, static_cast<int>(run.right - layout.rows.left())));
                for (int x = std::max(0, begin); x < end; ++x) {
                    if (cover[static_cast<std::size_t>(x)][phase]++ == 0) owner[static_cast<std::size_t>(x)][phase] = m_order[row].value;
                }
            }
        }
        auto* line = reinterpret_cast<QRgb*>(image.scanLine(y));
        for (int x = 0; x < width; ++x) {
            const auto& states = cover[static_cast<std::size_t>(x)];
            const auto most = std::max_element(states.begin(), states.end());
            double busy = 0;
            for (const double state : states) busy += state;
            if (*most == 0 || sharing - busy > *most) continue;  // most of them are not there
            const auto phase = static_cast<std::size_t>(most - states.begin());
            const unsigned who = owner[static_cast<std::size_t>(x)][phase];
            switch (static_cast<Doing>(phase)) {
            case Doing::waiting: line[x] = waiting; break;
            case Doing::prefill: line[x] = colours.owner(who).rgb(); break;
            case Doing::decode: line[x] = canvas.mix(colours.owner(who), colours.panel, 0.6).rgb(); break;
            case Doing::preempted: line[x] = (x + y) % 4 < 2 ? held : panel; break;
            case Doing::swapped: line[x] = (x + y) % 4 < 1 || (x - y + 4 * height) % 4 < 1 ? held : panel; break;
            }
        }
    }
    return image;
}

void ScheduleView::paintFolded(const Canvas& canvas, const Layout& layout) const {
    const double used = std::min(layout.rows.height(), layout.pitch * layout.shown);
    const QSize size(static_cast<int>(layout.rows.width()), static_cast<int>(std::ceil(used)));
    if (size.isEmpty()) return;
    const Folded key{cursor()->recording(), cursor()->lane(), data().steps(),
                     QRectF(layout.axis.begin, layout.first, layout.axis.end - layout.axis.begin, layout.shown), size, canvas.colours().dark};
    if (!(key == m_foldedKey)) {
        m_folded = foldedImage(canvas, layout, size);
        m_foldedKey = key;
    }
    const Palette& colours = canvas.colours();
    canvas.painter().drawImage(layout.rows.topLeft(), m_folded);
    if (!layout.folded()) return;
    // The zig-zag edge says that lines stand for several rows.
    QPolygonF edge;
    const double left = layout.rows.left() - canvas.u(3);
    for (double y = 0; y <= used; y += canvas.u(3))
        edge << QPointF(left + (static_cast<int>(y / canvas.u(3)) % 2 ? canvas.u(2) : 0), layout.rows.top() + y);
    canvas.painter().setPen(QPen(colours.ink3, 1));
    canvas.painter().drawPolyline(edge);
}

}  // namespace kvloupe
