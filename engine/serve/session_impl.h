// SPDX-License-Identifier: GPL-3.0-or-later
//
// Inside of Session: its worker thread, the queue of commands, and what both share under a mutex.
#pragma once

#include "engine/serve/session.h"
#include "engine/serve/session_engine.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <thread>

namespace kvloupe {

inline constexpr std::size_t max_queued_commands = 4096;  // that the worker has not taken yet

struct SessionCommand {
    enum Kind : std::uint8_t { step, run, run_through, pause, submit, act, reset, restart, replay, continue_uncached, watch, breakpoints, stages, block };
    Kind kind = step;
    std::uint32_t count = 0;
    std::vector<Request> requests;   // submit: one per lane
    RequestOptions options;          // submit
    std::uint64_t generated = 0;     // submit: the first id that an accounting lane could give to it
    ScenarioAction action;
    RequestInfo info;
    std::shared_ptr<const Recording> before;  // replay
    std::optional<std::uint32_t> last;        // replay; restart
    std::vector<AttentionWatch> watched;
    std::vector<Breakpoint> stops;
    BlockQuestion question;
};

// A request that was submitted while the session ran; it can be given to the lanes again.
struct SubmittedRequest {
    RequestOptions options;          // with its arrival_step
    RequestInfo info;
    std::vector<Request> requests;   // (lanes)
    std::uint64_t generated = 0;     // as in the command
};

// Steps that are computed again.
struct SessionReplay {
    ReplayCheck check;
    std::vector<std::uint32_t> until;  // (lanes) steps that it has then
};

struct Session::Impl {
    Scenario scenario;
    SessionOptions options;
    std::unique_ptr<SessionEngine> engine;  // the worker's, once it runs
    std::vector<DeviceInfo> devices;        // (lanes); never changes once the worker runs

    mutable std::mutex mutex;               // guards what follows
    std::condition_variable_any wake;       // the worker: there is a command
    std::condition_variable idle_changed;   // wait()
    std::deque<SessionCommand> queue;
    bool idle = true;
    bool ended = false;                     // the worker's thread is gone
    std::shared_ptr<const Recording> recording;
    std::uint64_t generation = 0;
    std::set<std::string> ids;              // names that are taken, queued submits and forks included
    std::uint64_t generated = first_generated_token;  // next id of an accounting lane's tokens
    std::vector<SubmittedRequest> submitted;  // since the start, in order; executed
    std::vector<ScenarioAction> asked;        // the same, with their steps
    std::uint64_t restarts_asked = 0, restarts_done = 0;
    std::optional<ReplayReport> replayed;     // the last replay, when it has ended
    std::vector<std::string> notes;
    std::vector<AttentionWatch> watch;
    std::vector<Breakpoint> breakpoints;
    std::uint32_t stages_every = 1;
    std::shared_ptr<const BlockValues> block_values;  // the last answer; may be null

    // The worker's own.
    std::uint64_t steps_left = 0;
    bool running = false;
    bool through = false;
    std::optional<SessionReplay> replay;

    std::jthread worker;                    // last: joined before anything above goes

    bool push(SessionCommand command);
    bool push_locked(SessionCommand command);      // under the mutex
    void execute(SessionCommand& command);
    void advance(std::stop_token stop);
    SessionEngine::Progress step_engine(std::stop_token stop, bool all_through, std::span<const std::uint32_t> until);
    void halt(const std::string& reason);
    // session_replay.cpp
    void start_over();
    AskedSoFar start_again(const Recording& before, std::uint32_t step);
    void publish_start();
    void note_submit(SessionCommand& command);
    void note_action(ScenarioAction& action);
    std::uint32_t next_arrival() const;
    void begin_restart(std::uint32_t step);
    void forget_after(std::uint32_t step);
    void begin_replay(ReplayCheck check, std::optional<std::uint32_t> last);
    void replay_step(std::stop_token stop);
    void end_replay(bool unfinished);
    void work(std::stop_token stop);
    // Names that are taken: requests, their children, forks.
    std::set<std::string> scenario_ids() const {
        std::set<std::string> result;
        for (const RequestOptions& request : scenario.requests) add_names(request, result);
        for (const ScenarioAction& action : scenario.actions)
            if (action.kind == ActionKind::fork) result.insert(action.as);
        return result;
    }
    static void add_names(const RequestOptions& request, std::set<std::string>& names) {
        names.insert(request.id);
        const std::uint32_t children = std::max(request.n > 1 ? request.n : 0u, request.beam_width);
        for (std::uint32_t i = 0; i < children; ++i) names.insert(request.id + "." + std::to_string(i));
    }
};

}  // namespace kvloupe
