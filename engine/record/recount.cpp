// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/recount.h"

#include "engine/record/lane_state.h"

#include <algorithm>
#include <unordered_map>

namespace kvloupe {

namespace {

// The release at the end of a step: what ended or failed in it and gave its blocks back. A cancellation is an action at
// the beginning of a step and no part of it.
bool is_release(const Event& event) {
    if (event.kind != EventKind::finish && event.kind != EventKind::free) return false;
    switch (event.cause) {
    case Cause::sequence_finished:
    case Cause::sequence_failed:
    case Cause::end_of_sequence:
    case Cause::length_reached:
    case Cause::forced_tokens_used_up:
    case Cause::batch_ended:
    case Cause::beam_dropped: return true;
    default: return false;
    }
}

// Slots that their owners will still write, each once: of a shared block what the owner that gets furthest will write.
class ReservedSlots {
public:
    explicit ReservedSlots(const std::vector<std::uint64_t>& written) : m_written(written) {}

    std::uint64_t count(const LaneState& state) {
        std::uint64_t reserved = 0;
        m_shared.clear();
        for (const std::uint32_t id : state.holders())
            for (std::uint32_t group = 0; group < state.groups(); ++group)
                reserved += count(state, id, static_cast<std::uint8_t>(group));
        for (const auto& [block, slots] : m_shared) reserved += slots;
        return reserved;
    }

private:
    std::uint64_t count(const LaneState& state, std::uint32_t id, std::uint8_t group) {
        const TableState& table = state.table(SequenceId(id), group);
        const std::uint64_t size = state.block_size();
        const std::uint64_t first = state.sequences()[id].computed_tokens;
        const std::uint64_t end = std::min(table.size() * size, id < m_written.size() ? m_written[id] : 0);
        if (first >= end) return 0;
        const std::uint64_t logical = first / size;  // only its first block can have other owners: the rest is its own
        const BlockState& block = state.blocks()[table[logical].value];
        if (block.owners < 2) return end - first;
        const std::uint64_t border = std::min(end, (logical + 1) * size);
        if (const std::uint64_t in_block = border - logical * size; in_block > block.filled) {
            std::uint64_t& most = m_shared[table[logical].value];
            most = std::max<std::uint64_t>(most, in_block - block.filled);
        }
        return end - border;
    }

    const std::vector<std::uint64_t>& m_written;
    std::unordered_map<std::uint32_t, std::uint64_t> m_shared;  // block: slots
};

}  // namespace

std::uint64_t release_begin(const LaneRecord& lane, std::size_t step) {
    const LogRange events = lane.step(step).events;
    std::uint64_t released = events.end;
    while (released > events.begin && is_release(lane.events()[released - 1])) --released;
    return released;
}

std::vector<std::uint64_t> written_in_the_end(const Recording& recording, const LaneRecord& lane, std::size_t steps) {
    std::vector<std::uint64_t> written(lane.sequences().size(), 0);
    const std::uint64_t end = steps > 0 ? lane.step(steps - 1).events.end : 0;
    std::vector<bool> ended(written.size(), false);
    for (std::uint64_t e = 0; e < end; ++e) {
        const Event& event = lane.events()[e];
        if (event.sequence.value >= written.size()) continue;
        std::uint64_t& most = written[event.sequence.value];
        if (event.kind == EventKind::prefill || event.kind == EventKind::decode)
            most = std::max(most, std::uint64_t{event.other} + event.tokens);
        else if (event.kind == EventKind::fork) most = event.tokens;
        else if (event.kind == EventKind::finish) ended[event.sequence.value] = true;
    }
    for (std::size_t i = 0; i < written.size(); ++i) {
        const SequenceInfo& own = lane.sequences()[i];
        if (ended[i] || !own.request.valid() || own.request.value >= recording.requests().size()) continue;
        const RequestInfo& info = recording.requests()[own.request.value];
        const std::uint64_t all = std::max<std::uint64_t>(info.prompt.size() + std::uint64_t{info.max_new_tokens}, own.prompt_tokens);
        written[i] = std::max(written[i], all > 0 ? all - 1 : 0);
    }
    return written;
}

Recount recount(const Recording& recording, const LaneRecord& lane, std::size_t steps) {
    Recount result;
    result.slots.reserve(steps);
    if (!lane.info().kv_cache || steps == 0) {
        for (std::size_t i = 0; i < steps; ++i) result.slots.push_back(lane.step(i).slots);
        return result;
    }
    const std::vector<std::uint64_t> written = written_in_the_end(recording, lane, steps);
    LaneState state = lane.state_before(0);
    ReservedSlots reserved(written);
    for (std::size_t i = 0; i < steps; ++i) {
        const StepRecord& step = lane.step(i);
        const std::uint64_t released = release_begin(lane, i);
        const auto apply = [&](std::uint64_t begin, std::uint64_t end) {
            for (std::uint64_t e = begin; e < end; ++e) {
                const Event& event = lane.events()[e];
                state.apply(event);
                result.peak_used_blocks = std::max(result.peak_used_blocks, state.used_blocks());
            }
        };
        apply(step.events.begin, released);
        SlotCounts slots = step.slots;
        const std::uint64_t unwritten = slots.reserved + slots.internal;
        slots.reserved = std::min(reserved.count(state), unwritten);
        slots.internal = unwritten - slots.reserved;
        result.slots.push_back(slots);
        apply(released, step.events.end);
    }
    return result;
}

}  // namespace kvloupe
