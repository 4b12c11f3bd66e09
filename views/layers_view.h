// SPDX-License-Identifier: GPL-3.0-or-later
//
// Layers: the stages of each layer of one step as bars that begin at the same place, so that layers compare at a glance;
// the time of each at the right. What stands out is marked, with the rule in its tip.
#pragma once

#include "views/view.h"

#include "views/ceilings_view.h"
#include "views/step_profile.h"
#include "views/zoom_range.h"

#include <optional>

namespace kvloupe {

class Canvas;

struct LayersFrame {
    QRectF axis, labels, rows, times, caption;
    double beginNs = 0, endNs = 1;      // over the rows
    double rowHeight = 1;
    std::size_t perRow = 1;             // layers that share a row: the slowest of them is drawn

    double x(double ns) const { return rows.left() + (ns - beginNs) / (endNs - beginNs) * rows.width(); }
    double nsAt(double x) const { return beginNs + (x - rows.left()) / rows.width() * (endNs - beginNs); }
};

class LayersView : public View, public CeilingsView {
    Q_OBJECT

public:
    explicit LayersView(Cursor* cursor, QWidget* parent = nullptr);

    void setCeilings(const Ceilings& ceilings) override;

    QString csv() const override;
    void paintContent(QPainter& painter, const QRectF& area) override;
    void fit() override;
    QVariant zoomState() const override { return m_zoom.state(); }

    const std::optional<StepProfile>& profile() const { return m_profile; }
    LayersFrame frame() const { return frameFor(QRectF(rect())); }
    // Of the layer with that place in the profile; the row of its neighbours where rows are folded.
    QRectF rowRect(const LayersFrame& frame, std::size_t layer) const;

protected:
    int refreshInterval() const override { return 40; }
    void refresh() override;
    void refreshSelection() override { update(); }
    QString tipAt(const QPointF& position) const override;
    bool navigates() const override { return true; }
    void setZoomState(const QVariant& state) override;
    void mousePressEvent(QMouseEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mouseReleaseEvent(QMouseEvent* event) override;
    void wheelEvent(QWheelEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;

private:
    LayersFrame frameFor(const QRectF& area) const;
    ZoomRange::Range wholeNs() const;   // of the slowest layer
    void zoom(double factor, double pivotNs, double shiftNs);
    std::optional<std::size_t> layerUnder(const QPointF& point) const;
    std::optional<std::size_t> placeOf(std::uint32_t layer) const;
    std::size_t slowest(std::size_t first, std::size_t count) const;
    Pick pickOf(std::size_t layer) const;
    void walk(int by);
    void paintAxis(const Canvas& canvas, const LayersFrame& frame) const;
    void paintRow(const Canvas& canvas, const LayersFrame& frame, std::size_t layer, const QRectF& row) const;

    Ceilings m_ceilings;
    std::optional<StepProfile> m_profile;
    ZoomRange m_zoom;                   // nanoseconds since the layer began
    QPointF m_pressed;
    bool m_dragging = false, m_moved = false;
};

}  // namespace kvloupe
