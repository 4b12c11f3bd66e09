// SPDX-License-Identifier: GPL-3.0-or-later
//
// Timeline: all steps of the lane in focus: prefill tokens, a line per decoding request, event marks, and the cursor,
// which a click or a drag moves. What lies after the cursor is faded. The wheel zooms, F shows everything.
#pragma once

#include "views/view.h"

#include "views/growing_data.h"
#include "views/timeline_data.h"

namespace kvloupe {

class Canvas;

class TimelineView : public View {
    Q_OBJECT

public:
    explicit TimelineView(Cursor* cursor, QWidget* parent = nullptr);

    QString csv() const override;
    void paintContent(QPainter& painter, const QRectF& area) override;
    QVariant zoomState() const override;
    void fit() override;

    // Steps in sight: [first, second).
    std::pair<double, double> range() const;
    double xOfStep(double step) const;  // widget coordinates

protected:
    int refreshInterval() const override { return 40; }
    void refresh() override;
    void refreshSelection() override { update(); }
    QString tipAt(const QPointF& position) const override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void wheelEvent(QWheelEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;

private:
    struct Bands {
        QRectF plot, prefill, decode, marks, axis;
        double labels = 0;
        double begin = 0, perStep = 1;  // x = plot.left() + (step - begin) * perStep
        double x(double step) const { return plot.left() + (step - begin) * perStep; }
    };
    Bands bandsFor(const QRectF& area) const;
    int stepAt(const QPointF& point) const;
    void paintPrefill(const Canvas& canvas, const Bands& bands) const;
    void paintDecode(const Canvas& canvas, const Bands& bands) const;
    void paintMarks(const Canvas& canvas, const Bands& bands);
    // Prefill, decode and marks: what no move of the cursor changes; on screen painted once and kept.
    void paintRun(const Canvas& canvas, const Bands& bands, const QRectF& area);
    void paintMarksOfStep(const Canvas& canvas, const Bands& bands) const;
    void paintAxis(const Canvas& canvas, const Bands& bands) const;
    void paintLegend(const Canvas& canvas, const Bands& bands) const;
    void paintCursor(const Canvas& canvas, const Bands& bands) const;

    void readOn();

    struct ShownMark {
        double x = 0;
        TimelineData::Mark mark;
    };
    // What a kept picture is of.
    struct Kept {
        const Recording* recording = nullptr;
        LaneId lane;
        std::uint32_t steps = 0, prefill = 0;
        QSize pixels;
        std::pair<double, double> range;
        double unit = 1;
        bool dark = false;
        SequenceId sequence;
        std::optional<std::uint64_t> event;
        bool operator==(const Kept&) const = default;
    };
    QPixmap m_run;
    Kept m_kept;                         // what m_run is of
    std::vector<ShownMark> m_marks;      // as painted last
    std::uint32_t m_packedSteps = 0;     // of which m_rows is
    GrowingData<TimelineData> m_data;
    std::vector<std::uint32_t> m_rows;  // of each sequence
    std::uint32_t m_rowCount = 0;
    void setZoomState(const QVariant& state) override;

    bool m_zoomed = false;
    double m_begin = 0, m_end = 1;      // where zoomed
};

}  // namespace kvloupe
