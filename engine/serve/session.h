// SPDX-License-Identifier: GPL-3.0-or-later
//
// Session: lanes stepping together over the same requests, on a worker thread of its own; what happens is appended to a
// Recording that anyone may read. The worker never calls back: readers pull.
#pragma once

#include "engine/backend.h"
#include "engine/record/block_values.h"
#include "engine/record/recording.h"
#include "engine/serve/engine_frame.h"
#include "engine/serve/replay_check.h"
#include "engine/serve/scenario.h"

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

namespace kvloupe {

// Makes a backend for "auto", "cpu", "cuda:N". Injected, because the engine does not know the kernels.
using BackendFactory = std::function<Result<std::unique_ptr<Backend>>(const std::string& device)>;
// Loads or finds a model for "bundled", "bundled:NAME" or a path.
using ModelSource = std::function<Result<std::shared_ptr<const Model>>(const std::string& model)>;

// A model whose attention was converted, with progress and cancel.
using ModelConverter =
    std::function<Result<std::shared_ptr<const Model>>(std::shared_ptr<const Model>, const ConvertOptions&, const LoadOptions&)>;

struct SessionOptions {
    BackendFactory make_backend;
    ModelSource find_model;
    ModelConverter convert_model;  // may be empty: a lane that asks for it is refused
    std::stop_token stop;          // cancels create()
    std::function<void(double fraction, const std::string& what)> progress;
    // Called once before anything is put on a device with memory of its own, when models, devices and prompts are known to
    // be good: whoever is to be replaced by this session gives such memory up. May be empty.
    std::function<void()> release_memory;
    std::optional<std::vector<AttentionWatch>> default_attention;  // where the scenario says nothing
    bool debug_poison = false;     // fresh blocks are filled with NaN
    bool audit = false;            // the cache's invariants are checked after every step; debug builds always do
    LogitTap logit_tap;            // may be empty
    // Called by the worker after every step, outside its measured time; may wait (a file that is written must not be left
    // far behind). May be empty.
    std::function<void()> after_step;
    // When copies of the engine are kept, from which restart() goes on; tests choose other distances. Without memory for them every
    // restart is computed from the first step.
    EngineFramePolicy frames;
};

class Session {
public:
    // Checks everything before anything starts: models, devices, memory, prompts. A prompt that cannot fit is no error
    // of create(): that request is rejected when it arrives.
    static Result<std::unique_ptr<Session>> create(const Scenario& scenario, SessionOptions options);
    ~Session();  // stops the worker

    std::shared_ptr<const Recording> recording() const;
    const Scenario& scenario() const;
    std::shared_ptr<const Model> model(LaneId lane) const;

    // Commands; any thread; they return at once and are carried out by the worker between steps.
    void step(std::uint32_t count = 1);
    void run();
    void pause();
    Result<void> submit(const RequestOptions& request);   // for all lanes, arrives in the next step
    // As an action; an id that there is not is ignored.
    void cancel(const std::string& request_id);
    // Carried out at the beginning of the next step of the lane that is furthest ahead, in all lanes, which may come to that step later;
    // at_step means nothing. A lane that cannot do it records a refuse event that says why. Errors: what no lane can do (an unknown name or block, tokens that no vocabulary has,
    // a name that is taken); nothing is done then.
    Result<void> act(const ScenarioAction& action);
    void reset();                                         // same scenario from the start: a new Recording

    // What happened so far as a scenario: the one it was made from, with the requests that were submitted and the actions that were
    // asked for since, each in its step, pools as large as they are, and the breakpoints of now.
    Scenario replayable_scenario() const;
    // Restart from here: the engine is put back to the end of `step`, from the nearest key frame at or before it (engine_frame.h) or the
    // start by computing the steps after that again (every draw of a sampler is a function of seed, request and index, so the same
    // scenario does the same). A new Recording, as after reset(), that has the steps before the frame as they were; what was submitted
    // or asked for in later steps is forgotten; no breakpoint stops it. Returns once the new recording is there; then it is running
    // until the step is reached, and pauses. pause() ends it early. Errors: no such step.
    Result<void> restart(std::uint32_t step);
    // Computes again what `before` recorded of the same scenario (lanes by name), up to the end of step `last` or as far as it goes; a
    // branch that is not in it goes as far as its parent. For a session that has not stepped yet.
    void replay(std::shared_ptr<const Recording> before, std::optional<std::uint32_t> last = std::nullopt);
    // How the last replay went; nothing before its end.
    std::optional<ReplayReport> replay_report() const;
    void continue_uncached(std::uint32_t more_tokens);    // raises the limit at which uncached lanes pause
    void set_watch(std::vector<AttentionWatch> watch);    // attention rows to record from the next step on
    std::vector<AttentionWatch> watch() const;
    void set_breakpoints(std::vector<Breakpoint> breakpoints);
    std::vector<Breakpoint> breakpoints() const;
    // Stages are measured in every n-th step, from the next step on; 0: never. Starts as the scenario says.
    void set_stages_every(std::uint32_t n);
    std::uint32_t stages_every() const;
    // The device that the lane runs on, as it was when the session was made; without an id for an accounting lane.
    DeviceInfo device(LaneId lane) const;
    // What a block of a running lane holds: answered by the worker between steps, the newest question only. From then on the lane
    // keeps what its values are before they are stored, which takes memory and time in every step, also after a reset(). Unknown lanes: nothing.
    void ask_block(const BlockQuestion& question);
    // The last answer since the session began or was reset; null before it.
    std::shared_ptr<const BlockValues> block_values() const;
    // After a reset() recording() is a new object; this counts them.
    std::uint64_t generation() const;

    // Blocks until the worker is idle (paused, finished or failed). For commands and tests.
    void wait();
    // Runs to the end without pausing at breakpoints (they are noted); blocks. For `kvloupe run`.
    Result<void> run_to_end();
    // Breakpoints that held so far, and cache values that were beyond their precision's range, as sentences.
    std::vector<std::string> breakpoint_notes() const;

private:
    Session();
    struct Impl;
    std::unique_ptr<Impl> m_impl;
};

}  // namespace kvloupe
