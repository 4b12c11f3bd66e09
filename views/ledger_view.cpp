// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/ledger_view.h"

#include "views/canvas.h"
#include "views/format.h"
#include "views/table_picture.h"

#include <QEvent>
#include <QHeaderView>
#include <QShortcut>
#include <QTableView>

#include <algorithm>

namespace kvloupe {

LedgerView::LedgerView(Cursor* cursor, QWidget* parent)
    : TablePane(QStringLiteral("ledger"), tr("Ledger"), cursor, parent), m_model(new LedgerModel(this)) {
    setModel(m_model, 22);
    connect(table()->selectionModel(), &QItemSelectionModel::currentRowChanged, this, [this] { tellRow(); });
    connect(m_model, &QAbstractItemModel::modelReset, this, [this] { tellRow(); });
    const auto pickOf = [this](const QModelIndex& index) {
        Pick pick;
        if (index.isValid()) pick.lane = m_model->lines()[static_cast<std::size_t>(index.row())].lane;
        return pick;
    };
    table()->setMouseTracking(true);
    connect(table(), &QTableView::entered, this,
            [this, pickOf](const QModelIndex& index) { this->cursor()->setHover(pickOf(index)); });
    for (const auto signal : {&QTableView::clicked, &QTableView::activated})
        connect(table(), signal, this, [this, pickOf](const QModelIndex& index) { this->cursor()->lock(pickOf(index)); });
    // A table takes letters for a search.
    auto* lanes = new QShortcut(Qt::Key_C, this, nullptr, nullptr, Qt::WidgetWithChildrenShortcut);
    connect(lanes, &QShortcut::activated, this, [this] { View::choose(QStringLiteral("lanes"), m_allLanes ? 1 : 0); });
}

std::vector<ViewChoice> LedgerView::choices() const {
    return {{QStringLiteral("lanes"), tr("Lanes"), {tr("All lanes"), tr("One lane")}, m_allLanes ? 0 : 1}};
}

void LedgerView::setChoice(const QString&, int index) {
    m_allLanes = index == 0;
    refresh();
}

std::vector<int> LedgerView::columnsByWeight() const {
    return {LedgerModel::lane,     LedgerModel::what,        LedgerModel::predicted, LedgerModel::measured,
            LedgerModel::residual, LedgerModel::unexplained, LedgerModel::why,       LedgerModel::how};
}

// Sentences are cut where they have no room: in a picture the widest columns give way, none is left out.
void LedgerView::paintContent(QPainter& painter, const QRectF& area) {
    paintTable(Canvas(painter, palette_(), font(), unit()), area, *m_model, 0, 22);
}

void LedgerView::limitTexts() {
    int numbers = 0, widest = 0;
    for (int column = 0; column <= LedgerModel::unexplained; ++column) {
        const int need = columnNeeds(column);
        numbers += need;
        widest = std::max(widest, need);
    }
    const int rest = table()->viewport()->width() - numbers, readable = qRound(220 * unit());
    table()->horizontalHeader()->setMaximumSectionSize(
        std::max({widest, rest >= 2 * readable ? rest / 2 : rest, readable / 2}));
}

bool LedgerView::eventFilter(QObject* object, QEvent* event) {
    if (object == table()->viewport() && event->type() == QEvent::Resize) limitTexts();
    return TablePane::eventFilter(object, event);
}

void LedgerView::tellRow() {
    const int row = table()->currentIndex().row();
    setFooter(row < 0 ? tr("Choose a row to read it in full.") : m_model->sentence(row));
}

void LedgerView::refresh() {
    const Recording* recording = cursor()->recording();
    if (!recording || recording->lanes().empty()) {
        setEmpty(tr("Nothing is open. Open a model or a scenario to hold its bytes against their predictions."));
        setSubtitle({});
        return;
    }
    const bool restyled = restyle();
    const int before = m_model->rowCount();
    m_model->show(*cursor(), m_allLanes, palette_(), textFont(11.5));
    if (m_model->rowCount() == 0) {
        const bool stepped = cursor()->step() >= 0;
        setEmpty(stepped ? tr("These lanes have no model, so nothing of theirs is predicted or measured.")
                         : tr("No step recorded yet. The first step measures what is held."),
                 stepped ? QString() : tr("Step"), stepped ? QString() : QStringLiteral("step"));
        setSubtitle({});
        return;
    }
    if (isEmptyShown()) setEmpty({});
    bool narrow = restyled || before != m_model->rowCount();
    for (int column = LedgerModel::predicted; column <= LedgerModel::unexplained && !narrow; ++column)
        narrow = !table()->isColumnHidden(column) && columnNeeds(column) > table()->columnWidth(column);
    if (narrow) {
        limitTexts();
        sizeColumns();
    }
    tellRow();
    const std::uint64_t unexplained = m_model->unexplainedBytes();
    setSubtitle(tr("at step %1 · %2 predicted numbers · %3")
                    .arg(formatCount(static_cast<quint64>(cursor()->step())),
                         formatCount(static_cast<quint64>(m_model->rowCount())),
                         unexplained == 0 ? tr("every residual is explained to the byte")
                                          : tr("%1 that nothing explains").arg(formatBytes(unexplained))));
}

}  // namespace kvloupe
