// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot_private.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QToolTip>

namespace kvloupe {

namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr int tip_delay_ms = 150;
constexpr double hit_distance = 8;  // pixels

}  // namespace

int Plot::Private::curveAt(const QPointF& position) const {
    int best = -1;
    double bestDistance = hit_distance;
    for (std::size_t i = 0; i < curves.size(); ++i) {
        const auto* plottable = curves[i].graph ? static_cast<QCPAbstractPlottable*>(curves[i].graph) : curves[i].bars;
        const QCPAxisRect* rect = panels[static_cast<std::size_t>(curves[i].style.panel)].rect;
        if (!rect->rect().contains(position.toPoint())) continue;
        const double distance = plottable->selectTest(position, false);
        if (distance < 0 || distance >= bestDistance) continue;
        bestDistance = distance;
        best = static_cast<int>(i);
    }
    return best;
}

void Plot::resizeEvent(QResizeEvent* event) {
    QWidget::resizeEvent(event);
    d->dirty = true;
    update_();
}

void Plot::keyPressEvent(QKeyEvent* event) {
    if (event->key() == Qt::Key_F && event->modifiers() == Qt::NoModifier) {
        fit();
        Q_EMIT zoomedByUser();
    } else if (event->key() == Qt::Key_Plus || event->key() == Qt::Key_Equal) {
        zoom(0.8);
    } else if (event->key() == Qt::Key_Minus) {
        zoom(1.25);
    } else if ((event->key() == Qt::Key_Left || event->key() == Qt::Key_Right) &&
               event->modifiers() == Qt::ShiftModifier && !d->panels.empty()) {
        d->fitted = false;
        d->x()->moveRange(d->x()->range().size() * (event->key() == Qt::Key_Left ? -0.1 : 0.1));
        d->dirty = true;
        update_();
        Q_EMIT zoomedByUser();
    } else {
        QWidget::keyPressEvent(event);
    }
}

bool Plot::eventFilter(QObject* object, QEvent* event) {
    if (object != d->plot || d->panels.empty()) return QWidget::eventFilter(object, event);
    switch (event->type()) {
    case QEvent::Wheel: {
        const bool vertical = static_cast<QWheelEvent*>(event)->modifiers() & Qt::ControlModifier;
        for (const PlotPanelState& panel : d->panels) panel.rect->setRangeZoom(vertical ? Qt::Vertical : Qt::Horizontal);
        d->fitted = false;
        // The plot takes the event after this filter.
        QTimer::singleShot(0, this, &Plot::zoomedByUser);
        break;
    }
    case QEvent::MouseButtonPress: {
        d->pressed = static_cast<QMouseEvent*>(event)->pos();
        d->moved = false;
        setFocus(Qt::MouseFocusReason);
        break;
    }
    case QEvent::MouseMove: {
        auto* mouse = static_cast<QMouseEvent*>(event);
        d->pointer = mouse->pos();
        if (mouse->buttons() & Qt::LeftButton) {
            if ((mouse->pos() - d->pressed).manhattanLength() > 4) {
                d->moved = true;
                d->fitted = false;
            } else if (!d->moved) {
                return true;  // a click with a trembling hand is no drag
            }
            break;
        }
        const bool inside = d->plot->axisRectAt(mouse->pos()) != nullptr;
        d->overlay->data.hover = inside ? std::optional<double>(std::round(d->xAt(mouse->pos()))) : std::nullopt;
        QToolTip::hideText();
        d->tipTimer.start(tip_delay_ms);
        Q_EMIT hovered(inside ? d->xAt(mouse->pos()) : not_a_number, d->curveAt(mouse->pos()));
        d->overlayLayer->replot();
        break;
    }
    case QEvent::MouseButtonRelease: {
        auto* mouse = static_cast<QMouseEvent*>(event);
        if (!d->moved && mouse->button() == Qt::LeftButton)
            Q_EMIT clicked(d->xAt(mouse->pos()), d->curveAt(mouse->pos()));
        else if (d->moved)
            Q_EMIT zoomedByUser();
        break;
    }
    case QEvent::Leave:
        d->tipTimer.stop();
        d->overlay->data.hover.reset();
        Q_EMIT hovered(not_a_number, -1);
        d->overlayLayer->replot();
        break;
    default: break;
    }
    return QWidget::eventFilter(object, event);
}

}  // namespace kvloupe
