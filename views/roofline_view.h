// SPDX-License-Identifier: GPL-3.0-or-later
//
// Roofline: FLOP per byte against FLOP/s, both logarithmic, below what the device reaches: the read bandwidth is the slope,
// the matrix rate the roof (Williams et al. 2009, see stage_bound.h). Stages of the latest decode step up to the cursor
// are filled, those of the latest step that computed prompt tokens hollow. Thin lines: the device's data sheet.
#pragma once

#include "views/view.h"

#include "views/ceilings_view.h"
#include "views/roofline_points.h"
#include "views/staged_steps.h"
#include "views/zoom_range.h"

#include <optional>

namespace kvloupe {

class Canvas;
struct GpuEntry;

struct RooflineFrame {
    QRectF plot, left, below;              // numbers stand left and below
    ZoomRange::Range x{-1, 3}, y{9, 12};   // log10 of FLOP per byte and of FLOP/s

    double toX(double log) const { return plot.left() + (log - x.first) / (x.second - x.first) * plot.width(); }
    double toY(double log) const { return plot.bottom() - (log - y.first) / (y.second - y.first) * plot.height(); }
    QPointF place(const RooflinePoint& point) const;
};

class RooflineView : public View, public CeilingsView {
    Q_OBJECT

public:
    explicit RooflineView(Cursor* cursor, QWidget* parent = nullptr);

    void setCeilings(const Ceilings& ceilings) override;

    QString csv() const override;
    void paintContent(QPainter& painter, const QRectF& area) override;
    void fit() override;
    QVariant zoomState() const override;

    const std::vector<RooflinePoint>& points() const { return m_points; }
    std::optional<int> decodeStep() const { return m_decodeStep; }
    std::optional<int> prefillStep() const { return m_prefillStep; }
    RooflineFrame frame() const { return frameFor(QRectF(rect())); }

protected:
    int refreshInterval() const override { return 40; }
    void refresh() override;
    void refreshSelection() override {}
    QString tipAt(const QPointF& position) const override;
    bool navigates() const override { return true; }
    void setZoomState(const QVariant& state) override;
    void mousePressEvent(QMouseEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mouseReleaseEvent(QMouseEvent* event) override;
    void wheelEvent(QWheelEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    void leaveEvent(QEvent* event) override;

private:
    struct Line {                          // a ceiling: FLOP/s = min(slope * FLOP per byte, roof)
        double slope = 0, roof = 0;        // 0: not known
        QString slopeName, roofName;
        bool measured = true;
    };
    RooflineFrame frameFor(const QRectF& area) const;
    void measureAxes();
    ZoomRange::Range wholeY(double plotHeight) const;
    std::vector<Line> lines() const;
    const GpuEntry* dataSheet() const;
    void zoom(double factorX, double factorY, const QPointF& pivot, const QPointF& shift);
    std::optional<std::size_t> pointUnder(const QPointF& position) const;
    QString tipOf(std::size_t point) const;
    QRectF measureLink(const Canvas& canvas, const RooflineFrame& frame) const;
    void walk(int by);

    void paintAxes(const Canvas& canvas, const RooflineFrame& frame) const;
    void paintLines(const Canvas& canvas, const RooflineFrame& frame, std::vector<QRectF>& obstacles) const;
    void paintLegend(const Canvas& canvas, const RooflineFrame& frame, std::vector<QRectF>& obstacles) const;
    QString shareText(const std::vector<std::size_t>& members) const;
    void paintPoints(const Canvas& canvas, const RooflineFrame& frame, const std::vector<QRectF>& obstacles) const;

    Ceilings m_ceilings;
    StagedSteps m_staged;
    std::optional<int> m_decodeStep, m_prefillStep;
    std::vector<RooflinePoint> m_points;   // decode first
    QStringList m_leftOut;                 // stages without FLOPs
    ZoomRange::Range m_wholeX{-1, 3}, m_wholeY{9, 12};
    double m_topRoof = 0;                  // log10 of the highest roof, 0: none
    ZoomRange m_zoomX, m_zoomY;
    std::optional<std::size_t> m_hovered;
    QRectF m_link;                         // on screen: asks for the ceilings to be measured
    QPointF m_pressed;
    bool m_dragging = false, m_moved = false;
};

}  // namespace kvloupe
