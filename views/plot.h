// SPDX-License-Identifier: GPL-3.0-or-later
//
// Plot: stacked panels over one horizontal axis, in the look of the window. Solid = measured, dashed = predicted; curves
// are labelled at their end in their own colour darkened; what lies after the cursor fades to 40 %.
// Goals: appending costs the new points only; moving the cursor repaints the overlay, not the curves; the same drawing
// for screen, PNG, SVG and PDF; QCustomPlot stays inside plot*.cpp, because its header costs seconds per file.
// Rejected: a second axis for a second scale (it gets its own panel below), a legend box (labels at the curves).
#pragma once

#include "views/plot_types.h"

#include <QVariant>
#include <QWidget>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace kvloupe {

struct Palette;

class Plot : public QWidget {
    Q_OBJECT

public:
    explicit Plot(QWidget* parent = nullptr);
    ~Plot() override;

    // Forgets panels, curves and overlay.
    void clear();
    // Returns the panel's index; panels stack from top to bottom.
    int addPanel(const PlotPanel& panel);
    // Returns the curve's index.
    int addCurve(const PlotCurve& curve);
    // y may be NaN (a gap). Cost: the new points, where x ascends and does not go back behind what the curve holds.
    void append(int curve, const QVector<double>& x, const QVector<double>& y);
    // Replaces what the curve holds; x in any order.
    void replace(int curve, const QVector<double>& x, const QVector<double>& y);
    void fillBetween(int upper, int lower, const QColor& colour);
    int pointCount(int curve) const;

    void setPanelLogarithmic(int panel, bool logarithmic);
    void setPanelCaption(int panel, const QString& caption);
    // Range that fit() shows on the panel's vertical axis, where the curves alone do not say it.
    void setPanelLimits(int panel, std::optional<double> lower, std::optional<double> upper);
    void setXAxis(const QString& title, PlotNumbers numbers, bool logarithmic = false);
    // Names at 0, 1, 2 … instead of numbers.
    void setXCategories(const QStringList& names);
    // Whole horizontal range. Shown at once unless the user has zoomed.
    void setXRange(double lower, double upper);

    void setOverlay(PlotOverlayData overlay);
    const PlotOverlayData& overlay() const;
    // base: the font of 12 px titles; everything else follows from it.
    void setLook(const Palette& palette, const QFont& base);
    // Curves drawn wider; the rest stay as they are.
    void setEmphasis(const std::vector<int>& curves);

    // Value of the curve at the largest x not above `x`.
    std::optional<double> valueAt(int curve, double x) const;
    // Text beside the pointer for a horizontal position; "" shows none.
    void setTip(std::function<QString(double x)> tip);

    // Whole range in sight; follows appended data until the user zooms or pans.
    void fit();
    bool isFitted() const;
    // The ranges of all axes as the user chose them; invalid while everything is fitted.
    QVariant zoomState() const;
    void setZoomState(const QVariant& state);
    void zoom(double factor);   // about the cursor, else the middle
    std::pair<double, double> xRange() const;

    // Draws what has changed since the last time.
    void update_();
    // Draws into `area` of any painter, as vectors.
    void render(QPainter& painter, const QRectF& area);

Q_SIGNALS:
    // x: position on the horizontal axis, NaN when the pointer left; curve: nearest within 8 px, else -1.
    void hovered(double x, int curve);
    void clicked(double x, int curve);
    void zoomedByUser();  // wheel, drag or keys; also back to the whole

protected:
    void keyPressEvent(QKeyEvent* event) override;
    bool eventFilter(QObject* object, QEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;

private:
    struct Private;
    std::unique_ptr<Private> d;
};

}  // namespace kvloupe
