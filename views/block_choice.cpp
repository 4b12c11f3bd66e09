// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/block_choice.h"

#include "views/picking.h"

#include <algorithm>

namespace kvloupe {

std::uint8_t groupOfLayer(const LaneInfo& info, std::uint32_t layer) {
    return layer < info.layer_infos.size() ? static_cast<std::uint8_t>(info.layer_infos[layer].group) : std::uint8_t{0};
}

namespace {

// Also the null block, where the layer's window has given the tokens up.
std::optional<BlockChoice> inTable(const LaneState& state, BlockQuestion question, SequenceId sequence, std::uint8_t group, std::uint32_t logical) {
    const TableState& table = state.table(sequence, group);
    if (logical >= table.size()) return {};
    question.block = table[logical];
    return BlockChoice{question, sequence, logical};
}

std::optional<BlockChoice> lockedBlock(const Cursor& cursor, const LaneState& state, BlockQuestion question, std::uint8_t group) {
    const Pick& lock = cursor.locked();
    if (lock.lane && *lock.lane != cursor.lane()) return {};
    const std::uint32_t size = std::max(1u, state.block_size());
    if (lock.sequence && lock.position && lock.sequence->value < state.sequences().size())
        if (auto found = inTable(state, question, *lock.sequence, group, *lock.position / size)) return found;
    if (!lock.block || *lock.block == null_block_id || lock.block->value >= state.blocks().size()) return {};
    const std::vector<BlockOwner> owners = ownersOf(state, *lock.block);
    const BlockOwner* owner = owners.empty() ? nullptr : &owners.front();
    for (const BlockOwner& each : owners)
        if (each.sequence == cursor.sequence()) owner = &each;
    if (owner && owner->group != group) return inTable(state, question, owner->sequence, group, owner->logical);
    question.block = *lock.block;
    return BlockChoice{question, owner ? owner->sequence : SequenceId(), owner ? owner->logical : 0};
}

}  // namespace

std::optional<BlockChoice> chosenBlock(const Cursor& cursor) {
    const LaneRecord* lane = cursor.laneRecord();
    const LaneState* state = cursor.state();
    if (!lane || !state || lane->info().layers == 0 || !lane->info().kv_cache) return {};
    const std::uint32_t layer = std::min(cursor.layer(), lane->info().layers - 1);
    const std::uint8_t group = groupOfLayer(lane->info(), layer);
    const BlockQuestion question{cursor.lane(), layer, BlockId()};
    if (auto locked = lockedBlock(cursor, *state, question, group)) return locked;
    const SequenceId sequence = cursor.sequence();
    if (!sequence.valid() || sequence.value >= state->sequences().size()) return {};
    const std::uint32_t tokens = state->sequences()[sequence.value].computed_tokens;
    if (tokens == 0) return {};
    return inTable(*state, question, sequence, group, (tokens - 1) / std::max(1u, state->block_size()));
}

std::optional<BlockId> neighbourBlock(const Cursor& cursor, const BlockChoice& choice, int by) {
    const LaneRecord* lane = cursor.laneRecord();
    const LaneState* state = cursor.state();
    if (!lane || !state || !choice.sequence.valid() || choice.sequence.value >= state->sequences().size()) return {};
    const std::int64_t logical = std::int64_t{choice.logical} + by;
    const std::int64_t tokens = state->sequences()[choice.sequence.value].computed_tokens;
    if (logical < 0 || logical * std::int64_t{state->block_size()} >= tokens) return {};
    const auto found = inTable(*state, choice.question, choice.sequence, groupOfLayer(lane->info(), choice.question.layer),
                               static_cast<std::uint32_t>(logical));
    return found && found->question.block != null_block_id ? std::optional(found->question.block) : std::nullopt;
}

}  // namespace kvloupe
