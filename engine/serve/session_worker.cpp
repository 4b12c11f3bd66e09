// SPDX-License-Identifier: GPL-3.0-or-later
//
// The session's worker: takes commands, steps the engine, stops where it should.
#include "engine/serve/session_impl.h"

#include <algorithm>
#include <limits>

namespace kvloupe {

namespace {

constexpr std::size_t max_notes = 10000;

}  // namespace

// False when the queue is full. Steps add up, and a command that only sets something replaces the one before it.
bool Session::Impl::push(SessionCommand command) {
    std::lock_guard lock(mutex);
    return push_locked(std::move(command));
}

bool Session::Impl::push_locked(SessionCommand command) {
    idle = false;
    const bool same = !queue.empty() && queue.back().kind == command.kind;
    if (same && command.kind == SessionCommand::step) {
        queue.back().count += std::min(command.count, std::numeric_limits<std::uint32_t>::max() - queue.back().count);
    } else if (same && command.kind != SessionCommand::submit && command.kind != SessionCommand::act && command.kind != SessionCommand::continue_uncached) {
        queue.back() = std::move(command);
    } else if (queue.size() >= max_queued_commands) {
        return false;
    } else {
        queue.push_back(std::move(command));
    }
    wake.notify_one();
    return true;
}

void Session::Impl::halt(const std::string& reason) {
    running = through = false;
    steps_left = 0;
    if (engine->has_work()) engine->set_phase(Phase::paused, reason);
    else engine->mark_end();
}

void Session::Impl::execute(SessionCommand& command) {
    switch (command.kind) {
    case SessionCommand::step:
        steps_left += command.count;
        break;
    case SessionCommand::run_through:
        through = true;
        [[fallthrough]];
    case SessionCommand::run:
        running = true;
        break;
    case SessionCommand::pause:
        if (replay) end_replay(true);
        halt({});
        break;
    case SessionCommand::submit:
        note_submit(command);
        if (!running && steps_left == 0 && !replay) engine->set_phase(Phase::paused);
        break;
    case SessionCommand::act:
        note_action(command.action);
        break;
    case SessionCommand::reset: {
        replay.reset();
        start_over();
        std::lock_guard lock(mutex);
        submitted.clear();
        asked.clear();
        break;
    }
    case SessionCommand::restart:
        begin_restart(*command.last);
        break;
    case SessionCommand::replay:
        begin_replay(ReplayCheck(std::move(command.before), *engine->recording()), command.last);
        break;
    case SessionCommand::block: {
        auto values = std::make_shared<BlockValues>(engine->block_values(command.question));
        std::lock_guard lock(mutex);
        values->generation = generation;
        block_values = std::move(values);
        break;
    }
    case SessionCommand::continue_uncached:
        engine->continue_uncached(command.count);
        break;
    case SessionCommand::watch:
        engine->set_watch(command.watched);
        break;
    case SessionCommand::stages:
        engine->set_stages_every(command.count);
        break;
    case SessionCommand::breakpoints:
        engine->set_breakpoints(std::move(command.stops));
        break;
    }
}

// Its time counts as work that a restart would do again.
SessionEngine::Progress Session::Impl::step_engine(std::stop_token stop, bool all_through, std::span<const std::uint32_t> until) {
    const auto start = std::chrono::steady_clock::now();
    SessionEngine::Progress progress = engine->step(stop, all_through, until);
    // The lists are the worker's to change: reading them needs no lock.
    if (!progress.stopped) engine->note_step(std::chrono::steady_clock::now() - start, {submitted.size(), asked.size()});
    if (options.after_step) options.after_step();
    return progress;
}

void Session::Impl::advance(std::stop_token stop) {
    if (engine->recording()->phase() != Phase::running) engine->set_phase(Phase::running);
    if (replay) return replay_step(stop);
    const SessionEngine::Progress progress = step_engine(stop, through, {});
    if (progress.stopped) return;
    if (!progress.breakpoints.empty()) {
        std::lock_guard lock(mutex);
        for (const std::string& note : progress.breakpoints)
            if (notes.size() < max_notes) notes.push_back(note);
    }
    if (steps_left > 0) --steps_left;
    if (!progress.pause.empty() || !progress.more) halt(progress.pause);
    else if (!running && steps_left == 0) halt({});
}

void Session::Impl::work(std::stop_token stop) {
    while (!stop.stop_requested()) {
        std::deque<SessionCommand> taken;
        {
            std::unique_lock lock(mutex);
            if (queue.empty() && !running && steps_left == 0 && !replay) {
                idle = true;
                idle_changed.notify_all();
                wake.wait(lock, stop, [&] { return !queue.empty(); });
                if (stop.stop_requested()) break;
            }
            taken.swap(queue);
        }
        try {
            for (SessionCommand& command : taken) execute(command);
            if (running || steps_left > 0 || replay) advance(stop);
        } catch (const std::exception& problem) {
            // Out of memory, in practice. The recording keeps what was published.
            running = through = false;
            steps_left = 0;
            replay.reset();
            engine->set_phase(Phase::failed, std::string("The session stopped: ") + problem.what() +
                                                 ". Reset it, or give it fewer tokens or less to record.");
            std::lock_guard lock(mutex);
            restarts_done = restarts_asked;
            idle_changed.notify_all();
        }
    }
    engine->read_late_stages();
    std::lock_guard lock(mutex);
    idle = ended = true;
    idle_changed.notify_all();
}

}  // namespace kvloupe
