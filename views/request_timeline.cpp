// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/request_timeline.h"

#include <algorithm>

namespace kvloupe {

void RequestTimeline::note(SequenceId sequence, std::uint32_t step) {
    if (!sequence.valid() || sequence.value >= m_pass->size()) return;
    if (sequence.value >= m_lives.size()) m_lives.resize(m_pass->size());
    const RequestTimes& now = m_pass->of(sequence);
    Life& life = m_lives[sequence.value];
    if (life.queued == never && now.queue_ms) {
        life.queued = step;
        life.queue_ms = now.queue_ms;
    }
    if (life.first_token == never && now.time_to_first_token_ms) {
        life.first_token = step;
        life.time_to_first_token_ms = now.time_to_first_token_ms;
    }
    if (life.ended == never && !now.finish_reason.empty()) {
        life.ended = step;
        life.finish_reason = now.finish_reason;
        life.reason = now.reason;
        life.dropped = now.dropped;
    }
}

void RequestTimeline::update(const Recording& recording, LaneId lane, const std::atomic<bool>& cancelled) {
    if (!m_pass) {
        m_lane = &recording.lane(lane);
        m_pass.emplace(recording, *m_lane);
        m_pass->keep_gaps(false);
    }
    for (const std::size_t count = m_lane->step_count(); m_steps < count && !cancelled.load(std::memory_order_relaxed); ++m_steps) {
        const StepRecord& record = m_lane->step(m_steps);
        const auto step = static_cast<std::uint32_t>(m_steps);
        m_pass->step(record);
        for (std::uint64_t i = record.events.begin; i < record.events.end; ++i) {
            const Event& event = m_lane->events()[i];
            const bool plain = event.kind == EventKind::decode || event.kind == EventKind::allocate || event.kind == EventKind::free;
            if (!plain) note(event.sequence, step);
        }
        for (const SequenceId sequence : m_pass->sampled()) {
            note(sequence, step);
            m_lives[sequence.value].tokens.push_back(step);
        }
    }
}

RequestTimes RequestTimeline::at(SequenceId sequence, std::size_t step, bool gaps) const {
    RequestTimes times;
    if (sequence.value >= m_lives.size()) return times;
    const Life& life = m_lives[sequence.value];
    if (life.queued <= step) times.queue_ms = life.queue_ms;
    if (life.first_token <= step) times.time_to_first_token_ms = life.time_to_first_token_ms;
    if (life.ended <= step) {
        times.finish_reason = life.finish_reason;
        times.reason = life.reason;
        times.dropped = life.dropped;
    }
    const auto end = std::upper_bound(life.tokens.begin(), life.tokens.end(), step,
                                      [](std::size_t at, std::uint32_t token) { return at < token; });
    times.output_tokens = static_cast<std::uint32_t>(end - life.tokens.begin());
    if (!gaps) return times;
    const auto endOf = [this](std::uint32_t at) {
        const StepRecord& record = m_lane->step(at);
        return record.start_ns + record.duration_ns;
    };
    std::optional<std::uint64_t> before;
    for (auto token = life.tokens.begin(); token != end; ++token) {
        const std::uint64_t now = endOf(*token);
        if (before && *before != now) times.inter_token_ms.push_back(static_cast<double>(now - *before) / 1e6);
        before = now;
    }
    return times;
}

}  // namespace kvloupe
