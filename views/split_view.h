// SPDX-License-Identifier: GPL-3.0-or-later
//
// Memory split: what the slots of the pool are for, step by step, stacked as shares of the pool: tokens, reserved,
// internal, external, free but cached, free. Steps narrower than a pixel share one column, which shows their mean. Where the lane is
// compared with another one: by how much each kind's share is larger (above zero) or smaller (below) than there.
#pragma once

#include "views/view.h"

#include "views/slot_difference.h"
#include "views/step_axis.h"

namespace kvloupe {

class SplitView : public View {
    Q_OBJECT

public:
    explicit SplitView(Cursor* cursor, QWidget* parent = nullptr);

    QString csv() const override;
    void paintContent(QPainter& painter, const QRectF& area) override;
    QVariant zoomState() const override { return m_steps.state(); }
    std::vector<ViewChoice> choices() const override;
    void fit() override;

    double xOfStep(double step) const { return frameFor(QRectF(rect())).axis.x(step); }
    const SlotSeries* series() const;  // of the lane in focus
    const SlotSeries* thereSeries() const;  // of the lane that it is compared with; null where no difference is shown
    // Shares here minus there of steps first .. last - 1 here and those that stand beside them; none where there are none.
    std::optional<SlotShares> differenceOf(std::size_t first, std::size_t last) const;

protected:
    int refreshInterval() const override { return 40; }
    void refresh() override;
    void refreshSelection() override { update(); }
    QString tipAt(const QPointF& position) const override;
    bool navigates() const override { return true; }
    void setZoomState(const QVariant& state) override;
    void setChoice(const QString& key, int index) override;
    void resizeEvent(QResizeEvent* event) override;
    void leaveEvent(QEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void wheelEvent(QWheelEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;

private:
    struct Frame {
        QRectF plot, labels, legend;
        StepAxis axis;
        double y(double share) const { return plot.bottom() - share * plot.height(); }
    };
    Frame frameFor(const QRectF& area) const;
    void explain();
    void zoom(double factor, double pivot, double shift);
    void followSteps();
    QStringList describe(std::size_t step) const;
    void paintStack(const Canvas& canvas, const Frame& frame) const;
    void paintScale(const Canvas& canvas, const Frame& frame) const;
    void paintCallout(const Canvas& canvas, const Frame& frame) const;
    struct DifferenceColumn {
        double left, right;  // pixels
        SlotShares shares;
    };
    std::vector<DifferenceColumn> differenceColumns(const Frame& frame) const;
    void paintDifference(const Canvas& canvas, const Frame& frame) const;
    QStringList describeDifference(std::size_t step) const;
    QString differenceCsv() const;

    SlotHistory m_history;
    SlotHistory m_thereHistory;
    bool m_showDifference = true;  // where there is something to compare with
    StepRange m_steps;
    int m_hovered = -1;  // step under the pointer
};

}  // namespace kvloupe
