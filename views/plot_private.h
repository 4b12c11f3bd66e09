// SPDX-License-Identifier: GPL-3.0-or-later
//
// The inside of a Plot, shared by plot.cpp (what callers say), plot_layout.cpp (look, ranges, drawing) and plot_input.cpp
// (mouse and keys).
#pragma once

#include "views/palette.h"
#include "views/plot.h"
#include "views/plot_axis.h"
#include "views/plot_overlay.h"

#include <QTimer>

#include <cmath>
#include <limits>

namespace kvloupe {

struct PlotCurveState {
    PlotCurve style;
    QCPGraph* graph = nullptr;
    QCPBars* bars = nullptr;
    double least = std::numeric_limits<double>::infinity();          // over finite values
    double leastPositive = std::numeric_limits<double>::infinity();  // for a logarithmic axis
    double greatest = -std::numeric_limits<double>::infinity();

    void see(const QVector<double>& y) {
        for (const double v : y) {
            if (!std::isfinite(v)) continue;
            least = std::min(least, v);
            greatest = std::max(greatest, v);
            if (v > 0) leastPositive = std::min(leastPositive, v);
        }
    }
};

struct PlotPanelState {
    PlotPanel style;
    QCPAxisRect* rect = nullptr;
    std::optional<double> lower, upper;
};


struct Plot::Private {
    QCustomPlot* plot = nullptr;
    QCPMarginGroup* margins = nullptr;
    PlotOverlay* overlay = nullptr;
    QCPLayer* overlayLayer = nullptr;
    std::vector<PlotPanelState> panels;
    std::vector<PlotCurveState> curves;
    std::vector<int> emphasis;
    QString xTitle;
    PlotNumbers xNumbers = PlotNumbers::count;
    bool xLogarithmic = false;
    QStringList xCategories;
    double xLower = 0, xUpper = 1;
    bool fitted = true, dirty = true, linking = false;
    const Palette* palette = &Palette::light();
    QFont base;
    std::function<QString(double)> tip;
    QTimer tipTimer;
    QPoint pressed, pointer;
    bool moved = false;

    QFont scaledFont(double pixels) const {
        QFont font = base;
        const int own = base.pixelSize() > 0 ? base.pixelSize() : QFontInfo(base).pixelSize();
        font.setPixelSize(std::max(7, qRound(own * pixels / 12)));
        return font;
    }
    QCPAxis* x(std::size_t panel = 0) const { return panels[panel].rect->axis(QCPAxis::atBottom); }
    QCPAxis* y(std::size_t panel) const { return panels[panel].rect->axis(QCPAxis::atLeft); }

    void styleAxes();
    void styleCurve(std::size_t index);
    void placeMargins(int width, int height);
    void fitPanel(std::size_t index);
    void fitAll();
    int curveAt(const QPointF& position) const;
    double xAt(const QPointF& position) const { return x()->pixelToCoord(position.x()); }
};

}  // namespace kvloupe
