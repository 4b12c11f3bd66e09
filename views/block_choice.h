// SPDX-License-Identifier: GPL-3.0-or-later
//
// Which block of which layer is looked at: the locked one, or else the newest of the sequence in focus. Layers of another cache
// group have block tables of their own, so a locked block of one group means the block of the same tokens in another.
#pragma once

#include "engine/record/block_values.h"
#include "views/cursor.h"

#include <optional>

namespace kvloupe {

struct BlockChoice {
    BlockQuestion question;
    SequenceId sequence;            // by whose table the block was found; none: a block that nobody owns
    std::uint32_t logical = 0;      // its index in that table
};

// Cache group of the layer in focus.
std::uint8_t groupOfLayer(const LaneInfo& info, std::uint32_t layer);
// Empty where the sequence in focus owns no block and none is locked. The null block where the layer's window has given the
// locked tokens up.
std::optional<BlockChoice> chosenBlock(const Cursor& cursor);
// The block `by` places further in the same table, where there is one that holds tokens.
std::optional<BlockId> neighbourBlock(const Cursor& cursor, const BlockChoice& choice, int by);

}  // namespace kvloupe
