// SPDX-License-Identifier: GPL-3.0-or-later
//
// The ledger: every number that can be predicted from the layouts beside the one that was measured, and what their difference
// is made of. Predictions come from shapes and formats alone, measurements from the allocator's counters; a difference that
// nothing known explains stands apart, so that memory which nobody accounts for shows.
#pragma once

#include "engine/record/recording.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kvloupe {

struct LedgerEntry {
    std::string what;                       // "pool", "KV in use", …
    std::optional<std::uint64_t> predicted; // bytes; none where nothing predicts it
    std::string predicted_how;              // the formula with its numbers
    std::optional<std::uint64_t> measured;  // bytes; none where nothing counts it
    std::string measured_how;
    Origin origin = Origin::measured;       // of `measured`: derived where it is counted from shapes and not by a counter
    std::int64_t residual = 0;              // measured - predicted, where there are both
    std::string residual_why;               // "" where it is 0 without more to say
    std::int64_t unexplained = 0;           // of the residual: what residual_why cannot account for
};

// Of one lane at a step (what it holds before the step releases what ended); step < step_count(). Entries that a lane has
// nothing of are left out. devices: memory of the devices as their drivers say it; the lane's own is looked up by its id.
std::vector<LedgerEntry> ledger(const LaneRecord& lane, std::size_t step, std::span<const DeviceMemory> devices = {});

}  // namespace kvloupe
