// SPDX-License-Identifier: GPL-3.0-or-later
//
// Pointer, wheel, keys and tips of the step timeline.
#include "views/step_timeline_view.h"

#include "views/format.h"
#include "views/stage_look.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QToolTip>
#include <QWheelEvent>

#include <algorithm>
#include <cmath>

namespace kvloupe {

namespace {

constexpr double time_per_notch = 0.8;

}  // namespace

std::optional<std::size_t> StepTimelineView::stageUnder(const QPointF& point) const {
    if (!m_profile) return std::nullopt;
    const StepTimelineFrame now = frame();
    double ns = -1;
    if (now.strip.contains(point)) ns = (point.x() - now.strip.left()) / now.strip.width() * now.wholeNs;
    else if (point.y() >= now.boxes.top() && point.x() >= now.boxes.left() && point.x() <= now.boxes.right())
        ns = now.nsAt(point.x());
    if (ns < 0) return std::nullopt;
    return m_profile->stageAt(ns);
}

QString StepTimelineView::tipAt(const QPointF& position) const {
    const StepTimelineFrame now = frame();
    if (now.heads.contains(position)) {
        const ProfiledLayer* layer = m_profile ? m_profile->layerOf(m_profile->stageAt(now.nsAt(position.x()))) : nullptr;
        if (!layer) return {};
        QString text = tr("layer %1 %2 %3, median of the layers %4")
                           .arg(layer->layer)
                           .arg(originMark(Origin::measured), formatDuration(static_cast<double>(layer->durationNs)),
                                formatDuration(m_profile->medianLayerNs));
        if (layer->outlier) text += QLatin1Char('\n') + outlierText(*layer) + QLatin1Char('\n') + outlierRule();
        return text;
    }
    const auto at = stageUnder(position);
    if (!at) return {};
    if (*at >= m_profile->stages.size())
        return tr("%1 %2 of the step that no stage accounts for: the step’s time less the sum of its stages.\n"
                  "Where in the step it passed was not measured; it is drawn behind the last stage.")
            .arg(originMark(Origin::derived), formatDuration(m_profile->betweenNs()));
    const ProfiledStage& stage = m_profile->stages[*at];
    const ProfiledLayer* layer = m_profile->layerOf(*at);
    QString text =
        layer ? tr("layer %1, %2").arg(layer->layer).arg(stageName(stage.record.kind)) : stageName(stage.record.kind);
    if (stage.record.calls > 1) text += tr(", %1 calls").arg(formatCount(stage.record.calls));
    text += QLatin1Char('\n') + stageTip(stage.work(), m_ceilings);
    if (layer && layer->outlier)
        text += QLatin1Char('\n') + tr("layer %1: %2").arg(layer->layer).arg(outlierText(*layer));
    return text;
}

void StepTimelineView::hoverStage(std::optional<std::size_t> stage) {
    if (stage && (!m_profile || *stage >= m_profile->stages.size())) stage.reset();
    if (stage == m_stage) return;
    m_stage = stage;
    Pick pick;
    if (const ProfiledLayer* layer = stage ? m_profile->layerOf(*stage) : nullptr) {
        pick.lane = cursor()->lane();
        pick.layer = layer->layer;
    }
    cursor()->setHover(pick);
    update();
}

void StepTimelineView::leaveEvent(QEvent* event) {
    m_stage.reset();
    View::leaveEvent(event);
    update();
}

void StepTimelineView::mousePressEvent(QMouseEvent* event) {
    if (event->button() != Qt::LeftButton || isEmptyShown()) return;
    m_pressed = event->position();
    m_dragging = true;
    m_moved = false;
    m_onStrip = frame().strip.adjusted(0, -4, 0, 4).contains(m_pressed);
}

void StepTimelineView::mouseMoveEvent(QMouseEvent* event) {
    if (isEmptyShown()) return;
    if (!m_dragging || !(event->buttons() & Qt::LeftButton)) return hoverStage(stageUnder(event->position()));
    const QPointF moved = event->position() - m_pressed;
    if (!m_moved && moved.manhattanLength() <= 4) return;
    m_moved = true;
    m_pressed = event->position();
    const StepTimelineFrame now = frame();
    // On the strip the window moves with the pointer, below it the stages do.
    const double perPixel = m_onStrip ? now.wholeNs / now.strip.width() : -(now.endNs - now.beginNs) / now.boxes.width();
    zoomAt(1, now.beginNs, moved.x() * perPixel);
}

void StepTimelineView::mouseReleaseEvent(QMouseEvent* event) {
    if (event->button() != Qt::LeftButton || !m_dragging || isEmptyShown()) return;
    m_dragging = false;
    if (m_moved) return zoomChanged();
    if (m_onStrip) {  // the window goes there
        const StepTimelineFrame now = frame();
        const double ns = (event->position().x() - now.strip.left()) / now.strip.width() * now.wholeNs;
        zoomAt(1, now.beginNs, ns - (now.beginNs + now.endNs) / 2);
        return zoomChanged();
    }
    const auto at = stageUnder(event->position());
    const ProfiledLayer* layer = at ? m_profile->layerOf(*at) : nullptr;
    if (!layer) return;
    Pick pick;
    pick.lane = cursor()->lane();
    pick.layer = layer->layer;
    cursor()->lock(pick);
}

void StepTimelineView::mouseDoubleClickEvent(QMouseEvent* event) {
    if (event->button() == Qt::LeftButton && m_profile) cursor()->setStep(m_profile->step);
}

void StepTimelineView::wheelEvent(QWheelEvent* event) {
    if (isEmptyShown()) return;
    event->accept();
    const StepTimelineFrame now = frame();
    const QPoint turned = event->angleDelta();
    if (event->modifiers() & Qt::ShiftModifier || turned.y() == 0) {  // some systems turn the wheel sideways with Shift
        const int by = turned.y() != 0 ? turned.y() : turned.x();
        zoomAt(1, now.beginNs, -by / 120.0 * (now.endNs - now.beginNs) * 0.1);
    } else {
        zoomAt(std::pow(time_per_notch, turned.y() / 120.0),
               std::clamp(now.nsAt(event->position().x()), now.beginNs, now.endNs), 0);
    }
    zoomChanged();
}

// To the next or previous stage; it comes into sight, and its tip with it.
void StepTimelineView::walk(int by) {
    const auto count = static_cast<int>(m_profile->stages.size());
    const StepTimelineFrame before = frame();
    const int from = m_stage ? static_cast<int>(*m_stage) + by : static_cast<int>(m_profile->stageAt(before.beginNs));
    const auto to = static_cast<std::size_t>(std::clamp(from, 0, count - 1));
    const ProfiledStage& stage = m_profile->stages[to];
    hoverStage(to);
    const double middle = (stage.beginNs + stage.endNs()) / 2;
    if (middle < before.beginNs || middle > before.endNs) {
        zoomAt(1, before.beginNs, middle - (before.beginNs + before.endNs) / 2);
        zoomChanged();
    }
    const StepTimelineFrame now = frame();
    const QPointF place(now.x(middle), now.boxes.center().y());
    QToolTip::showText(mapToGlobal(place.toPoint()), tipAt(place), this);
}

void StepTimelineView::keyPressEvent(QKeyEvent* event) {
    if (isEmptyShown() || !m_profile) return View::keyPressEvent(event);
    const StepTimelineFrame now = frame();
    const double width = now.endNs - now.beginNs;
    const bool shift = event->modifiers() & Qt::ShiftModifier;
    const auto moved = [&](double factor, double share) {
        const double middle = m_stage ? m_profile->stages[*m_stage].beginNs : (now.beginNs + now.endNs) / 2;
        zoomAt(factor, std::clamp(middle, now.beginNs, now.endNs), share * width);
        zoomChanged();
    };
    switch (event->key()) {
    case Qt::Key_Left: shift ? moved(1, -0.1) : walk(-1); break;
    case Qt::Key_Right: shift ? moved(1, 0.1) : walk(1); break;
    case Qt::Key_PageUp: moved(1, -0.8); break;
    case Qt::Key_PageDown: moved(1, 0.8); break;
    case Qt::Key_Plus:
    case Qt::Key_Equal: moved(time_per_notch, 0); break;
    case Qt::Key_Minus:
    case Qt::Key_Underscore: moved(1 / time_per_notch, 0); break;
    case Qt::Key_Return:
    case Qt::Key_Enter:
        if (event->modifiers() & Qt::ControlModifier) cursor()->setStep(m_profile->step);
        else if (cursor()->hover().layer) cursor()->lock(cursor()->hover());
        break;
    default: View::keyPressEvent(event); break;
    }
}

}  // namespace kvloupe
