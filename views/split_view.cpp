// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/split_view.h"

#include "engine/record/figures.h"
#include "views/canvas.h"
#include "views/csv_line.h"
#include "views/folded_edge.h"
#include "views/format.h"
#include "views/reference.h"
#include "views/slot_colours.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainterPath>
#include <QWheelEvent>

#include <algorithm>
#include <cmath>

namespace kvloupe {

SplitView::SplitView(Cursor* cursor, QWidget* parent) : View(QStringLiteral("split"), tr("Memory split"), cursor, parent) {
    connect(cursor, &Cursor::stepRangeChanged, this, &SplitView::followSteps);
    for (SlotHistory* history : {&m_history, &m_thereHistory})
        connect(history, &SlotHistory::recounted, this, [this] {
            if (!isEmptyShown()) explain();
            update();
        });
    followSteps();
}

void SplitView::fit() { setZoomState({}); }

void SplitView::setZoomState(const QVariant& state) {
    m_steps.setState(state);
    cursor()->setStepRange(m_steps.zoomed() ? std::optional(m_steps.of(cursor()->stepCount())) : std::nullopt);
    explain();
    update();
}

void SplitView::followSteps() {
    const auto& range = cursor()->stepRange();
    const QVariant wanted = range ? QVariant(QPointF(range->first, range->second)) : QVariant();
    if (wanted != m_steps.state()) restoreZoom(wanted);  // another view zoomed: that is no step of this one's own
}

const SlotSeries* SplitView::series() const {
    if (isEmptyShown() || !cursor()->laneRecord() || !m_history.holds(cursor()->recording())) return nullptr;
    return &m_history.lane(cursor()->lane());
}

void SplitView::refresh() {
    const LaneRecord* lane = cursor()->laneRecord();
    m_history.update(cursor()->sharedRecording());
    const Reference* reference = cursor()->reference();
    const bool other = reference && m_showDifference && reference->recording() != cursor()->sharedRecording();
    m_thereHistory.update(other ? reference->recording() : nullptr);
    setSubtitle({});
    if (!lane) {
        setEmpty(tr("Open a model or a scenario to see what its memory is used for."));
        return;
    }
    const QString name = QString::fromStdString(lane->info().name);
    if (!lane->info().kv_cache || lane->info().blocks < 2) {
        setSubtitle(tr("lane %1").arg(name));
        setEmpty(tr("Lane %1 keeps no KV cache: there is no pool to split.").arg(name));
        return;
    }
    if (lane->step_count() == 0) {
        setEmpty(tr("No step has run yet: the whole pool is free."), tr("Step"), QStringLiteral("step"));
        return;
    }
    setEmpty({});
    explain();
}

void SplitView::explain() {
    const SlotSeries* slots_ = series();
    if (!slots_) return;
    QString text = tr("lane %1 · shares of %2 slots").arg(QString::fromStdString(cursor()->laneRecord()->info().name), formatCount(slots_->pool()));
    const double perStep = frameFor(QRectF(rect())).axis.perStep;
    if (thereSeries())
        text = tr("lane %1 minus %2 · shares of the pool")
                   .arg(QString::fromStdString(cursor()->laneRecord()->info().name), cursor()->reference()->label());
    if (perStep < 1) text += tr(" · folded: mean of %1 steps per column").arg(formatCount(static_cast<quint64>(std::ceil(1 / perStep))));
    if (m_history.computing() || m_thereHistory.computing()) text += tr(" · recounting reserved slots");
    else if (slots_->recountedSteps() < slots_->steps()) text += tr(" · %1 reserved is predicted while it runs").arg(originMark(Origin::predicted));
    if (m_steps.zoomed()) text += tr(" · zoomed, F shows all");
    setSubtitle(text);
}

SplitView::Frame SplitView::frameFor(const QRectF& area) const {
    Frame frame;
    const double scale = unit(), left = (area.width() > 520 * scale ? 92 : 68) * scale;
    double top = area.top() + 6 * scale;
    if (area.height() > 120 * scale) {
        frame.legend = QRectF(area.left() + 10 * scale, area.top() + 3 * scale, area.width() - 24 * scale, 16 * scale);
        top = frame.legend.bottom() + 5 * scale;
    }
    const double ticks = StepAxis::height * scale;
    frame.plot = QRectF(area.left() + left, top, std::max(1.0, area.width() - left - 14 * scale),
                        std::max(1.0, area.bottom() - top - ticks - 2 * scale));
    frame.labels = QRectF(area.left() + 4 * scale, top, left - 10 * scale, frame.plot.height());
    frame.axis = StepAxis::over(frame.plot, QRectF(frame.plot.left(), frame.plot.bottom(), frame.plot.width(), ticks),
                                m_steps.of(cursor()->stepCount()));
    return frame;
}

void SplitView::paintContent(QPainter& painter, const QRectF& area) {
    if (!series()) return;
    if (painter.device() != this)
        for (SlotHistory* history : {&m_history, &m_thereHistory}) history->settle();
    const Canvas canvas(painter, palette_(), font(), unit());
    const Frame frame = frameFor(area);
    if (thereSeries()) {
        paintDifference(canvas, frame);
    } else {
        paintScale(canvas, frame);
        paintStack(canvas, frame);
    }
    frame.axis.paintTicks(canvas, cursor()->step());
    if (frame.axis.perStep < 1) paintFoldedEdge(canvas, frame.plot.bottomLeft(), frame.plot.bottomRight());
    frame.axis.paintFuture(canvas, cursor()->step(), frame.plot);
    if (m_hovered >= 0) {
        const double x = frame.axis.x(m_hovered + 0.5);
        painter.setPen(QPen(canvas.colours().ink1, 1));
        if (x >= frame.plot.left() && x <= frame.plot.right()) painter.drawLine(QPointF(x, frame.plot.top()), QPointF(x, frame.plot.bottom()));
    }
    frame.axis.paintCursor(canvas, cursor()->step());
    if (!frame.legend.isEmpty()) slotLegend(canvas, frame.legend);
    if (!thereSeries()) paintCallout(canvas, frame);
}

void SplitView::paintScale(const Canvas& canvas, const Frame& frame) const {
    QPainter& painter = canvas.painter();
    const int parts = frame.plot.height() > canvas.u(100) ? 4 : 2;
    for (int i = 0; i <= parts; ++i) {
        const double share = static_cast<double>(i) / parts, y = frame.y(share);
        painter.setPen(QPen(canvas.colours().grid, 1));
        painter.drawLine(QPointF(frame.plot.left(), y), QPointF(frame.plot.right(), y));
        canvas.text(QRectF(frame.labels.left(), y - canvas.u(7), frame.labels.width(), canvas.u(14)), QStringLiteral("%1 %").arg(100 * i / parts),
                    {10.5, QFont::Normal, canvas.colours().ink3, false}, Qt::AlignRight | Qt::AlignVCenter, Qt::ElideNone);
    }
    if (frame.labels.width() < canvas.u(70) || frame.plot.height() < canvas.u(100)) return;
    painter.save();
    painter.translate(frame.labels.left() + canvas.u(8), frame.plot.center().y());
    painter.rotate(-90);
    canvas.text(QRectF(-frame.plot.height() / 2, -canvas.u(8), frame.plot.height(), canvas.u(16)), tr("share of the pool"),
                {11, QFont::Normal, canvas.colours().ink2, false}, Qt::AlignCenter);
    painter.restore();
}

// One polygon per kind: stairs between what lies below it and what lies below the next.
void SplitView::paintStack(const Canvas& canvas, const Frame& frame) const {
    const SlotSeries& slots_ = *series();
    const double begin = std::max(0.0, frame.axis.begin), end = std::min(frame.axis.end, static_cast<double>(slots_.steps()));
    const double width = std::max(1.0, frame.axis.perStep);  // of a column, pixels
    const double stride = width / frame.axis.perStep;        // steps of a column
    std::array<QPolygonF, slot_kind_count + 1> edges;        // below each kind, and above the last
    for (double at = frame.axis.perStep < 1 ? begin : std::floor(begin); at < end; at += stride) {
        const auto first = static_cast<std::size_t>(at);
        const std::size_t last = std::clamp<std::size_t>(static_cast<std::size_t>(at + stride), first + 1, slots_.steps());
        const SlotSums sums = slots_.sum(first, last);
        const double left = std::max(frame.plot.left(), frame.axis.x(at));
        const double right = std::min(frame.plot.right(), frame.axis.x(std::min(at + stride, end)));
        std::uint64_t below = 0;
        for (std::size_t kind = 0; kind <= sums.size(); ++kind) {
            const double share = static_cast<double>(below) / static_cast<double>(slots_.pool()) / static_cast<double>(last - first);
            edges[kind] << QPointF(left, frame.y(share)) << QPointF(right, frame.y(share));
            if (kind < sums.size()) below += sums[kind];
        }
    }
    if (edges[0].isEmpty()) return;
    QPainter& painter = canvas.painter();
    painter.setRenderHint(QPainter::Antialiasing, false);
    for (std::size_t i = 0; i < slot_kind_count; ++i) {
        const auto kind = static_cast<SlotKind>(i);
        if (kind == SlotKind::free) continue;
        QPolygonF outline = edges[i];
        for (auto point = edges[i + 1].crbegin(); point != edges[i + 1].crend(); ++point) outline << *point;
        painter.setPen(Qt::NoPen);
        painter.setBrush(slotColour(canvas.colours(), kind));
        painter.drawPolygon(outline);
        if (kind != SlotKind::cached) continue;
        QPainterPath path;
        path.addPolygon(outline);
        painter.save();
        painter.setClipPath(path, Qt::IntersectClip);
        painter.setRenderHint(QPainter::Antialiasing);
        canvas.hatch(outline.boundingRect(), canvas.colours().hatch);
        painter.restore();
    }
    painter.setRenderHint(QPainter::Antialiasing);
}

void SplitView::paintCallout(const Canvas& canvas, const Frame& frame) const {
    const int step = cursor()->stepOf(cursor()->lane());
    if (step < 0 || static_cast<std::size_t>(step) >= series()->steps() || frame.plot.width() < canvas.u(300) || frame.plot.height() < canvas.u(70)) return;
    const SlotSeries& slots_ = *series();
    const SlotCounts& now = slots_.at(static_cast<std::size_t>(step));
    const bool predicted = static_cast<std::size_t>(step) >= slots_.recountedSteps();
    const TextStyle title{12, QFont::DemiBold, canvas.colours().ink1, false}, body{11, QFont::Normal, canvas.colours().ink1, false};
    const QString head = tr("%1 %2 slots hold tokens").arg(originMark(Origin::measured), formatCount(now.token));
    const auto wasted = wasted_share(now);
    const QString line = tr("%1 %2 reserved, %3 internal, %4 external")
                             .arg(originMark(predicted ? Origin::predicted : Origin::derived), formatCount(now.reserved),
                                  formatCount(now.internal), formatCount(now.external)) +
                         (wasted ? tr(" · %1 %2 wasted").arg(originMark(Origin::derived), formatPercent(*wasted)) : QString());
    const double width = std::max(canvas.width(head, title), canvas.width(line, body)) + canvas.u(20), x = frame.axis.x(step + 0.5);
    double left = x + canvas.u(10);
    if (left + width > frame.plot.right()) left = x - width - canvas.u(10);
    if (left < frame.plot.left() || x < frame.plot.left() || x > frame.plot.right()) return;
    const QRectF box(left, frame.plot.top() + canvas.u(6), width, canvas.u(40));
    canvas.painter().setPen(QPen(canvas.colours().ink2, 1));
    canvas.painter().setBrush(canvas.colours().panel);
    canvas.painter().drawRoundedRect(box, canvas.u(4), canvas.u(4));
    canvas.text(box.adjusted(canvas.u(10), canvas.u(3), 0, -canvas.u(20)), head, title);
    canvas.text(box.adjusted(canvas.u(10), canvas.u(20), 0, -canvas.u(3)), line, body);
}

QStringList SplitView::describe(std::size_t step) const {
    const SlotSeries& slots_ = *series();
    const SlotSums sums = sumsOf(slots_.at(step));
    const bool predicted = step >= slots_.recountedSteps();
    QStringList lines{tr("Step %1").arg(formatCount(step))};
    for (std::size_t i = 0; i < sums.size(); ++i) {
        const auto kind = static_cast<SlotKind>(i);
        const bool may = kind == SlotKind::reserved || kind == SlotKind::internal;
        lines << tr("%1 %2 slots %3, %4").arg(originMark(may ? predicted ? Origin::predicted : Origin::derived : Origin::measured),
                                              formatCount(sums[i]), slotName(kind),
                                              formatPercent(static_cast<double>(sums[i]) / static_cast<double>(slots_.pool())));
    }
    if (const auto wasted = wasted_share(slots_.at(step)))
        lines << tr("%1 %2 of what is held is wasted").arg(originMark(Origin::derived), formatPercent(*wasted));
    return lines;
}

QString SplitView::tipAt(const QPointF& position) const {
    const double step = std::floor(frameFor(QRectF(rect())).axis.stepAt(position.x()));
    if (!series() || step < 0 || step >= static_cast<double>(series()->steps())) return {};
    if (thereSeries()) return describeDifference(static_cast<std::size_t>(step)).join(QLatin1Char('\n'));
    return describe(static_cast<std::size_t>(step)).join(QLatin1Char('\n'));
}

void SplitView::resizeEvent(QResizeEvent* event) {
    View::resizeEvent(event);
    explain();
}

void SplitView::leaveEvent(QEvent* event) {
    m_hovered = -1;
    update();
    View::leaveEvent(event);
}

void SplitView::mouseMoveEvent(QMouseEvent* event) {
    if (!series()) return;
    const int step = static_cast<int>(std::floor(frameFor(QRectF(rect())).axis.stepAt(event->position().x())));
    if (event->buttons() & Qt::LeftButton) cursor()->setStep(step);
    m_hovered = step >= 0 && step < cursor()->stepCount() ? step : -1;
    update();
}

void SplitView::mousePressEvent(QMouseEvent* event) {
    if (event->button() == Qt::LeftButton && series())
        cursor()->setStep(static_cast<int>(std::floor(frameFor(QRectF(rect())).axis.stepAt(event->position().x()))));
}

void SplitView::zoom(double factor, double pivot, double shift) {
    m_steps.zoom(factor, pivot, shift, cursor()->stepCount());
    setZoomState(m_steps.state());
    zoomChanged();
}

void SplitView::wheelEvent(QWheelEvent* event) {
    if (!series()) return;
    const StepAxis axis = frameFor(QRectF(rect())).axis;
    const int turned = event->angleDelta().y(), sideways = event->angleDelta().x();
    zoom(std::pow(0.8, turned / 120.0), axis.stepAt(event->position().x()), -sideways / 120.0 * (axis.end - axis.begin) * 0.1);
    event->accept();
}

void SplitView::keyPressEvent(QKeyEvent* event) {
    const auto [begin, end] = m_steps.of(cursor()->stepCount());
    const double pivot = cursor()->step() >= begin && cursor()->step() < end ? cursor()->step() + 0.5 : (begin + end) / 2;
    const bool shift = event->modifiers() & Qt::ShiftModifier;
    switch (series() ? event->key() : 0) {
    case Qt::Key_Left: shift ? zoom(1, begin, (begin - end) * 0.1) : cursor()->setStep(cursor()->step() - 1); break;
    case Qt::Key_Right: shift ? zoom(1, begin, (end - begin) * 0.1) : cursor()->setStep(cursor()->step() + 1); break;
    case Qt::Key_Plus:
    case Qt::Key_Equal: zoom(0.8, pivot, 0); break;
    case Qt::Key_Minus: zoom(1.25, pivot, 0); break;
    default: View::keyPressEvent(event); break;
    }
}

QString SplitView::csv() const {
    if (thereSeries()) return differenceCsv();
    QString text = csvLine({"step", "token slots (measured)", "cached slots (measured)", "reserved slots", "internal slots",
                            "external slots (measured)", "free slots (measured)", "pool slots (measured)", "wasted percent (derived)",
                            "origin of reserved and internal"});
    const SlotSeries* slots_ = series();
    if (!slots_) return text;
    const_cast<SplitView*>(this)->m_history.settle();
    for (std::size_t step = 0; step < slots_->steps(); ++step) {
        const SlotCounts& now = slots_->at(step);
        const auto wasted = wasted_share(now);
        text += csvLine({QString::number(step), QString::number(now.token), QString::number(now.cached), QString::number(now.reserved),
                         QString::number(now.internal), QString::number(now.external), QString::number(now.free),
                         QString::number(slots_->pool()), wasted ? QString::number(100 * *wasted, 'g', 9) : QString(),
                         originName(step < slots_->recountedSteps() ? Origin::derived : Origin::predicted)});
    }
    return text;
}

}  // namespace kvloupe
