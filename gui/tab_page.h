// SPDX-License-Identifier: GPL-3.0-or-later
//
// One tab: dockable views around the one cursor. Layouts are saved per tab and can be reset.
#pragma once

#include "views/view.h"

#include <QMainWindow>

#include <vector>

class QDockWidget;

namespace kvloupe {

// Where a view stands in the default layout: after another one, split in a direction, or first in an area.
struct DockPlace {
    QString id;
    QString beside;               // "" = first of its area
    Qt::Orientation orientation = Qt::Vertical;
    Qt::DockWidgetArea area = Qt::LeftDockWidgetArea;
    int width = 0;                // preferred share, pixels at 1600 x 1000; 0 = as it comes
    int height = 0;
    bool tabbed = false;          // shares the place of the one it stands beside, behind it
    bool hidden = false;          // until somebody asks for it
};

// A tab's default layout.
struct TabLayout {
    std::vector<DockPlace> places;
    Qt::DockWidgetArea cornerBelongsTo = Qt::LeftDockWidgetArea;  // who takes the lower left corner
};

class TabPage : public QMainWindow {
    Q_OBJECT

public:
    // Creates the views through the factory.
    TabPage(QString name, const TabLayout& layout, Cursor* cursor, QWidget* parent = nullptr);

    const QString& name() const { return m_name; }
    QList<View*> views() const { return m_views; }
    QList<QDockWidget*> docks() const { return m_docks; }
    void resetLayout();
    // Shows a view that may be hidden or behind another; false if it is none of this tab's.
    bool showView(const QString& id);
    // False if the state is none of this tab's; the default layout stays.
    bool restoreLayout(const QByteArray& state);
    // Empty while the layout is the default: sizes then follow the window.
    QByteArray layoutToSave() const;

Q_SIGNALS:
    void exportRequested(View* view);
    void copyRequested(View* view);

protected:
    void showEvent(QShowEvent* event) override;
    void hideEvent(QHideEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;
    void changeEvent(QEvent* event) override;
    bool event(QEvent* event) override;

private:
    void arrange();
    void giveSizes();
    void giveSizesSoon();

    QString m_name;
    std::vector<DockPlace> m_places;
    QList<View*> m_views;
    QList<QDockWidget*> m_docks;
    QByteArray m_state;  // as last seen or restored: docks out of view have no sizes of their own
    bool m_seen = false;
    bool m_own = false;  // the user moved something, or a saved layout was restored: sizes are no longer given
};

// Default layouts of the tabs this version has.
TabLayout stepLayout();
TabLayout compareLayout();
TabLayout memoryLayout();
TabLayout profileLayout();

}  // namespace kvloupe
