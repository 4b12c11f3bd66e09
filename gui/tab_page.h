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
};

class TabPage : public QMainWindow {
    Q_OBJECT

public:
    // Creates the views through the factory.
    TabPage(QString name, const std::vector<DockPlace>& places, Cursor* cursor, QWidget* parent = nullptr);

    const QString& name() const { return m_name; }
    QList<View*> views() const { return m_views; }
    QList<QDockWidget*> docks() const { return m_docks; }
    void resetLayout();

Q_SIGNALS:
    void exportRequested(View* view);
    void copyRequested(View* view);

private:
    void arrange();

    QString m_name;
    std::vector<DockPlace> m_places;
    QList<View*> m_views;
    QList<QDockWidget*> m_docks;
};

// Default layouts of the tabs this version has.
std::vector<DockPlace> stepLayout();
std::vector<DockPlace> compareLayout();
std::vector<DockPlace> profileLayout();

}  // namespace kvloupe
