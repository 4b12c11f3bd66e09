// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/serve/session_engine.h"

#include "engine/serve/breakpoints.h"

#include <algorithm>

namespace kvloupe {

Result<std::unique_ptr<SessionEngine>> SessionEngine::create(const Scenario& scenario, const SessionOptions& options) {
    std::unique_ptr<SessionEngine> engine(new SessionEngine(scenario, options));
    auto prepared = prepare_session(scenario, options);
    if (!prepared) return prepared.error();
    engine->m_prepared = std::move(*prepared);
    for (const LaneSetup& setup : engine->m_prepared.lanes) {
        auto lane = Lane::create(setup);
        if (!lane) return Error{"Lane '" + setup.options.name + "': " + lane.error().sentence, lane.error().hint};
        engine->m_lanes.push_back(std::move(*lane));
        if (!setup.device) continue;
        Backend& backend = *setup.device->backend;
        const bool added = engine->m_late.try_emplace(&backend, backend).second;
        if (added && backend.info().own_memory) engine->m_cards.push_back(&backend);
    }
    engine->m_watch.resize(engine->m_lanes.size());
    engine->set_watch(engine->m_prepared.watch);
    engine->m_breakpoints = scenario.breakpoints;
    engine->m_stages_every = scenario.record.stages_every;
    engine->begin();
    return engine;
}

void SessionEngine::begin_lanes() {
    if (m_writer) read_late_stages();
    m_writer = std::make_unique<RecordingWriter>(m_scenario.title, std::uint64_t{m_scenario.record.memory_mib} << 20);
    m_limits.clear();
    m_overflow_said.assign(m_lanes.size(), false);
    m_failure.clear();
    std::vector<std::uint64_t> weights;
    for (std::size_t i = 0; i < m_lanes.size(); ++i) {
        const LaneInfo info = m_lanes[i]->info();
        weights.push_back(info.weights_id);
        m_writer->add_lane(info, m_prepared.vocabularies[i]);
        const LaneOptions& options = m_prepared.lanes[i].options;
        m_limits.push_back(options.kv_cache ? 0 : options.uncached_limit);
    }
    m_writer->lanes_complete();
    m_comparison = std::make_unique<LogitComparison>(weights);
    begin_branches();
    for (std::size_t i = 0; i < m_lanes.size(); ++i) m_lanes[i]->begin(m_writer->lane(LaneId(static_cast<std::uint32_t>(i))));
    for (std::size_t r = 0; r < m_scenario.requests.size(); ++r) {
        const Request& first = m_prepared.requests[0][r];
        RequestInfo info = request_info(m_scenario.requests[r], first);
        const RequestId id = m_writer->add_request(std::move(info));
        for (std::size_t i = 0; i < m_lanes.size(); ++i) {
            Request request = m_prepared.requests[i][r];
            request.id = id;
            m_lanes[i]->add_request(std::move(request));
        }
    }
    set_phase(Phase::paused);
}

LateStages* SessionEngine::late_stages_of(std::size_t lane) {
    const auto& device = m_prepared.lanes[lane].device;
    return device ? &m_late.at(device->backend.get()) : nullptr;
}

void SessionEngine::read_late_stages() noexcept {
    for (auto& [backend, late] : m_late) {
        try {
            late.read();
        } catch (const std::exception&) {
            continue;
        }
    }
}

// What a reader of a session that stands still finds complete: stages of all steps, the devices' memory as it is now.
void SessionEngine::close_books() noexcept {
    read_late_stages();
    try {
        std::vector<DeviceMemory> memory;
        for (const Backend* backend : m_cards) {
            const DeviceInfo info = backend->info();
            auto device = std::find_if(memory.begin(), memory.end(), [&](const DeviceMemory& each) { return each.id == info.id; });
            if (device == memory.end()) device = memory.insert(device, {info.id, info.name, info.memory_bytes, info.free_bytes});
            const MemoryCounters counters = backend->memory();
            device->weight_bytes += counters.weights;
            device->kv_cache_bytes += counters.kv_cache;
            device->activation_bytes += counters.activations;
        }
        m_writer->set_device_memory(std::move(memory));
    } catch (const std::exception&) {
        return;  // out of memory: what was known before stays
    }
}

bool SessionEngine::at_limit(std::size_t lane) const { return m_limits[lane] > 0 && m_lanes[lane]->longest() >= m_limits[lane]; }

bool SessionEngine::has_work() const {
    return std::any_of(m_lanes.begin(), m_lanes.end(), [](const auto& lane) { return lane->has_work(); });
}

std::string SessionEngine::limit_reason() const {
    for (std::size_t i = 0; i < m_lanes.size(); ++i)
        if (m_lanes[i]->has_work() && at_limit(i))
            return "Lane '" + m_prepared.lanes[i].options.name + "' stopped at its limit of " + std::to_string(m_limits[i]) +
                   " tokens: without a cache every step computes the whole prefix again. It can be continued.";
    return {};
}

SessionEngine::Progress SessionEngine::step(std::stop_token stop, bool through, std::span<const std::uint32_t> until) {
    Progress progress;
    m_focus.reset();
    std::vector<std::size_t> able;
    std::uint32_t behind = UINT32_MAX;
    const auto can_go_on = [&](std::size_t i) {
        return m_lanes[i]->has_work() && (through || !at_limit(i)) && (until.empty() || m_lanes[i]->next_step() < until[i]);
    };
    for (std::size_t i = 0; i < m_lanes.size(); ++i) {
        if (!can_go_on(i) || waits_for_parent(i)) continue;
        able.push_back(i);
        behind = std::min(behind, m_lanes[i]->next_step());
    }
    if (able.empty()) {
        progress.more = false;
        progress.pause = limit_reason();
        return progress;
    }
    const bool measure = m_stages_every > 0 && behind % m_stages_every == 0;
    for (const std::size_t i : able) {
        Lane& lane = *m_lanes[i];
        if (lane.next_step() != behind) continue;
        const LaneId id(static_cast<std::uint32_t>(i));
        const auto branch = m_branches.find(i);
        const Lane::Outcome outcome = lane.step({id, stop, m_watch[i], measure, late_stages_of(i), m_comparison.get(), m_options.logit_tap, nullptr,
                                                 branch == m_branches.end() ? nullptr : &branch->second.tokens});
        if (outcome == Lane::Outcome::stopped) {
            progress.stopped = true;
            return progress;
        }
        teach_branches(i);
        if (outcome == Lane::Outcome::failed) {
            m_failure = lane.failure();
            if (progress.pause.empty()) progress.pause = m_failure;
        }
        if (const std::uint64_t lost = m_writer->recording()->lane(id).step(behind).overflowed_values; lost > 0 && !m_overflow_said[i]) {
            m_overflow_said[i] = true;
            progress.breakpoints.push_back("Lane '" + m_prepared.lanes[i].options.name + "', step " + std::to_string(behind) + ": " + std::to_string(lost) +
                                           " keys or values lie beyond the range of the cache's precision and became infinite or, in fp8, its largest number");
        }
        for (const Breakpoint& breakpoint : m_breakpoints) {
            auto hit = breakpoint_hit(breakpoint, *m_writer->recording(), id, behind);
            if (!hit) continue;
            if (progress.pause.empty()) {
                progress.pause = hit->why;
                m_focus = PauseFocus{id, hit->event};
            }
            progress.breakpoints.push_back(std::move(hit->why));
        }
    }
    if (through) progress.pause.clear();
    progress.more = false;
    for (std::size_t i = 0; i < m_lanes.size(); ++i) progress.more = progress.more || can_go_on(i);
    if (!progress.more && progress.pause.empty()) progress.pause = limit_reason();
    return progress;
}

std::uint32_t SessionEngine::ahead() const {
    std::uint32_t ahead = 0;
    for (const auto& lane : m_lanes) ahead = std::max(ahead, lane->next_step());
    return ahead;
}

void SessionEngine::submit(std::vector<Request> requests, RequestInfo info, std::uint32_t arrival_step) {
    info.arrival_step = arrival_step;
    info.arrival_ns = m_writer->elapsed_ns();
    const RequestId id = m_writer->add_request(std::move(info));
    for (std::size_t i = 0; i < m_lanes.size(); ++i) {
        // A lane that had ended stood still while others went on; idle steps bring it level.
        if (!m_lanes[i]->has_work()) m_lanes[i]->idle_until(arrival_step);
        Request request = std::move(requests[i]);
        request.id = id;
        request.arrival_step = arrival_step;
        request.submitted = true;
        m_lanes[i]->add_request(std::move(request));
    }
    m_failure.clear();
}

void SessionEngine::act(const ScenarioAction& action) {
    for (const auto& lane : m_lanes) lane->act(action);
}

void SessionEngine::continue_uncached(std::uint32_t more_tokens) {
    for (std::uint32_t& limit : m_limits)
        if (limit > 0) limit += std::min(more_tokens, UINT32_MAX - limit);
}

void SessionEngine::set_watch(const std::vector<AttentionWatch>& watch) {
    for (std::size_t i = 0; i < m_lanes.size(); ++i) if (const auto& device = m_prepared.lanes[i].device) m_watch[i] = watch_of(watch, device->model->config);
}

void SessionEngine::mark_end() {
    close_books();
    if (m_failure.empty()) m_writer->set_phase(Phase::finished);
    else m_writer->set_phase(Phase::failed, m_failure);
}

}  // namespace kvloupe
