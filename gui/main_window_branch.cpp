// SPDX-License-Identifier: GPL-3.0-or-later
//
// The window's ways back and aside: restart from here, and branches.
#include "gui/main_window.h"

#include "gui/branch_dialog.h"
#include "gui/notice_bar.h"

#include <QAction>
#include <QMenu>

namespace kvloupe {

void MainWindow::buildBranchActions(QMenu* run) {
    m_restart = action(tr("Restart from &here"), {}, {QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_R)});
    m_restart->setToolTip(tr("Puts the engine back to the step that is shown: what came later is forgotten (Ctrl+Shift+R)"));
    connect(m_restart, &QAction::triggered, this, [this] { restartFrom(m_controller.cursor()->step()); });
    m_branch = action(tr("Bra&nch…"), {}, {QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_B)});
    m_branch->setToolTip(tr("Another future from the step that is shown, as a lane beside the old one (Ctrl+Shift+B)"));
    connect(m_branch, &QAction::triggered, this, [this] { branchFrom(m_controller.cursor()->step()); });
    run->addSeparator();
    run->addActions({m_restart, m_branch});
    connect(&m_controller, &SessionController::replayed, this, [this](const QString& sentence) {
        if (!sentence.isEmpty()) m_notice->show(sentence);
    });
}

void MainWindow::updateBranchActions() {
    const bool steps = (m_controller.hasSession() || m_controller.hasFile()) && m_controller.cursor()->stepCount() > 0;
    for (QAction* each : {m_restart, m_branch}) each->setEnabled(steps && !isMeasuring());
}

// The step of what was pointed at, else the one that is shown.
void MainWindow::addBranchActions(QMenu* menu, const Pick& meant) {
    const LaneRecord* lane = m_controller.cursor()->laneRecord();
    if (!lane || !m_restart->isEnabled()) return;
    int step = m_controller.cursor()->step();
    for (std::size_t low = 0, high = meant.event ? lane->step_count() : 0; low < high;) {
        const std::size_t middle = (low + high) / 2;
        const LogRange range = lane->step(middle).events;
        if (*meant.event >= range.end) low = middle + 1;
        else if (*meant.event < range.begin) high = middle;
        else {
            step = static_cast<int>(middle);
            break;
        }
    }
    menu->addAction(tr("Restart from step %1").arg(step), this, [this, step] { restartFrom(step); });
    menu->addAction(tr("Branch from step %1…").arg(step), this, [this, step] { branchFrom(step); });
    menu->addSeparator();
}

void MainWindow::restartFrom(int step) {
    const QString problem = m_controller.restart(step);
    if (!problem.isEmpty()) m_notice->show(problem);
}

void MainWindow::branchFrom(int step) {
    const auto recording = m_controller.recording();
    if (!recording || step < 0) return;
    if (const auto scenario = m_controller.replayableScenario(); !scenario) {
        m_notice->show(QString::fromStdString(scenario.error().message()));
        return;
    }
    const Cursor* cursor = m_controller.cursor();
    BranchDialog dialog(recording, {cursor->lane(), cursor->locked().sequence.value_or(cursor->sequence()), step},
                        [this](const BranchWish& wish) { return m_controller.branched(wish); }, this);
    if (dialog.exec() != QDialog::Accepted) return;
    const QString problem = m_controller.branch(dialog.wish());
    if (!problem.isEmpty()) m_notice->show(problem);
}

}  // namespace kvloupe
