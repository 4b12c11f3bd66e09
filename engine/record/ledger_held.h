// SPDX-License-Identifier: GPL-3.0-or-later
//
// HeldSlots: what the slots of the blocks in use are there for, per KV cache group, counted from a lane's state.
// For each group: blocks in use * block size = seen + behind + unwritten - shared.
#pragma once

#include "engine/record/lane_state.h"
#include "engine/record/recording.h"

#include <cstdint>
#include <vector>

namespace kvloupe {

struct HeldSlots {
    struct Group {
        std::uint64_t blocks = 0;     // with an owner
        std::uint64_t seen = 0;       // of tokens that their sequence still sees, sum over sequences
        std::uint64_t behind = 0;     // of tokens that the window has left behind, in blocks that are kept for others
        std::uint64_t unwritten = 0;  // of no token yet: the rest of last blocks, and what was reserved
        std::uint64_t shared = 0;     // counted above more than once, because their block has several owners
    };
    struct Sequence {
        std::uint64_t tokens = 0;     // computed
    };
    std::vector<Group> groups;
    std::vector<Sequence> sequences;  // those that hold blocks

    // The lane at a step, before the step released what ended; step < step_count().
    static HeldSlots of(const LaneRecord& lane, std::size_t step);
};

}  // namespace kvloupe
