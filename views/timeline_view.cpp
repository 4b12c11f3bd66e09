// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/timeline_view.h"

#include "engine/record/describe.h"
#include "views/canvas.h"
#include "views/format.h"
#include "views/picking.h"
#include "views/step_axis.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QWheelEvent>

#include <algorithm>
#include <cmath>

namespace kvloupe {

namespace {

constexpr double fewest_steps = 24;  // the axis never shows fewer, so that a new session does not jump with each step

}  // namespace

TimelineView::TimelineView(Cursor* cursor, QWidget* parent)
    : View(QStringLiteral("timeline"), tr("Timeline"), cursor, parent) {}

void TimelineView::fit() {
    m_zoomed = false;
    update();
}

QVariant TimelineView::zoomState() const { return m_zoomed ? QVariant(QPointF(m_begin, m_end)) : QVariant(); }

void TimelineView::setZoomState(const QVariant& state) {
    m_zoomed = state.isValid();
    if (m_zoomed) {
        m_begin = state.toPointF().x();
        m_end = state.toPointF().y();
    }
    refresh();
    update();
}

std::pair<double, double> TimelineView::range() const {
    if (m_zoomed) return {m_begin, m_end};
    return {0.0, std::max(fewest_steps, static_cast<double>(cursor()->stepCount()))};
}

void TimelineView::readOn() {
    m_data.follow(cursor()->sharedRecording(), cursor()->lane(), [this] {
        if (isEmptyShown()) return;
        refresh();
        update();
    });
    m_rows = m_data->packRows(m_rowCount);
}

void TimelineView::refresh() {
    const LaneRecord* lane = cursor()->laneRecord();
    setSubtitle({});
    if (!lane) {
        setEmpty(tr("Open a model or a scenario; each step then appears here."));
        return;
    }
    if (cursor()->stepCount() == 0) {
        setEmpty(tr("No step has run yet."), tr("Step"), QStringLiteral("step"));
        return;
    }
    setEmpty({});
    readOn();
    QString text = (lane->step_count() == 1 ? tr("lane %1 · %2 step") : tr("lane %1 · %2 steps"))
                       .arg(QString::fromStdString(lane->info().name), formatCount(lane->step_count()));
    if (m_data.reading()) text += tr(" · reading events");
    if (m_zoomed) text += tr(" · zoomed, F shows all");
    if (!cursor()->following()) text += tr(" · looking back, End follows");
    setSubtitle(text);
}

TimelineView::Bands TimelineView::bandsFor(const QRectF& area) const {
    Bands bands;
    const double scale = unit();
    bands.labels = (area.width() > 520 * scale ? 92 : 10) * scale;
    bands.plot = QRectF(area.left() + bands.labels, area.top() + 6 * scale, area.width() - bands.labels - 14 * scale,
                        area.height() - 8 * scale);
    const double axis = 18 * scale, marks = 15 * scale;
    bands.axis = QRectF(bands.plot.left(), bands.plot.bottom() - axis, bands.plot.width(), axis);
    bands.marks = QRectF(bands.plot.left(), bands.axis.top() - marks - 2 * scale, bands.plot.width(), marks);
    const double rest = bands.marks.top() - bands.plot.top() - 4 * scale;
    bands.prefill = QRectF(bands.plot.left(), bands.plot.top(), bands.plot.width(), std::max(4.0, rest * 0.45));
    bands.decode = QRectF(bands.plot.left(), bands.prefill.bottom() + 4 * scale, bands.plot.width(),
                          std::max(2.0, bands.marks.top() - bands.prefill.bottom() - 6 * scale));
    const auto [begin, end] = range();
    bands.begin = begin;
    bands.perStep = bands.plot.width() / std::max(1e-6, end - begin);
    return bands;
}

double TimelineView::xOfStep(double step) const { return bandsFor(QRectF(rect())).x(step); }

int TimelineView::stepAt(const QPointF& point) const {
    const Bands bands = bandsFor(QRectF(rect()));
    return static_cast<int>(std::floor(bands.begin + (point.x() - bands.plot.left()) / bands.perStep));
}

void TimelineView::paintContent(QPainter& painter, const QRectF& area) {
    if (painter.device() != this) m_data.settle();  // exports show all
    const Canvas canvas(painter, palette_(), font(), unit());
    const Bands bands = bandsFor(area);
    const TextStyle caption{11, QFont::Normal, canvas.colours().ink2, false};
    if (bands.labels > canvas.u(20)) {
        const auto label = [&](const QRectF& band, const QString& text) {
            canvas.text(QRectF(area.left() + canvas.u(4), band.top(), bands.labels - canvas.u(12), band.height()), text, caption,
                        Qt::AlignRight | Qt::AlignVCenter);
        };
        const LaneRecord* lane = cursor()->laneRecord();
        const QString most = formatCount(m_data->mostPrefill());
        label(bands.prefill, lane && !lane->info().kv_cache ? tr("computed, to %1").arg(most) : tr("prefill, to %1").arg(most));
        label(bands.decode, tr("decoding"));
        label(bands.marks, tr("events"));
        label(bands.axis, StepAxis::axisTitle());
    }
    painter.save();
    painter.setClipRect(bands.plot.adjusted(-canvas.u(8), 0, canvas.u(8), 0), Qt::IntersectClip);
    paintPrefill(canvas, bands);
    paintDecode(canvas, bands);
    paintMarks(canvas, bands);
    paintAxis(canvas, bands);
    // The future at 40 %: the panel lies over it at 60 %.
    QColor veil = canvas.colours().panel;
    veil.setAlphaF(0.6f);
    const double now = bands.x(cursor()->step() + 1);
    if (now < bands.plot.right())
        painter.fillRect(QRectF(QPointF(std::max(now, bands.plot.left()), bands.plot.top()), bands.axis.topRight()), veil);
    paintCursor(canvas, bands);
    paintLegend(canvas, bands);
    painter.restore();
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
        const bool occurs = std::any_of(m_data->marks().begin(), m_data->marks().end(),
                                        [&](const TimelineData::Mark& mark) { return mark.kind == kinds[i]; });
        if (!occurs) continue;
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

void TimelineView::paintMarks(const Canvas& canvas, const Bands& bands) const {
    const Palette& colours = canvas.colours();
    const auto [begin, end] = range();
    const auto isMeant = [this](const TimelineData::Mark& mark) { return cursor()->shown().event == mark.event; };
    const auto weight = [&isMeant](const TimelineData::Mark& mark) { return isMeant(mark) ? 100 : TimelineData::weight(mark.kind); };
    struct Shown {
        double x = 0;
        const TimelineData::Mark* mark = nullptr;
    };
    std::vector<Shown> shown;
    for (const TimelineData::Mark& mark : m_data->marks()) {
        if (mark.step < std::floor(begin) || mark.step > end) continue;
        const double x = bands.x(mark.step + 0.5);
        const double gap = shown.empty() ? 1e9 : x - shown.back().x;
        if (gap < canvas.u(3)) {  // one spot: the mark that tells most stays
            if (weight(mark) > weight(*shown.back().mark)) shown.back().mark = &mark;
            continue;
        }
        if (gap < canvas.u(7) && mark.kind == shown.back().mark->kind && !isMeant(mark)) continue;  // again on the same spot
        shown.push_back({x, &mark});
    }
    const double y = bands.marks.center().y();
    for (const auto& [x, mark] : shown) {
        const bool now = static_cast<int>(mark->step) == cursor()->step();
        canvas.glyph(mark->kind, QPointF(x, y), mark->kind == EventKind::finish || mark->kind == EventKind::arrive ? 7 : 9,
                     isMeant(*mark) || (now && mark->kind != EventKind::arrive) ? colours.focus : colours.ink1);
    }
}

void TimelineView::paintAxis(const Canvas& canvas, const Bands& bands) const {
    const auto [begin, end] = range();
    const double wanted = std::max(2.0, bands.plot.width() / canvas.u(80));
    double step = std::pow(10.0, std::floor(std::log10(std::max(1.0, (end - begin) / wanted))));
    for (const double factor : {1.0, 2.0, 5.0, 10.0})
        if ((end - begin) / (step * factor) <= wanted) {
            step *= factor;
            break;
        }
    step = std::max(1.0, step);
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

QString TimelineView::tipAt(const QPointF& position) const {
    const LaneRecord* lane = cursor()->laneRecord();
    const int step = stepAt(position);
    if (!lane || step < 0 || step >= static_cast<int>(lane->step_count())) return {};
    const StepRecord& record = lane->step(static_cast<std::size_t>(step));
    const QString mark = originMark(Origin::measured);
    QStringList lines{tr("Step %1: %2 %3").arg(QString::number(step), mark, formatDuration(static_cast<double>(record.duration_ns))),
                      tr("%1 %2 prefill and %3 decode tokens").arg(mark, formatCount(record.prefill_tokens), formatCount(record.decode_tokens))};
    for (const TimelineData::Mark& entry : m_data->marks())
        if (entry.step == static_cast<std::uint32_t>(step) && lines.size() < 8)
            lines << QString::fromStdString(describe_event(*cursor()->recording(), *lane, entry.event));
    return lines.join(QLatin1Char('\n'));
}

void TimelineView::mouseMoveEvent(QMouseEvent* event) {
    if (event->buttons() & Qt::LeftButton) cursor()->setStep(stepAt(event->position()));
}

void TimelineView::mousePressEvent(QMouseEvent* event) {
    if (event->button() == Qt::LeftButton && !isEmptyShown()) cursor()->setStep(stepAt(event->position()));
}

void TimelineView::wheelEvent(QWheelEvent* event) {
    if (isEmptyShown()) return;
    const Bands bands = bandsFor(QRectF(rect()));
    const auto [begin, end] = range();
    const double whole = std::max(fewest_steps, static_cast<double>(cursor()->stepCount()));
    const double pivot = bands.begin + (event->position().x() - bands.plot.left()) / bands.perStep;
    const double sideways = event->angleDelta().x() / 120.0 * (end - begin) * 0.1;
    const double factor = std::pow(0.8, event->angleDelta().y() / 120.0);
    const double width = std::clamp((end - begin) * factor, 8.0, whole);
    m_begin = std::clamp(pivot - (pivot - begin) * width / (end - begin) - sideways, 0.0, whole - width);
    m_end = m_begin + width;
    m_zoomed = width < whole;
    event->accept();
    zoomChanged();
    refresh();
    update();
}

void TimelineView::keyPressEvent(QKeyEvent* event) {
    switch (event->key()) {
    case Qt::Key_Left: cursor()->setStep(cursor()->step() - 1); break;
    case Qt::Key_Right: cursor()->setStep(cursor()->step() + 1); break;
    case Qt::Key_Home: cursor()->setStep(0); break;
    case Qt::Key_End: cursor()->setStep(cursor()->stepCount() - 1); break;
    default: View::keyPressEvent(event); break;
    }
}

QString TimelineView::csv() const {
    QString csv = QStringLiteral("step,duration_us_measured,running_measured,waiting_measured,prefill_tokens_measured,"
                                 "decode_tokens_measured,used_blocks_measured\r\n");
    const LaneRecord* lane = cursor()->laneRecord();
    if (!lane) return csv;
    for (std::size_t i = 0; i < lane->step_count(); ++i) {
        const StepRecord& step = lane->step(i);
        csv += QStringLiteral("%1,%2,%3,%4,%5,%6,%7\r\n")
                   .arg(QString::number(i), QString::number(static_cast<double>(step.duration_ns) / 1e3, 'f', 3),
                        QString::number(step.running), QString::number(step.waiting), QString::number(step.prefill_tokens),
                        QString::number(step.decode_tokens), QString::number(step.used_blocks));
    }
    return csv;
}

}  // namespace kvloupe
