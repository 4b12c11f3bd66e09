// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/serve/lane.h"

#include "engine/cache/auditor.h"

#include <algorithm>
#include <chrono>

namespace kvloupe {

namespace {

#ifdef NDEBUG
constexpr bool debug_build = false;
#else
constexpr bool debug_build = true;
#endif

std::uint64_t now_ns() {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count());
}

// "CPU, 2 threads, AVX-512" or the card's name.
std::string device_text(const DeviceInfo& info) {
    if (info.id != "cpu") return info.name;
    return info.detail.empty() ? "CPU" : "CPU, " + info.detail;
}

}  // namespace

Lane::Lane(LaneSetup setup) : m_setup(std::move(setup)), m_device(m_setup.device), m_decoder(m_device) {}

Result<std::unique_ptr<Lane>> Lane::create(LaneSetup setup) {
    std::unique_ptr<Lane> lane(new Lane(std::move(setup)));
    if (lane->m_setup.options.kv_cache) {
        const ModelConfig& config = lane->m_device->model->config;
        const CacheOptions& cache = lane->m_setup.options.cache;
        KvCacheShape shape{config.layers, lane->m_setup.blocks, cache.block_size, config.kv_heads,
                           config.head_dim, cache.dtype_k, cache.dtype_v};
        auto memory = lane->m_device->backend->kv_cache(shape, Purpose::kv_cache);
        if (!memory) return memory.error();
        lane->m_cache_memory = std::move(*memory);
    }
    return lane;
}

LaneInfo Lane::info() const {
    const ModelConfig& config = m_device->model->config;
    LaneInfo info;
    info.name = m_setup.options.name;
    info.model_name = m_setup.model_name;
    info.architecture = config.architecture;
    info.device = device_text(m_device->backend->info());
    info.attention_variant = config.attention_variant();
    info.layers = config.layers;
    info.query_heads = config.query_heads;
    info.kv_heads = config.kv_heads;
    info.head_dim = config.head_dim;
    info.vocabulary = config.vocabulary;
    info.context_length = config.context_length;
    info.parameters = config.parameters;
    info.weight_bytes = config.weight_bytes;
    info.kv_cache = m_setup.options.kv_cache;
    info.weights_id = m_device->model->weights_id;
    info.cache_dtype = "none";
    if (!info.kv_cache) return info;
    const KvCacheShape& shape = m_cache_memory->shape();
    info.cache_dtype = name_of(shape.dtype_k);
    if (shape.dtype_k != shape.dtype_v) info.cache_dtype += "/" + std::string(name_of(shape.dtype_v));
    info.block_size = shape.block_size;
    info.blocks = shape.blocks;
    const std::uint64_t width = std::uint64_t{config.kv_heads} * config.head_dim;
    info.bytes_per_token = config.layers * (row_bytes(shape.dtype_k, width) + row_bytes(shape.dtype_v, width));
    info.pool_bytes = m_cache_memory->bytes();
    info.block_bytes = info.pool_bytes / info.blocks;
    return info;
}

void Lane::begin(LaneWriter& writer) {
    m_writer = &writer;
    m_cache.reset();
    if (m_setup.options.kv_cache)
        m_cache = std::make_unique<ReservingCache>(m_setup.blocks, m_setup.options.cache.block_size);
    m_scheduler = std::make_unique<Scheduler>(m_setup.options.scheduler, m_cache.get());
    m_requests.clear();
    m_by_name.clear();
    m_coming.clear();
    m_cancels.clear();
    m_actions = m_setup.actions;
    // Stable, then reversed: the next one is at the end, in file order among equals.
    std::stable_sort(m_actions.begin(), m_actions.end(),
                     [](const ScenarioAction& a, const ScenarioAction& b) { return a.at_step < b.at_step; });
    std::reverse(m_actions.begin(), m_actions.end());
    m_step = 0;
    m_endings.clear();
    m_failure.clear();
    m_failed_last = false;
}

void Lane::add_request(Request request) {
    const auto order = static_cast<std::uint32_t>(m_requests.size());
    m_requests.push_back(std::make_unique<Request>(std::move(request)));
    Request* added = m_requests.back().get();
    m_by_name[added->name] = added;
    m_coming[{added->arrival_step, order}] = added;
}

std::uint32_t Lane::longest() const {
    std::uint32_t longest = 0;
    for (const Request* request : m_scheduler->running()) longest = std::max(longest, request->size());
    return longest;
}

Result<void> Lane::audit_cache() const {
    if (!m_cache) return {};
    return audit(*m_cache);
}

void Lane::record(EventKind kind, Cause cause, const Request& request, Event event) {
    event.kind = kind;
    event.cause = cause;
    event.sequence = request.sequence;
    m_writer->event(event);
}

// Cancels: the scenario's of this step, then those asked for while running.
void Lane::act() {
    std::vector<std::string> names;
    while (!m_actions.empty() && m_actions.back().at_step <= m_step) {
        names.push_back(m_actions.back().request);
        m_actions.pop_back();
    }
    names.insert(names.end(), m_cancels.begin(), m_cancels.end());
    m_cancels.clear();
    for (const std::string& name : names) {
        const auto found = m_by_name.find(name);
        if (found == m_by_name.end() || found->second->status == RequestStatus::ended) continue;
        Request& request = *found->second;
        if (request.status == RequestStatus::coming) {
            const auto same = [&](const auto& entry) { return entry.second == &request; };
            m_coming.erase(std::find_if(m_coming.begin(), m_coming.end(), same));
            request.sequence = m_writer->add_sequence({request.id, SequenceId::none(), 0});
        }
        end_request(request, Cause::sequence_cancelled);
    }
}

void Lane::arrive() {
    while (!m_coming.empty() && m_coming.begin()->first.first <= m_step) {
        Request& request = *m_coming.begin()->second;
        m_coming.erase(m_coming.begin());
        request.sequence = m_writer->add_sequence({request.id, SequenceId::none(), 0});
        Event event;
        event.tokens = request.prompt_tokens;
        record(EventKind::arrive, request.submitted ? Cause::submitted : Cause::arrival_step_reached, request, event);
        for (std::uint32_t position = 0; position < request.prompt_tokens; ++position) {
            TokenRecord token;
            token.sequence = request.sequence;
            token.position = position;
            token.token = request.tokens[position];
            m_writer->token(token);
        }
        if (const auto rejected = m_scheduler->rejection(request, m_device->model->config.context_length)) {
            event = {};
            event.tokens = rejected->needed;
            event.other = rejected->there_are;
            event.detail = m_writer->intern(rejected->sentence);
            record(EventKind::reject, rejected->cause, request, event);
            request.status = RequestStatus::ended;
            continue;
        }
        m_scheduler->arrive(request);
    }
}

void Lane::note_schedule(const Schedule& schedule) {
    for (const ScheduledSequence& scheduled : schedule.sequences) {
        Event event;
        event.tokens = scheduled.request->prompt_tokens;
        if (scheduled.admitted) record(EventKind::admit, Cause::fits_beside_running, *scheduled.request, event);
        for (const CacheChanges::Allocated& allocated : scheduled.changes.allocated) {
            event = {};
            event.block = allocated.block;
            event.other = allocated.logical;
            record(EventKind::allocate, Cause::first_slot_of_block, *scheduled.request, event);
            if (m_setup.poison_fresh_blocks) m_device->backend->poison_block(*m_cache_memory, allocated.block.value);
        }
    }
    if (!schedule.refusal) return;
    const Refusal& refusal = *schedule.refusal;
    Request& request = *refusal.request;
    if (request.refused_because == refusal.cause && request.refused_available == refusal.blocks_available) return;
    request.refused_because = refusal.cause;
    request.refused_available = refusal.blocks_available;
    Event event;
    event.tokens = refusal.blocks_needed;
    event.other = refusal.blocks_available;
    record(EventKind::refuse, refusal.cause, request, event);
}

void Lane::release(Request& request, Cause cause) {
    if (!m_cache) return;
    auto changes = m_cache->apply(m_cache->plan_release(request.sequence));
    if (!changes) return;
    for (const CacheChanges::Freed& freed : changes->freed) {
        Event event;
        event.block = freed.block;
        event.other = freed.owners_left;
        event.flags = freed.front ? Event::flag_front : std::uint8_t{0};
        record(EventKind::free, cause, request, event);
    }
}

void Lane::end_request(Request& request, Cause cause, const std::string& detail) {
    Event event;
    event.tokens = request.output_tokens();
    if (!detail.empty()) event.detail = m_writer->intern(detail);
    record(EventKind::finish, cause, request, event);
    const bool early = cause == Cause::sequence_cancelled || cause == Cause::sequence_failed;
    release(request, early ? cause : Cause::sequence_finished);
    m_scheduler->remove(request);
}

// Counts what the pool holds before release, releases what ended and publishes the step.
void Lane::close_step(const Schedule& schedule) {
    StepRecord& counters = m_counters;
    counters.running = static_cast<std::uint32_t>(m_scheduler->running().size());
    counters.waiting = static_cast<std::uint32_t>(m_scheduler->waiting().size());
    for (const ScheduledSequence& scheduled : schedule.sequences) counters.context_tokens += scheduled.request->computed;
    if (m_cache) {
        counters.used_blocks = m_cache->pool().used_count();
        counters.free_blocks = m_cache->pool().free_count();
        counters.kv_bytes = counters.used_blocks * (m_cache_memory->bytes() / m_setup.blocks);
        std::vector<SlotHolder> holders;
        for (const Request* request : m_scheduler->running()) {
            const bool ends = std::any_of(m_endings.begin(), m_endings.end(),
                                          [&](const Ending& ending) { return ending.request == request; });
            holders.push_back({request->sequence, request->computed, ends ? request->computed : request->slots_needed()});
        }
        counters.slots = count_slots(*m_cache, holders);
    }
    for (const Ending& ending : m_endings) end_request(*ending.request, ending.cause, ending.detail);
    m_endings.clear();
    ++m_step;
    if (!m_failure.empty()) m_writer->fail_step(counters, m_failure);
    else m_writer->end_step(counters);
}

Result<Schedule> Lane::schedule() {
    act();
    arrive();
    const std::uint64_t start = now_ns();
    auto schedule = m_scheduler->schedule();
    if (!schedule) return schedule.error();
    note_schedule(*schedule);
    if (!m_setup.options.kv_cache || !schedule->sequences.empty()) {
        StageRecord stage;
        stage.kind = StageKind::schedule;
        stage.calls = 1;
        stage.duration_ns = now_ns() - start;
        m_schedule_stage = stage;
    }
    return schedule;
}

Lane::Outcome Lane::step(const StepContext& context) {
    m_counters = {};
    if (m_failed_last) m_writer->set_failure({});  // it works again, until this step says otherwise
    m_failed_last = false;
    m_failure.clear();
    m_sample_ns = 0;
    m_sampled = 0;
    m_decoder.clear_stages();
    m_writer->begin_step();
    auto planned = schedule();
    if (!planned) {
        std::vector<Request*> running = m_scheduler->running();
        fail(running, "Step " + std::to_string(m_step) + " of lane '" + m_setup.options.name + "' failed: " + planned.error().message());
        close_step({});
        m_failed_last = true;
        return Outcome::failed;
    }
    Forward result = Forward::done;
    if (!planned->sequences.empty()) {
        result = forward(*planned, context);
        if (result == Forward::stopped) return Outcome::stopped;
        if (context.measure_stages && result == Forward::done) note_stages();
    }
    if (m_setup.audit || debug_build) {
        if (auto sound = audit_cache(); !sound) {
            std::vector<Request*> running = m_scheduler->running();
            m_endings.clear();
            result = fail(running, sound.error().message());
        }
    }
    close_step(*planned);
    m_failed_last = result == Forward::failed;
    return m_failed_last ? Outcome::failed : Outcome::stepped;
}

void Lane::note_stages() {
    m_writer->stage(m_schedule_stage);
    for (const StageRecord& stage : m_decoder.stages()) m_writer->stage(stage);
    if (m_sampled == 0) return;
    StageRecord stage;
    stage.kind = StageKind::sample;
    stage.calls = m_sampled;
    stage.duration_ns = m_sample_ns;
    stage.bytes = std::uint64_t{m_sampled} * m_device->model->config.vocabulary * sizeof(float);
    m_writer->stage(stage);
}

void Lane::idle_until(std::uint32_t step) {
    while (m_step < step) {
        m_counters = {};
        m_writer->begin_step();
        close_step({});
    }
}

}  // namespace kvloupe
