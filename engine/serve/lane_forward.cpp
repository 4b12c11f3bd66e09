// SPDX-License-Identifier: GPL-3.0-or-later
//
// The tensor half of a lane's step: batch, forward pass, sampling, and what of it is recorded.
#include "engine/cache/block_table.h"
#include "engine/serve/lane.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace kvloupe {

namespace {

// Adds rows first .. first + count - 1 of a sequence; its block tables follow. tap: may be null.
void add_rows(Batch& batch, const Request& request, std::uint32_t first, std::uint32_t count, const PositionTap* tap) {
    Batch::Sequence sequence;
    sequence.first_row = batch.rows();
    sequence.rows = count;
    sequence.first_position = first;
    sequence.table_begin = static_cast<std::uint32_t>(batch.block_tables.size());
    for (std::uint32_t i = 0; i < count; ++i) {
        const bool wanted = tap && tap->wants(request.id, first + i);
        if (wanted || first + i + 1 == request.size()) batch.logit_rows.push_back(batch.rows());
        batch.tokens.push_back(request.tokens[first + i]);
        batch.positions.push_back(first + i);
    }
    batch.sequences.push_back(sequence);
}

// The table of one more group of the sequence that was added last, and the slots of its rows in it.
void add_table(Batch& batch, std::span<const BlockId> table, std::uint32_t block_size, std::vector<std::uint64_t>& slots) {
    Batch::Sequence& sequence = batch.sequences.back();
    sequence.table_size = static_cast<std::uint32_t>(table.size());
    for (const BlockId block : table) batch.block_tables.push_back(block.value);
    SlotMapping(table, block_size).append(sequence.first_position, sequence.rows, slots);
}

// Logit rows of the batch up to the sequence's last one.
std::size_t logit_rows_through(const Batch& batch, const Batch::Sequence& sequence) {
    const auto end = std::lower_bound(batch.logit_rows.begin(), batch.logit_rows.end(), sequence.first_row + sequence.rows);
    return static_cast<std::size_t>(end - batch.logit_rows.begin());
}

void tell_positions(const Batch& batch, std::span<const ScheduledSequence> sequences, const ForwardResult& result, PositionTap& tap) {
    if (batch.logit_rows.empty()) return;
    const std::size_t vocabulary = result.logits.size() / batch.logit_rows.size();
    std::size_t row = 0;
    for (std::size_t s = 0; s < sequences.size(); ++s) {
        for (const std::size_t end = logit_rows_through(batch, batch.sequences[s]); row < end; ++row) {
            const std::uint32_t position = batch.positions[batch.logit_rows[row]];
            if (tap.wants(sequences[s].request->id, position))
                tap.logits(sequences[s].request->id, position, result.logits.subspan(row * vocabulary, vocabulary));
        }
    }
}

// "a, b, c and 12 more": a name for what a step works at.
std::string names_of(std::span<const ScheduledSequence> sequences) {
    constexpr std::size_t shown = 8;
    std::string names;
    for (std::size_t i = 0; i < std::min(shown, sequences.size()); ++i) names += (i ? ", " : "") + sequences[i].request->name;
    if (sequences.size() > shown) names += " and " + std::to_string(sequences.size() - shown) + " more";
    return names;
}

}  // namespace

Lane::Forward Lane::fail(std::span<Request* const> requests, const std::string& reason) {
    m_failure = reason;
    for (Request* request : requests) m_endings.push_back({request, Cause::sequence_failed, reason});
    return Forward::failed;
}

Lane::Forward Lane::fail_all(const Schedule& schedule, const Error& error) {
    std::vector<Request*> requests;
    for (const ScheduledSequence& scheduled : schedule.sequences) requests.push_back(scheduled.request);
    m_endings.clear();
    return fail(requests, "Step " + std::to_string(m_step) + " of lane '" + m_setup.options.name + "' failed: " + error.message());
}

Result<void> Lane::reserve(std::uint32_t rows, std::uint32_t logit_rows) {
    if (auto reserved = m_decoder.reserve(rows, logit_rows); !reserved) return reserved;
    m_reserved_rows = std::max(m_reserved_rows, rows);
    m_reserved_logit_rows = std::max(m_reserved_logit_rows, logit_rows);
    return {};
}

// Expanded latents are made room for in the pass itself.
Result<ForwardResult> Lane::run(const Batch& batch, const ForwardOptions& options) {
    if (!m_setup.options.latent_expanded) return m_decoder.forward(batch, *m_cache_memory, options);
    const std::uint64_t before = m_device->backend->memory().activations;
    auto result = m_decoder.forward(batch, *m_cache_memory, options);
    m_activation_bytes += m_device->backend->memory().activations - before;
    m_expanded_sequences = std::max(m_expanded_sequences, static_cast<std::uint32_t>(batch.sequences.size()));
    for (const Batch::Sequence& sequence : batch.sequences)
        m_expanded_tokens = std::max(m_expanded_tokens, sequence.first_position + sequence.rows);
    return result;
}

// Room for the step's rows; without a cache also scratch for the K/V of its longest sequence.
Result<void> Lane::prepare_buffers(const Schedule& schedule, bool all_positions) {
    std::uint32_t rows = 0, longest = 0;
    const auto sequences = static_cast<std::uint32_t>(schedule.sequences.size());
    for (const ScheduledSequence& scheduled : schedule.sequences) {
        rows += scheduled.count;
        longest = std::max(longest, scheduled.count);
    }
    if (m_cache) return reserve(rows, all_positions ? rows : sequences);
    const ModelConfig& config = m_device->model->config;
    // Doubled, so that growth by a token a step seldom allocates.
    const auto roomy = [&](std::uint32_t least, std::uint32_t most) {
        std::uint32_t size = 128;
        while (size < least) size *= 2;
        return std::max(least, std::min(size, most));
    };
    const std::uint32_t piece = std::min(longest, m_scheduling.max_num_batched_tokens);
    if (auto reserved = reserve(roomy(piece, config.context_length), all_positions ? piece : 1); !reserved) return reserved;
    if (m_cache_memory && m_cache_memory->shape().block_size >= longest) return {};
    m_decoder.forget_passes();
    m_cache_memory.reset();
    auto scratch = m_device->backend->kv_cache(m_shape.scratch(roomy(longest, config.context_length)), Purpose::activations);
    if (!scratch) return scratch.error();
    m_cache_memory = std::move(*scratch);
    return {};
}

Lane::Forward Lane::forward(const Schedule& schedule, const StepContext& context) {
    if (!m_device) {
        forward_accounting(schedule);
        return Forward::done;
    }
    const std::uint64_t before = m_device->backend->memory().activations;
    const auto ready = prepare_buffers(schedule, context.positions != nullptr);
    m_activation_bytes += m_device->backend->memory().activations - before;  // modulo 2^64: what is given back is taken off
    if (!ready) return fail_all(schedule, ready.error());
    return m_cache ? forward_cached(schedule, context) : forward_uncached(schedule, context);
}

// No arithmetic: what was scheduled counts as computed, and the next token is known.
void Lane::forward_accounting(const Schedule& schedule) {
    for (const ScheduledSequence& scheduled : schedule.sequences) note_computed(scheduled);
    for (const ScheduledSequence& scheduled : schedule.sequences)
        if (scheduled.request->to_compute() == 0) spread(*scheduled.request, {}, {});
}

Lane::Forward Lane::forward_cached(const Schedule& schedule, const StepContext& context) {
    Batch batch;
    std::vector<TokenId> asked;  // (logit_rows)
    bool summaries = true;
    std::vector<std::vector<std::uint64_t>> slots(m_cache->group_count());  // (groups, rows)
    batch.requests = names_of(schedule.sequences);
    for (const ScheduledSequence& scheduled : schedule.sequences) {
        const Request& request = *scheduled.request;
        add_rows(batch, request, scheduled.first, scheduled.count, context.positions);
        for (std::uint32_t group = 0; group < slots.size(); ++group)
            add_table(batch, m_cache->table(request.sequence, group), m_cache->block_size(), slots[group]);
        if (!m_pages.empty())
            if (auto taken = take_pages(scheduled); !taken) return fail_all(schedule, taken.error());
        if (asked.size() == batch.logit_rows.size()) continue;
        asked.push_back(given_token(request));
        summaries = summaries && summary_is_enough(request, context);
    }
    for (const std::vector<std::uint64_t>& of_group : slots) batch.slots.insert(batch.slots.end(), of_group.begin(), of_group.end());
    add_pages(batch);
    const std::uint64_t overflowed = m_cache_memory->overflowed_values();
    auto result = run(batch, forward_options(context, summaries ? &asked : nullptr));
    if (!result) return fail_all(schedule, result.error());
    if (result->stopped) return Forward::stopped;
    note_measured(std::move(result->measured), context.late != nullptr && m_device->backend->late_timings());
    m_counters.overflowed_values = m_cache_memory->overflowed_values() - overflowed;
    std::vector<LogitRow> logits(schedule.sequences.size());
    bool finite = true;
    for (std::size_t i = 0; i < logits.size(); ++i) {
        const ScheduledSequence& scheduled = schedule.sequences[i];
        if (scheduled.first + scheduled.count != scheduled.request->size()) continue;
        logits[i] = logit_row(*result, logit_rows_through(batch, batch.sequences[i]) - 1);
        finite = finite && logits[i].finite();
    }
    std::string place;
    // In full before the batch is run again: that overwrites the buffers, but not the logits on the host.
    if (!finite) place = m_decoder.first_non_finite(batch, *m_cache_memory);
    if (place.empty()) note_attention(batch, schedule.sequences, *result);
    if (place.empty() && context.positions) tell_positions(batch, schedule.sequences, *result, *context.positions);
    return finish_forward(schedule, context, logits, place);
}

ForwardOptions Lane::forward_options(const StepContext& context, const std::vector<TokenId>* summarise) const {
    return {context.measure_stages, context.watch, context.stop, context.late, summarise};
}

LogitRow Lane::logit_row(const ForwardResult& result, std::size_t row) const {
    if (!result.summaries.empty()) return {{}, &result.summaries[row]};
    const std::size_t vocabulary = m_device->model->config.vocabulary;
    return {result.logits.subspan(vocabulary * row, vocabulary), nullptr};
}

// Every sequence by itself, from its first token on, in pieces of at most the token budget.
Lane::Forward Lane::forward_uncached(const Schedule& schedule, const StepContext& context) {
    const BlockId whole{0};
    std::vector<std::vector<float>> kept(schedule.sequences.size());  // the next pass overwrites what a pass gave
    std::vector<LogitSummary> summaries(schedule.sequences.size());
    std::vector<LogitRow> logits(schedule.sequences.size());
    std::string place;
    for (std::size_t i = 0; i < logits.size(); ++i) {
        const ScheduledSequence& scheduled = schedule.sequences[i];
        const std::vector<TokenId> asked = {given_token(*scheduled.request)};
        const bool enough = summary_is_enough(*scheduled.request, context);
        for (std::uint32_t first = 0; first < scheduled.count;) {
            const std::uint32_t count = std::min(scheduled.count - first, m_scheduling.max_num_batched_tokens);
            Batch batch;
            batch.requests = scheduled.request->name;
            add_rows(batch, *scheduled.request, first, count, context.positions);
            add_table(batch, std::span(&whole, 1), m_cache_memory->shape().block_size, batch.slots);
            auto result = run(batch, forward_options(context, enough ? &asked : nullptr));
            if (!result) return fail_all(schedule, result.error());
            if (result->stopped) return Forward::stopped;
            note_measured(std::move(result->measured), false);  // the next pass of the step starts a set of its own
            if (context.positions) tell_positions(batch, std::span(&scheduled, 1), *result, *context.positions);
            if (first + count == scheduled.count) {
                logits[i] = logit_row(*result, batch.logit_rows.size() - 1);
                if (logits[i].summary) {
                    summaries[i] = *logits[i].summary;
                    logits[i].summary = &summaries[i];
                } else {
                    kept[i].assign(logits[i].values.begin(), logits[i].values.end());
                    logits[i].values = kept[i];
                }
            }
            if (!logits[i].finite() && place.empty()) place = m_decoder.first_non_finite(batch, *m_cache_memory);
            else if (place.empty()) note_attention(batch, std::span(&scheduled, 1), *result);
            first += count;
        }
    }
    return finish_forward(schedule, context, logits, place);
}

// logits (sequences): not present where none were asked for. bad_place: where a value stopped being finite, or empty.
Lane::Forward Lane::finish_forward(const Schedule& schedule, const StepContext& context,
                                   const std::vector<LogitRow>& logits, const std::string& bad_place) {
    if (!bad_place.empty()) {
        std::vector<Request*> bad;
        for (std::size_t i = 0; i < logits.size(); ++i)
            if (!logits[i].finite()) bad.push_back(schedule.sequences[i].request);
        // The others were neither computed nor sampled: the next step computes their tokens again.
        return fail(bad, "Step " + std::to_string(m_step) + " of lane '" + m_setup.options.name +
                             "' failed: the logits of request '" + bad.front()->name +
                             "' are not finite; the first infinite or NaN value arose in " + bad_place +
                             ". Check the weights, or try a cache precision with a larger range");
    }
    const auto start = std::chrono::steady_clock::now();
    for (const ScheduledSequence& scheduled : schedule.sequences) note_computed(scheduled);
    for (std::size_t i = 0; i < logits.size(); ++i)
        if (logits[i].present()) spread(*schedule.sequences[i].request, logits[i], context);
    const auto spent = std::chrono::steady_clock::now() - start;
    m_sample_ns += static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(spent).count());
    return Forward::done;
}

void Lane::note_measured(std::optional<MeasuredPass> pass, bool late) {
    if (!pass) return;
    if (late) m_measured = std::move(pass);
    else add_stages(m_stages, m_device->backend->timings(pass->set), pass->costs);
}

void Lane::note_computed(const ScheduledSequence& scheduled) {
    Request& request = *scheduled.request;
    Event event;
    event.tokens = scheduled.count;
    event.other = scheduled.first;
    m_counters.computed_tokens += scheduled.count;
    if (scheduled.prefill) {
        record(EventKind::prefill, scheduled.cause, request, event);
        m_counters.prefill_tokens += scheduled.count;
    } else if (m_cache) {
        record(EventKind::decode, scheduled.cause, request, event);
        m_counters.decode_tokens += scheduled.count;
    } else {
        // All but the newest token were computed before.
        event.tokens = scheduled.count - 1;
        record(EventKind::prefill, Cause::no_kv_cache, request, event);
        event.tokens = 1;
        event.other = scheduled.count - 1;
        record(EventKind::decode, Cause::next_token, request, event);
        m_counters.prefill_tokens += scheduled.count - 1;
        m_counters.decode_tokens += 1;
    }
    request.computed = scheduled.first + scheduled.count;
    if (!m_cache) return;
    if (!m_pages.empty()) seal(request, scheduled.first, request.computed);
    std::vector<Event> events = m_cache->note_computed(request.view(), request.computed);
    write(events);
}

// Rows of positions that were not computed before this step; a lane without a cache recomputes the others.
void Lane::note_attention(const Batch& batch, std::span<const ScheduledSequence> sequences, const ForwardResult& result) {
    for (const LayerProbe& layer : result.probes) {
        for (std::size_t h = 0; h < layer.probe.heads.size() && h < layer.probe.weights.size(); ++h) {
            for (std::size_t s = 0; s < sequences.size(); ++s) {
                const Batch::Sequence& rows = batch.sequences[s];
                for (std::uint32_t r = 0; r < rows.rows; ++r) {
                    const std::uint32_t position = rows.first_position + r;
                    if (position < sequences[s].request->computed) continue;
                    AttentionRow row;
                    row.sequence = sequences[s].request->sequence;
                    row.layer = static_cast<std::uint16_t>(layer.layer);
                    row.head = static_cast<std::uint16_t>(layer.probe.heads[h]);
                    row.position = position;
                    row.key_count = position + 1;
                    m_writer->attention_row(row, layer.probe.weights[h][rows.first_row + r]);
                }
            }
        }
    }
}

}  // namespace kvloupe
