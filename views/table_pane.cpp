// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/table_pane.h"

#include "views/canvas.h"
#include "views/table_picture.h"

#include <QEvent>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QTableView>
#include <QVBoxLayout>

#include <algorithm>

namespace kvloupe {

TablePane::TablePane(QString id, QString title, Cursor* cursor, QWidget* parent)
    : View(std::move(id), std::move(title), cursor, parent), m_body(new QWidget(this)), m_bar(new QWidget(m_body)) {
    auto* column = new QVBoxLayout(m_body);
    column->setContentsMargins(0, 0, 0, 0);
    column->setSpacing(0);
    m_barLayout = new QHBoxLayout(m_bar);
    m_barLayout->setContentsMargins(10, 4, 10, 2);
    m_barLayout->setSpacing(6);
    m_bar->hide();
    m_table = new QTableView(m_body);
    m_table->setAccessibleName(this->title());
    m_table->viewport()->installEventFilter(this);
    m_footer = new QLabel(m_body);
    m_footer->setWordWrap(true);
    m_footer->setContentsMargins(10, 3, 10, 5);
    m_footer->hide();
    column->addWidget(m_bar);
    column->addWidget(m_table, 1);
    column->addWidget(m_footer);
    m_body->setFocusProxy(m_table);
    setEmbedded(m_body);
}

void TablePane::setModel(QAbstractItemModel* model, double rowHeight) {
    m_table->setModel(model);
    m_rowHeight = rowHeight;
}

bool TablePane::restyle() {
    if (m_look == &palette_() && m_scale == unit()) return false;
    m_look = &palette_();
    m_scale = unit();
    styleTable(m_table, palette_(), m_rowHeight, unit());
    m_bar->setFont(textFont(11));
    for (QWidget* child : m_bar->findChildren<QWidget*>(Qt::FindDirectChildrenOnly)) child->setFont(textFont(11));
    m_footer->setFont(textFont(11));
    QPalette colours = m_body->palette();
    colours.setColor(QPalette::Window, palette_().panel);
    colours.setColor(QPalette::WindowText, palette_().ink2);
    m_body->setPalette(colours);
    m_body->setAutoFillBackground(true);
    return true;
}

void TablePane::sizeColumns() {
    QHeaderView* header = m_table->horizontalHeader();
    header->setStretchLastSection(false);
    m_table->resizeColumnsToContents();
    // What is left over is shared out, so that the numbers stand below their heads across the whole width.
    int total = 0;
    const int count = header->count();
    for (int c = 0; c < count; ++c) total += header->sectionSize(c);
    const int spare = m_table->viewport()->width() - total;
    if (spare <= 0 || count == 0) return;
    for (int c = 0; c < count; ++c)
        header->resizeSection(c, header->sectionSize(c) + spare / count + (c + 1 == count ? spare % count : 0));
}

bool TablePane::eventFilter(QObject* object, QEvent* event) {
    if (object == m_table->viewport() && event->type() == QEvent::Resize) sizeColumns();
    return View::eventFilter(object, event);
}

int TablePane::columnNeeds(int column) const {
    // A delegate's hint is public through the item view only for rows; few rows, so asking each is cheap.
    int need = m_table->horizontalHeader()->sectionSizeHint(column);
    for (int row = 0; row < m_table->model()->rowCount(); ++row)
        need = std::max(need, m_table->sizeHintForIndex(m_table->model()->index(row, column)).width());
    return need;
}

void TablePane::setFooter(const QString& text) {
    m_footer->setText(text);
    m_footer->setVisible(!text.isEmpty());
}

void TablePane::showBar() { m_bar->show(); }

QString TablePane::csv() const { return tableCsv(*m_table->model()); }

void TablePane::paintContent(QPainter& painter, const QRectF& area) {
    const Canvas canvas(painter, palette_(), font(), unit());
    const double footer = m_footer->text().isEmpty() ? 0 : canvas.u(22);
    paintTable(canvas, area.adjusted(0, 0, 0, -footer), *m_table->model(), 0, m_rowHeight);
    if (footer > 0)
        canvas.text(QRectF(area.left() + canvas.u(10), area.bottom() - footer, area.width() - canvas.u(20), footer),
                    m_footer->text(), {11, QFont::Normal, palette_().ink2, false});
}

}  // namespace kvloupe
