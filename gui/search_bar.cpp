// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/search_bar.h"

#include "gui/elided_label.h"
#include "gui/glyph_icon.h"

#include "engine/record/describe.h"
#include "views/event_names.h"
#include "views/format.h"

#include <QComboBox>
#include <QHBoxLayout>
#include <QIntValidator>
#include <QKeyEvent>
#include <QLabel>
#include <QLineEdit>
#include <QToolButton>

#include <algorithm>
#include <climits>
#include <utility>

namespace kvloupe {

namespace {

constexpr std::size_t requests_offered = 500;  // more are typed

}  // namespace

SearchBar::SearchBar(Cursor* cursor, QWidget* parent)
    : QWidget(parent), m_cursor(cursor), m_kind(new QComboBox(this)), m_request(new QComboBox(this)), m_block(new QLineEdit(this)),
      m_words(new QLineEdit(this)), m_previous(new QToolButton(this)), m_next(new QToolButton(this)), m_close(new QToolButton(this)),
      m_told(new ElidedLabel(this)) {
    setObjectName(QStringLiteral("search"));
    m_kind->addItem(tr("Any event"));
    for (int i = 0; i < event_kind_count; ++i) {
        const EventKind kind = kindsByTelling()[i];
        m_kind->addItem(kindLabel(kind), static_cast<int>(kind));
    }
    m_kind->setObjectName(QStringLiteral("searchKind"));
    m_kind->setAccessibleName(tr("Kind of event"));
    m_request->setObjectName(QStringLiteral("searchRequest"));
    m_request->setAccessibleName(tr("Request"));
    m_request->setEditable(true);
    m_request->setInsertPolicy(QComboBox::NoInsert);
    m_request->lineEdit()->setPlaceholderText(tr("any request"));
    m_request->setMinimumContentsLength(12);
    m_request->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
    m_block->setObjectName(QStringLiteral("searchBlock"));
    m_block->setAccessibleName(tr("Block"));
    m_block->setPlaceholderText(tr("any block"));
    m_block->setValidator(new QIntValidator(0, INT_MAX, m_block));
    m_block->setMaximumWidth(90);
    m_words->setObjectName(QStringLiteral("searchWords"));
    m_words->setAccessibleName(tr("Words of the event's sentence"));
    m_words->setPlaceholderText(tr("words of the sentence, or seq:3 step:200-400 cause:…"));
    m_words->setClearButtonEnabled(true);
    m_previous->setArrowType(Qt::LeftArrow);
    m_previous->setToolTip(tr("Previous event that matches (Shift+Enter, Ctrl+Shift+G)"));
    m_next->setArrowType(Qt::RightArrow);
    m_next->setToolTip(tr("Next event that matches (Enter, Ctrl+G)"));
    m_close->setObjectName(QStringLiteral("dockButton"));
    m_close->setIcon(glyphIcon(QStringLiteral("close"), this));
    m_close->setToolTip(tr("Close the search (Esc)"));
    for (QToolButton* button : {m_previous, m_next, m_close}) button->setAccessibleName(button->toolTip());
    m_told->setObjectName(QStringLiteral("searchTold"));
    m_told->setMinimumWidth(60);

    auto* row = new QHBoxLayout(this);
    row->setContentsMargins(8, 4, 8, 4);
    row->setSpacing(6);
    row->addWidget(new QLabel(tr("Find"), this));
    row->addWidget(m_kind);
    row->addWidget(m_request);
    row->addWidget(m_block);
    row->addWidget(m_words, 2);
    row->addWidget(m_previous);
    row->addWidget(m_next);
    row->addWidget(m_told, 3);
    row->addWidget(m_close);
    connect(m_previous, &QToolButton::clicked, this, [this] { find(false); });
    connect(m_next, &QToolButton::clicked, this, [this] { find(true); });
    connect(m_close, &QToolButton::clicked, this, &SearchBar::close);
    for (QWidget* field : std::initializer_list<QWidget*>{m_kind, m_request, m_request->lineEdit(), m_block, m_words, m_previous, m_next,
            m_close})
        field->installEventFilter(this);
    connect(cursor, &Cursor::recordingChanged, this, [this] {
        stop();
        m_told->clear();
        if (!m_cursor->recording()) hide();
        fillRequests();
    });
    hide();
}

void SearchBar::open() {
    fillRequests();
    show();
    m_words->setFocus(Qt::ShortcutFocusReason);
    m_words->selectAll();
}

void SearchBar::close() {
    stop();
    hide();
    if (parentWidget()) parentWidget()->setFocus(Qt::OtherFocusReason);
}

void SearchBar::stop() { m_job.cancel(); }

QString SearchBar::told() const { return m_told->text(); }

void SearchBar::fillRequests() {
    const QString before = m_request->currentText();
    m_request->clear();
    m_request->addItem(QString());
    if (const Recording* recording = m_cursor->recording())
        for (std::size_t r = 0; r < std::min(recording->requests().size(), requests_offered); ++r)
            m_request->addItem(QString::fromStdString(recording->requests()[r].id));
    m_request->setCurrentText(before);
}

EventFilter SearchBar::filter() const {
    EventFilter filter = EventFilter::parse(m_words->text());
    if (m_kind->currentIndex() > 0) filter.kinds.set(static_cast<std::size_t>(m_kind->currentData().toInt()));
    if (const QString request = m_request->currentText().trimmed(); !request.isEmpty()) filter.request = request;
    if (!m_block->text().isEmpty()) filter.block = m_block->text().toUInt();
    return filter;
}

void SearchBar::tell(const QString& sentence, bool problem) {
    m_told->setWholeText(sentence);
    if (problem && !isVisible()) Q_EMIT tellsHidden(sentence);
}

void SearchBar::find(bool forwards) {
    stop();
    const LaneRecord* lane = m_cursor->laneRecord();
    if (!lane || m_cursor->stepOf(m_cursor->lane()) < 0) return tell(tr("Nothing is recorded yet."), true);
    auto search = std::make_shared<Search>();
    search->filter = filter();
    if (!search->filter.error.isEmpty()) return tell(search->filter.error, true);
    search->recording = m_cursor->sharedRecording();
    search->lane = m_cursor->lane();
    search->forwards = forwards;
    search->from.step = static_cast<std::uint32_t>(m_cursor->stepOf(search->lane));
    // Beyond what is locked, as long as the cursor still stands where that happened.
    const Pick& locked = m_cursor->locked();
    const EventSearch place(*search->recording, *lane);
    if (locked.event && locked.lane == search->lane && place.stepOf(*locked.event) == search->from.step)
        search->from.event = *locked.event;
    tell(tr("Searching… (Esc stops)"), false);
    m_job.start(
        [search](const BackgroundJob::Cancelled& cancelled) {
            const EventSearch events(*search->recording, search->recording->lane(search->lane));
            search->hit = events.find(search->filter, search->from, search->forwards, cancelled);
        },
        [this, search] { found(*search); });
}

void SearchBar::found(const Search& search) {
    const LaneRecord& lane = search.recording->lane(search.lane);
    if (!search.hit) {
        tell(tr("No %1 in lane %2.").arg(filterText(search.filter), QString::fromStdString(lane.info().name)), true);
        return;
    }
    const Event& event = lane.events()[search.hit->event];
    Pick pick;
    pick.lane = search.lane;
    pick.event = search.hit->event;
    if (event.sequence.valid()) pick.sequence = event.sequence;
    if (event.block.valid()) pick.block = event.block;
    m_cursor->setStep(static_cast<int>(search.hit->step));
    m_cursor->lock(pick);
    QString text = QString::fromStdString(describe_event(*search.recording, lane, search.hit->event));
    text = tr("Step %1: %2").arg(formatCount(search.hit->step), text);
    if (search.hit->wrapped)
        text = (search.forwards ? tr("From the beginning again. %1") : tr("From the end again. %1")).arg(text);
    tell(text, search.hit->wrapped);
}

bool SearchBar::eventFilter(QObject* watched, QEvent* event) {
    if (event->type() != QEvent::ShortcutOverride && event->type() != QEvent::KeyPress) return QWidget::eventFilter(watched, event);
    const auto* key = static_cast<QKeyEvent*>(event);
    const bool enter = key->key() == Qt::Key_Return || key->key() == Qt::Key_Enter;
    const bool button = qobject_cast<QToolButton*>(watched) != nullptr;
    if (key->key() != Qt::Key_F3 && key->key() != Qt::Key_Escape && !(enter && !button)) return QWidget::eventFilter(watched, event);
    if (event->type() == QEvent::ShortcutOverride) {
        event->accept();  // here F3 and Esc are the search's
        return true;
    }
    if (key->key() == Qt::Key_Escape) {
        if (!searching()) close();
        else {
            stop();
            tell(tr("Stopped."), false);
        }
    } else {
        find(!(key->modifiers() & Qt::ShiftModifier));
    }
    return true;
}

void SearchBar::keyPressEvent(QKeyEvent* event) {
    if (event->key() == Qt::Key_Escape) close();
    else QWidget::keyPressEvent(event);
}

}  // namespace kvloupe
