// SPDX-License-Identifier: GPL-3.0-or-later
//
// Pinned tracks: the numbers that questions gave, each against the axis of steps that the views of the tab Memory share. Where several
// rows or steps share a pixel, a bar from the least to the greatest of them stands there.
#pragma once

#include "views/view.h"

#include "views/query_tracks.h"
#include "views/step_axis.h"

namespace kvloupe {

class TracksView : public View {
    Q_OBJECT

public:
    explicit TracksView(Cursor* cursor, QWidget* parent = nullptr);

    // What is drawn; outlives the view.
    void setTracks(QueryTracks* tracks);

    QString csv() const override;
    void paintContent(QPainter& painter, const QRectF& area) override;
    QVariant zoomState() const override { return m_steps.state(); }
    void fit() override { setZoomState({}); }

    double xOfStep(double step) const { return frameFor(QRectF(rect())).axis.x(step); }
    QRectF bandOf(std::size_t track) const;      // widget coordinates
    QRectF removeButtonOf(std::size_t track) const;

protected:
    int refreshInterval() const override { return 100; }
    void refresh() override;
    void refreshSelection() override { update(); }
    QString tipAt(const QPointF& position) const override;
    bool navigates() const override { return true; }
    void setZoomState(const QVariant& state) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void wheelEvent(QWheelEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;

private:
    struct Frame {
        QRectF labels, plot;
        double band = 0;  // height of a track
        StepAxis axis;
    };
    Frame frameFor(const QRectF& area) const;
    QRectF bandIn(const Frame& frame, std::size_t track) const;
    QRectF removeIn(const Frame& frame, std::size_t track) const;
    std::size_t count() const { return m_tracks ? m_tracks->tracks().size() : 0; }
    void explain();
    void followSteps();
    void zoom(double factor, double pivot, double shift);
    void paintTrack(const Canvas& canvas, const Frame& frame, std::size_t index) const;
    void paintLabel(const Canvas& canvas, const Frame& frame, std::size_t index) const;

    QueryTracks* m_tracks = nullptr;
    StepRange m_steps;
};

}  // namespace kvloupe
