// SPDX-License-Identifier: GPL-3.0-or-later
//
// Scheduler: a row per sequence over the steps: waiting, computing its prompt, decoding, preempted, swapped out, with the
// marks of forks, copies, prefix hits and preemptions; below it on the same axis what a step used of its token budget and
// of the batch, and how many wait. The wheel zooms the steps, with Ctrl the rows; F shows everything.
#pragma once

#include "views/view.h"

#include "views/growing_data.h"
#include "views/schedule_data.h"
#include "views/step_axis.h"

#include <QImage>

namespace kvloupe {

class ScheduleView : public View {
    Q_OBJECT

public:
    explicit ScheduleView(Cursor* cursor, QWidget* parent = nullptr);

    QString csv() const override;
    void paintContent(QPainter& painter, const QRectF& area) override;
    QVariant zoomState() const override;
    void fit() override;

    // For tests and tips, in widget coordinates.
    std::pair<double, double> range() const { return m_range.of(cursor()->stepCount()); }
    double xOfStep(double step) const;
    QRectF rowRect(SequenceId sequence) const;   // empty where it is out of sight
    const ScheduleData& data() const { return *m_log; }

protected:
    int refreshInterval() const override { return 40; }
    void refresh() override;
    void settle() override { m_log.settle(); }
    void refreshSelection() override { update(); }
    QString tipAt(const QPointF& position) const override;
    bool navigates() const override { return true; }
    void setZoomState(const QVariant& state) override;
    void resizeEvent(QResizeEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void mouseDoubleClickEvent(QMouseEvent* event) override;
    void wheelEvent(QWheelEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;

private:
    enum class Band { tokens, running, waiting };
    struct Layout {
        QRectF rows;                 // of the sequences; the bands lie below, the ticks at the bottom
        std::vector<std::pair<Band, QRectF>> bands;
        StepAxis axis;
        double labels = 0;           // room for names at the left
        double legend = 0;           // height of the legend above the rows
        double pitch = 0;            // height of a row
        double first = 0;            // row at the top
        double shown = 1;            // rows in sight
        bool folded() const { return pitch < 3; }
    };
    struct Run {                     // of one row, x in pixels
        double left = 0, right = 0;
        ScheduleData::Phase phase = ScheduleData::Phase::waiting;
    };
    Layout layoutFor(const QRectF& area) const;
    void explain();
    void shareSteps();
    void followSteps();
    std::optional<SequenceId> sequenceAt(const Layout& layout, const QPointF& point) const;
    const ScheduleData::Mark* markAt(const Layout& layout, SequenceId sequence, const QPointF& point) const;
    Pick pickAt(const QPointF& point) const;
    void showRow(int row);
    void choose(const Pick& pick);
    QString describe(SequenceId sequence, std::uint32_t step) const;
    QString phaseName(ScheduleData::Phase phase) const;
    void runsOf(const StepAxis& axis, const ScheduleData::Row& row, std::vector<Run>& runs) const;

    void paintNames(const Canvas& canvas, const Layout& layout) const;
    void paintRow(const Canvas& canvas, const Layout& layout, SequenceId sequence) const;
    void paintRun(const Canvas& canvas, const Layout& layout, const QRectF& row, const Run& run, unsigned owner) const;
    void paintMarks(const Canvas& canvas, const Layout& layout, SequenceId sequence) const;
    void paintChunks(const Canvas& canvas, const Layout& layout) const;
    void paintFolded(const Canvas& canvas, const Layout& layout) const;
    QImage foldedImage(const Canvas& canvas, const Layout& layout, const QSize& size) const;
    void paintBand(const Canvas& canvas, const Layout& layout, Band band, const QRectF& area) const;
    void paintLegend(const Canvas& canvas, const Layout& layout, const QRectF& area) const;

    GrowingData<ScheduleData> m_log;
    struct Ordered {                   // what m_order was made from
        const Recording* recording = nullptr;
        LaneId lane;
        std::uint32_t steps = 0;
        bool operator==(const Ordered&) const = default;
    };
    Ordered m_ordered;
    StepRange m_range;
    std::vector<SequenceId> m_order;   // rows from the top
    std::vector<std::uint32_t> m_rowOf;  // index: sequence
    bool m_rowsZoomed = false;
    double m_firstRow = 0, m_shownRows = 1;  // where zoomed
    int m_current = -1;                // row reached by the keys
    // The image of folded rows, kept until something that it shows changes.
    struct Folded {
        const Recording* recording = nullptr;
        LaneId lane;
        std::uint32_t steps = 0;
        QRectF area;                   // steps and rows in sight
        QSize size;
        bool dark = false;
        bool operator==(const Folded&) const = default;
    };
    mutable Folded m_foldedKey;
    mutable QImage m_folded;
};

}  // namespace kvloupe
