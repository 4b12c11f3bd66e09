// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/time_machine.h"

#include "gui/search_bar.h"
#include "views/step_scrubber.h"

#include <QAction>
#include <QVBoxLayout>

#include <algorithm>

namespace kvloupe {

namespace {

constexpr int leastJump = 10;     // steps, or a hundredth of the recording where that is more
constexpr int jumpsToTheEnd = 100;

}  // namespace

TimeMachine::TimeMachine(Cursor* cursor, QWidget* parent)
    : QWidget(parent), m_cursor(cursor), m_scrubber(new StepScrubber(cursor, this)), m_search(new SearchBar(cursor, this)) {
    auto* column = new QVBoxLayout(this);
    column->setContentsMargins(0, 0, 0, 0);
    column->setSpacing(0);
    column->addWidget(m_scrubber);
    column->addWidget(m_search);

    connect(addAction(m_searchActions, tr("&Find an event…"), QKeySequence::Find), &QAction::triggered, m_search, &SearchBar::open);
    connect(addAction(m_searchActions, tr("Find &next"), Qt::CTRL | Qt::Key_G), &QAction::triggered, this,
            [this] { m_search->find(true); });
    connect(addAction(m_searchActions, tr("Find &previous"), Qt::CTRL | Qt::SHIFT | Qt::Key_G), &QAction::triggered, this,
            [this] { m_search->find(false); });
    connect(addAction(m_jumpActions, tr("&Forwards by 10 steps or a hundredth"), Qt::CTRL | Qt::Key_PageDown), &QAction::triggered, this,
            [this] { jumpBy(1); });
    connect(addAction(m_jumpActions, tr("&Backwards by 10 steps or a hundredth"), Qt::CTRL | Qt::Key_PageUp), &QAction::triggered, this,
            [this] { jumpBy(-1); });
    connect(addAction(m_jumpActions, tr("To the &next copy, eviction or preemption"), Qt::CTRL | Qt::Key_Right), &QAction::triggered, this,
            [this] { jumpToMark(true); });
    connect(addAction(m_jumpActions, tr("To the &previous copy, eviction or preemption"), Qt::CTRL | Qt::Key_Left), &QAction::triggered,
            this,
            [this] { jumpToMark(false); });
    connect(m_search, &SearchBar::tellsHidden, this, &TimeMachine::told);

    m_player.setInterval(1000 / stepsPerSecond);
    m_player.setTimerType(Qt::PreciseTimer);
    connect(&m_player, &QTimer::timeout, this, [this] {
        m_cursor->setStep(m_cursor->step() + 1);
        if (m_cursor->step() + 1 >= m_cursor->stepCount()) stopPlaying();
    });
    connect(cursor, &Cursor::recordingChanged, this, [this] {
        stopPlaying();
        updateActions();
    });
    connect(cursor, &Cursor::stepChanged, this, &TimeMachine::updateActions);
    updateActions();
}

QAction* TimeMachine::addAction(QList<QAction*>& to, const QString& text, const QKeySequence& key) {
    auto* action = new QAction(text, this);
    action->setShortcut(key);
    to << action;
    return action;
}

void TimeMachine::updateActions() {
    for (QAction* each : m_searchActions + m_jumpActions) each->setEnabled(m_cursor->stepCount() > 0);
}

void TimeMachine::jumpBy(int direction) {
    m_cursor->setStep(m_cursor->step() + direction * std::max(leastJump, m_cursor->stepCount() / jumpsToTheEnd));
}

void TimeMachine::jumpToMark(bool forwards) {
    if (m_scrubber->jump(forwards)) return;
    const StepMarks& marks = m_scrubber->marks();
    if (marks.tooMany()) Q_EMIT told(tr("This recording has too many events to mark its steps. Search for a kind instead (Ctrl+F)."));
    else if (!marks.complete()) Q_EMIT told(tr("Copies, evictions and preemptions are still being counted."));
    else if (forwards) Q_EMIT told(tr("There is no copy, eviction or preemption after this step."));
    else Q_EMIT told(tr("There is no copy, eviction or preemption before this step."));
}

void TimeMachine::play() {
    if (m_cursor->stepCount() < 2) return;
    if (m_cursor->step() + 1 >= m_cursor->stepCount()) m_cursor->setStep(0);
    m_player.start();
    Q_EMIT playingChanged();
}

void TimeMachine::stopPlaying() {
    if (!m_player.isActive()) return;
    m_player.stop();
    Q_EMIT playingChanged();
}

}  // namespace kvloupe
