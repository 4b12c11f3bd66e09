// SPDX-License-Identifier: GPL-3.0-or-later
//
// Picks that join token, slot and block: whichever of them the pointer is over, the others are filled in, so that every
// view can outline the same thing.
#pragma once

#include "engine/record/lane_state.h"
#include "views/cursor.h"

#include <QString>

#include <vector>

namespace kvloupe {

// Token of the sequence at the position, with its block where it has one.
Pick pickToken(const Cursor& cursor, SequenceId sequence, std::uint32_t position);
// A block; with a slot also the sequence and position stored there. `preferred`: the owner that is meant when shared.
Pick pickBlock(const Cursor& cursor, BlockId block, std::optional<std::uint32_t> slot = {}, SequenceId preferred = {});
Pick pickSequence(const Cursor& cursor, SequenceId sequence);

// Whether a view should outline the block, or the token, for a pick that may come from another view.
bool meansBlock(const Pick& pick, LaneId lane, BlockId block);
bool meansToken(const Pick& pick, LaneId lane, SequenceId sequence, std::uint32_t position);

// One owner of a block.
struct BlockOwner {
    SequenceId sequence;
    std::uint32_t logical = 0;
    std::uint8_t group = 0;  // KV cache group of the table
};
// All owners of one block, from the block tables.
std::vector<BlockOwner> ownersOf(const LaneState& state, BlockId block);

// The table of a cache group; empty where there is none.
const TableState& tableOf(const SequenceState& sequence, std::uint8_t group);

// "3 (c)": sequence number and the request's id.
QString sequenceLabel(const Recording& recording, const LaneRecord& lane, SequenceId sequence);
// "c"
QString sequenceName(const Recording& recording, const LaneRecord& lane, SequenceId sequence);

}  // namespace kvloupe
