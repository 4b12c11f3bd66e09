// SPDX-License-Identifier: GPL-3.0-or-later
//
// TablePane: a View whose picture is a table, with switches above and a line of text below; the export draws the same.
#pragma once

#include "views/view.h"

#include <vector>

class QAbstractItemModel;
class QHBoxLayout;
class QLabel;
class QTableView;

namespace kvloupe {

class TablePane : public View {
    Q_OBJECT

public:
    TablePane(QString id, QString title, Cursor* cursor, QWidget* parent);

    QString csv() const override;
    void paintContent(QPainter& painter, const QRectF& area) override;
    QTableView* table() const { return m_table; }

protected:
    // Heights of rows at 100 %; where all rows do not fit, they shrink to the least one. Call once.
    void setModel(QAbstractItemModel* model, double rowHeight, double leastRowHeight);
    void setModel(QAbstractItemModel* model, double rowHeight) { setModel(model, rowHeight, rowHeight); }
    // Look of the table for theme and font scale; call from refresh(). Returns true when it changed.
    bool restyle();
    // Column widths from their contents.
    void sizeColumns();
    // Columns in the order of their weight: in a narrow view the last of them are left out, and the footer says so. By
    // default as they stand.
    virtual std::vector<int> columnsByWeight() const;
    // Width that head and cells of a column ask for.
    int columnNeeds(int column) const;
    void setFooter(const QString& text);
    void showFooter();
    // The line below gives way where it would push a row of a table that shrinks out of sight.
    bool footerHasRoom() const;
    int columnsLeftOut() const { return m_leftOut; }
    QHBoxLayout* bar() const { return m_barLayout; }
    void showBar();
    bool eventFilter(QObject* object, QEvent* event) override;  // the table's room changed

private:
    void sizeRows();

    QWidget* m_body;
    QWidget* m_bar;
    QHBoxLayout* m_barLayout;
    QTableView* m_table;
    QLabel* m_footer;
    QString m_footerText;
    int m_leftOut = 0;
    double m_rowHeight = 24, m_leastRowHeight = 24;
    const Palette* m_look = nullptr;
    double m_scale = 0;
};

}  // namespace kvloupe
