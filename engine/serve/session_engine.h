// SPDX-License-Identifier: GPL-3.0-or-later
//
// SessionEngine: what the session's worker thread owns: lanes in lock-step, the writer of the recording, breakpoints.
// One thread only; Session puts the thread and the queue of commands around it.
#pragma once

#include "engine/serve/engine_frame.h"
#include "engine/serve/session_setup.h"

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace kvloupe {

class SessionEngine {
public:
    // Takes the memory of all lanes.
    static Result<std::unique_ptr<SessionEngine>> create(const Scenario& scenario, const SessionOptions& options);

    // The scenario from the start, in a new recording; phase paused. Forgets all key frames.
    void begin();
    // The same, but put back to the last key frame in which no step after `step` was made and no more was asked than that; from the start
    // where there is none. `before`: the recording until now, whose steps up to the frame become the new one's. Returns what had been
    // asked in the frame: the caller asks for the rest. Branches know their tokens after inherit_from().
    AskedSoFar go_back(const Recording& before, std::uint32_t step, const AskedSoFar& asked);
    // A step has taken that long: a key frame is kept where one is due.
    void note_step(std::chrono::nanoseconds work, const AskedSoFar& asked) noexcept;
    std::shared_ptr<const Recording> recording() const { return m_writer->recording(); }
    const std::vector<LaneSetup>& lanes() const { return m_prepared.lanes; }
    const std::vector<AttentionWatch>& default_watch() const { return m_prepared.watch; }

    std::uint64_t first_free_token() const { return m_prepared.generated; }

    struct Progress {
        bool more = true;         // there is something left to step
        bool stopped = false;     // by the stop token, in the middle of a step
        std::string pause;        // why the window should stop here, or empty
        std::vector<std::string> breakpoints;  // that held in this step, and what else is to be said
    };
    // One step of the lanes that are furthest behind and can go on. through: neither breakpoints, limits nor failures
    // pause. until (lanes): steps that each lane is taken to at most; empty: without end.
    Progress step(std::stop_token stop, bool through, std::span<const std::uint32_t> until = {});

    // The next step of the lane that is furthest ahead.
    std::uint32_t ahead() const;
    // One request per lane; it arrives in that step, which no lane has passed.
    void submit(std::vector<Request> requests, RequestInfo info, std::uint32_t arrival_step);
    // At its step, which no lane has passed, in every lane.
    void act(const ScenarioAction& action);
    // Branches whose parents are in an earlier recording of the same run take their tokens from there and wait for nobody.
    void inherit_from(const Recording& before);
    void continue_uncached(std::uint32_t more_tokens);
    void set_watch(const std::vector<AttentionWatch>& watch);
    // Of a lane that there is.
    BlockValues block_values(const BlockQuestion& question) { return m_lanes[question.lane.value]->block_values(question); }
    void set_stages_every(std::uint32_t n) { m_stages_every = n; }
    void set_breakpoints(std::vector<Breakpoint> breakpoints) { m_breakpoints = std::move(breakpoints); }

    bool has_work() const;
    // finished or failed, with the reason.
    void mark_end();
    // Records the stages of steps whose timings have not been read yet. Without memory for them they are not recorded.
    void read_late_stages() noexcept;
    // With what the last step's breakpoint stopped at, if that is the reason. Whoever sees a phase other than running
    // sees the stages of all steps too.
    void set_phase(Phase phase, const std::string& reason = {}) {
        if (phase != Phase::running) close_books();
        m_writer->set_phase(phase, reason, phase == Phase::paused && !reason.empty() ? m_focus : std::nullopt);
    }

private:
    SessionEngine(const Scenario& scenario, const SessionOptions& options)
        : m_scenario(scenario), m_options(options), m_frames(options.frames) {}
    void begin_lanes();
    Result<EngineFrame> make_frame(const AskedSoFar& asked) const;
    Result<void> restore(const EngineFrame& frame, const Recording& before);
    void close_books() noexcept;
    LateStages* late_stages_of(std::size_t lane);
    bool at_limit(std::size_t lane) const;
    bool waits_for_parent(std::size_t lane) const;
    void begin_branches();
    void teach_branches(std::size_t parent);
    // A branch and the lane that it continues.
    struct BranchLane {
        std::size_t parent = 0;
        bool switches = false;  // it runs beside its parent, in the same steps
        BranchTokens tokens;
    };
    std::string limit_reason() const;

    const Scenario& m_scenario;
    const SessionOptions& m_options;
    PreparedSession m_prepared;
    std::vector<std::unique_ptr<Lane>> m_lanes;
    std::map<Backend*, LateStages> m_late;             // of the lanes' backends
    std::vector<const Backend*> m_cards;               // those of them that have memory of their own
    std::vector<std::vector<AttentionWatch>> m_watch;  // (lanes)
    std::vector<std::uint32_t> m_limits;               // (lanes) 0: none
    std::map<std::size_t, BranchLane> m_branches;      // by lane
    std::vector<bool> m_overflow_said;                 // (lanes) said once and not in every step
    std::unique_ptr<RecordingWriter> m_writer;
    std::unique_ptr<LogitComparison> m_comparison;
    std::vector<Breakpoint> m_breakpoints;
    std::uint32_t m_stages_every = 1;                  // 0: never
    std::optional<PauseFocus> m_focus;                 // of the last step's first breakpoint that held
    std::string m_failure;  // of the last failing step since the start or the last submit
    EngineFrames m_frames;  // over the lanes' devices: goes before them
};

}  // namespace kvloupe
