// SPDX-License-Identifier: GPL-3.0-or-later
//
// Pure functions over a pool's state that pictures and exports share, each with its rule. All are derived.
#pragma once

#include "engine/record/lane_state.h"
#include "engine/record/recording.h"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace kvloupe {

// Runs of blocks with adjacent ids that nobody owns. Bin i counts the runs of 2^i … 2^(i+1) - 1 blocks.
// A run of the first kind holds free blocks only; of the second, free and cached ones: what a contiguous reservation
// could have if it gave up the cache.
struct FreeRuns {
    static constexpr std::size_t bins = 32;
    std::array<std::uint32_t, bins> free{};       // runs of free blocks
    std::array<std::uint32_t, bins> unowned{};    // runs of blocks that are free or cached
    std::uint32_t free_blocks = 0;
    std::uint32_t cached_blocks = 0;
    std::uint32_t longest_free = 0;               // blocks
    std::uint32_t longest_unowned = 0;

    // 1 - longest run ÷ free blocks: 0 where the free blocks are one run, near 1 where they lie scattered. None without.
    std::optional<double> scatter() const;
};
FreeRuns free_runs(const LaneState& state);

// Share of the pool's slots by kind, mean over the steps [begin, end): each 0 .. 1, together 1. None where the range is
// empty or the pool has no slots. `slots` is by step: as recorded, or as recounted (recount.h).
struct SlotShares {
    double token = 0, cached = 0, reserved = 0, internal = 0, external = 0, free = 0;
};
std::optional<SlotShares> mean_shares(std::span<const SlotCounts> slots, std::size_t begin, std::size_t end);

// What sharing saves at this moment: blocks = sum over all blocks of owners - 1, and their bytes.
struct SharingSavings {
    std::uint64_t blocks = 0;
    std::uint64_t bytes = 0;
    std::uint32_t shared_blocks = 0;   // with more than one owner
    std::uint32_t most_owners = 0;     // of one block
};
SharingSavings sharing_savings(const LaneInfo& lane, const LaneState& state);

// Slots that a sequence holds and has not written, most first; sequences that waste nothing are left out.
// A shared block counts to the owner that has written furthest: what it has written is no waste of the others.
// `written`: positions each sequence will have written when it ends (written_in_the_end() of recount.h); beyond them a slot
// is `never` written, up to them it is written `later`.
struct SequenceWaste {
    SequenceId sequence;
    std::uint64_t later = 0;   // reserved
    std::uint64_t never = 0;   // internal, and external where regions are rounded up
    std::uint64_t slots() const { return later + never; }
};
std::vector<SequenceWaste> wasted_slots(const LaneState& state, std::span<const std::uint64_t> written);

// Hit tokens ÷ queried tokens over the steps [begin, end) (CACHE_SEMANTICS 1.1 "Hit rule"; those that run again after a
// preemption are not among them). None where nothing was queried.
std::optional<double> hit_rate(const LaneRecord& lane, std::size_t begin, std::size_t end);

}  // namespace kvloupe
