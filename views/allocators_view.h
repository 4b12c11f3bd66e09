// SPDX-License-Identifier: GPL-3.0-or-later
//
// Allocators: the lanes of the recording side by side on the same requests. For each: what its slots are for at the cursor
// and, below, on average so far; what is wasted by the contract's formula; how many requests ran at most, wait now and
// were rejected.
#pragma once

#include "views/scrolling_view.h"

#include "views/slot_series.h"

namespace kvloupe {

class Canvas;

class AllocatorsView : public ScrollingView {
    Q_OBJECT

public:
    explicit AllocatorsView(Cursor* cursor, QWidget* parent = nullptr);

    QString csv() const override;
    void paintContent(QPainter& painter, const QRectF& area) override;

    // Of one lane up to the cursor.
    struct Row {
        LaneId lane;
        int step = -1;                       // the lane's own, for the cursor
        SlotCounts now;
        std::array<double, slot_kind_count> mean{};  // shares of the pool
        std::optional<double> wasted;        // mean by the contract's formula
        bool predicted = false;              // reserved slots are not recounted yet
        std::uint32_t running = 0, peakRunning = 0, waiting = 0, rejected = 0;
        bool ended = false;                  // the lane has no step at the cursor any more
    };
    const std::vector<Row>& rows() const { return m_rows; }
    QRectF rowRect(std::size_t index) const;  // on screen

protected:
    int refreshInterval() const override { return 60; }
    void refresh() override;
    void refreshSelection() override { update(); }
    QString tipAt(const QPointF& position) const override;
    bool navigates() const override { return true; }
    void layOut() override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;

private:
    struct Columns {
        bool wide = true;
        double head = 0, row = 0;   // heights
        double name = 0, figures = 0;
    };
    Columns columnsFor(double width) const;
    void gather();
    QString nameOf(LaneId lane) const;
    QString policyOf(LaneId lane) const;
    QString requestsOf(const Row& row) const;
    int rowAt(const QPointF& point) const;
    void paintHead(const Canvas& canvas, const QRectF& area, const Columns& columns) const;
    void paintRow(const Canvas& canvas, const QRectF& area, const Columns& columns, const Row& row) const;
    void paintBar(const Canvas& canvas, const QRectF& area, const std::array<double, slot_kind_count>& shares, bool labels) const;
    std::uint64_t poolOf(LaneId lane) const { return m_history.lane(lane).pool(); }

    SlotHistory m_history;
    std::vector<Row> m_rows;
};

}  // namespace kvloupe
