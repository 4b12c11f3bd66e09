// SPDX-License-Identifier: GPL-3.0-or-later
//
// StepAxis: the axis of steps that stacked views share: ticks, the cursor's line with its flag, the veil over what lies
// after it, and the part of it that is in sight. Views that stand below one another leave the same room at the left.
#pragma once

#include "views/canvas.h"

#include <QVariant>

#include <utility>

class QWheelEvent;

namespace kvloupe {

// Steps in sight; the whole recording unless the user zoomed.
class StepRange {
public:
    static constexpr double fewest_steps = 24;  // never fewer in all, so that a new session does not jump with each step
    static constexpr double least_width = 8;    // closest zoom

    std::pair<double, double> of(int stepCount) const;  // [first, second)
    bool zoomed() const { return m_zoomed; }
    void fit() { m_zoomed = false; }
    // Factor < 1 zooms in; `pivot` (a step) stays where it is. `shift`: steps to the right.
    void zoom(double factor, double pivot, double shift, int stepCount);
    // For the zoom stack: invalid is the whole.
    QVariant state() const;
    void setState(const QVariant& state);

private:
    bool m_zoomed = false;
    double m_begin = 0, m_end = 1;
};

struct StepAxis {
    static constexpr double height = 18;        // of the tick labels, pixels at 100 %

    QRectF plot;                                // what is drawn against steps
    QRectF ticks;                               // below it
    double begin = 0, end = 1, perStep = 1;

    static QString axisTitle();  // "step"
    static StepAxis over(const QRectF& plot, const QRectF& ticks, const std::pair<double, double>& range);

    // 1, 2 or 5 times a power of ten, so that about `most` ticks at most stand over so many steps.
    static double stepsPerTick(double steps, double most);

    double x(double step) const { return plot.left() + (step - begin) * perStep; }
    double stepAt(double x) const { return begin + (x - plot.left()) / perStep; }

    // cursor: its flag covers the label that would stand below it; -1 for none. "step" stands left of them where there is room for
    // it: views with this axis leave at least 44 pixels (at 100 %) there.
    void paintTicks(const Canvas& canvas, int cursor = -1) const;
    // What lies after the cursor fades to 40 %: the panel lies over it at 60 %.
    void paintFuture(const Canvas& canvas, int step, const QRectF& area) const;
    // Line from the top of the plot and flag with the number; nothing where the step is out of sight.
    void paintCursor(const Canvas& canvas, int step) const;
};

}  // namespace kvloupe
