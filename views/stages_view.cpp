// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/stages_view.h"

#include "views/data_sheet.h"
#include "views/format.h"
#include "views/stage_look.h"
#include "views/staged_steps.h"
#include "views/step_profile.h"

#include <QComboBox>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QPushButton>
#include <QShortcut>
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
    m_pin = new QPushButton(tr("Pin this step"));
    m_pin->setToolTip(tr("Keep this step to compare others with (P)"));
    m_ceilingsLabel = new QLabel;
    m_ceilingsLabel->setMinimumWidth(20);
    m_ceilingsLabel->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
    m_ceilingsLabel->setIndent(10);
    m_measure = new QPushButton(tr("Measure ceilings"));
    m_measure->setToolTip(tr("Read bandwidth, copy bandwidth and matrix rate of the lane’s device: takes a few seconds"));
    bar()->addWidget(m_sumBox);
    bar()->addWidget(m_pin);
    bar()->addWidget(m_ceilingsLabel, 1);
    bar()->addWidget(m_measure);
    showBar();
    connect(m_sumBox, &QComboBox::activated, this, [this] { refresh(); });
    connect(m_pin, &QPushButton::clicked, this, [this] { setPinned(!m_model->pinned()); });
    // A shortcut, because a table takes letters for a search.
    auto* pin = new QShortcut(Qt::Key_P, this, nullptr, nullptr, Qt::WidgetWithChildrenShortcut);
    connect(pin, &QShortcut::activated, m_pin, &QPushButton::click);
    // Enter, where the system says so, and a double click: to the step that the numbers are of, or that they are compared with.
    connect(table(), &QTableView::activated, this, [this](const QModelIndex& index) { goTo(index); });
    connect(table(), &QTableView::doubleClicked, this, [this](const QModelIndex& index) { goTo(index); });
    table()->setToolTip(tr("A double click goes to the step that is shown; on a Δ to the pinned one"));
    connect(m_measure, &QPushButton::clicked, this, [this] { Q_EMIT emptyAction(QStringLiteral("measure-ceilings")); });
}

void StagesView::goTo(const QModelIndex& index) {
    const int column = m_proxy->mapToSource(index).column();
    const bool change = column == StagesModel::timeChange || column == StagesModel::changeShare;
    const int step = change ? m_model->pinnedStep() : m_shownStep;
    if (step >= 0) cursor()->setStep(step);
}

void StagesView::setCeilings(const Ceilings& ceilings) {
    m_ceilings = ceilings;
    m_model->setCeilings(ceilings);
    refresh();
}

void StagesView::setSummed(bool summed) {
    m_sumBox->setCurrentIndex(summed ? 1 : 0);
    refresh();
}

void StagesView::setPinned(bool pinned) {
    if (pinned) m_model->pin();
    else m_model->unpin();
    refresh();
}

// What bounds a stage tells more than its counts: those go first where the view is narrow.
std::vector<int> StagesView::columnsByWeight() const {
    using M = StagesModel;
    std::vector<int> order;
    for (const int column :
         {M::stage, M::time, M::timeChange, M::changeShare, M::share, M::bandwidth, M::boundBy, M::ofMemory, M::bytes,
          M::intensity, M::rate, M::ofCompute, M::flops, M::calls, M::perLayer}) {
        const QModelIndex shown = m_proxy->mapFromSource(m_model->index(0, column));
        if (shown.isValid()) order.push_back(shown.column());
    }
    if (order.empty()) return TablePane::columnsByWeight();
    return order;
}

void StagesView::updateColumns() {
    if (m_compared == m_model->compares()) return;
    m_compared = m_model->compares();
    const int sorted = table()->horizontalHeader()->sortIndicatorSection();
    const int source = m_proxy->mapToSource(m_proxy->index(0, std::max(0, sorted))).column();
    m_proxy->columnsChanged();
    const int place = m_proxy->mapFromSource(m_model->index(0, std::max(0, source))).column();
    table()->sortByColumn(std::max(0, place), table()->horizontalHeader()->sortIndicatorOrder());
    sizeColumns();
}

void StagesView::showCeilings(const LaneRecord& lane) {
    if (!computes(lane.info())) {
        m_ceilingsLabel->setText(tr("ceilings do not apply: no arithmetic"));
        m_ceilingsLabel->setToolTip({});
        m_measure->hide();
        return;
    }
    QString text = ceilingsText(m_ceilings);
    const QString sheet = dataSheetText(find_card(lane.info().device));
    if (!sheet.isEmpty()) text += (text.isEmpty() ? QString() : QStringLiteral(" · ")) + sheet;
    m_ceilingsLabel->setText(text);
    m_ceilingsLabel->setToolTip(m_ceilings.measured_on.empty()
                                    ? text
                                    : tr("%1\nmeasured on %2").arg(text, QString::fromStdString(m_ceilings.measured_on)));
    m_measure->setVisible(!m_ceilings.measured());
}

void StagesView::refresh() {
    const LaneRecord* lane = cursor()->laneRecord();
    const int asked = lane ? cursor()->stepOf(cursor()->lane()) : -1;
    const bool summed = m_sumBox->currentIndex() == 1;
    const auto place = lane ? stagedAtOrBefore(*lane, asked) : std::nullopt;
    const int step = place && !summed ? static_cast<int>(lane->staged_steps()[*place].step) : asked;
    m_shownStep = step;
    restyle();
    m_model->setLook(palette_(), textFont(11.5));
    m_model->show(cursor()->sharedRecording(), cursor()->lane(), step, summed);
    updateColumns();
    setSubtitle({});
    if (!lane || asked < 0 || (!place && !summed)) {
        const bool canStep = lane && asked < 0;
        return setEmpty(noStagesText(lane, asked), canStep ? tr("Step") : QString(),
                        canStep ? QStringLiteral("step") : QString());
    }
    if (isEmptyShown()) setEmpty({});
    showCeilings(*lane);
    m_pin->setText(m_model->pinned() ? tr("Unpin step %1").arg(formatCount(static_cast<quint64>(m_model->pinnedStep())))
                                     : tr("Pin this step"));
    m_pin->setEnabled(m_model->pinned() || !summed);
    const QString name = QString::fromStdString(lane->info().name), number = formatCount(static_cast<quint64>(asked));
    setFooter(summed && m_model->rowCount() == 0 ? tr("No decode step with stages up to step %1.").arg(number)
              : m_model->aboveCeiling()          ? tr("More than 100 %: %1.").arg(aboveCeilingText())
                                                 : QString());
    QString text =
        summed ? tr("%1 · sum of %2 decode steps up to step %3").arg(name, formatCount(m_model->stepsSummed()), number)
               : tr("%1 · step %2").arg(name, number);
    if (!summed && step != asked)
        text =
            tr("%1 · step %2 has no stages; showing step %3").arg(name, number, formatCount(static_cast<quint64>(step)));
    if (m_model->compares()) {
        text += tr(" · Δ against step %1").arg(formatCount(static_cast<quint64>(m_model->pinnedStep())));
        if (m_model->pinnedLane() != cursor()->lane())
            text +=
                tr(" of %1").arg(QString::fromStdString(cursor()->recording()->lane(m_model->pinnedLane()).info().name));
    }
    const QString cadence = cadenceText(*lane, asked);
    for (const QString& more : {cadence, stoppedText(*cursor())})
        if (!more.isEmpty()) text += QStringLiteral(" · ") + more;
    setSubtitle(text);
    bool narrow = false;
    for (int column = 0; column < m_proxy->columnCount() && !narrow; ++column)
        narrow = !table()->isColumnHidden(column) && columnNeeds(column) > table()->columnWidth(column);
    if (narrow) sizeColumns();
}

}  // namespace kvloupe
