// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/picking.h"

#include "engine/record/describe.h"

#include <algorithm>

namespace kvloupe {

namespace {

const SequenceState* sequenceState(const Cursor& cursor, SequenceId sequence) {
    const LaneState* state = cursor.state();
    if (!state || !sequence.valid() || sequence.value >= state->sequences().size()) return nullptr;
    return &state->sequences()[sequence.value];
}

}  // namespace

Pick pickToken(const Cursor& cursor, SequenceId sequence, std::uint32_t position) {
    Pick pick;
    pick.lane = cursor.lane();
    pick.sequence = sequence;
    pick.position = position;
    const SequenceState* state = sequenceState(cursor, sequence);
    const std::uint32_t blockSize = cursor.state() ? cursor.state()->block_size() : 0;
    if (state && blockSize > 0 && position / blockSize < state->table.size())
        pick.block = state->table[position / blockSize];
    return pick;
}

Pick pickBlock(const Cursor& cursor, BlockId block, std::optional<std::uint32_t> slot, SequenceId preferred) {
    Pick pick;
    pick.lane = cursor.lane();
    pick.block = block;
    const LaneState* state = cursor.state();
    if (!state || block == null_block_id || block.value >= state->blocks().size()) return pick;
    const BlockState& stored = state->blocks()[block.value];
    if (stored.owners == 0) return pick;
    BlockOwner owner{stored.first_owner, stored.logical};
    if (stored.owners > 1 && preferred.valid())
        for (const BlockOwner& other : ownersOf(*state, block))
            if (other.sequence == preferred) owner = other;
    if (!owner.sequence.valid()) return pick;
    pick.sequence = owner.sequence;
    if (slot && *slot < stored.filled) pick.position = owner.logical * state->block_size() + *slot;
    return pick;
}

Pick pickSequence(const Cursor& cursor, SequenceId sequence) {
    Pick pick;
    pick.lane = cursor.lane();
    pick.sequence = sequence;
    return pick;
}

bool meansBlock(const Pick& pick, LaneId lane, BlockId block) {
    return pick.block && *pick.block == block && (!pick.lane || *pick.lane == lane);
}

bool meansToken(const Pick& pick, LaneId lane, SequenceId sequence, std::uint32_t position) {
    // Lanes work on the same requests: a token is the same token in each.
    (void)lane;
    return pick.position && *pick.position == position && (!pick.sequence || *pick.sequence == sequence);
}

std::vector<BlockOwner> ownersOf(const LaneState& state, BlockId block) {
    std::vector<BlockOwner> owners;
    if (block == null_block_id || block.value >= state.blocks().size()) return owners;
    // Sharers hold a block at the same logical index: what is before it is the same, too.
    const BlockState& stored = state.blocks()[block.value];
    for (const SequenceId sequence : state.owners_of(block)) owners.push_back({sequence, stored.logical, stored.group});
    std::sort(owners.begin(), owners.end(), [](const BlockOwner& a, const BlockOwner& b) { return a.sequence < b.sequence; });
    return owners;
}

const TableState& tableOf(const SequenceState& sequence, std::uint8_t group) {
    static const TableState none;
    if (group == 0) return sequence.table;
    return group <= sequence.group_tables.size() ? sequence.group_tables[group - 1u] : none;
}

QString sequenceName(const Recording& recording, const LaneRecord& lane, SequenceId sequence) {
    if (!sequence.valid() || sequence.value >= lane.sequences().size()) return {};
    return QString::fromStdString(sequence_name(recording, lane, sequence));
}

QString sequenceLabel(const Recording& recording, const LaneRecord& lane, SequenceId sequence) {
    if (!sequence.valid()) return {};
    return QStringLiteral("%1 (%2)").arg(sequence.value).arg(sequenceName(recording, lane, sequence));
}

}  // namespace kvloupe
