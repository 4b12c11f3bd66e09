// SPDX-License-Identifier: GPL-3.0-or-later
//
// Free runs: a histogram of the runs of adjacent free blocks at the cursor, runs with cached content apart; how many blocks
// are free, and what a contiguous allocator could not use of them.
#pragma once

#include "views/view.h"

#include "views/free_runs.h"

namespace kvloupe {

class Canvas;

class FreeRunsView : public View {
    Q_OBJECT

public:
    explicit FreeRunsView(Cursor* cursor, QWidget* parent = nullptr);

    QString csv() const override;
    void paintContent(QPainter& painter, const QRectF& area) override;
    const FreeRuns& runs() const { return m_runs; }
    QRectF barRect(std::size_t index) const;  // on screen

protected:
    int refreshInterval() const override { return 60; }
    void refresh() override;
    void refreshSelection() override { update(); }
    QString tipAt(const QPointF& position) const override;
    bool navigates() const override { return true; }
    void mouseMoveEvent(QMouseEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;

private:
    struct Frame {
        QRectF chart, figures;      // empty figures: not shown
        double labels = 0;
        std::vector<RunBar> bars;
        std::uint32_t most = 1;     // runs of the highest bar
        double pitch = 0;
        QRectF column(std::size_t index) const;
        QRectF bar(std::size_t index) const;
    };
    Frame frameFor(const QRectF& area) const;
    int barAt(const QPointF& point) const;
    Pick pickOf(const RunBar& bar) const;
    bool means(const Pick& pick, const RunBar& bar) const;
    QString lengths(const RunBar& bar) const;
    void paintAxes(const Canvas& canvas, const Frame& frame) const;
    void paintBars(const Canvas& canvas, const Frame& frame) const;
    void paintFigures(const Canvas& canvas, const QRectF& area) const;

    FreeRuns m_runs;
};

}  // namespace kvloupe
