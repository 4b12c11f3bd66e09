// SPDX-License-Identifier: GPL-3.0-or-later
//
// Context menus of views, what they do to the session (fork, preempt, evict, reset), and the choices that views save.
#include "gui/main_window.h"

#include "gui/breakpoint_dialog.h"
#include "gui/fork_dialog.h"
#include "gui/notice_bar.h"
#include "gui/tab_page.h"
#include "views/format.h"
#include "views/picking.h"
#include "views/view.h"
#include "views/view_factory.h"

#include <QActionGroup>
#include <QMenu>
#include <QSettings>

#include <algorithm>

namespace kvloupe {

void MainWindow::addChoices(QMenu* menu, View* view) {
    for (const ViewChoice& choice : view->choices()) {
        QMenu* names = menu->addMenu(choice.title);
        auto* group = new QActionGroup(names);
        for (int i = 0; i < choice.names.size(); ++i) {
            QAction* name = names->addAction(choice.names[i], view, [view, key = choice.key, i] { view->choose(key, i); });
            name->setCheckable(true);
            name->setChecked(i == choice.current);
            group->addAction(name);
        }
    }
}

void MainWindow::showViewMenu(View* view, const QPoint& global, const Pick& meant) {
    QMenu menu(this);
    fillViewMenu(&menu, view, meant);
    menu.exec(global);
}

void MainWindow::fillViewMenu(QMenu* menu, View* view, const Pick& meant) {
    addChoices(menu, view);
    if (!menu->isEmpty()) menu->addSeparator();
    Cursor* cursor = m_controller.cursor();
    const LaneRecord* lane = cursor->laneRecord();
    const LaneState* state = cursor->state();
    if (m_controller.hasSession() && lane && state) {
        const bool live = m_controller.phase() != Phase::running && m_controller.phase() != Phase::failed;
        const SequenceId sequence = meant.sequence.value_or(cursor->sequence());
        const bool known = sequence.valid() && sequence.value < state->sequences().size();
        const bool running = known && state->sequences()[sequence.value].status == SequenceStatus::running;
        const QString name = known ? sequenceName(*cursor->recording(), *lane, sequence) : QString();
        if (known) {
            menu->addAction(meant.position ? tr("Fork %1 at position %2…").arg(name).arg(*meant.position) : tr("Fork %1…").arg(name),
                            this, [this, sequence, position = meant.position] { fork(sequence, position); })
                ->setEnabled(live && running);
            menu->addAction(tr("Preempt %1").arg(name), this, [this, name] { act(SessionController::preempt(name)); })
                ->setEnabled(live && running);
        }
        if (meant.block && lane->info().kv_cache && *meant.block != null_block_id && meant.block->value < state->blocks().size())
            menu->addAction(tr("Evict block %1 from the prefix cache").arg(meant.block->value), this,
                            [this, block = *meant.block] { act(SessionController::evict(block)); })
                ->setEnabled(live && state->blocks()[meant.block->value].hashed);
        menu->addAction(tr("Reset the prefix cache"), this, [this] { act(SessionController::resetPrefixCache()); })
            ->setEnabled(live && lane->info().policy.prefix_caching);
        menu->addSeparator();
        if (meant.block && *meant.block != null_block_id) {
            Breakpoint breakpoint;
            breakpoint.block = meant.block->value;
            menu->addAction(tr("Breakpoint on block %1…").arg(meant.block->value), this, [this, breakpoint] { proposeBreakpoint(breakpoint); });
        }
        if (known && sequence.value < lane->sequences().size() && lane->sequences()[sequence.value].request.valid()) {
            Breakpoint breakpoint;
            breakpoint.request = cursor->recording()->requests()[lane->sequences()[sequence.value].request.value].id;
            menu->addAction(tr("Breakpoint on request %1…").arg(QString::fromStdString(*breakpoint.request)), this,
                            [this, breakpoint] { proposeBreakpoint(breakpoint); });
        }
        if (meant.event && *meant.event < lane->events().size()) {
            Breakpoint breakpoint;
            breakpoint.on = lane->events()[*meant.event].kind;
            menu->addAction(tr("Breakpoint %1…").arg(BreakpointDialog::sentence(breakpoint)), this,
                            [this, breakpoint] { proposeBreakpoint(breakpoint); });
        }
        menu->addSeparator();
    }
    addBranchActions(menu, meant);
    menu->addAction(tr("Export %1…").arg(view->title()), this, [this, view] { exportView(view); });
    menu->addAction(tr("Copy picture and table"), this, [this, view] { copyView(view); });
}

bool MainWindow::showView(const QString& id) {
    for (int i = 0; i < m_pages.size(); ++i)
        for (const View* view : m_pages[i]->views())
            if (view->id() == id) {
                showTab(i);
                return m_pages[i]->showView(id);
            }
    return false;
}

// Views that no tab shows at first.
void MainWindow::buildMoreMenu(QMenu* view) {
    QMenu* more = view->addMenu(tr("&More views"));
    for (const ViewDescription& description : viewDescriptions())
        if (description.tab == QLatin1String("More")) more->addAction(description.title, this, [this, id = description.id] { showView(id); });
}

void MainWindow::fork(SequenceId chosen, std::optional<std::uint32_t> position) {
    const Cursor* cursor = m_controller.cursor();
    const LaneRecord* lane = cursor->laneRecord();
    if (!m_controller.hasSession() || !lane || lane->step_count() == 0) return;
    // What runs now, not at the cursor: a fork happens in the next step.
    const LaneState now = lane->state_after(lane->step_count() - 1);
    std::vector<ForkParent> parents;
    std::vector<std::string> taken;
    const Recording& recording = *cursor->recording();
    for (std::size_t r = 0; r < recording.requests().size(); ++r) taken.push_back(recording.requests()[r].id);
    for (std::uint32_t s = 0; s < now.sequences().size() && s < lane->sequences().size(); ++s) {
        const std::string name = sequenceName(recording, *lane, SequenceId(s)).toStdString();
        taken.push_back(name);
        if (now.sequences()[s].status == SequenceStatus::running) parents.push_back({name, now.sequences()[s].computed_tokens});
    }
    const std::string name = sequenceName(recording, *lane, chosen).toStdString();
    ForkDialog dialog(std::move(parents), name, position, std::move(taken), lane->info().kv_cache ? lane->info().block_size : 0, this);
    if (dialog.exec() == QDialog::Accepted) act(SessionController::fork(dialog.choice()));
}

void MainWindow::act(const ScenarioAction& action) {
    const QString problem = m_controller.act(action);
    if (!problem.isEmpty()) m_notice->show(problem);
}

void MainWindow::proposeBreakpoint(const Breakpoint& breakpoint) {
    if (!m_controller.hasSession()) return;
    BreakpointDialog dialog(m_controller.session()->breakpoints(), laneNames(), this);
    dialog.setRequests(requestNames());
    dialog.propose(breakpoint);
    if (dialog.exec() == QDialog::Accepted) setBreakpoints(dialog.breakpoints());
}

QStringList MainWindow::laneNames() const {
    QStringList names;
    if (m_controller.hasSession())
        for (const LaneOptions& lane : m_controller.session()->scenario().lanes) names << QString::fromStdString(lane.name);
    return names;
}

QStringList MainWindow::requestNames() const {
    QStringList names;
    if (!m_controller.hasSession()) return names;
    const auto recording = m_controller.session()->recording();
    for (std::size_t r = 0; r < recording->requests().size(); ++r)
        names << QString::fromStdString(recording->requests()[r].id);
    for (const RequestOptions& each : m_controller.session()->scenario().requests) names << QString::fromStdString(each.id);
    return names;
}

void MainWindow::setBreakpoints(std::vector<Breakpoint> breakpoints) {
    m_controller.session()->set_breakpoints(std::move(breakpoints));
    updateState();
}

void MainWindow::restoreChoices() {
    const QSettings settings;
    for (View* view : views())
        for (const ViewChoice& choice : view->choices())
            view->choose(choice.key, settings.value(QStringLiteral("choice/%1/%2").arg(view->id(), choice.key), choice.current).toInt());
}

void MainWindow::saveChoices() const {
    QSettings settings;
    for (const View* view : views())
        for (const ViewChoice& choice : view->choices())
            settings.setValue(QStringLiteral("choice/%1/%2").arg(view->id(), choice.key), choice.current);
}

}  // namespace kvloupe
