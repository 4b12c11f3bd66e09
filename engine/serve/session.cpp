// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/serve/session.h"

#include "engine/serve/session_impl.h"

namespace kvloupe {

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
        impl.stages_every = impl.scenario.record.stages_every;
        for (const LaneSetup& lane : impl.engine->lanes())
            impl.devices.push_back(lane.device ? lane.device->backend->info() : DeviceInfo{});
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
    SessionCommand command;
    command.count = count;
    if (count > 0) m_impl->push(std::move(command));
}

void Session::run() {
    SessionCommand command;
    command.kind = SessionCommand::run;
    m_impl->push(std::move(command));
}

void Session::pause() {
    SessionCommand command;
    command.kind = SessionCommand::pause;
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
        SessionCommand command;
        command.kind = SessionCommand::submit;
        command.options = options;
        std::lock_guard lock(m_impl->mutex);
        command.generated = m_impl->generated;
        std::uint64_t generated = m_impl->generated;
        for (const LaneSetup& lane : m_impl->engine->lanes()) {
            std::uint64_t own = m_impl->generated;
            auto request = make_request(options, lane.device ? lane.device->model.get() : nullptr, m_impl->scenario.seed, own);
            if (!request) return request.error();
            generated = std::max(generated, own);
            command.requests.push_back(std::move(*request));
        }
        command.info = request_info(options, command.requests.front());
        std::set<std::string> names;
        Impl::add_names(options, names);
        for (const std::string& name : names)
            if (m_impl->ids.count(name)) return Error{"There is a request '" + name + "' already", "Give it another id."};
        if (!m_impl->push_locked(std::move(command)))
            return Error{"Request '" + options.id + "' was not taken: " + std::to_string(max_queued_commands) + " commands are waiting",
                         "Wait for the step in progress, then try again."};
        m_impl->generated = generated;
        m_impl->ids.insert(names.begin(), names.end());
        return {};
    } catch (const std::exception& problem) {
        return Error{"Request '" + options.id + "' was not taken: " + problem.what(), ""};
    }
}

void Session::cancel(const std::string& request_id) {
    ScenarioAction action;
    action.kind = ActionKind::cancel;
    action.request = request_id;
    (void)act(action);
}

Result<void> Session::act(const ScenarioAction& action) {
    try {
        SessionCommand command;
        command.kind = SessionCommand::act;
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
        return Error{"The action was not taken: " + std::to_string(max_queued_commands) + " commands are waiting", "Wait for the step in progress, then try again."};
    } catch (const std::exception& problem) {
        return Error{std::string("The action was not taken: ") + problem.what(), ""};
    }
}

void Session::reset() {
    {
        std::lock_guard lock(m_impl->mutex);
        m_impl->ids = m_impl->scenario_ids();
        m_impl->generated = m_impl->engine->first_free_token();
    }
    SessionCommand command;
    command.kind = SessionCommand::reset;
    m_impl->push(std::move(command));
}

void Session::continue_uncached(std::uint32_t more_tokens) {
    SessionCommand command;
    command.kind = SessionCommand::continue_uncached;
    command.count = more_tokens;
    m_impl->push(std::move(command));
}

void Session::set_watch(std::vector<AttentionWatch> watch) {
    SessionCommand command;
    command.kind = SessionCommand::watch;
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
    SessionCommand command;
    command.kind = SessionCommand::breakpoints;
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

void Session::set_stages_every(std::uint32_t n) {
    SessionCommand command;
    command.kind = SessionCommand::stages;
    command.count = n;
    {
        std::lock_guard lock(m_impl->mutex);
        m_impl->stages_every = n;
    }
    m_impl->push(std::move(command));
}

std::uint32_t Session::stages_every() const {
    std::lock_guard lock(m_impl->mutex);
    return m_impl->stages_every;
}

void Session::ask_block(const BlockQuestion& question) {
    if (question.lane.value >= m_impl->devices.size()) return;
    SessionCommand command;
    command.kind = SessionCommand::block;
    command.question = question;
    m_impl->push(std::move(command));
}

std::shared_ptr<const BlockValues> Session::block_values() const {
    std::lock_guard lock(m_impl->mutex);
    return m_impl->block_values;
}

DeviceInfo Session::device(LaneId lane) const {
    return lane.value < m_impl->devices.size() ? m_impl->devices[lane.value] : DeviceInfo{};
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
    SessionCommand command;
    command.kind = SessionCommand::run_through;
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
