// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/writer.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace kvloupe {

namespace {

constexpr std::size_t max_alternatives = 10;
constexpr std::uint64_t min_key_frame_distance = 4096;  // events
constexpr std::uint64_t steps_per_event = 16;           // of seeking: a step without events costs as much as 1/16 event
constexpr std::uint64_t key_frame_factor = 4;           // bytes of key frames for each byte of events

std::uint64_t nanoseconds(std::chrono::steady_clock::duration duration) {
    const auto count = std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
    return count > 0 ? static_cast<std::uint64_t>(count) : 0;
}

}  // namespace

LaneWriter::LaneWriter(LaneRecord& record, std::chrono::steady_clock::time_point session_start,
                       std::uint64_t attention_budget_bytes)
    : m_record(record),
      m_session_start(session_start),
      m_attention_budget(attention_budget_bytes),
      m_state(record.info().kv_cache ? record.info().blocks : 0, record.info().block_size) {}

SequenceId LaneWriter::add_sequence(SequenceInfo info) {
    return SequenceId(static_cast<std::uint32_t>(m_record.m_sequences.push_back(info)));
}

StringId LaneWriter::intern(std::string_view text) {
    std::string key(text);
    if (const auto found = m_interned.find(key); found != m_interned.end()) return found->second;
    const StringId id(static_cast<std::uint32_t>(m_record.m_strings.push_back(key)));
    m_interned.emplace(std::move(key), id);
    return id;
}

void LaneWriter::begin_step() {
    m_step_start_ns = now_ns();
    m_in_step = true;
}

void LaneWriter::event(Event event) {
    event.offset_ns = 0;
    if (m_in_step) {
        const std::uint64_t offset = now_ns() - m_step_start_ns;
        event.offset_ns = static_cast<std::uint32_t>(
            std::min<std::uint64_t>(offset, std::numeric_limits<std::uint32_t>::max()));
    }
    m_state.apply(event);
    m_record.m_events.push_back(event);
    ++m_events_since_key_frame;
}

void LaneWriter::token(TokenRecord token, std::span<const Alternative> alternatives) {
    const auto kept = alternatives.first(std::min(alternatives.size(), max_alternatives));
    token.alternatives_begin = m_record.m_alternatives.size();
    token.alternative_count = static_cast<std::uint8_t>(kept.size());
    for (const Alternative& alternative : kept) m_record.m_alternatives.push_back(alternative);
    m_record.m_tokens.push_back(token);
}

void LaneWriter::stages(std::uint64_t step, std::span<const StageRecord> stages) {
    if (stages.empty()) return;
    const LogRange range{m_record.m_stages.size(), m_record.m_stages.size() + stages.size()};
    for (const StageRecord& stage : stages) m_record.m_stages.push_back(stage);
    m_record.m_stage_ranges.push_back({step, range});
}

bool LaneWriter::attention_row(AttentionRow row, std::span<const float> weights) {
    const std::uint64_t bytes = sizeof(AttentionRow) + weights.size_bytes();
    if (bytes > m_attention_budget - std::min(m_attention_bytes, m_attention_budget)) {
        m_record.m_dropped_attention_rows.fetch_add(1, std::memory_order_relaxed);
        return false;
    }
    m_attention_bytes += bytes;
    row.key_count = static_cast<std::uint32_t>(weights.size());
    row.weights_begin = m_record.m_attention_weights.size();
    for (const float weight : weights) m_record.m_attention_weights.push_back(weight);
    m_record.m_attention.push_back(row);
    return true;
}

void LaneWriter::end_step(StepRecord counters) { publish(counters); }

void LaneWriter::fail_step(StepRecord counters, std::string reason) {
    set_failure(std::move(reason));  // first: whoever sees the step also sees why it is the last
    publish(counters);
}

void LaneWriter::set_failure(std::string reason) {
    const std::lock_guard lock(m_record.m_failure_mutex);
    m_record.m_failure = std::move(reason);
}

std::uint64_t LaneWriter::elapsed_ns() const { return now_ns(); }

std::uint64_t LaneWriter::now_ns() const {
    return m_set_time_ns ? *m_set_time_ns : nanoseconds(std::chrono::steady_clock::now() - m_session_start);
}

void LaneWriter::publish(StepRecord counters) {
    const std::uint64_t now = now_ns();
    if (!m_in_step) m_step_start_ns = now;
    counters.step = StepId(static_cast<std::uint32_t>(m_record.m_steps.size()));
    counters.start_ns = m_step_start_ns;
    counters.duration_ns = now - m_step_start_ns;
    counters.events = {m_step.events.end, m_record.m_events.size()};
    counters.tokens = {m_step.tokens.end, m_record.m_tokens.size()};
    counters.attention = {m_step.attention.end, m_record.m_attention.size()};
    keep_key_frame(counters.step.value);
    m_step = counters;
    m_in_step = false;
    m_record.m_steps.push_back(counters);
    m_state.begin_step(counters.step.value + 1);  // what happens between two steps belongs to the second
}

LaneMark LaneWriter::mark() const {
    return {m_record.m_steps.size(), m_record.m_sequences.size(), m_record.m_strings.size(), m_record.dropped_attention_rows()};
}

void LaneWriter::begin_with(const LaneRecord& before, const LaneMark& mark) {
    for (std::uint64_t i = 0; i < mark.sequences; ++i) add_sequence(before.sequences()[i]);
    for (std::uint64_t i = 0; i < mark.strings; ++i) intern(before.strings()[i]);
    std::uint64_t stages = 0;
    for (std::uint64_t i = 0; i < before.staged_steps().size() && before.staged_steps()[i].step < mark.steps; ++i) {
        const LaneRecord::StageRange of = before.staged_steps()[i];
        for (; stages < of.range.end; ++stages) m_record.m_stages.push_back(before.stages()[stages]);
        m_record.m_stage_ranges.push_back(of);
    }
    for (std::uint64_t i = 0; i < mark.steps; ++i) copy_step(before, before.step(i));
    m_record.m_dropped_attention_rows.store(mark.dropped_attention_rows, std::memory_order_relaxed);
}

// Logs begin alike, so ranges stay as they are.
void LaneWriter::copy_step(const LaneRecord& before, const StepRecord& step) {
    for (std::uint64_t i = step.events.begin; i < step.events.end; ++i) {
        m_state.apply(before.events()[i]);
        m_record.m_events.push_back(before.events()[i]);
        ++m_events_since_key_frame;
    }
    for (std::uint64_t i = step.tokens.begin; i < step.tokens.end; ++i) {
        const TokenRecord& token = before.tokens()[i];
        for (std::uint64_t k = 0; k < token.alternative_count; ++k)
            m_record.m_alternatives.push_back(before.alternatives()[token.alternatives_begin + k]);
        m_record.m_tokens.push_back(token);
    }
    for (std::uint64_t i = step.attention.begin; i < step.attention.end; ++i) {
        const AttentionRow& row = before.attention()[i];
        for (std::uint64_t k = 0; k < row.key_count; ++k)
            m_record.m_attention_weights.push_back(before.attention_weights()[row.weights_begin + k]);
        m_record.m_attention.push_back(row);
        m_attention_bytes += sizeof(AttentionRow) + row.key_count * sizeof(float);
    }
    keep_key_frame(step.step.value);
    m_step = step;
    m_record.m_steps.push_back(step);
    m_state.begin_step(step.step.value + 1);
}

void LaneWriter::keep_key_frame(std::uint64_t step) {
    const std::uint64_t passed = m_events_since_key_frame + (step - m_key_frame_step) / steps_per_event;
    if (passed < min_key_frame_distance || passed * sizeof(Event) * key_frame_factor < m_state.made_bytes()) return;
    m_record.m_key_frame_bytes.fetch_add(m_state.made_bytes(), std::memory_order_relaxed);
    m_state.forget_made();
    m_record.m_key_frames.push_back({static_cast<std::int64_t>(step), std::make_shared<const LaneState>(m_state)});
    m_events_since_key_frame = 0;
    m_key_frame_step = step;
}

}  // namespace kvloupe
