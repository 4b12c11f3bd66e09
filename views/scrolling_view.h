// SPDX-License-Identifier: GPL-3.0-or-later
//
// ScrollingView: a painted view whose content may be higher than its area. It scrolls in pixels; only what is in sight
// needs to be drawn. Exports show what the screen shows.
#pragma once

#include "views/view.h"

class QScrollBar;

namespace kvloupe {

class ScrollingView : public View {
    Q_OBJECT

public:
    ScrollingView(QString id, QString title, Cursor* cursor, QWidget* parent = nullptr);

    void fit() override { setOffset(0); }

protected:
    // Height of everything, device-independent pixels; call from refresh() and when the width changes.
    void setContentHeight(double height);
    double offset() const { return m_offset; }
    void setOffset(double offset);
    void ensureVisible(double top, double bottom);
    // Width left of the scroll bar.
    double contentWidth() const;
    // Height of a strip at the bottom of the view that does not scroll.
    void setFixedStrip(double height);
    double viewportHeight() const;

    // The width changed: lay out again. Default: nothing.
    virtual void layOut() {}

    void resizeEvent(QResizeEvent* event) override;
    void wheelEvent(QWheelEvent* event) override;

private:
    void updateBar();

    QScrollBar* m_bar;
    double m_contentHeight = 0;
    double m_offset = 0;
    double m_strip = 0;
};

}  // namespace kvloupe
