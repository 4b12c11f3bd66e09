// SPDX-License-Identifier: GPL-3.0-or-later
//
// Events: the log of the lane in focus, every line with its cause as a sentence; what lies after the cursor is faded. A
// filter line with chips and a menu, and jumps from one event of a kind to the next.
#pragma once

#include "views/view.h"

#include "views/events_model.h"

#include <vector>

class QHBoxLayout;
class QLineEdit;
class QTableView;
class QToolButton;

namespace kvloupe {

class EventsView : public View {
    Q_OBJECT

public:
    explicit EventsView(Cursor* cursor, QWidget* parent = nullptr);

    QString csv() const override;
    void paintContent(QPainter& painter, const QRectF& area) override;
    EventsModel& model() { return *m_model; }
    void setFilterText(const QString& text);
    // To the next (1) or previous (-1) event of the kinds that the filter names, else of the kind of the locked event,
    // else to any: the cursor goes to its step and it is locked. False where there is none.
    bool jump(int direction);
    QVariant zoomState() const override;

protected:
    int refreshInterval() const override { return 60; }
    void settle() override;
    void refresh() override;
    void refreshSelection() override;
    bool eventFilter(QObject* watched, QEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;

private:
    void applyFilter(const QString& text);
    void setZoomState(const QVariant& state) override;
    void updateChips();
    void buildMenu();
    void toggleWord(const QString& word, bool on);
    void scrollToCursor();
    void explain();
    Pick pickOf(int row) const;

    EventsModel* m_model;
    QWidget* m_body;
    QLineEdit* m_line;
    QHBoxLayout* m_top;
    QTableView* m_table;
    QToolButton *m_menu, *m_previous, *m_next;
    std::vector<std::pair<EventKind, QToolButton*>> m_chips;
    double m_styledScale = 0;
    bool m_styledDark = false;
};

}  // namespace kvloupe
