// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/tab_page.h"

#include "gui/dock_head.h"
#include "views/view_factory.h"

#include <QDockWidget>
#include <QEvent>
#include <QLayout>
#include <QTimer>

#include <algorithm>

namespace kvloupe {

TabPage::TabPage(QString name, const TabLayout& layout, Cursor* cursor, QWidget* parent)
    : QMainWindow(parent), m_name(std::move(name)), m_places(layout.places) {
    setWindowFlags(Qt::Widget);
    setDockNestingEnabled(true);
    setDockOptions(AllowNestedDocks | AllowTabbedDocks | AnimatedDocks);
    setCorner(Qt::BottomLeftCorner, layout.cornerBelongsTo);
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
        connect(dock, &QDockWidget::topLevelChanged, this, [this](bool floating) { m_own = m_own || floating; });
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
    for (std::size_t i = 0; i < m_places.size(); ++i) {
        const DockPlace& place = m_places[i];
        QDockWidget* dock = m_docks[static_cast<int>(i)];
        dock->setFloating(false);
        if (place.beside.isEmpty())
            addDockWidget(place.area, dock);
        else if (place.tabbed)
            tabifyDockWidget(dockOf(place.beside), dock);
        else
            splitDockWidget(dockOf(place.beside), dock, place.orientation);
        dock->setVisible(!place.hidden);
    }
    for (const DockPlace& place : m_places)
        if (place.tabbed) dockOf(place.beside)->raise();
    m_own = false;
    if (isVisible()) giveSizes();
}

// Sizes mean something only once the page has its own and its docks know their new fonts.
void TabPage::giveSizesSoon() {
    QTimer::singleShot(0, this, [this] {
        if (!m_own && isVisible()) giveSizes();
    });
}

void TabPage::giveSizes() {
    layout()->activate();
    QList<QDockWidget*> wide, high;
    QList<int> widths, heights;
    for (std::size_t i = 0; i < m_places.size(); ++i) {
        QDockWidget* dock = m_docks[static_cast<int>(i)];
        if (m_places[i].width > 0) {
            wide << dock;
            widths << m_places[i].width * width() / 1600;
        }
        if (m_places[i].height > 0) {
            high << dock;
            heights << m_places[i].height * height() / 900;
        }
    }
    // Heights first: a dock's width follows from the area it ends up in.
    resizeDocks(high, heights, Qt::Vertical);
    resizeDocks(wide, widths, Qt::Horizontal);
}

bool TabPage::restoreLayout(const QByteArray& state) {
    m_own = restoreState(state);
    if (m_own) m_state = state;
    return m_own;
}

QByteArray TabPage::layoutToSave() const {
    bool changed = m_own;
    for (std::size_t i = 0; i < m_places.size(); ++i) {
        const QDockWidget* dock = m_docks[static_cast<int>(i)];
        changed = changed || dock->isHidden() != m_places[i].hidden || dock->isFloating();
    }
    if (!changed) return {};
    return isVisible() || m_state.isEmpty() ? saveState() : m_state;
}

void TabPage::hideEvent(QHideEvent* event) {
    if (m_seen) m_state = saveState();
    QMainWindow::hideEvent(event);
}

void TabPage::showEvent(QShowEvent* event) {
    QMainWindow::showEvent(event);
    m_seen = true;
    giveSizesSoon();
}

void TabPage::changeEvent(QEvent* event) {
    QMainWindow::changeEvent(event);
    if (event->type() == QEvent::FontChange || event->type() == QEvent::StyleChange) giveSizesSoon();
}

void TabPage::resizeEvent(QResizeEvent* event) {
    QMainWindow::resizeEvent(event);
    if (!m_own && isVisible()) giveSizes();
}

// The main window itself takes a release that ends the move of a separator; what comes up from a view, nobody takes.
bool TabPage::event(QEvent* event) {
    const bool done = QMainWindow::event(event);
    if (event->type() == QEvent::MouseButtonRelease && event->isAccepted()) m_own = true;
    return done;
}

bool TabPage::showView(const QString& id) {
    for (std::size_t i = 0; i < m_places.size(); ++i) {
        if (m_places[i].id != id) continue;
        QDockWidget* dock = m_docks[static_cast<int>(i)];
        dock->show();
        dock->raise();
        m_views[static_cast<int>(i)]->setFocus(Qt::OtherFocusReason);
        return true;
    }
    return false;
}

void TabPage::resetLayout() {
    for (QDockWidget* dock : m_docks) removeDockWidget(dock);
    arrange();
}

TabLayout stepLayout() {
    const auto left = Qt::LeftDockWidgetArea, right = Qt::RightDockWidgetArea, bottom = Qt::BottomDockWidgetArea;
    return {{
        {"lanes", "", Qt::Vertical, left, 250, 190},
        {"requests", "lanes", Qt::Vertical, left, 250, 250},
        {"inspector", "requests", Qt::Vertical, left, 250, 380},
        {"tokens", "", Qt::Vertical, right, 880, 190},
        {"attention", "tokens", Qt::Horizontal, right, 450, 480},
        {"pool", "tokens", Qt::Vertical, right, 880, 430},
        {"next-token", "attention", Qt::Vertical, right, 450, 140},
        {"timeline", "", Qt::Vertical, bottom, 0, 130},
        {"events", "timeline", Qt::Vertical, bottom, 0, 130},
    }};
}

// Two rows of pictures, then the numbers: what each token costs and how it grows above, what it is worth below.
TabLayout compareLayout() {
    const auto left = Qt::LeftDockWidgetArea, bottom = Qt::BottomDockWidgetArea;
    return {{
        {"lanes", "", Qt::Vertical, left, 500, 300},
        {"quality", "lanes", Qt::Vertical, left, 720, 280},
        {"kv-bytes", "lanes", Qt::Horizontal, left, 550, 300},
        {"step-time", "kv-bytes", Qt::Horizontal, left, 550, 300},
        {"logits", "quality", Qt::Horizontal, left, 880, 280},
        {"comparison", "", Qt::Vertical, bottom, 0, 290},
        {"parameters", "comparison", Qt::Vertical, bottom, 0, 0, true},
        {"ledger", "comparison", Qt::Vertical, bottom, 0, 0, true},
        {"difference", "comparison", Qt::Vertical, bottom, 0, 0, true},
    }, bottom};
}

// Left, on one axis of steps: history, split and scheduler. Right: lanes and blocks at the cursor. What blocks hold is read from
// the engine, which costs memory and time, so those views are there when somebody asks for them (menu View).
TabLayout memoryLayout() {
    const auto left = Qt::LeftDockWidgetArea, right = Qt::RightDockWidgetArea;
    return {{
        {"history", "", Qt::Vertical, left, 1030, 410},
        {"split", "history", Qt::Vertical, left, 1030, 190},
        {"schedule", "split", Qt::Vertical, left, 1030, 260},
        {"window", "history", Qt::Vertical, left, 0, 0, true, true},
        {"cache-values", "history", Qt::Vertical, left, 0, 0, true, true},
        {"latent", "history", Qt::Vertical, left, 0, 0, true, true},
        {"query", "history", Qt::Vertical, left, 0, 0, true, true},
        {"tracks", "split", Qt::Vertical, left, 0, 110, false, true},
        {"allocators", "", Qt::Vertical, right, 560, 200},
        {"free-runs", "allocators", Qt::Vertical, right, 560, 170},
        {"prefix-tree", "free-runs", Qt::Vertical, right, 560, 290},
        {"genealogy", "prefix-tree", Qt::Vertical, right, 560, 200},
    }};
}

// On top one step; below it what its layers, its stages and its context say; then the numbers.
TabLayout profileLayout() {
    const auto left = Qt::LeftDockWidgetArea;
    return {{
        {"step-timeline", "", Qt::Vertical, left, 0, 230},
        {"layers", "step-timeline", Qt::Vertical, left, 530, 300},
        {"stages", "layers", Qt::Vertical, left, 0, 360},
        {"roofline", "layers", Qt::Horizontal, left, 530, 300},
        {"time-per-token", "roofline", Qt::Horizontal, left, 530, 300},
        {"sweep", "time-per-token", Qt::Horizontal, left, 0, 0, true},
    }};
}

}  // namespace kvloupe
