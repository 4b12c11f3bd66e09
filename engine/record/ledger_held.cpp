// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/ledger_held.h"

#include "engine/record/recount.h"

#include <algorithm>

namespace kvloupe {

namespace {

LaneState before_release(const LaneRecord& lane, std::size_t step) {
    LaneState state = lane.state_before(step);
    const std::uint64_t end = release_begin(lane, step);
    state.begin_step(static_cast<std::uint32_t>(step));
    for (std::uint64_t e = lane.step(step).events.begin; e < end; ++e) state.apply(lane.events()[e]);
    return state;
}

// A layer of the group: all of its layers see alike.
const LayerInfo* layer_of(const std::vector<LayerInfo>& layers, std::uint32_t group) {
    for (const LayerInfo& layer : layers)
        if (layer.group == group) return &layer;
    return nullptr;
}

}  // namespace

HeldSlots HeldSlots::of(const LaneRecord& lane, std::size_t step) {
    const LaneState state = before_release(lane, step);
    const std::uint64_t size = state.block_size();
    HeldSlots held;
    held.groups.resize(std::max<std::size_t>(1, lane.info().policy.groups.size()));
    for (std::size_t block = 1; block < state.blocks().size(); ++block) {
        const BlockState& one = state.blocks()[block];
        if (one.owners == 0 || one.group >= held.groups.size()) continue;
        ++held.groups[one.group].blocks;
        held.groups[one.group].shared += (one.owners - 1) * size;
    }
    for (const std::uint32_t id : state.holders()) {
        held.sequences.push_back({state.sequences()[id].computed_tokens});
        for (std::uint32_t group = 0; group < held.groups.size(); ++group) {
            const TableState& table = state.table(SequenceId(id), static_cast<std::uint8_t>(group));
            const auto nulls = static_cast<std::uint64_t>(std::count(table.begin(), table.end(), null_block_id)) * size;
            const std::uint64_t tokens = std::min<std::uint64_t>(held.sequences.back().tokens, table.size() * size);
            const std::uint64_t written = tokens - std::min(tokens, nulls);  // null blocks lie before the position that is written
            const LayerInfo* layer = layer_of(lane.info().layer_infos, group);
            const std::uint64_t seen = std::min(written, layer ? layer->kept_tokens(tokens) : tokens);
            held.groups[group].seen += seen;
            held.groups[group].behind += written - seen;
            held.groups[group].unwritten += table.size() * size - nulls - written;
        }
    }
    return held;
}

}  // namespace kvloupe
