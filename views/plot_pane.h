// SPDX-License-Identifier: GPL-3.0-or-later
//
// PlotPane: a View whose picture is a Plot, with a row of switches above it. It rebuilds the plot when the recording or
// the theme changes, appends when steps were added, and moves the overlay when only the cursor or the lock did.
#pragma once

#include "views/lane_progress.h"
#include "views/plot.h"
#include "views/view.h"

class QComboBox;
class QHBoxLayout;
class QToolButton;

namespace kvloupe {

class PlotPane : public View {
    Q_OBJECT

public:
    PlotPane(QString id, QString title, Cursor* cursor, QWidget* parent);

    void paintContent(QPainter& painter, const QRectF& area) override;
    void fit() override;
    QVariant zoomState() const override { return m_plot->zoomState(); }

    Plot* plot() const { return m_plot; }

protected:
    // Panels and curves for cursor()->recording(); data come with appendSteps().
    virtual void build() = 0;
    // Steps recorded since the last call.
    virtual void appendSteps() = 0;
    // Overlay and subtitle for the cursor's step.
    virtual void showCursor() = 0;
    // Lines for the pointer's tip at a step.
    virtual QString tipAtStep(int step) const = 0;
    // Lane that a curve belongs to, or none.
    virtual LaneId laneOfCurve(int curve) const = 0;
    // Horizontal position -> step; by default the axis counts steps.
    virtual int stepAt(double x) const;
    // Sentence instead of the picture, "" when there is something to show.
    virtual QString emptySentence_() const;

    void setZoomState(const QVariant& state) override { m_plot->setZoomState(state); }
    void refresh() override;
    void refreshSelection() override;
    // Something that the curves depend on was switched: builds anew.
    void rebuild();
    void rebuildNext() { m_look = nullptr; }  // with the next refresh()

    QColor laneColour(LaneId lane) const;
    QString laneName(LaneId lane) const;
    std::size_t laneCount() const;
    // The lane ended before the cursor's step: what is said of it is of its last step.
    bool isPast(LaneId lane) const;
    // " at step 84" of a lane that is past, else "".
    QString pastText(LaneId lane) const;
    // Of labels: the lane's, or grey where it is past.
    QColor labelColour(LaneId lane) const { return isPast(lane) ? palette_().ink3 : laneColour(lane); }
    // Whole axis for `count` steps; grows in strides, so that the picture does not creep with every step.
    static double niceUpper(double count);
    // Cursor line and flag for the step axis.
    PlotOverlayData overlayAtCursor() const;

    // A switch of two or more states, reachable by Tab; its text is the accessible name.
    QComboBox* addChoice(const QString& name, const QStringList& entries);
    QToolButton* addToggle(const QString& text, const QString& tip);
    // Incremental sums per lane.
    std::vector<LaneProgress> m_progress;

private:
    void styleControls();

    QWidget* m_body;
    QWidget* m_bar;
    QHBoxLayout* m_barLayout;
    Plot* m_plot;
    std::shared_ptr<const Recording> m_seen;
    const Palette* m_look = nullptr;
    double m_scale = 0;
    QFont m_font;
};

}  // namespace kvloupe
