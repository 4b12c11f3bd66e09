// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/serve/lane.h"

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

}  // namespace

Result<CacheShape> LaneSetup::cache_shape() const {
    if (device) return CacheShape::of(device->model->config, options);
    CacheShape shape;
    shape.block_size = options.cache.block_size;
    shape.cache_groups = {{options.cache.span.value_or(AttentionSpan{}), {}}};
    return shape;
}

CacheManagerOptions LaneSetup::manager_options(const CacheShape& shape) const {
    const CacheOptions& cache = options.cache;
    CacheManagerOptions result;
    result.kind = cache.kind;
    result.blocks = blocks;
    result.block_size = cache.block_size;
    result.prefix_caching = cache.prefix_caching;
    result.prefix_index = cache.prefix_index;
    result.free_order = cache.free_order;
    result.radix_eviction = cache.radix_eviction;
    result.hash_bits = cache.hash_bits;
    result.compare_tokens = cache.compare_tokens;
    result.tag_extra_keys = cache.tag_extra_keys;
    result.watermark_blocks = static_cast<std::uint32_t>(cache.watermark * blocks);
    const auto swapped = [](const SchedulerOptions& scheduler) { return scheduler.preemption == PreemptionMode::swap ? scheduler.swap_blocks : 0; };
    result.host_blocks = swapped(options.scheduler);
    for (const LaneRules& each : rules) result.host_blocks = std::max(result.host_blocks, swapped(each.scheduler));
    result.reserve = cache.reserve;
    result.max_model_len = context_length;
    result.groups = shape.cache_groups;
    return result;
}

DecoderOptions LaneSetup::decoder_options(const CacheShape& shape) const {
    return {shape.spans, options.attention, options.latent_expanded ? MlaForm::expanded : MlaForm::absorbed, shape.groups};
}

Lane::Lane(LaneSetup setup, CacheShape shape)
    : m_setup(std::move(setup)), m_shape(std::move(shape)), m_layout(m_shape.layout(m_shape.block_size)), m_device(m_setup.device),
      m_decoder(m_device, m_setup.decoder_options(m_shape)) {
    m_setup.poison = m_setup.poison || debug_build;
}

Result<std::unique_ptr<Lane>> Lane::create(LaneSetup setup) {
    auto shape = setup.cache_shape();
    if (!shape) return shape.error();
    std::unique_ptr<Lane> lane(new Lane(std::move(setup), std::move(*shape)));
    if (auto taken = lane->take_memory(); !taken) return taken.error();
    return lane;
}

Result<void> Lane::take_memory() {
    if (!m_setup.options.kv_cache) return {};
    auto manager = CacheManager::create(m_setup.manager_options(m_shape));
    if (!manager) return manager.error();
    const std::uint32_t host_blocks = (*manager)->options().host_blocks;
    if (m_shape.keeps_residual && host_blocks > 0)
        return Error{"scheduler.preemption: 'swap' moves quantised blocks, but the newest tokens of this cache are kept in f16 beside them",
                     "Give \"recompute\", or a cache precision other than kivi2 and kivi4."};
    if (!m_device) return {};
    Backend& backend = *m_device->backend;
    const MemoryCounters before = backend.memory();
    auto memory = backend.kv_cache(m_shape.pool(m_setup.blocks), Purpose::kv_cache);
    if (!memory) return memory.error();
    m_cache_memory = std::move(*memory);
    const MemoryCounters pool = backend.memory();
    m_memory.kv_cache = m_kv_bytes = pool.kv_cache - before.kv_cache;
    // What the buffers say of themselves, not the counter: memory that is in no buffer stays a residual.
    m_memory.kv_rounding = m_cache_memory->bytes() - std::min(m_cache_memory->bytes(), m_shape.pool_bytes(m_setup.blocks));
    if (host_blocks == 0) return {};
    auto host = backend.host_blocks(*m_cache_memory, host_blocks);
    if (!host) return host.error();
    m_host_memory = std::move(*host);
    m_memory.host_blocks = backend.memory().host_blocks - pool.host_blocks;
    m_memory.host_rounding = m_host_memory->bytes() - std::min(m_host_memory->bytes(), host_blocks * m_layout.block_bytes);
    return {};
}

// A step adds to what the lane holds, or gives back, what the allocator's counters say.
void Lane::note_memory(const MemoryCounters& before) {
    if (!m_device) return;
    const MemoryCounters now = m_device->backend->memory();
    m_kv_bytes += now.kv_cache - before.kv_cache;  // modulo 2^64: the sums are not negative
    m_counters.allocated_kv_bytes = m_kv_bytes;
    m_counters.activation_bytes = m_activation_bytes;
    if (m_reserved_rows == 0) return;
    m_counters.predicted_activation_bytes = m_decoder.bytes_for(m_reserved_rows, m_reserved_logit_rows, m_expanded_sequences, m_expanded_tokens);
    if (!m_cache && m_cache_memory) m_counters.predicted_activation_bytes += m_shape.scratch_bytes(m_cache_memory->shape().block_size);
}

void Lane::begin(LaneWriter& writer) {
    m_writer = &writer;
    m_cache.reset();
    if (m_shadow) m_shadow->begin(0);
    if (m_setup.options.kv_cache) {
        auto manager = CacheManager::create(m_setup.manager_options(m_shape));
        if (manager) m_cache = std::move(*manager);  // create() has tried it
    }
    m_pages = ResidualPages(m_setup.blocks, m_shape.pages_of(m_setup.blocks));
    begin_rules();
    m_scheduler = std::make_unique<Scheduler>(m_scheduling, m_cache.get(), m_setup.context_length);
    if (m_setup.poison && m_cache && m_cache_memory) m_device->backend->poison_block(*m_cache_memory, null_block_id.value);
    m_requests.clear();
    m_by_name.clear();
    m_coming.clear();
    m_ended_in_batch.clear();
    m_beams.clear();
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

std::uint32_t Lane::longest() const {
    std::uint32_t longest = 0;
    for (const Request* request : m_scheduler->running()) longest = std::max(longest, request->size());
    return longest;
}

Result<void> Lane::audit_cache() const {
    if (!m_cache) return {};
    if (auto sound = m_cache->audit(); !sound) return sound;
    // What the events say must be what the manager did: a reader sees nothing else.
    const LaneState& replayed = m_writer->state();
    const auto differs = [&](const std::string& what) {
        return Error{"The recording of lane '" + m_setup.options.name + "' disagrees with its cache about " + what,
                     "This is a defect of the program; please report it with the scenario."};
    };
    if (replayed.used_blocks() != m_cache->used_blocks())
        return differs("the blocks in use: " + std::to_string(replayed.used_blocks()) + " and " + std::to_string(m_cache->used_blocks()));
    for (const Request* request : m_scheduler->running()) {
        if (request->sequence.value >= replayed.sequences().size()) return differs("who there is");
        const SequenceState& state = replayed.sequences()[request->sequence.value];
        for (std::uint32_t group = 0; group < m_cache->group_count(); ++group) {
            const std::span<const BlockId> table = m_cache->table(request->sequence, group);
            const TableState& told = replayed.table(request->sequence, static_cast<std::uint8_t>(group));
            if (!std::equal(table.begin(), table.end(), told.begin(), told.end()))
                return differs("the block table of " + request->name);
        }
        if (state.computed_tokens != request->computed)
            return differs("the computed tokens of " + request->name + ": " + std::to_string(state.computed_tokens) + " and " + std::to_string(request->computed));
    }
    if (m_cache->options().kind == CacheKind::paged && replayed.free_order() != m_cache->free_order()) return differs("the order of the free queue");
    return {};
}

void Lane::count_slots() {
    StepRecord& counters = m_counters;
    counters.used_blocks = m_cache->used_blocks();
    counters.cached_blocks = m_cache->cached_blocks();
    counters.free_blocks = m_cache->free_blocks();
    counters.host_blocks = m_cache->host_blocks_used();
    counters.residual_pages = m_pages.used();
    counters.kv_bytes = counters.used_blocks * block_bytes();
    if (m_device) counters.kv_bytes += counters.residual_pages * m_layout.page_bytes;
    std::vector<SlotHolder> holders;
    for (const Request* request : m_scheduler->running())
        holders.push_back({request->sequence, request->computed, request->ending ? request->computed : request->slots_needed()});
    for (const Request* request : m_ended_in_batch) holders.push_back({request->sequence, request->computed, request->computed});
    const auto& waiting = m_scheduler->waiting();
    counters.slots = m_cache->count_slots(holders, m_scheduler->slots_reserved_for(waiting.empty() ? nullptr : waiting.front()));
}

// Counts what the pool holds before release, releases what ended and publishes the step.
void Lane::close_step(const Schedule& schedule) {
    StepRecord& counters = m_counters;
    for (const Ending& ending : m_endings) ending.request->ending = true;
    counters.waiting = static_cast<std::uint32_t>(m_scheduler->waiting().size());
    counters.hit_tokens = schedule.hit_tokens;
    counters.queried_tokens = schedule.queried_tokens;
    counters.preempted_hit_tokens = schedule.preempted_hit_tokens;
    counters.preempted_queried_tokens = schedule.preempted_queried_tokens;
    for (const ScheduledSequence& scheduled : schedule.sequences) counters.context_tokens += scheduled.request->computed;
    if (m_cache) count_slots();
    for (const Ending& ending : m_endings)
        if (ending.request->status != RequestStatus::ended) end_request(*ending.request, ending.cause, ending.detail);
    m_endings.clear();
    release_batch();
    ++m_step;
    if (!m_failure.empty()) m_writer->fail_step(counters, m_failure);
    else m_writer->end_step(counters);
}

// With nothing running and nothing to come, a head that is not admitted never will be.
void Lane::end_stuck_request(const Schedule& schedule) {
    if (schedule.stuck) {
        m_endings.push_back({schedule.stuck, Cause::sequence_failed,
                             "request '" + schedule.stuck->name + "' cannot go on although nothing else runs; give the lane more blocks"});
        return;
    }
    if (!schedule.sequences.empty() || !m_scheduler->running().empty() || m_scheduler->waiting().empty()) return;
    if (std::any_of(schedule.events.begin(), schedule.events.end(), [](const Event& e) { return e.kind == EventKind::preempt; })) return;
    if (m_preempted_by_action || !m_ended_in_batch.empty()) return;
    Request* first = m_scheduler->waiting().front();
    for (Request* request : m_scheduler->waiting())
        if (!request->parked) {
            first = request;
            break;
        }
    Request& head = *first;
    m_endings.push_back({&head, Cause::sequence_failed,
                         "request '" + head.name + "' cannot be admitted although nothing else runs; give the lane more blocks"});
}

Result<Schedule> Lane::schedule() {
    m_preempted_by_action = false;
    follow_rules();
    act();
    choose_beams();  // a beam that the others waited for may have been cancelled, or have failed
    arrive();
    check_choice();
    const std::uint64_t start = now_ns();
    auto schedule = m_scheduler->schedule();
    const std::uint64_t end = now_ns();
    // Before the forward pass: what forks in it, and a beam that is dropped after it, did not run beside the others.
    m_counters.running = static_cast<std::uint32_t>(m_scheduler->running().size());
    if (!schedule) return schedule.error();
    write(schedule->events);
    end_stuck_request(*schedule);
    if (!m_setup.options.kv_cache || !schedule->sequences.empty()) {
        StageRecord stage;
        stage.kind = StageKind::schedule;
        stage.calls = 1;
        stage.duration_ns = end - start;
        m_schedule_stage = stage;
    }
    return schedule;
}

Lane::Outcome Lane::step(const StepContext& context) {
    m_counters = {};
    m_inherited = context.inherited;
    if (m_failed_last) m_writer->set_failure({});  // it works again, until this step says otherwise
    m_failed_last = false;
    m_failure.clear();
    m_sample_ns = 0;
    m_sampled = 0;
    m_summarised = 0;
    m_stages.clear();
    m_measured.reset();
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
    const MemoryCounters before = m_device ? m_device->backend->memory() : MemoryCounters{};
    if (!planned->sequences.empty()) {
        result = forward(*planned, context);
        if (result == Forward::done) choose_beams();
        if (result == Forward::stopped) return Outcome::stopped;
        if (context.measure_stages && result == Forward::done) note_stages(context);
    }
    if (m_setup.audit || debug_build) {
        if (auto sound = audit_cache(); !sound) {
            std::vector<Request*> running = m_scheduler->running();
            m_endings.clear();
            result = fail(running, sound.error().message());
        }
    }
    note_memory(before);
    close_step(*planned);
    m_failed_last = result == Forward::failed;
    return m_failed_last ? Outcome::failed : Outcome::stepped;
}

// The stages of the step: its passes' between the lane's own.
void Lane::note_stages(const StepContext& context) {
    std::optional<StageRecord> sample;
    if (m_sampled > 0) {
        sample.emplace();
        sample->kind = StageKind::sample;
        sample->calls = m_sampled;
        sample->duration_ns = m_sample_ns;
        // Of a summary this stage, on the host, reads the summary alone.
        const std::uint64_t row = m_device ? m_device->model->config.vocabulary * sizeof(float) : 0;
        sample->bytes = (m_sampled - m_summarised) * row + m_summarised * sizeof(LogitSummary);
    }
    if (m_measured) return context.late->expect(std::move(*m_measured), {m_writer, m_step, m_schedule_stage, sample});
    std::vector<StageRecord> stages = {m_schedule_stage};
    stages.insert(stages.end(), m_stages.begin(), m_stages.end());
    if (sample) stages.push_back(*sample);
    m_writer->stages(m_step, stages);
}

void Lane::idle_until(std::uint32_t step) {
    while (m_step < step) {
        m_counters = {};
        m_writer->begin_step();
        follow_rules();
        act();
        close_step({});
    }
}

}  // namespace kvloupe
