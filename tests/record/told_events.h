// SPDX-License-Identifier: GPL-3.0-or-later
//
// Events in a line, for tests that tell a LaneState what happened.
#pragma once

#include "engine/record/lane_state.h"

#include <cstdint>
#include <vector>

namespace kvloupe {

inline Event told(EventKind kind, std::uint32_t sequence, std::uint32_t block = Event{}.other,
           std::uint32_t other = Event{}.other, std::uint32_t tokens = 0) {
    Event one;
    one.kind = kind;
    if (sequence != Event{}.other) one.sequence = SequenceId(sequence);
    if (block != Event{}.other) one.block = BlockId(block);
    one.other = other;
    one.tokens = tokens;
    return one;
}

template <class Ids>
std::vector<std::uint32_t> values(const Ids& ids) {
    std::vector<std::uint32_t> list;
    for (const BlockId id : ids) list.push_back(id.value);
    return list;
}

using List = std::vector<std::uint32_t>;

inline void free_all(LaneState& state, std::uint32_t sequence, const List& blocks, std::uint8_t flags) {
    for (const std::uint32_t block : blocks) {
        Event one = told(EventKind::free, sequence, block, 0);
        one.flags = flags;
        state.apply(one);
    }
}

}  // namespace kvloupe
