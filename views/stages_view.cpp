// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/stages_view.h"

#include "views/format.h"

#include <QComboBox>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QPushButton>
#include <QTableView>

namespace kvloupe {

StagesView::StagesView(Cursor* cursor, QWidget* parent)
    : TablePane(QStringLiteral("stages"), tr("Stages"), cursor, parent),
      m_model(new StagesModel(this)), m_proxy(new StagesProxy(this)) {
    m_proxy->setSourceModel(m_model);
    setModel(m_proxy, 24);
    table()->setSortingEnabled(true);
    table()->sortByColumn(StagesModel::stage, Qt::AscendingOrder);  // the order in which they run
    table()->horizontalHeader()->setToolTip(tr("Click to sort"));
    m_sumBox = new QComboBox;
    m_sumBox->addItems({tr("This step"), tr("Sum of the decode steps so far")});
    m_sumBox->setAccessibleName(tr("Steps shown"));
    m_bandwidthLabel = new QLabel;
    m_measure = new QPushButton(tr("Measure bandwidth"));
    bar()->addWidget(m_sumBox);
    bar()->addStretch(1);
    bar()->addWidget(m_bandwidthLabel);
    bar()->addWidget(m_measure);
    showBar();
    connect(m_sumBox, &QComboBox::activated, this, [this] { refresh(); });
    connect(m_measure, &QPushButton::clicked, this, [this] {
        Q_EMIT measureBandwidthRequested();
        Q_EMIT emptyAction(QStringLiteral("measure-bandwidth"));
    });
}

void StagesView::setMeasuredBandwidth(double bytesPerSecond) {
    m_bandwidth = bytesPerSecond;
    m_model->setMeasuredBandwidth(bytesPerSecond);
    refresh();
}

void StagesView::setSummed(bool summed) {
    m_sumBox->setCurrentIndex(summed ? 1 : 0);
    refresh();
}

QString StagesView::lastStepWithStages() const {
    const LaneRecord* lane = cursor()->laneRecord();
    const int step = cursor()->stepOf(cursor()->lane());
    constexpr int looked_back = 1000;
    for (int s = step; lane && s >= 0 && s > step - looked_back; --s)
        if (lane->stages_of(static_cast<std::size_t>(s)).size() > 0)
            return tr("Step %1 has them.").arg(formatCount(static_cast<quint64>(s)));
    return tr("Stages are kept in every n-th step, as the scenario's “stages_every” says.");
}

void StagesView::refresh() {
    const LaneRecord* lane = cursor()->laneRecord();
    const int step = lane ? cursor()->stepOf(cursor()->lane()) : -1;
    const bool summed = m_sumBox->currentIndex() == 1;
    restyle();
    m_model->setLook(palette_(), textFont(11.5));
    m_model->show(cursor()->sharedRecording(), cursor()->lane(), step, summed);
    setSubtitle({});
    if (!lane) return setEmpty(tr("Nothing is open. Open a model or a scenario."));
    if (step < 0) return setEmpty(tr("No step recorded yet. The first step shows its stages."), tr("Step"), QStringLiteral("step"));
    const QString name = QString::fromStdString(lane->info().name);
    const QString number = formatCount(static_cast<quint64>(step));
    if (m_model->rowCount() == 0 && !summed)
        return setEmpty(tr("No stage times were recorded in step %1 of %2. %3").arg(number, name, lastStepWithStages()));
    if (isEmptyShown()) setEmpty({});
    m_bandwidthLabel->setText(m_bandwidth > 0 ? tr("measured bandwidth ● %1").arg(formatRate(m_bandwidth))
                                              : QString());
    m_measure->setVisible(m_bandwidth <= 0);
    setFooter(summed && m_model->rowCount() == 0 ? tr("No decode step up to step %1.").arg(number) : QString());
    setSubtitle(summed ? tr("%1 · sum of %2 decode steps up to step %3")
                             .arg(name, formatCount(m_model->stepsSummed()), number)
                       : tr("%1 · step %2").arg(name, number));
    bool narrow = false;
    for (int column = 0; column < m_proxy->columnCount() && !narrow; ++column)
        narrow = columnNeeds(column) > table()->columnWidth(column);
    if (narrow) sizeColumns();
}

}  // namespace kvloupe
