// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot_private.h"

#include <QPicture>

#include <algorithm>
#include <utility>

namespace kvloupe {

void Plot::Private::styleAxes() {
    plot->setBackground(QBrush(palette->panel));
    for (std::size_t i = 0; i < panels.size(); ++i) {
        QCPAxis* bottom = x(i);
        bottom->setScaleType(xLogarithmic ? QCPAxis::stLogarithmic : QCPAxis::stLinear);
        auto xTicker = QSharedPointer<PlotTicker>::create(xNumbers, xLogarithmic);
        xTicker->setCategories(xCategories);
        bottom->setTicker(xTicker);
        bottom->setTickLabels(false);  // the overlay draws them
        QCPAxis* left = y(i);
        left->setScaleType(panels[i].style.logarithmic ? QCPAxis::stLogarithmic : QCPAxis::stLinear);
        left->setTicker(QSharedPointer<PlotTicker>::create(panels[i].style.numbers, panels[i].style.logarithmic));
        for (QCPAxis* axis : {bottom, left}) {
            axis->setTickLabelFont(scaledFont(10.5));
            axis->setTickLabelColor(palette->ink3);
            axis->setBasePen(axis == bottom ? QPen(palette->line) : QPen(Qt::NoPen));
            axis->setTickPen(Qt::NoPen);
            axis->setSubTickPen(Qt::NoPen);
            axis->setTickLabelPadding(6);
            axis->grid()->setPen(QPen(palette->grid));
            axis->grid()->setZeroLinePen(axis == left ? QPen(palette->grid) : QPen(Qt::NoPen));
            axis->grid()->setVisible(axis == left);
            axis->grid()->setLayer(QStringLiteral("grid"));
        }
    }
    overlay->palette = palette;
    overlay->body = scaledFont(12);
    overlay->small = scaledFont(11);
    overlay->xTitle = xTitle;
    overlay->panels.clear();
    for (const PlotPanelState& panel : panels) overlay->panels.push_back({panel.rect, panel.style.caption});
    for (std::size_t i = 0; i < curves.size(); ++i) styleCurve(i);
    dirty = true;
}

void Plot::Private::styleCurve(std::size_t index) {
    PlotCurveState& curve = curves[index];
    const bool strong = std::find(emphasis.begin(), emphasis.end(), static_cast<int>(index)) != emphasis.end();
    QPen pen(curve.style.colour, strong ? 3 : curve.style.dashed ? 1.3 : 1.7);
    if (curve.style.dashed) pen.setDashPattern({3.5, 2.5});
    pen.setJoinStyle(Qt::MiterJoin);
    pen.setCapStyle(Qt::FlatCap);
    if (curve.graph) {
        const bool points = curve.style.shape == PlotCurve::Shape::dots || curve.style.shape == PlotCurve::Shape::squares;
        curve.graph->setPen(points ? QPen(curve.style.colour, 1) : pen);
    } else if (curve.bars) {
        QColor fill = curve.style.colour;
        curve.bars->setPen(strong ? QPen(palette->ink1, 1) : QPen(Qt::NoPen));
        curve.bars->setBrush(fill);
    }
}

// Room around the axis rects for a drawing of this size; narrow drawings give labels less.
void Plot::Private::placeMargins(int width, int height) {
    const int line = QFontMetrics(scaledFont(11)).height();
    const int wanted = (overlay->wantedRightMargin() + 7) / 8 * 8;
    const int right = std::min(wanted, width * 9 / 20);
    // Heads and the axis below take what they need; the rest is shared by the panels' stretch.
    std::vector<QMargins> room;
    int rest = height, stretch = 0;
    for (std::size_t i = 0; i < panels.size(); ++i) {
        const int head = overlay->headLines(i, width - overlay->leftMargin - 6);
        const int top = head == 0 ? 10 : head * (line + 1) + 8;
        room.push_back(QMargins(0, top, right, i + 1 == panels.size() ? 2 * line + 10 : 6));
        rest -= room.back().top() + room.back().bottom();
        stretch += panels[i].style.stretch;
    }
    for (std::size_t i = 0; i < panels.size(); ++i) {
        const int inner = std::max(16, rest * panels[i].style.stretch / std::max(1, stretch));
        panels[i].rect->setMargins(room[i]);
        plot->plotLayout()->setRowStretchFactor(static_cast<int>(i), inner + room[i].top() + room[i].bottom());
        x(i)->ticker()->setTickCount(std::max(2, std::min(8, (width - right) / (line * 6))));
        y(i)->ticker()->setTickCount(std::clamp(inner / (line * 2), 1, 6));
    }
    overlay->rightMargin = right;
}

void Plot::Private::fitPanel(std::size_t index) {
    double least = std::numeric_limits<double>::infinity(), greatest = -least;
    const bool logarithmic = panels[index].style.logarithmic;
    for (const PlotCurveState& curve : curves) {
        if (curve.style.panel != static_cast<int>(index) || !curve.style.fits) continue;
        least = std::min(least, logarithmic ? curve.leastPositive : curve.least);
        greatest = std::max(greatest, curve.greatest);
    }
    QCPRange range;
    if (logarithmic) {
        if (!(greatest > 0)) least = greatest = 1;
        range = QCPRange(least / 1.6, greatest * 1.6);
    } else {
        if (!std::isfinite(greatest)) greatest = 1;
        range = QCPRange(std::min(0.0, std::isfinite(least) ? least : 0.0), greatest > 0 ? greatest * 1.08 : 1);
    }
    if (panels[index].lower) range.lower = *panels[index].lower;
    if (panels[index].upper) range.upper = *panels[index].upper;
    y(index)->setRange(range);
}

void Plot::Private::fitAll() {
    for (std::size_t i = 0; i < panels.size(); ++i) {
        x(i)->setRange(xLower, xUpper);
        fitPanel(i);
    }
}

void Plot::update_() {
    if (d->panels.empty()) return;
    if (!d->dirty) {
        d->overlayLayer->replot();
        return;
    }
    d->dirty = false;
    if (d->fitted) d->fitAll();
    d->placeMargins(d->plot->width(), d->plot->height());
    d->plot->replot(QCustomPlot::rpQueuedReplot);
}

void Plot::render(QPainter& painter, const QRectF& area) {
    if (d->panels.empty()) return;
    if (d->fitted) d->fitAll();
    const QSize size = area.size().toSize();
    const auto hover = std::exchange(d->overlay->data.hover, std::nullopt);
    d->placeMargins(size.width(), size.height());
    // Through a picture, because QCustomPlot draws with a painter of its own; it stays vectors.
    QPicture picture;
    {
        QCPPainter inner(&picture);
        inner.setMode(QCPPainter::pmVectorized);
        inner.setMode(QCPPainter::pmNoCaching);
        d->plot->toPainter(&inner, size.width(), size.height());
    }
    painter.save();
    painter.translate(area.topLeft());
    painter.drawPicture(QPointF(), picture);
    painter.restore();
    d->overlay->data.hover = hover;
    d->placeMargins(d->plot->width(), d->plot->height());
    d->dirty = true;
}

}  // namespace kvloupe
