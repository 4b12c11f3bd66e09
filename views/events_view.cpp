// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/events_view.h"

#include "views/canvas.h"
#include "views/format.h"
#include "views/picking.h"
#include "views/table_picture.h"

#include <QHBoxLayout>
#include <QHeaderView>
#include <QKeyEvent>
#include <QLineEdit>
#include <QTableView>
#include <QToolButton>
#include <QVBoxLayout>

#include <algorithm>

namespace kvloupe {

EventsView::EventsView(Cursor* cursor, QWidget* parent)
    : View(QStringLiteral("events"), tr("Events"), cursor, parent), m_model(new EventsModel(this)), m_body(new QWidget(this)),
      m_line(new QLineEdit(m_body)), m_top(new QHBoxLayout), m_table(new QTableView(m_body)) {
    m_line->setPlaceholderText(tr("Filter: seq:3 step:200-206 kind:allocate block:12"));
    m_line->setAccessibleName(tr("Event filter"));
    m_line->setClearButtonEnabled(true);
    m_table->setModel(m_model);
    m_table->setAccessibleName(tr("Events"));
    m_table->installEventFilter(this);
    m_table->viewport()->installEventFilter(this);
    m_table->setMouseTracking(true);
    m_top->setContentsMargins(8, 4, 8, 2);
    m_top->setSpacing(4);
    m_top->addStretch(1);
    m_top->addWidget(m_line, 2);
    auto* column = new QVBoxLayout(m_body);
    column->setContentsMargins(0, 0, 0, 0);
    column->setSpacing(0);
    column->addLayout(m_top);
    column->addWidget(m_table, 1);
    setEmbedded(m_body);
    setFocusProxy(m_table);
    connect(m_line, &QLineEdit::textChanged, this, &EventsView::applyFilter);
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
    m_table->scrollToBottom();
    updateChips();
    explain();
}

void EventsView::explain() {
    if (!m_model->filter().error.isEmpty()) {
        setSubtitle(m_model->filter().error);
        return;
    }
    const auto shown = static_cast<quint64>(m_model->rowCount());
    setSubtitle(shown == m_model->total() ? tr("%1 up to this step").arg(formatCount(shown))
                                          : tr("%1 of %2 match").arg(formatCount(shown), formatCount(m_model->total())));
}

void EventsView::refresh() {
    const LaneRecord* lane = cursor()->laneRecord();
    m_model->show(cursor()->sharedRecording(), cursor()->lane(), cursor()->stepOf(cursor()->lane()));
    const Palette& colours = palette_();
    if (m_styledScale != unit() || m_styledDark != colours.dark) {
        m_styledScale = unit();
        m_styledDark = colours.dark;
        styleTable(m_table, colours, 19, unit());
        m_line->setFont(textFont(11.5));
        m_line->setFixedHeight(qRound(24 * unit()));
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
    if (m_model->total() == 0) {
        setSubtitle({});
        setEmpty(tr("Nothing has happened yet."), tr("Step"), QStringLiteral("step"));
        return;
    }
    setEmpty({});
    updateChips();
    explain();
    m_table->scrollToBottom();
}

void EventsView::updateChips() {
    // One chip per kind that occurred; a click adds or removes it from the filter line.
    const auto& counts = m_model->counts();
    for (int i = 0; i < event_kind_count; ++i) {
        const auto kind = static_cast<EventKind>(i);
        auto chip = std::find_if(m_chips.begin(), m_chips.end(), [kind](const auto& entry) { return entry.first == kind; });
        if (counts[static_cast<std::size_t>(i)] == 0 && chip == m_chips.end()) continue;
        const QString name = QString::fromLatin1(name_of(kind).data(), static_cast<qsizetype>(name_of(kind).size()));
        if (chip == m_chips.end()) {
            auto* button = new QToolButton(m_body);
            button->setCheckable(true);
            button->setFocusPolicy(Qt::TabFocus);
            button->setAccessibleName(tr("Show only %1").arg(name));
            m_top->insertWidget(static_cast<int>(m_chips.size()), button);
            connect(button, &QToolButton::clicked, this, [this, name](bool checked) {
                QStringList words = m_line->text().split(QLatin1Char(' '), Qt::SkipEmptyParts);
                words.removeAll(QStringLiteral("kind:") + name);
                if (checked) words << QStringLiteral("kind:") + name;
                m_line->setText(words.join(QLatin1Char(' ')));
            });
            m_chips.emplace_back(kind, button);
            chip = std::prev(m_chips.end());
        }
        QToolButton* button = chip->second;
        button->setFont(textFont(11));
        button->setText(QStringLiteral("%1 %2").arg(QString(name).replace(QLatin1Char('_'), QLatin1Char(' ')),
                                                    formatCount(counts[static_cast<std::size_t>(i)])));
        button->setChecked(m_model->filter().kinds.test(static_cast<std::size_t>(i)));
        button->setFixedHeight(qRound(22 * unit()));
        const Palette& colours = palette_();
        button->setStyleSheet(QStringLiteral("QToolButton{border:1px solid %1;border-radius:%5px;padding:0 %6px;background:%2;color:%3}"
                                             "QToolButton:checked{background:%4;border-color:%3}"
                                             "QToolButton:focus{border-color:%7}")
                                  .arg(colours.line.name(), colours.panel.name(), colours.ink1.name(), colours.selectedRow.name(),
                                       QString::number(qRound(11 * unit())), QString::number(qRound(8 * unit())), colours.accent.name()));
    }
    // Chips that would squeeze the filter line out are hidden, the frequent kinds last.
    int room = width() - qRound(280 * unit());
    for (const auto& [kind, button] : m_chips) {
        room -= button->sizeHint().width() + 4;
        button->setVisible(room > 0 && counts[static_cast<std::size_t>(kind)] > 0);
    }
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
    const Canvas canvas(painter, palette_(), font(), unit());
    const int fitting = std::max(1, static_cast<int>((area.height() - canvas.u(24)) / canvas.u(19)));
    // The newest events, as on the screen.
    paintTable(canvas, area.adjusted(canvas.u(6), 0, -canvas.u(6), 0), *m_model, std::max(0, m_model->rowCount() - fitting));
}

QString EventsView::csv() const { return tableCsv(*m_model); }

}  // namespace kvloupe
