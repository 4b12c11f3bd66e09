// SPDX-License-Identifier: GPL-3.0-or-later
//
// StepScrubber: a slim slider over all steps of the recording: drag, wheel and keys move the cursor. Above its groove stand the
// copies, evictions and preemptions of the lane in focus, one row each, folded where several steps share a pixel.
#pragma once

#include "views/cursor.h"
#include "views/step_marks.h"

#include <QAbstractSlider>

#include <vector>

namespace kvloupe {

class StepScrubber : public QAbstractSlider {
    Q_OBJECT

public:
    // mostMarked: events of a lane up to which its steps are marked; beyond, it says that they are not.
    explicit StepScrubber(Cursor* cursor, QWidget* parent = nullptr, std::uint64_t mostMarked = StepMarks::most_events);

    // Goes to the next step with a copy, an eviction or a preemption; false where there is none.
    bool jump(bool forwards);
    const StepMarks& marks() const { return m_marks; }
    double xOfStep(double step) const;      // widget coordinates
    int stepAt(double x) const;
    QString tipFor(double x) const;

    QSize sizeHint() const override;
    QSize minimumSizeHint() const override { return {120, sizeHint().height()}; }

protected:
    bool event(QEvent* event) override;
    void paintEvent(QPaintEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mouseReleaseEvent(QMouseEvent* event) override;
    void wheelEvent(QWheelEvent* event) override;

private:
    struct Pixel {
        bool copies = false, evictions = false, preemptions = false;
    };
    void refresh();
    void followMarks();
    double unit() const { return m_cursor->fontScale(); }
    QRectF groove() const;
    double perStep() const;
    const std::vector<Pixel>& folded();
    QString whyNoMarks() const;  // "" where there are
    void paintMarks(QPainter& painter, const class Canvas& canvas);

    Cursor* m_cursor;
    StepMarks m_marks;
    std::vector<Pixel> m_folded;        // (pixels of the groove)
    std::size_t m_foldedSteps = 0;
    int m_foldedRange = 0;
    int m_wheel = 0;                    // eighths of a degree not used yet
};

}  // namespace kvloupe
