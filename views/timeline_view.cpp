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
    if (m_packedSteps == m_data->steps() && m_kept.recording == cursor()->recording() && m_kept.lane == cursor()->lane()) return;
    m_packedSteps = m_data->steps();
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
    bands.labels = (area.width() > 520 * scale ? 108 : 10) * scale;
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
    paintRun(canvas, bands, area);
    paintMarksOfStep(canvas, bands);
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
