// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/tab_page.h"

#include "gui/dock_head.h"
#include "views/view_factory.h"

#include <QDockWidget>

namespace kvloupe {

TabPage::TabPage(QString name, const std::vector<DockPlace>& places, Cursor* cursor, QWidget* parent)
    : QMainWindow(parent), m_name(std::move(name)), m_places(places) {
    setWindowFlags(Qt::Widget);
    setDockNestingEnabled(true);
    setDockOptions(AllowNestedDocks | AllowTabbedDocks | AnimatedDocks);
    setCorner(Qt::BottomLeftCorner, Qt::LeftDockWidgetArea);
    setCorner(Qt::BottomRightCorner, Qt::BottomDockWidgetArea);
    for (const DockPlace& place : m_places) {
        auto* dock = new QDockWidget(this);
        dock->setObjectName(m_name + QLatin1Char('/') + place.id);
        View* view = createView(place.id, cursor, dock).release();
        dock->setWindowTitle(view->title());
        dock->setWidget(view);
        auto* head = new DockHead(view, dock);
        dock->setTitleBarWidget(head);
        connect(head, &DockHead::exportRequested, this, &TabPage::exportRequested);
        connect(head, &DockHead::copyRequested, this, &TabPage::copyRequested);
        m_views << view;
        m_docks << dock;
    }
    arrange();
}

void TabPage::arrange() {
    const auto dockOf = [this](const QString& id) -> QDockWidget* {
        for (std::size_t i = 0; i < m_places.size(); ++i)
            if (m_places[i].id == id) return m_docks[static_cast<int>(i)];
        return nullptr;
    };
    QList<QDockWidget*> wide, high;
    QList<int> widths, heights;
    for (std::size_t i = 0; i < m_places.size(); ++i) {
        const DockPlace& place = m_places[i];
        QDockWidget* dock = m_docks[static_cast<int>(i)];
        dock->setFloating(false);
        if (place.beside.isEmpty())
            addDockWidget(place.area, dock);
        else
            splitDockWidget(dockOf(place.beside), dock, place.orientation);
        dock->show();
        if (place.width > 0) {
            wide << dock;
            widths << place.width;
        }
        if (place.height > 0) {
            high << dock;
            heights << place.height;
        }
    }
    resizeDocks(wide, widths, Qt::Horizontal);
    resizeDocks(high, heights, Qt::Vertical);
}

void TabPage::resetLayout() {
    for (QDockWidget* dock : m_docks) removeDockWidget(dock);
    arrange();
}

std::vector<DockPlace> stepLayout() {
    const auto left = Qt::LeftDockWidgetArea, right = Qt::RightDockWidgetArea, bottom = Qt::BottomDockWidgetArea;
    return {
        {"lanes", "", Qt::Vertical, left, 250, 190},
        {"requests", "lanes", Qt::Vertical, left, 250, 250},
        {"inspector", "requests", Qt::Vertical, left, 250, 380},
        {"tokens", "", Qt::Vertical, right, 880, 190},
        {"attention", "tokens", Qt::Horizontal, right, 450, 480},
        {"pool", "tokens", Qt::Vertical, right, 880, 430},
        {"next-token", "attention", Qt::Vertical, right, 450, 140},
        {"timeline", "", Qt::Vertical, bottom, 0, 130},
        {"events", "timeline", Qt::Vertical, bottom, 0, 130},
    };
}

std::vector<DockPlace> compareLayout() {
    const auto left = Qt::LeftDockWidgetArea, bottom = Qt::BottomDockWidgetArea;
    return {
        {"kv-bytes", "", Qt::Vertical, left, 800, 330},
        {"step-time", "kv-bytes", Qt::Horizontal, left, 800, 330},
        {"logits", "kv-bytes", Qt::Vertical, left, 800, 260},
        {"sweep", "step-time", Qt::Vertical, left, 800, 260},
        {"comparison", "", Qt::Vertical, bottom, 0, 220},
    };
}

std::vector<DockPlace> profileLayout() { return {{"stages", "", Qt::Vertical, Qt::LeftDockWidgetArea, 0, 0}}; }

}  // namespace kvloupe
