// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot_private.h"

#include <QToolTip>
#include <QVBoxLayout>

#include <algorithm>

namespace kvloupe {

Plot::Plot(QWidget* parent) : QWidget(parent), d(std::make_unique<Private>()) {
    setFocusPolicy(Qt::StrongFocus);
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    d->plot = new QCustomPlot(this);
    layout->addWidget(d->plot);
    d->plot->setFocusPolicy(Qt::NoFocus);
    d->plot->setMouseTracking(true);
    d->plot->setInteractions(QCP::iRangeDrag | QCP::iRangeZoom);
    d->plot->setPlottingHint(QCP::phFastPolylines, true);
    d->plot->plotLayout()->clear();
    d->plot->plotLayout()->setRowSpacing(0);
    d->plot->installEventFilter(this);
    d->plot->addLayer(QStringLiteral("marks"), d->plot->layer(QStringLiteral("legend")), QCustomPlot::limAbove);
    d->overlayLayer = d->plot->layer(QStringLiteral("marks"));
    d->overlayLayer->setMode(QCPLayer::lmBuffered);
    d->margins = new QCPMarginGroup(d->plot);
    d->base = font();
    clear();
    d->tipTimer.setSingleShot(true);
    connect(&d->tipTimer, &QTimer::timeout, this, [this] {
        if (!d->tip || d->panels.empty()) return;
        const QString text = d->tip(d->xAt(d->pointer));
        if (!text.isEmpty()) QToolTip::showText(d->plot->mapToGlobal(d->pointer + QPoint(14, 6)), text, d->plot);
    });
}

Plot::~Plot() = default;

void Plot::clear() {
    d->plot->clearItems();
    d->plot->clearPlottables();
    d->plot->plotLayout()->clear();
    d->panels.clear();
    d->curves.clear();
    d->emphasis.clear();
    d->xCategories.clear();
    d->overlay = new PlotOverlay(d->plot);
    d->overlay->setLayer(d->overlayLayer);
    d->overlay->palette = d->palette;
    d->fitted = true;
    d->dirty = true;
}

int Plot::addPanel(const PlotPanel& style) {
    auto* rect = new QCPAxisRect(d->plot, true);
    const int row = static_cast<int>(d->panels.size());
    d->plot->plotLayout()->addElement(row, 0, rect);
    d->plot->plotLayout()->setRowStretchFactor(row, style.stretch);
    rect->setAutoMargins(QCP::msLeft);
    rect->setMarginGroup(QCP::msLeft, d->margins);
    rect->setMinimumMargins(QMargins(36, 0, 0, 0));
    rect->setMinimumSize(20, 16);
    rect->setRangeDrag(Qt::Horizontal | Qt::Vertical);
    rect->setRangeZoom(Qt::Horizontal);
    rect->setRangeZoomFactor(0.8);
    for (const auto side : {QCPAxis::atTop, QCPAxis::atRight}) rect->axis(side)->setVisible(false);
    // All panels show the same stretch of the horizontal axis.
    connect(rect->axis(QCPAxis::atBottom), qOverload<const QCPRange&>(&QCPAxis::rangeChanged), this,
            [this](const QCPRange& range) {
                if (d->linking) return;
                d->linking = true;
                for (std::size_t i = 0; i < d->panels.size(); ++i) d->x(i)->setRange(range);
                d->linking = false;
            });
    d->panels.push_back({style, rect, {}, {}});
    d->dirty = true;
    return row;
}

int Plot::addCurve(const PlotCurve& style) {
    PlotCurveState curve;
    curve.style = style;
    const auto panel = static_cast<std::size_t>(style.panel);
    if (style.shape == PlotCurve::Shape::bars) {
        curve.bars = new QCPBars(d->x(panel), d->y(panel));
        curve.bars->setWidth(0.36);
        curve.bars->setBaseValue(d->panels[panel].style.logarithmic ? 1 : 0);
        curve.bars->setAntialiased(false);
    } else {
        curve.graph = new QCPGraph(d->x(panel), d->y(panel));
        curve.graph->setAdaptiveSampling(true);
        if (style.shape == PlotCurve::Shape::stairs) curve.graph->setLineStyle(QCPGraph::lsStepLeft);
        if (style.shape == PlotCurve::Shape::dots || style.shape == PlotCurve::Shape::squares) {
            curve.graph->setLineStyle(QCPGraph::lsNone);
            const bool square = style.shape == PlotCurve::Shape::squares;
            curve.graph->setScatterStyle(
                QCPScatterStyle(square ? QCPScatterStyle::ssSquare : QCPScatterStyle::ssDisc, 4));
        }
    }
    d->curves.push_back(curve);
    d->styleCurve(d->curves.size() - 1);
    return static_cast<int>(d->curves.size()) - 1;
}

void Plot::append(int index, const QVector<double>& x, const QVector<double>& y) {
    if (x.isEmpty()) return;
    PlotCurveState& curve = d->curves[static_cast<std::size_t>(index)];
    curve.see(y);
    if (curve.graph) {
        const auto points = curve.graph->data();
        const bool sorted = std::is_sorted(x.begin(), x.end()) &&
                            (points->isEmpty() || (points->constEnd() - 1)->key <= x.first());
        curve.graph->addData(x, y, sorted);
    } else {
        QVector<double> shifted = x;
        for (double& v : shifted) v += curve.style.barOffset;
        curve.bars->addData(shifted, y, true);
    }
    d->dirty = true;
}

void Plot::replace(int index, const QVector<double>& x, const QVector<double>& y) {
    PlotCurveState& curve = d->curves[static_cast<std::size_t>(index)];
    curve.least = curve.leastPositive = std::numeric_limits<double>::infinity();
    curve.greatest = -curve.least;
    if (curve.bars) {
        curve.bars->data()->clear();
        append(index, x, y);
    } else {
        curve.see(y);
        curve.graph->setData(x, y);
    }
    d->dirty = true;
}

void Plot::fillBetween(int upper, int lower, const QColor& colour) {
    QCPGraph* graph = d->curves[static_cast<std::size_t>(upper)].graph;
    graph->setBrush(colour);
    graph->setChannelFillGraph(d->curves[static_cast<std::size_t>(lower)].graph);
}

int Plot::pointCount(int index) const {
    const PlotCurveState& curve = d->curves[static_cast<std::size_t>(index)];
    return curve.graph ? curve.graph->dataCount() : curve.bars->dataCount();
}

std::optional<double> Plot::valueAt(int index, double x) const {
    const PlotCurveState& curve = d->curves[static_cast<std::size_t>(index)];
    if (!curve.graph || curve.graph->dataCount() == 0) return std::nullopt;
    const auto points = curve.graph->data();
    auto it = points->findEnd(x, false);
    if (it == points->constBegin()) return std::nullopt;
    return (it - 1)->value;
}

void Plot::setPanelLogarithmic(int panel, bool logarithmic) {
    d->panels[static_cast<std::size_t>(panel)].style.logarithmic = logarithmic;
    for (const PlotCurveState& curve : d->curves)
        if (curve.bars && curve.style.panel == panel) curve.bars->setBaseValue(logarithmic ? 1 : 0);
    d->styleAxes();
}

void Plot::setPanelCaption(int panel, const QString& caption) {
    QString& own = d->panels[static_cast<std::size_t>(panel)].style.caption;
    if (own == caption) return;
    own = caption;
    d->styleAxes();
}

void Plot::setPanelLimits(int panel, std::optional<double> lower, std::optional<double> upper) {
    PlotPanelState& own = d->panels[static_cast<std::size_t>(panel)];
    if (own.lower == lower && own.upper == upper) return;
    own.lower = lower;
    own.upper = upper;
    d->dirty = true;
}

void Plot::setXAxis(const QString& title, PlotNumbers numbers, bool logarithmic) {
    d->xTitle = title;
    d->xNumbers = numbers;
    d->xLogarithmic = logarithmic;
    d->styleAxes();
}

void Plot::setXCategories(const QStringList& names) {
    if (names == d->xCategories) return;
    d->xCategories = names;
    d->styleAxes();
}

void Plot::setXRange(double lower, double upper) {
    if (lower == d->xLower && upper == d->xUpper) return;
    d->xLower = lower;
    d->xUpper = upper;
    d->dirty = true;
}

void Plot::setOverlay(PlotOverlayData overlay) {
    const auto room = [this] {
        std::vector<int> sizes{d->overlay->wantedRightMargin()};
        const double width = d->plot->width() - d->overlay->leftMargin - 6;
        for (std::size_t i = 0; i < d->overlay->panels.size(); ++i) sizes.push_back(d->overlay->headLines(i, width));
        return sizes;
    };
    const auto before = room();
    overlay.hover = d->overlay->data.hover;
    d->overlay->data = std::move(overlay);
    if (room() != before) d->dirty = true;
}

const PlotOverlayData& Plot::overlay() const { return d->overlay->data; }

void Plot::setLook(const Palette& palette, const QFont& base) {
    d->palette = &palette;
    d->base = base;
    d->styleAxes();
}

void Plot::setEmphasis(const std::vector<int>& curves) {
    if (curves == d->emphasis) return;
    d->emphasis = curves;
    for (std::size_t i = 0; i < d->curves.size(); ++i) d->styleCurve(i);
    d->dirty = true;
}

void Plot::setTip(std::function<QString(double)> tip) { d->tip = std::move(tip); }

void Plot::fit() {
    d->fitted = true;
    d->dirty = true;
    update_();
}

bool Plot::isFitted() const { return d->fitted; }

QVariant Plot::zoomState() const {
    if (d->fitted || d->panels.empty()) return {};
    QVariantList ranges{QPointF(d->x()->range().lower, d->x()->range().upper)};
    for (std::size_t i = 0; i < d->panels.size(); ++i)
        ranges << QPointF(d->y(i)->range().lower, d->y(i)->range().upper);
    return ranges;
}

void Plot::setZoomState(const QVariant& state) {
    const QVariantList ranges = state.toList();
    d->fitted = ranges.size() != static_cast<qsizetype>(d->panels.size()) + 1;
    if (!d->fitted) {
        d->x()->setRange(ranges[0].toPointF().x(), ranges[0].toPointF().y());
        for (std::size_t i = 0; i < d->panels.size(); ++i) {
            const QPointF range = ranges[static_cast<qsizetype>(i) + 1].toPointF();
            d->y(i)->setRange(range.x(), range.y());
        }
    }
    d->dirty = true;
    update_();
}

std::pair<double, double> Plot::xRange() const {
    if (d->panels.empty()) return {0, 0};
    if (d->fitted && d->dirty) return {d->xLower, d->xUpper};  // what the next drawing fits
    return {d->x()->range().lower, d->x()->range().upper};
}

void Plot::zoom(double factor) {
    if (d->panels.empty()) return;
    const QCPRange range = d->x()->range();
    double centre = d->overlay->data.cursor.value_or(range.center());
    if (!range.contains(centre)) centre = range.center();
    d->fitted = false;
    d->x()->scaleRange(factor, centre);
    d->dirty = true;
    update_();
    Q_EMIT zoomedByUser();
}

}  // namespace kvloupe
