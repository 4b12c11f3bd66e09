// SPDX-License-Identifier: GPL-3.0-or-later
//
// Head of a dock: title, what is shown now, and at the right export, float and close.
#pragma once

#include <QWidget>

class QDockWidget;
class QLabel;
class QToolButton;

namespace kvloupe {

class ElidedLabel;
class View;

class DockHead : public QWidget {
    Q_OBJECT

public:
    DockHead(View* view, QDockWidget* dock);

Q_SIGNALS:
    void exportRequested(View* view);
    void copyRequested(View* view);

protected:
    void paintEvent(QPaintEvent* event) override;

private:
    void updateText();
    void fillChoices();
    QToolButton* addButton(const QString& icon, const QString& tip);

    View* m_view;
    QLabel* m_title;
    ElidedLabel* m_subtitle;
    QToolButton* m_choice = nullptr;  // what the view lets one choose
};

}  // namespace kvloupe
