// SPDX-License-Identifier: GPL-3.0-or-later
//
// WindowRow: what one group of layers keeps of a sequence, position by position: what the newest token's query sees, what lies in
// the cache unseen, what was given up. A pure function of the recording.
#pragma once

#include "engine/key_span.h"
#include "engine/record/lane_state.h"
#include "engine/record/recording.h"

#include <cstdint>
#include <vector>

namespace kvloupe {

enum class SlotUse : std::uint8_t {
    seen,       // by the newest query
    sink,       // seen too, as one of the first positions
    kept,       // in the cache and masked: the block also holds something that is seen, or has not been given up yet
    given_up,   // the table points at the null block
    unwritten,  // a slot of a block without a token
};

struct SlotRun {
    std::uint32_t first = 0, end = 0;  // positions
    SlotUse use = SlotUse::seen;
    bool operator==(const SlotRun&) const = default;
};

struct WindowRow {
    std::uint8_t group = 0;
    std::vector<std::uint32_t> layers;   // ascending; empty for an accounting lane
    KeySpan span;
    TableState table;
    std::uint32_t tokens = 0;            // of the sequence
    SeenKeys seen;                       // by the query of the newest token; all 0 without one
    std::vector<SlotRun> runs;           // ascending, from position 0 to the end of the last block

    std::uint32_t count(SlotUse use) const;
    std::uint32_t blocks_held() const;
    std::uint32_t blocks_given_up() const;
};

// One row per cache group, in their order. Empty where the sequence holds no block.
std::vector<WindowRow> windowRows(const LaneInfo& info, const LaneState& state, SequenceId sequence);

}  // namespace kvloupe
