// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/events_view.h"

#include "views/canvas.h"
#include "views/event_names.h"
#include "views/format.h"
#include "views/picking.h"
#include "views/table_picture.h"

#include <QHBoxLayout>
#include <QHeaderView>
#include <QKeyEvent>
#include <QLineEdit>
#include <QMenu>
#include <QRegularExpression>
#include <QTableView>
#include <QToolButton>
#include <QVBoxLayout>

#include <algorithm>

namespace kvloupe {

EventsView::EventsView(Cursor* cursor, QWidget* parent)
    : View(QStringLiteral("events"), tr("Events"), cursor, parent), m_model(new EventsModel(this)), m_body(new QWidget(this)),
      m_line(new QLineEdit(m_body)), m_top(new QHBoxLayout), m_table(new QTableView(m_body)), m_menu(new QToolButton(m_body)),
      m_previous(new QToolButton(m_body)), m_next(new QToolButton(m_body)) {
    m_line->setPlaceholderText(tr("Search, or request:a block:12 kind:fork cause:\"owner\" step:200-206"));
    m_line->setAccessibleName(tr("Event filter"));
    m_line->setClearButtonEnabled(true);
    m_table->setModel(m_model);
    m_table->setAccessibleName(tr("Events"));
    m_table->installEventFilter(this);
    m_table->viewport()->installEventFilter(this);
    m_table->setMouseTracking(true);
    m_top->setContentsMargins(8, 4, 8, 2);
    m_top->setSpacing(4);
    m_menu->setText(tr("Filter"));
    m_menu->setPopupMode(QToolButton::InstantPopup);
    m_menu->setMenu(new QMenu(m_menu));
    m_menu->setToolTip(tr("Filter by kind, request, cause or block"));
    connect(m_menu->menu(), &QMenu::aboutToShow, this, &EventsView::buildMenu);
    m_previous->setArrowType(Qt::LeftArrow);
    m_previous->setToolTip(tr("Previous event of this kind (Shift+N)"));
    m_next->setArrowType(Qt::RightArrow);
    m_next->setToolTip(tr("Next event of this kind (N)"));
    connect(m_previous, &QToolButton::clicked, this, [this] { jump(-1); });
    connect(m_next, &QToolButton::clicked, this, [this] { jump(1); });
    m_top->addStretch(1);
    for (QToolButton* button : {m_previous, m_next, m_menu}) {
        button->setFocusPolicy(Qt::TabFocus);
        button->setAccessibleName(button->toolTip());
        m_top->addWidget(button);
    }
    m_top->addWidget(m_line, 3);
    auto* column = new QVBoxLayout(m_body);
    column->setContentsMargins(0, 0, 0, 0);
    column->setSpacing(0);
    column->addLayout(m_top);
    column->addWidget(m_table, 1);
    setEmbedded(m_body);
    setFocusProxy(m_table);
    connect(m_line, &QLineEdit::textChanged, this, &EventsView::applyFilter);
    connect(m_model, &EventsModel::readOn, this, [this] {
        if (!this->cursor()->laneRecord()) return;
        refresh();
        update();
    });
    connect(m_table, &QTableView::entered, this,
            [this](const QModelIndex& index) { this->cursor()->setHover(pickOf(index.row())); });
    connect(m_table, &QTableView::clicked, this, [this](const QModelIndex& index) { this->cursor()->lock(pickOf(index.row())); });
    connect(m_table, &QTableView::doubleClicked, this,
            [this](const QModelIndex& index) { this->cursor()->setStep(static_cast<int>(m_model->stepAt(index.row()))); });
}

void EventsView::setFilterText(const QString& text) { m_line->setText(text); }

QVariant EventsView::zoomState() const { return m_line->text().isEmpty() ? QVariant() : QVariant(m_line->text()); }

void EventsView::setZoomState(const QVariant& state) { m_line->setText(state.toString()); }

void EventsView::applyFilter(const QString& text) {
    zoomChanged();
    m_model->setFilter(EventFilter::parse(text));
    scrollToCursor();
    updateChips();
    explain();
}

void EventsView::scrollToCursor() {
    const int rows = m_model->rowCount(), last = m_model->rowsUpTo(cursor()->stepOf(cursor()->lane())) - 1;
    if (last < 0)
        m_table->scrollToTop();
    else if (last + 1 == rows)
        m_table->scrollToBottom();
    else
        m_table->scrollTo(m_model->index(last, 0), QAbstractItemView::PositionAtCenter);
    // Where the step has more rows than the view: the most telling of them at the top.
    const int first = m_model->rowsUpTo(cursor()->stepOf(cursor()->lane()) - 1);
    const int fitting = m_table->viewport()->height() / std::max(1, m_table->verticalHeader()->defaultSectionSize());
    const auto rank = [this](int row) {
        return std::find(kindsByTelling(), kindsByTelling() + event_kind_count, m_model->event(row).kind) - kindsByTelling();
    };
    int telling = last;
    for (int row = last; row >= std::max(first, last - 200); --row)
        if (rank(row) <= rank(telling)) telling = row;
    if (telling >= 0 && last - telling >= fitting) m_table->scrollTo(m_model->index(telling, 0), QAbstractItemView::PositionAtTop);
}

void EventsView::toggleWord(const QString& word, bool on) {
    QString line = m_line->text();
    if (on) {
        if (!line.isEmpty() && !line.endsWith(QLatin1Char(' '))) line += QLatin1Char(' ');
        line += word;
    } else {
        line.remove(QRegularExpression(QStringLiteral("(^|\\s)%1(?=\\s|$)").arg(QRegularExpression::escape(word))));
    }
    m_line->setText(line.trimmed());
}

void EventsView::buildMenu() {
    QMenu* menu = m_menu->menu();
    menu->clear();
    const EventFilter& filter = m_model->filter();
    QMenu* kinds = menu->addMenu(tr("Kind"));
    for (int i = 0; i < event_kind_count; ++i) {
        const EventKind kind = kindsByTelling()[i];
        const std::uint64_t count = m_model->counts()[static_cast<std::size_t>(kind)];
        if (count == 0) continue;
        QAction* action = kinds->addAction(QStringLiteral("%1\t%2").arg(kindLabel(kind), formatCount(count)));
        action->setCheckable(true);
        action->setChecked(filter.kinds.test(static_cast<std::size_t>(kind)));
        connect(action, &QAction::toggled, this, [this, kind](bool on) { toggleWord(QStringLiteral("kind:") + kindName(kind), on); });
    }
    QMenu* requests = menu->addMenu(tr("Request"));
    const Recording* recording = cursor()->recording();
    for (std::size_t r = 0; recording && r < std::min<std::size_t>(recording->requests().size(), 200); ++r) {
        const QString id = QString::fromStdString(recording->requests()[r].id);
        QAction* action = requests->addAction(id);
        action->setCheckable(true);
        action->setChecked(filter.request == id);
        const QString old = filter.request;
        connect(action, &QAction::toggled, this, [this, id, old](bool on) {
            const auto word = [](const QString& name) {
                return name.contains(QLatin1Char(' ')) ? QStringLiteral("request:\"%1\"").arg(name) : QStringLiteral("request:") + name;
            };
            if (on && !old.isEmpty()) toggleWord(word(old), false);
            toggleWord(word(id), on);
        });
    }
    QMenu* causes = menu->addMenu(tr("Cause"));
    for (int i = 1; i < cause_count; ++i) {
        const auto cause = static_cast<Cause>(i);
        const std::uint64_t count = m_model->causeCounts()[static_cast<std::size_t>(i)];
        if (count == 0) continue;
        QAction* action = causes->addAction(QStringLiteral("%1\t%2").arg(causeLabel(cause), formatCount(count)));
        action->setCheckable(true);
        action->setChecked(filter.causes.test(static_cast<std::size_t>(i)));
        connect(action, &QAction::toggled, this, [this, cause](bool on) { toggleWord(QStringLiteral("cause:") + causeName(cause), on); });
    }
    if (const Pick& pick = cursor()->shown(); pick.block)
        menu->addAction(tr("Block %1").arg(pick.block->value), this,
                        [this, block = pick.block->value] { toggleWord(QStringLiteral("block:%1").arg(block), true); });
    menu->addSeparator();
    menu->addAction(tr("Show all"), m_line, &QLineEdit::clear)->setEnabled(!m_line->text().isEmpty());
}

bool EventsView::jump(int direction) {
    const LaneRecord* lane = cursor()->laneRecord();
    if (!lane || m_model->rowCount() == 0) return false;
    const Pick& locked = cursor()->locked();
    const int step = cursor()->stepOf(cursor()->lane());
    std::optional<EventKind> kind;
    int row = direction > 0 ? m_model->rowsUpTo(step) - 1 : m_model->rowsUpTo(step - 1);
    if (locked.event && locked.lane == cursor()->lane()) {
        if (m_model->filter().kinds.none()) kind = lane->events()[*locked.event].kind;
        if (const int own = m_model->rowOf(*locked.event); own >= 0) row = own;
    }
    for (row += direction; row >= 0 && row < m_model->rowCount(); row += direction) {
        if (kind && m_model->event(row).kind != *kind) continue;
        cursor()->setStep(static_cast<int>(m_model->stepAt(row)));
        cursor()->lock(pickOf(row));
        m_table->scrollTo(m_model->index(row, 0));
        return true;
    }
    return false;
}

void EventsView::explain() {
    if (!m_model->filter().error.isEmpty()) {
        setSubtitle(m_model->filter().error);
        return;
    }
    const auto shown = static_cast<quint64>(m_model->rowCount());
    const auto here = static_cast<quint64>(m_model->rowsUpTo(cursor()->stepOf(cursor()->lane())));
    QString text = shown == m_model->total() ? tr("%1 events").arg(formatCount(shown))
                                             : tr("%1 of %2 match").arg(formatCount(shown), formatCount(m_model->total()));
    if (m_model->reading()) text += tr(" · reading on");
    if (here < shown) text += tr(" · %1 of them after this step").arg(formatCount(shown - here));
    setSubtitle(text);
}

void EventsView::refresh() {
    const LaneRecord* lane = cursor()->laneRecord();
    const Palette& colours = palette_();
    m_model->setFocusWash(colours.focusWash);
    m_model->show(cursor()->sharedRecording(), cursor()->lane(), cursor()->stepOf(cursor()->lane()));
    if (m_styledScale != unit() || m_styledDark != colours.dark) {
        m_styledScale = unit();
        m_styledDark = colours.dark;
        styleTable(m_table, colours, 19, unit());
        m_table->setVerticalScrollMode(QAbstractItemView::ScrollPerItem);  // no row is cut at the top
        m_line->setMinimumWidth(qRound(250 * unit()));
        m_line->setFont(textFont(11.5));
        m_line->setFixedHeight(qRound(24 * unit()));
        for (QToolButton* button : {m_previous, m_next, m_menu}) {
            button->setFont(textFont(11));
            button->setFixedHeight(qRound(22 * unit()));
            button->setStyleSheet(QStringLiteral("QToolButton{border:1px solid %1;border-radius:4px;padding:0 8px;background:%2;color:%3}"
                                                 "QToolButton::menu-indicator{image:none}"
                                                 "QToolButton:hover,QToolButton:focus{border-color:%4}")
                                      .arg(colours.line.name(), colours.panel.name(), colours.ink1.name(), colours.accent.name()));
        }
        m_menu->setText(tr("Filter ▾"));
        QPalette palette = m_line->palette();
        palette.setColor(QPalette::Base, colours.panel);
        palette.setColor(QPalette::Text, colours.ink1);
        palette.setColor(QPalette::PlaceholderText, colours.ink3);
        m_line->setPalette(palette);
        palette = m_body->palette();
        palette.setColor(QPalette::Window, colours.panel);
        m_body->setPalette(palette);
        m_body->setAutoFillBackground(true);
        const int widths[] = {54, 124, 90, 76, 620, 104, 84};
        m_table->horizontalHeader()->setStretchLastSection(false);
        for (int column = 0; column < EventsModel::ColumnCount; ++column)
            m_table->setColumnWidth(column, qRound(widths[column] * unit()));
        m_table->horizontalHeader()->setSectionResizeMode(EventsModel::CauseText, QHeaderView::Stretch);
    }
    if (!lane) {
        setSubtitle({});
        setEmpty(tr("Open a model or a scenario; what happens to requests and blocks is told here."));
        return;
    }
    if (m_model->total() == 0 && m_model->reading()) {
        setSubtitle({});
        setEmpty(tr("The events are being read."));
        return;
    }
    if (m_model->total() == 0) {
        setSubtitle({});
        setEmpty(tr("Nothing has happened yet."), tr("Step"), QStringLiteral("step"));
        return;
    }
    setEmpty({});
    updateChips();
    explain();
    scrollToCursor();
}

void EventsView::updateChips() {
    // One chip per kind that occurred, the telling ones first; a click adds or removes it from the filter line.
    const auto& counts = m_model->counts();
    for (int i = 0; i < event_kind_count; ++i) {
        const EventKind kind = kindsByTelling()[i];
        const auto index = static_cast<std::size_t>(kind);
        auto chip = std::find_if(m_chips.begin(), m_chips.end(), [kind](const auto& entry) { return entry.first == kind; });
        if (counts[index] == 0 && chip == m_chips.end()) continue;
        if (chip == m_chips.end()) {
            auto* button = new QToolButton(m_body);
            button->setCheckable(true);
            button->setFocusPolicy(Qt::TabFocus);
            button->setAccessibleName(tr("Show only %1").arg(kindLabel(kind)));
            connect(button, &QToolButton::clicked, this,
                    [this, kind](bool checked) { toggleWord(QStringLiteral("kind:") + kindName(kind), checked); });
            const auto rank = [](EventKind each) { return std::find(kindsByTelling(), kindsByTelling() + event_kind_count, each); };
            const auto place = std::find_if(m_chips.begin(), m_chips.end(),
                                            [&](const auto& entry) { return rank(entry.first) > rank(kind); });
            m_top->insertWidget(static_cast<int>(place - m_chips.begin()), button);
            chip = m_chips.emplace(place, kind, button);
        }
        QToolButton* button = chip->second;
        if (const QFont font = textFont(11); button->font() != font) button->setFont(font);
        button->setText(QStringLiteral("%1 %2").arg(kindLabel(kind), formatCount(counts[index])));
        button->setChecked(m_model->filter().kinds.test(index));
        button->setFixedHeight(qRound(22 * unit()));
        const Palette& colours = palette_();
        const QString style = QStringLiteral("QToolButton{border:1px solid %1;border-radius:%5px;padding:0 %6px;background:%2;color:%3}"
                                             "QToolButton:checked{background:%4;border-color:%3}"
                                             "QToolButton:focus{border-color:%7}")
                                  .arg(colours.line.name(), colours.panel.name(), colours.ink1.name(), colours.selectedRow.name(),
                                       QString::number(button->maximumHeight() / 2 - 1), QString::number(qRound(8 * unit())), colours.accent.name());
        if (button->styleSheet() != style) button->setStyleSheet(style);  // applying one costs as much as a picture
    }
    // Chips that would squeeze the filter line out are hidden, the frequent kinds last.
    int room = width() - qRound(450 * unit());
    const QFontMetrics metrics(textFont(11));
    for (const auto& [kind, button] : m_chips) {
        room -= metrics.horizontalAdvance(button->text()) + qRound(24 * unit());
        button->setVisible(room > 0 && counts[static_cast<std::size_t>(kind)] > 0);
    }
}

void EventsView::resizeEvent(QResizeEvent* event) {
    View::resizeEvent(event);
    updateChips();  // as many as there is room for
}

void EventsView::refreshSelection() {
    const auto& locked = cursor()->locked();
    if (locked.event && locked.lane == cursor()->lane()) {
        const int row = m_model->rowOf(*locked.event);
        if (row >= 0) m_table->setCurrentIndex(m_model->index(row, 0));
    } else if (locked.empty()) {
        m_table->clearSelection();
    }
}

Pick EventsView::pickOf(int row) const {
    Pick pick;
    if (row < 0 || row >= m_model->rowCount()) return pick;
    const LaneRecord* lane = cursor()->laneRecord();
    const std::uint64_t index = m_model->eventAt(row);
    const Event& event = lane->events()[index];
    pick.lane = cursor()->lane();
    pick.event = index;
    if (event.sequence.valid()) pick.sequence = event.sequence;
    if (event.block.valid()) pick.block = event.block;
    if (event.kind == EventKind::decode && event.other != Index<int>::none_value) {
        pick.position = event.other;
        pick.block = pickToken(*cursor(), event.sequence, event.other).block;
    }
    return pick;
}

bool EventsView::eventFilter(QObject* watched, QEvent* event) {
    if (watched == m_table && event->type() == QEvent::KeyPress) {
        const int key = static_cast<QKeyEvent*>(event)->key();
        if (key == Qt::Key_Escape) {
            cursor()->clear();
            return true;
        }
        if (key == Qt::Key_N) {
            jump(static_cast<QKeyEvent*>(event)->modifiers() & Qt::ShiftModifier ? -1 : 1);
            return true;
        }
        if (key == Qt::Key_Return || key == Qt::Key_Enter) {
            cursor()->lock(pickOf(m_table->currentIndex().row()));
            return true;
        }
    }
    if (watched == m_table && event->type() == QEvent::KeyRelease) {
        const int key = static_cast<QKeyEvent*>(event)->key();
        if (key == Qt::Key_Up || key == Qt::Key_Down) cursor()->setHover(pickOf(m_table->currentIndex().row()));
    }
    if (watched == m_table->viewport() && event->type() == QEvent::Leave) cursor()->setHover({});
    return View::eventFilter(watched, event);
}

void EventsView::paintContent(QPainter& painter, const QRectF& area) {
    m_model->settle();
    const Canvas canvas(painter, palette_(), font(), unit());
    const int fitting = std::max(1, static_cast<int>((area.height() - canvas.u(24)) / canvas.u(19)));
    // As on the screen: the events of the cursor's step in the middle, or the newest at the bottom.
    const int rows = m_model->rowCount(), here = m_model->rowsUpTo(cursor()->stepOf(cursor()->lane()));
    const int first = here == rows ? rows - fitting : std::min(here - fitting / 2, rows - fitting);
    paintTable(canvas, area.adjusted(canvas.u(6), 0, -canvas.u(6), 0), *m_model, std::max(0, first));
}

void EventsView::settle() {
    m_model->settle();
    refresh();
}

QString EventsView::csv() const {
    m_model->settle();
    return tableCsv(*m_model);
}

}  // namespace kvloupe
