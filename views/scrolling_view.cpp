// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/scrolling_view.h"

#include <QResizeEvent>
#include <QScrollBar>
#include <QSignalBlocker>
#include <QWheelEvent>

#include <algorithm>
#include <cmath>

namespace kvloupe {

namespace {

constexpr int bar_width = 10;

}  // namespace

ScrollingView::ScrollingView(QString id, QString title, Cursor* cursor, QWidget* parent)
    : View(std::move(id), std::move(title), cursor, parent), m_bar(new QScrollBar(Qt::Vertical, this)) {
    m_bar->hide();
    m_bar->setFocusPolicy(Qt::NoFocus);
    m_bar->setAccessibleName(tr("Scroll %1").arg(this->title()));
    connect(m_bar, &QScrollBar::valueChanged, this, [this](int value) {
        m_offset = value;
        update();
    });
}

double ScrollingView::viewportHeight() const { return std::max(0.0, height() - m_strip); }

double ScrollingView::contentWidth() const { return m_bar->isHidden() ? width() : width() - bar_width; }

void ScrollingView::setContentHeight(double height) {
    m_contentHeight = height;
    updateBar();
}

void ScrollingView::setFixedStrip(double height) {
    m_strip = height;
    updateBar();
}

void ScrollingView::setOffset(double offset) {
    m_offset = std::clamp(offset, 0.0, std::max(0.0, m_contentHeight - viewportHeight()));
    const QSignalBlocker blocker(m_bar);
    m_bar->setValue(static_cast<int>(std::lround(m_offset)));
    update();
}

void ScrollingView::ensureVisible(double top, double bottom) {
    if (bottom > m_offset + viewportHeight())
        setOffset(bottom - viewportHeight());
    else if (top < m_offset)
        setOffset(top);
}

void ScrollingView::updateBar() {
    const double extra = m_contentHeight - viewportHeight();
    const bool needed = extra > 0.5 && !isEmptyShown();
    m_bar->setVisible(needed);
    m_bar->setGeometry(width() - bar_width, 0, bar_width, static_cast<int>(viewportHeight()));
    {
        const QSignalBlocker blocker(m_bar);
        m_bar->setRange(0, std::max(0, static_cast<int>(std::ceil(extra))));
        m_bar->setPageStep(std::max(1, static_cast<int>(viewportHeight())));
        m_bar->setSingleStep(24);
    }
    setOffset(m_offset);
}

void ScrollingView::resizeEvent(QResizeEvent* event) {
    View::resizeEvent(event);
    layOut();
    updateBar();
}

void ScrollingView::wheelEvent(QWheelEvent* event) {
    const double before = m_offset;
    const QPoint pixels = event->pixelDelta();
    setOffset(m_offset - (pixels.isNull() ? event->angleDelta().y() / 2.0 : pixels.y()));
    if (m_offset == before)
        event->ignore();
    else
        event->accept();
}

}  // namespace kvloupe
