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

// The sequence whose arrival a fork, sample or beam counts from.
SequenceId root_of(const LaneRecord& lane, SequenceId sequence) {
    while (sequence.value < lane.sequences().size() && lane.sequences()[sequence.value].parent.valid() &&
           lane.sequences()[sequence.value].parent.value < sequence.value)
        sequence = lane.sequences()[sequence.value].parent;
    return sequence;
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

}  // namespace

RequestTimes request_times(const Recording& recording, const LaneRecord& lane, SequenceId sequence, std::size_t last) {
    Progress progress;
    const SequenceId root = root_of(lane, sequence);
    bool arrived = false;  // by an event of its own
    for (std::size_t i = first_step_of(recording, lane, root, last); i <= last; ++i) {
        const StepRecord& step = lane.step(i);
        const std::uint64_t end = step.start_ns + step.duration_ns;
        for (std::uint64_t t = step.tokens.begin; t < step.tokens.end; ++t) {
            const TokenRecord& token = lane.tokens()[t];
            if (token.sequence == sequence && token.source != TokenRecord::prompt) progress.token(end);
        }
        for (std::uint64_t e = step.events.begin; e < step.events.end; ++e) {
            const Event& event = lane.events()[e];
            const std::uint64_t now = step.start_ns + event.offset_ns;
            if (event.kind == EventKind::arrive && event.sequence == root && !arrived) progress.arrived = now;
            arrived = arrived || (event.kind == EventKind::arrive && event.sequence == sequence);
            if (event.sequence != sequence) continue;
            if (event.kind == EventKind::arrive) progress.arrived.reset();
            progress.event(recording, lane, event, now);
        }
        progress.first_token(end);
        if (!progress.times.finish_reason.empty()) break;
    }
    return std::move(progress.times);
}

std::vector<RequestTimes> all_request_times(const Recording& recording, const LaneRecord& lane, std::size_t last) {
    std::vector<Progress> progress(lane.sequences().size());
    std::vector<std::uint32_t> sampled;  // sequences with a token in the step
    for (std::size_t i = 0; i <= last && i < lane.step_count(); ++i) {
        const StepRecord& step = lane.step(i);
        const std::uint64_t end = step.start_ns + step.duration_ns;
        sampled.clear();
        for (std::uint64_t t = step.tokens.begin; t < step.tokens.end; ++t) {
            const TokenRecord& token = lane.tokens()[t];
            if (token.source == TokenRecord::prompt || token.sequence.value >= progress.size()) continue;
            progress[token.sequence.value].token(end);
            sampled.push_back(token.sequence.value);
        }
        for (std::uint64_t e = step.events.begin; e < step.events.end; ++e) {
            const Event& event = lane.events()[e];
            if (event.kind == EventKind::fork && event.sequence.value < progress.size() && event.other < progress.size())
                progress[event.sequence.value].arrived = progress[event.other].arrived;
            if (event.sequence.value < progress.size())
                progress[event.sequence.value].event(recording, lane, event, step.start_ns + event.offset_ns);
        }
        for (const std::uint32_t sequence : sampled) progress[sequence].first_token(end);
    }
    std::vector<RequestTimes> times;
    times.reserve(progress.size());
    for (Progress& one : progress) times.push_back(std::move(one.times));
    return times;
}

}  // namespace kvloupe
