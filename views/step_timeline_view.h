// SPDX-License-Identifier: GPL-3.0-or-later
//
// Step timeline: the stages of one step in the order in which they ran, in true time. Above, the whole step as a strip;
// below it the part in sight with layers, stages, their times and rates, and the rates as bars against what the memory
// reaches. Colour says which bytes a stage mostly moves; a layer that stands out is marked with its reason.
#pragma once

#include "views/view.h"

#include "views/ceilings_view.h"
#include "views/step_profile.h"

#include <optional>
#include <utility>

namespace kvloupe {

class Canvas;

// Where the parts of one drawing lie; empty ones are left out for want of room.
struct StepTimelineFrame {
    QRectF title, strip, ticks, fan, heads, boxes, bars, caption;
    double wholeNs = 1;                      // over the strip
    double beginNs = 0, endNs = 1;           // over the boxes

    double stripX(double ns) const { return strip.left() + ns / wholeNs * strip.width(); }
    double x(double ns) const { return boxes.left() + (ns - beginNs) / (endNs - beginNs) * boxes.width(); }
    double nsAt(double x) const { return beginNs + (x - boxes.left()) / boxes.width() * (endNs - beginNs); }
};

class StepTimelineView : public View, public CeilingsView {
    Q_OBJECT

public:
    explicit StepTimelineView(Cursor* cursor, QWidget* parent = nullptr);

    void setCeilings(const Ceilings& ceilings) override;

    QString csv() const override;
    void paintContent(QPainter& painter, const QRectF& area) override;
    // The whole step; once more: the layers around what stands out, as at first.
    void fit() override;
    QVariant zoomState() const override;

    const std::optional<StepProfile>& profile() const { return m_profile; }
    StepTimelineFrame frame() const { return frameFor(QRectF(rect())); }
    // Stages of the part in sight that are under 3 px: slivers, drawn as one with those of their neighbours that are too.
    std::size_t folded(const StepTimelineFrame& frame) const;
    // Factors below 1 zoom in; the time `pivotNs` stays where it is. shiftNs: to the right.
    void zoomAt(double factor, double pivotNs, double shiftNs);

protected:
    int refreshInterval() const override { return 40; }
    void refresh() override;
    void refreshSelection() override;
    QString tipAt(const QPointF& position) const override;
    bool navigates() const override { return true; }
    void setZoomState(const QVariant& state) override;
    void mousePressEvent(QMouseEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mouseReleaseEvent(QMouseEvent* event) override;
    void mouseDoubleClickEvent(QMouseEvent* event) override;  // to the step that is shown
    void wheelEvent(QWheelEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    void leaveEvent(QEvent* event) override;

private:
    // Neighbours that are drawn as one box; one stage where it is wide enough.
    struct Run {
        std::size_t begin = 0, end = 0;      // stages
        StageWork work;
        StageKind kind = StageKind::schedule; // that takes most of its time
    };
    using Units = std::pair<double, double>; // in stages: 3.5 is the middle of the fourth; steady from step to step

    StepTimelineFrame frameFor(const QRectF& area) const;
    std::vector<Run> runs(double beginNs, double endNs, double leastNs) const;
    Units automaticRange() const;
    double unitsAt(double ns) const;
    double nsOf(double units) const;
    void explain();
    std::optional<std::size_t> stageUnder(const QPointF& point) const;
    void hoverStage(std::optional<std::size_t> stage);
    void walk(int by);

    void paintTitle(const Canvas& canvas, const StepTimelineFrame& frame) const;
    void paintStrip(const Canvas& canvas, const StepTimelineFrame& frame) const;
    void paintStripLabels(const Canvas& canvas, const StepTimelineFrame& frame) const;
    void paintHeads(const Canvas& canvas, const StepTimelineFrame& frame) const;
    void paintBoxes(const Canvas& canvas, const StepTimelineFrame& frame) const;
    void paintBoxText(const Canvas& canvas, const QRectF& box, const Run& run) const;
    void paintBars(const Canvas& canvas, const StepTimelineFrame& frame) const;
    void paintBetween(const Canvas& canvas, const QRectF& box, bool named) const;

    Ceilings m_ceilings;
    std::optional<StepProfile> m_profile;
    std::optional<Units> m_range;            // as chosen; none: the automatic one
    int m_centre = -1;                       // layer in the middle of the automatic range
    std::optional<std::size_t> m_stage;      // under the pointer or the keyboard
    QPointF m_pressed;
    bool m_dragging = false, m_moved = false, m_onStrip = false;
};

}  // namespace kvloupe
