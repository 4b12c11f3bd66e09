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
#include <cmath>
#include <numeric>

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
    m_footer->setObjectName(QStringLiteral("footer"));
    m_footer->setWordWrap(true);
    m_footer->setContentsMargins(10, 3, 10, 5);
    m_footer->hide();
    column->addWidget(m_bar);
    column->addWidget(m_table, 1);
    column->addWidget(m_footer);
    m_body->setFocusProxy(m_table);
    setEmbedded(m_body);
}

void TablePane::setModel(QAbstractItemModel* model, double rowHeight, double leastRowHeight) {
    m_table->setModel(model);
    m_leastRowHeight = leastRowHeight;
    if (leastRowHeight < rowHeight) {
        connect(model, &QAbstractItemModel::modelReset, this, &TablePane::sizeRows);
        connect(model, &QAbstractItemModel::rowsInserted, this, &TablePane::sizeRows);
        connect(model, &QAbstractItemModel::rowsRemoved, this, &TablePane::sizeRows);
    }
    m_table->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    m_rowHeight = rowHeight;
}

bool TablePane::restyle() {
    if (m_look == &palette_() && m_scale == unit()) return false;
    m_look = &palette_();
    m_scale = unit();
    styleTable(m_table, palette_(), m_rowHeight, unit());
    sizeRows();
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

void TablePane::sizeRows() {
    const int rows = m_table->model() ? m_table->model()->rowCount() : 0;
    if (rows == 0 || m_leastRowHeight >= m_rowHeight) return;
    const double fitting = std::clamp(m_table->viewport()->height() / unit() / rows, m_leastRowHeight, m_rowHeight);
    const int height = static_cast<int>(fitting * unit());
    if (m_table->verticalHeader()->defaultSectionSize() != height) m_table->verticalHeader()->setDefaultSectionSize(height);
}

bool TablePane::footerHasRoom() const {
    const int rows = m_table->model() ? m_table->model()->rowCount() : 0;
    if (rows == 0 || m_leastRowHeight >= m_rowHeight) return true;
    const double room = m_body->height() - m_table->horizontalHeader()->height(), least = rows * std::floor(m_leastRowHeight * unit());
    return room - m_footer->heightForWidth(m_body->width()) >= least || room < least;
}

std::vector<int> TablePane::columnsByWeight() const {
    std::vector<int> columns(static_cast<std::size_t>(m_table->model()->columnCount()));
    std::iota(columns.begin(), columns.end(), 0);
    return columns;
}

// A table never scrolls sideways: what has no room is left out, the least telling columns first.
void TablePane::sizeColumns() {
    QHeaderView* header = m_table->horizontalHeader();
    header->setStretchLastSection(false);
    const int count = header->count(), room = m_table->viewport()->width();
    for (int c = 0; c < count; ++c) m_table->setColumnHidden(c, false);
    m_table->resizeColumnsToContents();
    int total = 0, shown = 0;
    const std::vector<int> order = columnsByWeight();
    bool full = false;
    for (const int c : order) {
        const int need = header->sectionSize(c);
        full = full || (shown > 0 && total + need > room);
        m_table->setColumnHidden(c, full);
        if (full) continue;
        total += need;
        ++shown;
    }
    m_leftOut = count - shown;
    showFooter();
    // What is left over is shared out, so that the numbers stand below their heads across the whole width.
    const int spare = room - total;
    if (shown == 0) return;
    int place = 0;
    for (int c = 0; c < count; ++c) {
        if (m_table->isColumnHidden(c)) continue;
        ++place;
        header->resizeSection(c, std::max(20, header->sectionSize(c) + spare / shown + (place == shown ? spare % shown : 0)));
    }
}

bool TablePane::eventFilter(QObject* object, QEvent* event) {
    if (object == m_table->viewport() && event->type() == QEvent::Resize) {
        sizeRows();
        sizeColumns();
    }
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
    m_footerText = text;
    showFooter();
}

void TablePane::showFooter() {
    QString text = m_footerText;
    if (m_leftOut > 0) {
        if (!text.isEmpty()) text += QStringLiteral(" · ");
        text += (m_leftOut == 1 ? tr("1 column has no room: widen the view, or export it as CSV.")
                                : tr("%1 columns have no room: widen the view, or export it as CSV.").arg(m_leftOut));
    }
    if (text != m_footer->text()) m_footer->setText(text);
    m_footer->setVisible(!text.isEmpty() && footerHasRoom());
}

void TablePane::showBar() { m_bar->show(); }

QString TablePane::csv() const { return tableCsv(*m_table->model()); }

void TablePane::paintContent(QPainter& painter, const QRectF& area) {
    const Canvas canvas(painter, palette_(), font(), unit());
    const double footer = m_footerText.isEmpty() ? 0 : canvas.u(22);
    paintTable(canvas, area.adjusted(0, 0, 0, -footer), *m_table->model(), 0, m_rowHeight, columnsByWeight(), m_leastRowHeight);
    if (footer > 0)
        canvas.text(QRectF(area.left() + canvas.u(10), area.bottom() - footer, area.width() - canvas.u(20), footer),
                    m_footerText, {11, QFont::Normal, palette_().ink2, false});
}

}  // namespace kvloupe
