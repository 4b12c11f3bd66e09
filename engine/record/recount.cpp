// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/recount.h"

#include "engine/record/lane_state.h"

#include <algorithm>

namespace kvloupe {

namespace {

// Positions each sequence has written when it ends: counted where it ended, else what it may write.
std::vector<std::uint64_t> written_in_the_end(const Recording& recording, const LaneRecord& lane, std::uint64_t end) {
    std::vector<std::uint64_t> written(lane.sequences().size(), 0);
    for (std::size_t i = 0; i < written.size(); ++i) {
        const RequestId request = lane.sequences()[i].request;
        if (!request.valid() || request.value >= recording.requests().size()) continue;
        const RequestInfo& info = recording.requests()[request.value];
        const std::uint64_t all = info.prompt.size() + std::uint64_t{info.max_new_tokens};
        written[i] = all > 0 ? all - 1 : 0;
    }
    LaneState state(0, 0);  // without a pool: only what sequences have computed
    for (std::uint64_t e = 0; e < end; ++e) {
        const Event& event = lane.events()[e];
        state.apply(event);
        if (event.kind == EventKind::finish && event.sequence.value < written.size())
            written[event.sequence.value] = state.sequences()[event.sequence.value].computed_tokens;
    }
    return written;
}

// The release at the end of a step: what ended or failed in it and gave its blocks back. A cancellation is an action at
// the beginning of a step and no part of it.
bool is_release(const Event& event) {
    return (event.kind == EventKind::finish || event.kind == EventKind::free) &&
           (event.cause == Cause::sequence_finished || event.cause == Cause::sequence_failed || event.cause == Cause::end_of_sequence ||
            event.cause == Cause::length_reached || event.cause == Cause::forced_tokens_used_up);
}

}  // namespace

Recount recount(const Recording& recording, const LaneRecord& lane, std::size_t steps) {
    Recount result;
    result.slots.reserve(steps);
    if (!lane.info().kv_cache || steps == 0) {
        for (std::size_t i = 0; i < steps; ++i) result.slots.push_back(lane.step(i).slots);
        return result;
    }
    const std::vector<std::uint64_t> written =
        written_in_the_end(recording, lane, lane.step(steps - 1).events.end);
    LaneState state(lane.info().blocks, lane.info().block_size);
    std::vector<std::uint32_t> holders;  // sequences that may hold blocks
    for (std::size_t i = 0; i < steps; ++i) {
        const StepRecord& step = lane.step(i);
        std::uint64_t released = step.events.end;
        while (released > step.events.begin && is_release(lane.events()[released - 1])) --released;
        const auto apply = [&](std::uint64_t begin, std::uint64_t end) {
            for (std::uint64_t e = begin; e < end; ++e) {
                const Event& event = lane.events()[e];
                state.apply(event);
                result.peak_used_blocks = std::max(result.peak_used_blocks, state.used_blocks());
                if (event.kind == EventKind::admit || event.kind == EventKind::fork)
                    holders.push_back(event.sequence.value);
            }
        };
        apply(step.events.begin, released);
        std::uint64_t reserved = 0;
        for (std::size_t h = 0; h < holders.size();) {
            const std::uint32_t id = holders[h];
            const SequenceState& sequence = state.sequences()[id];
            if (sequence.table.empty() && sequence.status != SequenceStatus::running) {
                holders[h] = holders.back();
                holders.pop_back();
                continue;
            }
            const std::uint64_t held = sequence.table.size() * std::uint64_t{lane.info().block_size};
            const std::uint64_t in_the_end = std::min(held, id < written.size() ? written[id] : 0);
            reserved += in_the_end - std::min<std::uint64_t>(in_the_end, sequence.computed_tokens);
            ++h;
        }
        SlotCounts slots = step.slots;
        const std::uint64_t unwritten = slots.reserved + slots.internal;
        slots.reserved = std::min(reserved, unwritten);
        slots.internal = unwritten - slots.reserved;
        result.slots.push_back(slots);
        apply(released, step.events.end);
    }
    return result;
}

}  // namespace kvloupe
