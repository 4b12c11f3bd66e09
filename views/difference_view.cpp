// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/difference_view.h"

#include "views/format.h"
#include "views/reference.h"
#include "views/table_picture.h"

#include <QEvent>
#include <QHeaderView>
#include <QShortcut>
#include <QTableView>

#include <algorithm>

namespace kvloupe {

DifferenceView::DifferenceView(Cursor* cursor, QWidget* parent)
    : TablePane(QStringLiteral("difference"), tr("Differences"), cursor, parent), m_model(new DifferenceModel(this)) {
    setModel(m_model, 22);
    connect(table()->selectionModel(), &QItemSelectionModel::currentRowChanged, this, [this] { tellRow(); });
    for (const auto signal : {&QTableView::doubleClicked, &QTableView::activated})
        connect(table(), signal, this, [this](const QModelIndex& index) { goTo(index.row()); });
    connect(cursor, &Cursor::referenceChanged, this, [this] {
        if (!this->cursor()->reference()) forget();  // also while hidden: a recording that was closed is held no longer
    });
    // A table takes letters for a search.
    auto* times = new QShortcut(Qt::Key_C, this, nullptr, nullptr, Qt::WidgetWithChildrenShortcut);
    connect(times, &QShortcut::activated, this, [this] { View::choose(QStringLiteral("times"), m_times ? 1 : 0); });
}

DifferenceView::~DifferenceView() { m_job.cancel(); }

std::vector<ViewChoice> DifferenceView::choices() const {
    return {{QStringLiteral("times"), tr("Times"), {tr("Times too"), tr("Without times")}, m_times ? 0 : 1}};
}

void DifferenceView::setChoice(const QString&, int index) { m_times = index == 0; }

std::vector<int> DifferenceView::columnsByWeight() const {
    return {DifferenceModel::what,  DifferenceModel::here,  DifferenceModel::there,
            DifferenceModel::delta, DifferenceModel::percent, DifferenceModel::section};
}

DifferenceView::Subject DifferenceView::subject() const {
    const Reference* reference = cursor()->reference();
    if (!reference || !cursor()->laneRecord() || reference->isSameLane()) return {};
    return {cursor()->sharedRecording(), reference->recording(), cursor()->lane(), reference->lane(), cursor()->laneRecord()->step_count(),
            reference->laneRecord().step_count(), m_times};
}

// One job at a time: what it worked on may be of yesterday when it ends, then the next one starts.
void DifferenceView::compute() {
    const Subject wanted = subject();
    if (!wanted.here || wanted == m_of || m_job.running()) return;
    m_computing = wanted;
    auto found = std::make_shared<RecordingDiff>();
    m_job.start(
        [wanted, found](const BackgroundJob::Cancelled&) {
            *found = diff_lanes(*wanted.here, wanted.lane, *wanted.there, wanted.other, wanted.times);
        },
        [this, found] {
            if (m_computing.sameLanes(subject())) showDiff(std::move(*found));  // steps that came since are for the next time
            else compute();
        });
}

void DifferenceView::showDiff(RecordingDiff diff) {
    m_of = m_computing;
    m_model->show(std::move(diff), QString::fromStdString(cursor()->laneRecord()->info().name), cursor()->reference()->label());
    explain();
    if (m_model->rowCount() > 0) {
        if (isEmptyShown()) setEmpty({});
        limitTexts();
        sizeColumns();
        tellRow();
    } else {
        setEmpty(tr("Nothing differs: configuration, numbers, tokens, block tables and logits are the same."));
    }
    for (const LaneRecord* lane : {cursor()->laneRecord(), &cursor()->reference()->laneRecord()})
        if (const std::string damage = lane->damage(); !damage.empty()) Q_EMIT told(QString::fromStdString(damage));
    if (m_wanted) jump(*std::exchange(m_wanted, std::nullopt));
}

void DifferenceView::forget() {
    m_of = m_computing = {};
    m_wanted.reset();
    m_model->show({}, {}, {});
}

void DifferenceView::explain() {
    const Reference* reference = cursor()->reference();
    if (!m_of.here || !reference) return;
    const RecordingDiff& diff = m_model->diff();
    const auto count = [](std::size_t n, const QString& one, const QString& many) { return n == 1 ? one : many.arg(formatCount(n)); };
    setSubtitle(tr("lane %1 against %2 · %3, %4%5")
                    .arg(QString::fromStdString(cursor()->laneRecord()->info().name), reference->label(),
                         count(diff.configuration.size(), tr("1 setting"), tr("%1 settings")),
                         count(diff.numbers.size(), tr("1 number"), tr("%1 numbers")),
                         m_job.running() ? tr(" · comparing what is new") : QString()));
}

void DifferenceView::refresh() {
    restyle();
    m_model->setLook(palette_(), textFont(11.5));
    const Subject wanted = subject();
    if (!wanted.here) {
        forget();
        setSubtitle({});
        const bool open = cursor()->recording() != nullptr;
        setEmpty(!open                     ? tr("Nothing is open. Open a recording and compare it with another one.")
                 : cursor()->reference() ? tr("The lane in focus is the one that it would be compared with: choose another lane.")
                                           : tr("Nothing is compared. Choose another recording, or a lane under View ▸ Compare."),
                 open && !cursor()->reference() ? tr("Compare with recording…") : QString(), QStringLiteral("compare"));
        return;
    }
    // While the lanes run on, what was found last stays until they pause.
    if (cursor()->recording()->phase() != Phase::running || !m_of.sameLanes(wanted)) compute();
    if (m_of == wanted) return explain();
    if (m_model->rowCount() > 0) return explain();
    setEmpty(tr("Comparing %1 with %2…").arg(QString::fromStdString(cursor()->laneRecord()->info().name), cursor()->reference()->label()));
}

void DifferenceView::settle() {
    compute();
    while (m_job.running()) m_job.finish();
}

void DifferenceView::goToFirst(Parting::Kind kind) {
    const Subject wanted = subject();
    if (!wanted.here) {
        Q_EMIT told(tr("Nothing is compared: choose a recording or a lane first (View ▸ Compare)."));
        return;
    }
    if (m_of != wanted) {
        m_wanted = kind;
        compute();
        return;
    }
    jump(kind);
}

void DifferenceView::jump(Parting::Kind kind) {
    const std::vector<Parting>& first = m_model->diff().first;
    const auto found = std::find_if(first.begin(), first.end(), [kind](const Parting& parting) { return parting.kind == kind; });
    if (found == first.end()) {
        Q_EMIT told(tr("There is no %1.").arg(DifferenceModel::kindName(kind)));
        return;
    }
    goToParting(*cursor(), *found);
    const auto row = m_model->rowCount() - static_cast<int>(first.end() - found);
    table()->selectRow(row);
}

void DifferenceView::goTo(int row) {
    if (const Parting* parting = m_model->partingAt(row)) goToParting(*cursor(), Parting(*parting));
}

void DifferenceView::tellRow() {
    const int row = table()->currentIndex().row();
    setFooter(row < 0 ? tr("Choose a row to read it in full; Enter on where they part goes there.") : m_model->sentence(row));
}

// Long texts get the room that the numbers leave.
void DifferenceView::limitTexts() {
    int rest = table()->viewport()->width();
    for (const int column : {DifferenceModel::section, DifferenceModel::delta, DifferenceModel::percent}) rest -= columnNeeds(column);
    table()->horizontalHeader()->setMaximumSectionSize(std::max(rest / 3, qRound(110 * unit())));
}

bool DifferenceView::eventFilter(QObject* object, QEvent* event) {
    if (object == table()->viewport() && event->type() == QEvent::Resize) limitTexts();
    return TablePane::eventFilter(object, event);
}

QString DifferenceView::csv() const {
    const_cast<DifferenceView*>(this)->settle();
    return TablePane::csv();
}

void DifferenceView::paintContent(QPainter& painter, const QRectF& area) {
    settle();
    TablePane::paintContent(painter, area);
}

}  // namespace kvloupe
