// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/request_pass.h"

#include <algorithm>

namespace kvloupe {

namespace {

std::string finish_reason_of(const Event& event) {
    if (event.kind == EventKind::reject) return "rejected";
    switch (event.cause) {
    case Cause::end_of_sequence: return "stop";
    case Cause::sequence_cancelled: return "cancelled";
    case Cause::sequence_failed: return "failed";
    default: return "length";
    }
}

// First step that can hold something of the sequence: its request exists since arrival_ns.
std::size_t first_step_of(const Recording& recording, const LaneRecord& lane, SequenceId sequence, std::size_t last) {
    if (!sequence.valid() || sequence.value >= lane.sequences().size()) return 0;
    const RequestId request = lane.sequences()[sequence.value].request;
    if (!request.valid() || request.value >= recording.requests().size()) return 0;
    const std::uint64_t arrival = recording.requests()[request.value].arrival_ns;
    std::size_t low = 0;
    std::size_t high = last + 1;
    while (low < high) {
        const std::size_t middle = low + (high - low) / 2;
        const StepRecord& step = lane.step(middle);
        if (step.start_ns + step.duration_ns < arrival) low = middle + 1;
        else high = middle;
    }
    return low;
}

// The sequence and those it stems from, by way of which its request arrived and got its first token.
std::vector<SequenceId> with_ancestors(const LaneRecord& lane, SequenceId sequence) {
    std::vector<SequenceId> chain;
    while (sequence.valid() && sequence.value < lane.sequences().size()) {
        chain.push_back(sequence);
        const SequenceId parent = lane.sequences()[sequence.value].parent;
        if (!parent.valid() || parent.value >= sequence.value) break;
        sequence = parent;
    }
    return chain;
}

}  // namespace

RequestPass::RequestPass(const Recording& recording, const LaneRecord& lane, const std::vector<SequenceId>& followed)
    : m_recording(&recording), m_lane(&lane) {
    for (const SequenceId one : followed) {
        if (one.value >= m_progress.size()) m_progress.resize(one.value + std::size_t{1});
        m_progress[one.value].emplace();
    }
}

RequestPass::Progress* RequestPass::find(SequenceId sequence) {
    return sequence.value < m_progress.size() && m_progress[sequence.value] ? &*m_progress[sequence.value] : nullptr;
}

void RequestPass::step(const StepRecord& step) {
    const std::uint64_t end = step.start_ns + step.duration_ns;
    for (std::size_t known = m_progress.size(); m_all && known < m_lane->sequences().size(); ++known)
        m_progress.emplace_back(Progress{});
    m_sampled.clear();
    for (std::uint64_t t = step.tokens.begin; t < step.tokens.end; ++t) {
        const TokenRecord& of = m_lane->tokens()[t];
        Progress* own = of.source == TokenRecord::prompt ? nullptr : find(of.sequence);
        if (!own) continue;
        token(*own, end);
        m_sampled.push_back(of.sequence);
    }
    for (std::uint64_t e = step.events.begin; e < step.events.end; ++e) {
        const Event& event = m_lane->events()[e];
        Progress* own = find(event.sequence);
        if (!own) continue;
        stem(*own, event, step.start_ns);
        this->event(*own, event, step);
    }
    for (const SequenceId one : m_sampled) first_token(*find(one), end);
}

void RequestPass::token(Progress& own, std::uint64_t step_end) {
    ++own.times.output_tokens;
    if (m_keep_gaps && own.previous_token && *own.previous_token != step_end)
        own.times.inter_token_ms.push_back(static_cast<double>(step_end - *own.previous_token) / 1e6);
    own.previous_token = step_end;
}

void RequestPass::event(Progress& own, const Event& event, const StepRecord& step) {
    const std::uint64_t now = step.start_ns + event.offset_ns;
    RequestTimes& times = own.times;
    if (event.kind == EventKind::arrive && !own.arrived) own.arrived = now;
    if (event.kind == EventKind::admit && own.arrived && !times.queue_ms)
        times.queue_ms = static_cast<double>(now - std::min(*own.arrived, now)) / 1e6;
    if (event.kind != EventKind::finish && event.kind != EventKind::reject) return;
    times.finish_reason = finish_reason_of(event);
    times.dropped = event.cause == Cause::beam_dropped;
    if (times.finish_reason == "rejected" || times.finish_reason == "failed")
        times.reason = event_reason(*m_recording, *m_lane, event);
}

// A sample or beam goes on for its request, also one that arrives because its parent is preempted; a fork begins here.
void RequestPass::stem(Progress& own, const Event& event, std::uint64_t step_start) {
    const bool of_request = event.cause == Cause::parallel_sampling || event.cause == Cause::beam_search;
    if (event.kind == EventKind::fork && !of_request) own.arrived = step_start;
    if (!of_request || (event.kind != EventKind::fork && event.kind != EventKind::arrive)) return;
    const Progress* parent = find(m_lane->sequences()[event.sequence.value].parent);
    if (!parent) return;
    own.arrived = parent->arrived;
    own.times.time_to_first_token_ms = parent->times.time_to_first_token_ms;
}

void RequestPass::first_token(Progress& own, std::uint64_t step_end) {
    if (own.arrived && !own.times.time_to_first_token_ms)
        own.times.time_to_first_token_ms = static_cast<double>(step_end - std::min(*own.arrived, step_end)) / 1e6;
}

RequestTimes request_times(const Recording& recording, const LaneRecord& lane, SequenceId sequence, std::size_t last) {
    const std::vector<SequenceId> chain = with_ancestors(lane, sequence);
    if (chain.empty()) return {};
    RequestPass pass(recording, lane, chain);
    for (std::size_t i = first_step_of(recording, lane, chain.back(), last); i <= last; ++i) {
        pass.step(lane.step(i));
        if (!pass.of(sequence).finish_reason.empty()) break;
    }
    return pass.of(sequence);
}

std::vector<RequestTimes> all_request_times(const Recording& recording, const LaneRecord& lane, std::size_t last) {
    RequestPass pass(recording, lane);
    for (std::size_t i = 0; i <= last && i < lane.step_count(); ++i) pass.step(lane.step(i));
    std::vector<RequestTimes> times(std::max(pass.size(), lane.sequences().size()));
    for (std::uint32_t i = 0; i < pass.size(); ++i) times[i] = pass.of(SequenceId(i));
    return times;
}

}  // namespace kvloupe
