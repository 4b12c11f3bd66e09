// SPDX-License-Identifier: GPL-3.0-or-later
//
// The past again: restart from a step, and branches, of a session or of a recording file that holds its scenario.
#include "gui/session_controller.h"

#include "gui/stored_scenario.h"

#include <algorithm>

namespace kvloupe {

Result<Scenario> SessionController::replayableScenario() const {
    if (m_session) return m_session->replayable_scenario();
    if (!m_file) return Error{"Nothing is open", ""};
    auto scenario = scenario_of(*m_file);
    if (!scenario) return scenario;
    for (LaneOptions& lane : scenario->lanes)
        if (!lane.kv_cache && lane.uncached_limit == 0) lane.uncached_limit = uncachedLimit;
    return scenario;
}

std::string SessionController::scenarioJson() const {
    if (m_session) return stored_scenario(m_session->replayable_scenario());
    if (!m_file) return {};
    const auto found = m_file->meta.find("scenario");
    return found == m_file->meta.end() ? std::string() : found->second;
}

QString SessionController::restart(int step) {
    const LaneRecord* focused = m_cursor.laneRecord();
    if (step < 0 || !focused) return tr("There is no step to restart from yet.");
    const std::string lane = focused->info().name;
    if (m_session) {
        if (const auto restarted = m_session->restart(static_cast<std::uint32_t>(step)); !restarted)
            return QString::fromStdString(restarted.error().message());
        showRecording();
        Q_EMIT sessionChanged();
        awaitReplay(step, lane);
        return {};
    }
    const auto scenario = replayableScenario();
    if (!scenario) return QString::fromStdString(scenario.error().message());
    openReplay(*scenario, {recording(), static_cast<std::uint32_t>(step), step, lane});
    return {};
}

Result<Scenario> SessionController::branched(const BranchWish& wish) const {
    auto scenario = replayableScenario();
    if (!scenario) return scenario;
    if (const auto good = check_branch(*recording(), wish.from); !good) return good.error();
    return add_branch(*scenario, wish);
}

QString SessionController::branch(const BranchWish& wish) {
    pause();
    if (m_session) m_session->wait();  // where its lanes stand now, the branch goes
    const auto scenario = branched(wish);
    if (!scenario) return QString::fromStdString(scenario.error().message());
    openReplay(*scenario, {recording(), std::nullopt, static_cast<int>(wish.from.at_step), scenario->lanes.back().name});
    return {};
}

void SessionController::openReplay(Scenario scenario, Replay replay) {
    openScenario(scenario, false);
    m_replay = std::move(replay);
}

void SessionController::awaitReplay(int step, const std::string& lane) {
    m_replayLane = lane;
    m_replaying = true;
    m_replayStep = step;
    m_clock.wake();
    followReplay();
}

void SessionController::followReplay() {
    if (!m_replaying || !m_session) return;
    // At the last step the cursor follows; it does not where it goes to, but what the user chooses meanwhile stays.
    if (m_cursor.following() && m_cursor.stepCount() > m_replayStep) m_cursor.setStep(m_replayStep);
    const auto report = m_session->replay_report();
    if (!report) {
        m_replaying = phase() != Phase::failed;
        return;
    }
    m_replaying = false;
    m_cursor.advanced();
    if (m_cursor.following()) m_cursor.setStep(std::min(m_replayStep, m_cursor.stepCount() - 1));
    const auto& lanes = m_cursor.recording()->lanes();
    for (std::uint32_t i = 0; i < lanes.size(); ++i)
        if (lanes[i]->info().name == m_replayLane) m_cursor.setLane(LaneId(i));
    Q_EMIT replayed(QString::fromStdString(report->sentence()));
}

}  // namespace kvloupe
