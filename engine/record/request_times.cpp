// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/describe.h"

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

// What is known of one sequence while its steps go by.
struct Progress {
    RequestTimes times;
    std::optional<std::uint64_t> arrived;
    std::optional<std::uint64_t> previous_token;

    void token(std::uint64_t step_end) {
        ++times.output_tokens;
        if (previous_token && *previous_token != step_end)
            times.inter_token_ms.push_back(static_cast<double>(step_end - *previous_token) / 1e6);
        previous_token = step_end;
    }

    void event(const Recording& recording, const LaneRecord& lane, const Event& event, std::uint64_t now) {
        if (event.kind == EventKind::arrive && !arrived) arrived = now;
        if (event.kind == EventKind::admit && arrived && !times.queue_ms)
            times.queue_ms = static_cast<double>(now - std::min(*arrived, now)) / 1e6;
        if (event.kind != EventKind::finish && event.kind != EventKind::reject) return;
        times.finish_reason = finish_reason_of(event);
        times.dropped = event.cause == Cause::beam_dropped;
        if (times.finish_reason == "rejected" || times.finish_reason == "failed")
            times.reason = event_reason(recording, lane, event);
    }

    void first_token(std::uint64_t step_end) {
        if (times.output_tokens > 0 && arrived && !times.time_to_first_token_ms)
            times.time_to_first_token_ms = static_cast<double>(step_end - std::min(*arrived, step_end)) / 1e6;
    }
};

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

// Lets the steps go by for some sequences of a lane, parents included.
class Pass {
public:
    Pass(const Recording& recording, const LaneRecord& lane) : m_recording(recording), m_lane(lane) {}

    std::vector<std::optional<Progress>> progress;  // index: SequenceId; none: not followed

    void step(const StepRecord& step) {
        const std::uint64_t end = step.start_ns + step.duration_ns;
        m_sampled.clear();
        for (std::uint64_t t = step.tokens.begin; t < step.tokens.end; ++t) {
            const TokenRecord& token = m_lane.tokens()[t];
            Progress* own = token.source == TokenRecord::prompt ? nullptr : of(token.sequence.value);
            if (!own) continue;
            own->token(end);
            m_sampled.push_back(own);
        }
        for (std::uint64_t e = step.events.begin; e < step.events.end; ++e) {
            const Event& event = m_lane.events()[e];
            Progress* own = of(event.sequence.value);
            if (!own) continue;
            become(*own, event, step.start_ns);
            own->event(m_recording, m_lane, event, step.start_ns + event.offset_ns);
        }
        for (Progress* own : m_sampled) own->first_token(end);
    }

private:
    Progress* of(std::uint32_t sequence) {
        return sequence < progress.size() && progress[sequence] ? &*progress[sequence] : nullptr;
    }

    // A sample or beam goes on for its request, also one that arrives because its parent is preempted; a fork begins here.
    void become(Progress& own, const Event& event, std::uint64_t step_start) {
        const bool of_request = event.cause == Cause::parallel_sampling || event.cause == Cause::beam_search;
        if (event.kind == EventKind::fork && !of_request) own.arrived = step_start;
        if (!of_request || (event.kind != EventKind::fork && event.kind != EventKind::arrive)) return;
        const Progress* parent = of(m_lane.sequences()[event.sequence.value].parent.value);
        if (!parent) return;
        own.arrived = parent->arrived;
        own.times.time_to_first_token_ms = parent->times.time_to_first_token_ms;
    }

    const Recording& m_recording;
    const LaneRecord& m_lane;
    std::vector<Progress*> m_sampled;  // those with a token in the step
};

}  // namespace

RequestTimes request_times(const Recording& recording, const LaneRecord& lane, SequenceId sequence, std::size_t last) {
    const std::vector<SequenceId> chain = with_ancestors(lane, sequence);
    if (chain.empty()) return {};
    Pass pass(recording, lane);
    pass.progress.resize(sequence.value + std::size_t{1});
    for (const SequenceId one : chain) pass.progress[one.value].emplace();
    Progress& own = *pass.progress[sequence.value];
    for (std::size_t i = first_step_of(recording, lane, chain.back(), last); i <= last; ++i) {
        pass.step(lane.step(i));
        if (!own.times.finish_reason.empty()) break;
    }
    return std::move(own.times);
}

std::vector<RequestTimes> all_request_times(const Recording& recording, const LaneRecord& lane, std::size_t last) {
    Pass pass(recording, lane);
    pass.progress.resize(lane.sequences().size());
    for (std::optional<Progress>& one : pass.progress) one.emplace();
    for (std::size_t i = 0; i <= last && i < lane.step_count(); ++i) pass.step(lane.step(i));
    std::vector<RequestTimes> times;
    times.reserve(pass.progress.size());
    for (std::optional<Progress>& one : pass.progress) times.push_back(std::move(one->times));
    return times;
}

}  // namespace kvloupe
