// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/serve/breakpoints.h"

#include "engine/record/describe.h"

namespace kvloupe {

namespace {

bool belongs_to(const Recording& recording, const LaneRecord& lane, SequenceId sequence, const std::string& request) {
    if (!sequence.valid() || sequence.value >= lane.sequences().size()) return false;
    if (sequence_name(recording, lane, sequence) == request) return true;
    const RequestId id = lane.sequences()[sequence.value].request;
    return id.valid() && id.value < recording.requests().size() && recording.requests()[id.value].id == request;
}

bool matches(const Breakpoint& breakpoint, const Recording& recording, const LaneRecord& lane, const Event& event) {
    if (breakpoint.on && event.kind != *breakpoint.on) return false;
    if (breakpoint.request && !belongs_to(recording, lane, event.sequence, *breakpoint.request)) return false;
    if (!breakpoint.block) return true;
    const bool destination = event.kind == EventKind::copy_on_write && event.other == *breakpoint.block;
    return (event.block.valid() && event.block.value == *breakpoint.block) || destination;
}

}  // namespace

std::optional<BreakpointHit> breakpoint_hit(const Breakpoint& breakpoint, const Recording& recording, LaneId lane_id,
                                            std::size_t step_index) {
    const LaneRecord& lane = recording.lane(lane_id);
    const StepRecord& step = lane.step(step_index);
    if (breakpoint.lane && *breakpoint.lane != lane.info().name) return std::nullopt;
    if (breakpoint.step && *breakpoint.step != step.step.value) return std::nullopt;
    std::string why;
    std::optional<std::uint64_t> event;
    if (breakpoint.used_blocks) {
        const std::uint32_t before = step_index > 0 ? lane.step(step_index - 1).used_blocks : 0;
        if (step.used_blocks < *breakpoint.used_blocks || before >= *breakpoint.used_blocks) return std::nullopt;
        why += "; " + std::to_string(step.used_blocks) + " blocks are in use";
    }
    const bool wants_event = breakpoint.on || breakpoint.block || (breakpoint.request && !breakpoint.token);
    if (wants_event) {
        std::uint64_t at = step.events.begin;
        while (at < step.events.end && !matches(breakpoint, recording, lane, lane.events()[at])) ++at;
        if (at == step.events.end) return std::nullopt;
        why += "; " + describe_event(recording, lane, at);
        event = at;
    }
    if (breakpoint.token) {
        std::uint64_t at = step.tokens.begin;
        const auto same = [&](const TokenRecord& token) {
            return token.token == *breakpoint.token &&
                   (!breakpoint.request || belongs_to(recording, lane, token.sequence, *breakpoint.request));
        };
        while (at < step.tokens.end && !same(lane.tokens()[at])) ++at;
        if (at == step.tokens.end) return std::nullopt;
        why += "; token " + std::to_string(*breakpoint.token) + " at position " + std::to_string(lane.tokens()[at].position) +
               " of " + sequence_name(recording, lane, lane.tokens()[at].sequence);
    }
    return BreakpointHit{"Breakpoint in step " + std::to_string(step.step.value) + " of lane '" + lane.info().name + "'" +
                             (why.empty() ? "" : ": " + why.substr(2)),
                         event};
}

}  // namespace kvloupe
