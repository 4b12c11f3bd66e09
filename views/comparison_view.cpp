// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/comparison_view.h"

#include "engine/record/figures.h"
#include "views/format.h"

#include <QTableView>

namespace kvloupe {

ComparisonView::ComparisonView(Cursor* cursor, QWidget* parent)
    : TablePane(QStringLiteral("comparison"), tr("Comparison"), cursor, parent),
      m_model(new ComparisonModel(cursor, this)) {
    setModel(m_model, 29);
    table()->setMouseTracking(true);
    const auto pickOf = [](const QModelIndex& index) {
        Pick pick;
        if (index.isValid()) pick.lane = LaneId(static_cast<std::uint32_t>(index.row()));
        return pick;
    };
    connect(table(), &QTableView::entered, this, [this, pickOf](const QModelIndex& index) { this->cursor()->setHover(pickOf(index)); });
    connect(table(), &QTableView::clicked, this, [this, pickOf](const QModelIndex& index) { this->cursor()->lock(pickOf(index)); });
    connect(table(), &QTableView::activated, this, [this, pickOf](const QModelIndex& index) { this->cursor()->lock(pickOf(index)); });
}

QString ComparisonView::formula() const {
    const LaneRecord* lane = cursor()->laneRecord();
    const int step = cursor()->stepOf(cursor()->lane());
    if (!lane || step < 0 || !lane->info().kv_cache) return {};
    const LaneInfo& info = lane->info();
    const std::uint64_t tokens = lane->step(static_cast<std::size_t>(step)).slots.token;
    return tr("%1: %2 ◐, %3 at %4 tokens ○")
        .arg(QString::fromStdString(info.name), QString::fromStdString(kv_formula(info)),
             formatBytes(tokens * predicted_slot_bytes(info)), formatCount(tokens));
}

std::vector<int> ComparisonView::columnsByWeight() const {
    return {ComparisonModel::lane,     ComparisonModel::kvBytes,       ComparisonModel::decode, ComparisonModel::ttft,
            ComparisonModel::itl,      ComparisonModel::computed,      ComparisonModel::logits, ComparisonModel::bytesPerToken,
            ComparisonModel::blocks,   ComparisonModel::hitRate,       ComparisonModel::preemptions,
            ComparisonModel::predicted, ComparisonModel::residual,     ComparisonModel::prefill, ComparisonModel::kvHeads,
            ComparisonModel::storedAs, ComparisonModel::weights};
}

void ComparisonView::refresh() {
    if (!cursor()->recording() || cursor()->recording()->lanes().empty()) {
        setEmpty(tr("Nothing is open. Open a model or a scenario to compare its lanes."));
        setSubtitle({});
        return;
    }
    if (isEmptyShown()) setEmpty({});
    const bool restyled = restyle();
    const int before = m_model->rowCount();
    m_model->update(palette_(), textFont(11.5));
    bool narrow = restyled || before != m_model->rowCount();
    for (int column = 0; column < m_model->columnCount() && !narrow; ++column)
        narrow = !table()->isColumnHidden(column) && columnNeeds(column) > table()->columnWidth(column);
    if (narrow) sizeColumns();
    setFooter(formula());
    setSubtitle(cursor()->step() < 0 ? tr("no step recorded yet")
                                     : tr("at step %1 · every number carries its origin")
                                           .arg(formatCount(static_cast<quint64>(cursor()->step()))));
}

}  // namespace kvloupe
