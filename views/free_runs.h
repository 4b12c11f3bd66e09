// SPDX-License-Identifier: GPL-3.0-or-later
//
// Runs of adjacent blocks that nobody owns: what a contiguous allocator could give away in one piece. A paged one takes
// any free block, cached ones too.
#pragma once

#include "engine/record/lane_state.h"

#include <cstdint>
#include <vector>

namespace kvloupe {

struct FreeRun {
    std::uint32_t first = 0;    // block
    std::uint32_t length = 0;   // blocks
    std::uint32_t cached = 0;   // of them, whose content can be hit
};

struct FreeRuns {
    std::vector<FreeRun> runs;  // by block
    std::uint64_t blocks = 0;   // in all runs
    std::uint64_t cached = 0;
    FreeRun largest;            // the first of the longest

    static FreeRuns of(const LaneState& state);
    // The run that holds the block, or null.
    const FreeRun* holding(std::uint32_t block) const;
};

// Bars of a histogram over run lengths: one per length, or, where they would be more than `most`, one per power of two.
struct RunBar {
    std::uint32_t shortest = 0, longest = 0;
    std::uint32_t plain = 0;    // runs without a cached block
    std::uint32_t cached = 0;   // runs with one
    std::uint32_t first = 0;    // block at which the first of them begins
};
std::vector<RunBar> runBars(const FreeRuns& runs, std::uint32_t most);

}  // namespace kvloupe
