// SPDX-License-Identifier: GPL-3.0-or-later
//
// What happened in a session as a scenario, and computing it again: restart from a step, and replay against an earlier recording.
#include "engine/serve/session_impl.h"

#include <algorithm>

namespace kvloupe {

Scenario Session::replayable_scenario() const {
    Scenario scenario = m_impl->scenario;
    // A pool that was sized for the requests at hand would be another one with those that came later.
    const auto& lanes = m_impl->engine->lanes();
    for (std::size_t i = 0; i < scenario.lanes.size(); ++i)
        if (scenario.lanes[i].kv_cache) scenario.lanes[i].cache.blocks = lanes[i].blocks;
    std::lock_guard lock(m_impl->mutex);
    for (const SubmittedRequest& each : m_impl->submitted) scenario.requests.push_back(each.options);
    scenario.actions.insert(scenario.actions.end(), m_impl->asked.begin(), m_impl->asked.end());
    scenario.breakpoints = m_impl->breakpoints;
    return scenario;
}

Result<void> Session::restart(std::uint32_t step) {
    std::unique_lock lock(m_impl->mutex);
    std::size_t steps = 0;
    for (const auto& lane : m_impl->recording->lanes()) steps = std::max(steps, lane->step_count());
    if (step >= steps)
        return Error{"There is no step " + std::to_string(step) + " to restart from",
                     steps == 0 ? "Nothing has been recorded yet." : "The last one is " + std::to_string(steps - 1) + "."};
    SessionCommand command;
    command.kind = SessionCommand::restart;
    command.last = step;
    const std::uint64_t mine = ++m_impl->restarts_asked;
    if (!m_impl->push_locked(std::move(command)))
        return Error{"The restart was not taken: " + std::to_string(max_queued_commands) + " commands are waiting",
                     "Wait for the step in progress, then try again."};
    m_impl->idle_changed.wait(lock, [&] { return m_impl->restarts_done >= mine || m_impl->ended; });
    return {};
}

void Session::replay(std::shared_ptr<const Recording> before, std::optional<std::uint32_t> last) {
    SessionCommand command;
    command.kind = SessionCommand::replay;
    command.before = std::move(before);
    command.last = last;
    m_impl->push(std::move(command));
}

std::optional<ReplayReport> Session::replay_report() const {
    std::lock_guard lock(m_impl->mutex);
    return m_impl->replayed;
}

// The scenario from the start, in a new recording.
void Session::Impl::start_over() {
    running = through = false;
    steps_left = 0;
    engine->begin();
    publish_start();
}

// As it was in the last key frame that goes no further than the step, in a new recording that begins as `before` did. Returns what had
// been asked by then.
AskedSoFar Session::Impl::start_again(const Recording& before, std::uint32_t step) {
    running = through = false;
    steps_left = 0;
    const AskedSoFar there = engine->go_back(before, step, {submitted.size(), asked.size()});
    publish_start();
    return there;
}

void Session::Impl::publish_start() {
    std::lock_guard lock(mutex);
    recording = engine->recording();
    ++generation;
    notes.clear();
    block_values.reset();
    replayed.reset();
}

// The step in which what is asked for now takes effect: behind what is being computed again.
std::uint32_t Session::Impl::next_arrival() const {
    std::uint32_t step = engine->ahead();
    if (replay)
        for (const std::uint32_t until : replay->until) step = std::max(step, until);
    return step;
}

void Session::Impl::note_submit(SessionCommand& command) {
    SubmittedRequest noted{std::move(command.options), std::move(command.info), std::move(command.requests), command.generated};
    noted.options.arrival_step = next_arrival();
    noted.options.submitted = true;
    engine->submit(noted.requests, noted.info, noted.options.arrival_step);
    std::lock_guard lock(mutex);
    submitted.push_back(std::move(noted));
}

void Session::Impl::note_action(ScenarioAction& action) {
    action.at_step = next_arrival();
    engine->act(action);
    std::lock_guard lock(mutex);
    asked.push_back(std::move(action));
}

// Under no lock. Names and token ids of what is forgotten can be taken again.
void Session::Impl::forget_after(std::uint32_t step) {
    std::lock_guard lock(mutex);
    const auto later = std::find_if(submitted.begin(), submitted.end(),
                                    [&](const SubmittedRequest& each) { return each.options.arrival_step > step; });
    if (later != submitted.end()) generated = later->generated;
    for (auto each = later; each != submitted.end(); ++each) {
        std::set<std::string> names;
        add_names(each->options, names);
        for (const std::string& name : names) ids.erase(name);
    }
    submitted.erase(later, submitted.end());
    for (const ScenarioAction& action : asked)
        if (action.at_step > step && action.kind == ActionKind::fork) ids.erase(action.as);
    std::erase_if(asked, [&](const ScenarioAction& action) { return action.at_step > step; });
}

void Session::Impl::begin_restart(std::uint32_t step) {
    if (replay) end_replay(true);
    const std::shared_ptr<const Recording> before = engine->recording();
    forget_after(step);
    const AskedSoFar there = start_again(*before, step);
    ReplayCheck check(before, *engine->recording());
    // The lists are the worker's to change: reading them needs no lock. Actions first: a request may bring a lane level in steps in
    // which some of them are done.
    for (std::size_t i = there.actions; i < asked.size(); ++i) engine->act(asked[i]);
    for (std::size_t i = there.submitted; i < submitted.size(); ++i)
        engine->submit(submitted[i].requests, submitted[i].info, submitted[i].options.arrival_step);
    begin_replay(std::move(check), step);
    std::lock_guard lock(mutex);
    restarts_done = restarts_asked;
    idle_changed.notify_all();
}

void Session::Impl::begin_replay(ReplayCheck check, std::optional<std::uint32_t> last) {
    const Recording* const before = &check.before();
    const std::size_t end = last ? std::size_t{*last} + 1 : SIZE_MAX;
    std::vector<std::uint32_t> until;
    const auto& lanes = engine->lanes();
    for (const LaneSetup& lane : lanes) {
        std::string name = lane.options.name;
        const auto found = [&] {
            return std::find_if(before->lanes().begin(), before->lanes().end(), [&](const auto& old) { return old->info().name == name; });
        };
        auto old = found();
        // A lane that was not there goes as far as the one that it continues.
        for (const LaneOptions* at = &lane.options; old == before->lanes().end() && at->branch;) {
            name = at->branch->of;
            old = found();
            const auto parent = std::find_if(lanes.begin(), lanes.end(), [&](const LaneSetup& each) { return each.options.name == name; });
            if (parent == lanes.end()) break;
            at = &parent->options;
        }
        const std::size_t steps = old == before->lanes().end() ? 0 : (*old)->step_count();
        until.push_back(static_cast<std::uint32_t>(std::min({steps, end, std::size_t{UINT32_MAX}})));
    }
    engine->inherit_from(*before);
    replay.emplace(SessionReplay{std::move(check), std::move(until)});
}

void Session::Impl::replay_step(std::stop_token stop) {
    const SessionEngine::Progress progress = step_engine(stop, true, replay->until);
    if (progress.stopped) return;
    replay->check.compare(*engine->recording());
    if (progress.more) return;
    end_replay(false);
    if (!running && steps_left == 0) halt({});
}

void Session::Impl::end_replay(bool unfinished) {
    ReplayReport report = replay->check.end(unfinished);
    replay.reset();
    std::lock_guard lock(mutex);
    replayed = std::move(report);
}

}  // namespace kvloupe
