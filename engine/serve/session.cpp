// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/serve/session.h"

#include "engine/serve/session_engine.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <limits>
#include <mutex>
#include <set>
#include <thread>

namespace kvloupe {

namespace {

constexpr std::size_t max_queued = 4096;       // commands that the worker has not taken yet
constexpr std::size_t max_notes = 10000;

struct Command {
    enum Kind : std::uint8_t { step, run, run_through, pause, submit, cancel, act, reset, continue_uncached, watch, breakpoints };
    Kind kind = step;
    std::uint32_t count = 0;
    std::string request;
    std::vector<Request> requests;   // submit: one per lane
    ScenarioAction action;
    RequestInfo info;
    std::vector<AttentionWatch> watched;
    std::vector<Breakpoint> stops;
};

}  // namespace

struct Session::Impl {
    Scenario scenario;
    SessionOptions options;
    std::unique_ptr<SessionEngine> engine;  // the worker's, once it runs

    mutable std::mutex mutex;               // guards what follows
    std::condition_variable_any wake;       // the worker: there is a command
    std::condition_variable idle_changed;   // wait()
    std::deque<Command> queue;
    bool idle = true;
    bool ended = false;                     // the worker's thread is gone
    std::shared_ptr<const Recording> recording;
    std::uint64_t generation = 0;
    std::set<std::string> ids;              // names that are taken, queued submits and forks included
    std::uint64_t generated = first_generated_token;  // next id of an accounting lane's tokens
    std::vector<std::string> notes;
    std::vector<AttentionWatch> watch;
    std::vector<Breakpoint> breakpoints;

    // The worker's own.
    std::uint64_t steps_left = 0;
    bool running = false;
    bool through = false;

    std::jthread worker;                    // last: joined before anything above goes

    bool push(Command command);
    bool push_locked(Command command);      // under the mutex
    void execute(Command& command);
    void advance(std::stop_token stop);
    void halt(const std::string& reason);
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

// False when the queue is full. Steps add up, and a command that only sets something replaces the one before it.
bool Session::Impl::push(Command command) {
    std::lock_guard lock(mutex);
    return push_locked(std::move(command));
}

bool Session::Impl::push_locked(Command command) {
    idle = false;
    const bool same = !queue.empty() && queue.back().kind == command.kind;
    if (same && command.kind == Command::step) {
        queue.back().count += std::min(command.count, std::numeric_limits<std::uint32_t>::max() - queue.back().count);
    } else if (same && command.kind != Command::submit && command.kind != Command::cancel &&
               command.kind != Command::act && command.kind != Command::continue_uncached) {
        queue.back() = std::move(command);
    } else if (queue.size() >= max_queued) {
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

void Session::Impl::execute(Command& command) {
    switch (command.kind) {
    case Command::step:
        steps_left += command.count;
        break;
    case Command::run_through:
        through = true;
        [[fallthrough]];
    case Command::run:
        running = true;
        break;
    case Command::pause:
        halt({});
        break;
    case Command::submit:
        engine->submit(std::move(command.requests), std::move(command.info));
        if (!running && steps_left == 0) engine->set_phase(Phase::paused);
        break;
    case Command::cancel:
        engine->cancel(command.request);
        break;
    case Command::act:
        engine->act(command.action);
        break;
    case Command::reset: {
        running = through = false;
        steps_left = 0;
        engine->begin();
        std::lock_guard lock(mutex);
        recording = engine->recording();
        ++generation;
        notes.clear();
        break;
    }
    case Command::continue_uncached:
        engine->continue_uncached(command.count);
        break;
    case Command::watch:
        engine->set_watch(command.watched);
        break;
    case Command::breakpoints:
        engine->set_breakpoints(std::move(command.stops));
        break;
    }
}

void Session::Impl::advance(std::stop_token stop) {
    if (engine->recording()->phase() != Phase::running) engine->set_phase(Phase::running);
    const SessionEngine::Progress progress = engine->step(stop, through);
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
        std::deque<Command> taken;
        {
            std::unique_lock lock(mutex);
            if (queue.empty() && !running && steps_left == 0) {
                idle = true;
                idle_changed.notify_all();
                wake.wait(lock, stop, [&] { return !queue.empty(); });
                if (stop.stop_requested()) break;
            }
            taken.swap(queue);
        }
        try {
            for (Command& command : taken) execute(command);
            if (running || steps_left > 0) advance(stop);
        } catch (const std::exception& problem) {
            // Out of memory, in practice. The recording keeps what was published.
            running = through = false;
            steps_left = 0;
            engine->set_phase(Phase::failed, std::string("The session stopped: ") + problem.what() +
                                                 ". Reset it, or give it fewer tokens or less to record.");
        }
    }
    std::lock_guard lock(mutex);
    idle = ended = true;
    idle_changed.notify_all();
}

Session::Session() : m_impl(std::make_unique<Impl>()) {}

Session::~Session() {
    if (!m_impl) return;
    m_impl->worker.request_stop();
    if (m_impl->worker.joinable()) m_impl->worker.join();
}

Result<std::unique_ptr<Session>> Session::create(const Scenario& scenario, SessionOptions options) {
    try {
        std::unique_ptr<Session> session(new Session());
        Impl& impl = *session->m_impl;
        impl.scenario = scenario;
        impl.options = std::move(options);
        auto engine = SessionEngine::create(impl.scenario, impl.options);
        if (!engine) return engine.error();
        impl.engine = std::move(*engine);
        impl.recording = impl.engine->recording();
        impl.ids = impl.scenario_ids();
        impl.generated = impl.engine->first_free_token();
        impl.watch = impl.engine->default_watch();
        impl.breakpoints = impl.scenario.breakpoints;
        impl.worker = std::jthread([&impl](std::stop_token stop) { impl.work(stop); });
        return session;
    } catch (const std::exception& problem) {
        return Error{std::string("The session cannot start: ") + problem.what(),
                     "Give the lanes fewer blocks, or close other programs."};
    }
}

std::shared_ptr<const Recording> Session::recording() const {
    std::lock_guard lock(m_impl->mutex);
    return m_impl->recording;
}

const Scenario& Session::scenario() const { return m_impl->scenario; }

std::shared_ptr<const Model> Session::model(LaneId lane) const {
    const auto& lanes = m_impl->engine->lanes();
    return lane.value < lanes.size() && lanes[lane.value].device ? lanes[lane.value].device->model : nullptr;
}

void Session::step(std::uint32_t count) {
    Command command;
    command.count = count;
    if (count > 0) m_impl->push(std::move(command));
}

void Session::run() {
    Command command;
    command.kind = Command::run;
    m_impl->push(std::move(command));
}

void Session::pause() {
    Command command;
    command.kind = Command::pause;
    m_impl->push(std::move(command));
}

Result<void> Session::submit(const RequestOptions& options) {
    try {
        if (options.id.empty()) return Error{"The request has no id", "Give it one."};
        if (options.prompt.has_value() == options.prompt_tokens.has_value())
            return Error{"Request '" + options.id + "' has " + (options.prompt ? "two prompts" : "no prompt"),
                         "Give exactly one of text and tokens."};
        if (options.max_new_tokens == 0 && !options.output_tokens)
            return Error{"Request '" + options.id + "': max_new_tokens is 0", "Give at least 1."};
        if (options.n == 0 || (options.beam_width > 0 && (options.n > 1 || options.output_tokens)))
            return Error{"Request '" + options.id + "': n, beam_width and output_tokens contradict each other", "Give one of them."};
        Command command;
        command.kind = Command::submit;
        std::lock_guard lock(m_impl->mutex);
        std::uint64_t generated = m_impl->generated;
        for (const LaneSetup& lane : m_impl->engine->lanes()) {
            std::uint64_t own = m_impl->generated;
            auto request = make_request(options, lane.device ? lane.device->model.get() : nullptr, m_impl->scenario.seed, own);
            if (!request) return request.error();
            generated = std::max(generated, own);
            command.requests.push_back(std::move(*request));
        }
        command.info = request_info(options, command.requests.front());
        if (!m_impl->ids.insert(options.id).second)
            return Error{"There is a request '" + options.id + "' already", "Give it another id."};
        if (!m_impl->push_locked(std::move(command))) {
            m_impl->ids.erase(options.id);
            return Error{"Request '" + options.id + "' was not taken: " + std::to_string(max_queued) + " commands are waiting",
                         "Wait for the step in progress, then try again."};
        }
        m_impl->generated = generated;
        Impl::add_names(options, m_impl->ids);
        return {};
    } catch (const std::exception& problem) {
        return Error{"Request '" + options.id + "' was not taken: " + problem.what(), ""};
    }
}

void Session::cancel(const std::string& request_id) {
    Command command;
    command.kind = Command::cancel;
    command.request = request_id;
    m_impl->push(std::move(command));
}

Result<void> Session::act(const ScenarioAction& action) {
    try {
        Command command;
        command.kind = Command::act;
        command.action = action;
        std::lock_guard lock(m_impl->mutex);
        ScenarioAction& given = command.action;
        const bool on_request = given.kind != ActionKind::evict && given.kind != ActionKind::reset_prefix_cache;
        if (on_request && !m_impl->ids.count(given.request)) return Error{"request: there is no sequence '" + given.request + "'", ""};
        for (const LaneSetup& lane : m_impl->engine->lanes())
            if (auto good = check_action(given, lane, std::string(name_of(given.kind))); !good) return good;
        if (given.kind == ActionKind::fork) {
            for (std::uint32_t number = 2; given.as.empty(); ++number)
                if (const std::string name = given.request + "-" + std::to_string(number); !m_impl->ids.count(name)) given.as = name;
            if (!m_impl->ids.insert(given.as).second) return Error{"as: there is a sequence '" + given.as + "' already", "Give the fork another name."};
        }
        if (m_impl->push_locked(std::move(command))) return {};
        return Error{"The action was not taken: " + std::to_string(max_queued) + " commands are waiting", "Wait for the step in progress, then try again."};
    } catch (const std::exception& problem) {
        return Error{std::string("The action was not taken: ") + problem.what(), ""};
    }
}

void Session::reset() {
    {
        std::lock_guard lock(m_impl->mutex);
        m_impl->ids = m_impl->scenario_ids();
    }
    Command command;
    command.kind = Command::reset;
    m_impl->push(std::move(command));
}

void Session::continue_uncached(std::uint32_t more_tokens) {
    Command command;
    command.kind = Command::continue_uncached;
    command.count = more_tokens;
    m_impl->push(std::move(command));
}

void Session::set_watch(std::vector<AttentionWatch> watch) {
    Command command;
    command.kind = Command::watch;
    command.watched = watch;
    {
        std::lock_guard lock(m_impl->mutex);
        m_impl->watch = std::move(watch);
    }
    m_impl->push(std::move(command));
}

std::vector<AttentionWatch> Session::watch() const {
    std::lock_guard lock(m_impl->mutex);
    return m_impl->watch;
}

void Session::set_breakpoints(std::vector<Breakpoint> breakpoints) {
    Command command;
    command.kind = Command::breakpoints;
    command.stops = breakpoints;
    {
        std::lock_guard lock(m_impl->mutex);
        m_impl->breakpoints = std::move(breakpoints);
    }
    m_impl->push(std::move(command));
}

std::vector<Breakpoint> Session::breakpoints() const {
    std::lock_guard lock(m_impl->mutex);
    return m_impl->breakpoints;
}

std::uint64_t Session::generation() const {
    std::lock_guard lock(m_impl->mutex);
    return m_impl->generation;
}

void Session::wait() {
    std::unique_lock lock(m_impl->mutex);
    m_impl->idle_changed.wait(lock, [&] { return (m_impl->idle && m_impl->queue.empty()) || m_impl->ended; });
}

Result<void> Session::run_to_end() {
    Command command;
    command.kind = Command::run_through;
    m_impl->push(std::move(command));
    wait();
    const auto recorded = recording();
    if (recorded->phase() == Phase::failed) return Error{recorded->reason(), ""};
    return {};
}

std::vector<std::string> Session::breakpoint_notes() const {
    std::lock_guard lock(m_impl->mutex);
    return m_impl->notes;
}

}  // namespace kvloupe
