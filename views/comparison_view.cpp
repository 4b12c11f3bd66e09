// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/comparison_view.h"

#include "engine/record/figures.h"
#include "views/format.h"

#include <QTableView>

namespace kvloupe {

ComparisonView::ComparisonView(Cursor* cursor, QWidget* parent)
    : TablePane(QStringLiteral("comparison"), tr("Comparison"), cursor, parent),
      m_model(new ComparisonModel(cursor, this)) {
    setModel(m_model, 29, 16.5);
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
    const PredictedBytes& predicted = m_model->prediction(cursor()->lane().value);
    if (static_cast<std::size_t>(step) >= predicted.steps()) return {};
    const PredictedBytes::Step& now = predicted.at(static_cast<std::size_t>(step));
    return tr("%1: %2 ◐, %3 at %4 tokens ○%5")
        .arg(QString::fromStdString(info.name), QString::fromStdString(kv_formula(info)), formatBytes(now.bytes), formatCount(now.tokens),
             PredictedBytes::windowed(info) ? tr(", of which layers with a window keep no more than it holds") : QString());
}

// Of one request, what its cache costs; of several, also how they were served.
std::vector<int> ComparisonView::columnsByWeight() const {
    using Model = ComparisonModel;
    const std::vector<int> served{Model::ttft, Model::itl, Model::computed, Model::hitRate, Model::preemptions};
    std::vector<int> order{Model::lane, Model::kvBytes, Model::decode, Model::bytesPerToken, Model::logits};
    const Recording* recording = cursor()->recording();
    const bool many = recording && recording->requests().size() > 1;
    if (many) order.insert(order.end(), served.begin(), served.end());
    order.insert(order.end(), {Model::perplexity, Model::recall, Model::predicted, Model::residual, Model::kvHeads, Model::storedAs,
                               Model::prefill, Model::blocks});
    if (!many) order.insert(order.end(), served.begin(), served.end());
    order.push_back(Model::weights);
    return order;
}

void ComparisonView::setQuality(std::shared_ptr<const QualityReport> report) {
    m_model->setQuality(std::move(report));
    if (cursor()->recording()) refreshIfVisible();
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
    QString text = tr("no step recorded yet");
    if (const int step = cursor()->step(); step >= 0)
        text = tr("at step %1 · every number carries its origin").arg(formatCount(static_cast<quint64>(step)));
    if (columnsLeftOut() > 0 && !footerHasRoom()) text += tr(" · %1 columns have no room").arg(columnsLeftOut());
    setSubtitle(text);
}

}  // namespace kvloupe
