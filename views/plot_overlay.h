// SPDX-License-Identifier: GPL-3.0-or-later
//
// PlotOverlay: what a Plot lays over its curves: the cursor with its flag, the faded future, labels at the curves' ends,
// levels, markers and notes. One item for all panels, on a layer of its own, so that moving the cursor redraws no curve.
#pragma once

#include "views/palette.h"
#include "views/plot_types.h"

#include "views/with_qcustomplot.h"

#include <QFont>

namespace kvloupe {

class PlotOverlay : public QCPAbstractItem {
public:
    // What the overlay needs to know of a panel.
    struct Panel {
        QCPAxisRect* rect = nullptr;
        QString caption;
    };

    explicit PlotOverlay(QCustomPlot* plot);

    PlotOverlayData data;
    std::vector<Panel> panels;     // from top to bottom
    const Palette* palette = nullptr;
    QFont body, small;             // 12 and 11 px at 100 %
    int rightMargin = 0;           // room for the labels right of the axis rect, pixels
    int leftMargin = 64;           // about what the vertical axis takes, for the width of the heads, pixels
    QString xTitle;
    double tickGap = 6;            // between axis rect and tick labels, pixels

    // Lines that caption and notes of a panel take above it in a drawing of this width, at least 0.
    int headLines(std::size_t panel, double width) const;
    // Room that the labels ask for, pixels.
    int wantedRightMargin() const;
    double selectTest(const QPointF&, bool, QVariant* = nullptr) const override { return -1; }
    // A curve's colour as text: darkened on a light panel, lightened on a dark one.
    QColor textColour(const QColor& colour) const;

protected:
    void draw(QCPPainter* painter) override;
    QRect clipRect() const override;

private:
    void drawFade(QCPPainter& painter) const;
    void drawLevels(QCPPainter& painter, std::size_t panel) const;
    bool touchesCurve(std::size_t panel, const QRectF& box) const;
    void drawLevelTexts(QCPPainter& painter, std::size_t panel) const;
    void drawMarkers(QCPPainter& painter, std::size_t panel) const;
    // Caption and notes flow from left to right above the panel; without a painter they are only counted.
    int flowHead(QCPPainter* painter, std::size_t panel, double left, double right, double bottom) const;
    void drawLabels(QCPPainter& painter, std::size_t panel) const;
    void drawCursor(QCPPainter& painter) const;
    void drawTicks(QCPPainter& painter) const;
    void drawFooter(QCPPainter& painter) const;
    QRectF flagRect() const;       // empty without a cursor in sight
    double xPixel(double x) const;
    double yPixel(std::size_t panel, double y) const;
};

}  // namespace kvloupe
