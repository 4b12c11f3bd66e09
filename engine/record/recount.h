// SPDX-License-Identifier: GPL-3.0-or-later
//
// Slots by kind of waste, recounted with what is known at the end of the recording (contract, section 4, "Waste").
#pragma once

#include "engine/record/recording.h"

#include <cstdint>
#include <vector>

namespace kvloupe {

// Positions each sequence has written when it ends (index: SequenceId), by the events of the first `steps` steps: counted
// where it ended in them, else a prediction: what it may write, prompt + new tokens - 1. Of a fork that lives on, that is
// what its request may: the recording does not say what it was given of its own.
std::vector<std::uint64_t> written_in_the_end(const Recording& recording, const LaneRecord& lane, std::size_t steps);

// Index of the first event of the release at the step's end: what ended or failed in the step gives its blocks back there. The
// end of the step's events where nothing is released. The events before it lead to what the step's counters count.
std::uint64_t release_begin(const LaneRecord& lane, std::size_t step);

struct Recount {
    std::vector<SlotCounts> slots;      // by step
    std::uint32_t peak_used_blocks = 0; // at any moment: after any event, also before release
};

// While a sequence lives, its reserved slots are a prediction (it may write prompt + new tokens - 1 positions). Once it
// ended, the steps before are recounted: reserved is what it held and wrote later, internal what it held and never
// wrote. A slot of a shared block counts once: reserved if any owner will write it. Sums, token, cached, external and
// free stay as recorded. One pass over the events, and per step one look at each sequence that holds blocks. Steps 0 .. steps - 1, steps <= step_count().
Recount recount(const Recording& recording, const LaneRecord& lane, std::size_t steps);

}  // namespace kvloupe
