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

}  // namespace

RequestTimes request_times(const Recording& recording, const LaneRecord& lane, SequenceId sequence, std::size_t last) {
    RequestTimes times;
    std::optional<std::uint64_t> arrived;
    std::optional<std::uint64_t> previous_token;
    for (std::size_t i = first_step_of(recording, lane, sequence, last); i <= last; ++i) {
        const StepRecord& step = lane.step(i);
        const std::uint64_t end = step.start_ns + step.duration_ns;
        for (std::uint64_t t = step.tokens.begin; t < step.tokens.end; ++t) {
            const TokenRecord& token = lane.tokens()[t];
            if (token.sequence != sequence || token.source == TokenRecord::prompt) continue;
            ++times.output_tokens;
            if (previous_token) times.inter_token_ms.push_back(static_cast<double>(end - *previous_token) / 1e6);
            previous_token = end;
        }
        for (std::uint64_t e = step.events.begin; e < step.events.end; ++e) {
            const Event& event = lane.events()[e];
            if (event.sequence != sequence) continue;
            const std::uint64_t now = step.start_ns + event.offset_ns;
            if (event.kind == EventKind::arrive && !arrived) arrived = now;
            if (event.kind == EventKind::admit && arrived && !times.queue_ms)
                times.queue_ms = static_cast<double>(now - std::min(*arrived, now)) / 1e6;
            if (event.kind == EventKind::finish || event.kind == EventKind::reject) {
                times.finish_reason = finish_reason_of(event);
                if (times.finish_reason == "rejected" || times.finish_reason == "failed")
                    times.reason = event_reason(recording, lane, event);
            }
        }
        if (times.output_tokens > 0 && !times.time_to_first_token_ms && arrived)
            times.time_to_first_token_ms = static_cast<double>(end - *arrived) / 1e6;
        if (!times.finish_reason.empty()) break;
    }
    return times;
}

}  // namespace kvloupe
