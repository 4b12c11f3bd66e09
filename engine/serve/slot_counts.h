// SPDX-License-Identifier: GPL-3.0-or-later
//
// Slots of a paged pool by kind of waste (contract, section 4, "Waste").
#pragma once

#include "engine/cache/reserving_cache.h"
#include "engine/record/step.h"

#include <span>

namespace kvloupe {

// One sequence that owns blocks.
struct SlotHolder {
    SequenceId sequence;
    std::uint32_t written = 0;   // tokens whose K/V lies in its slots
    std::uint64_t final_size = 0;  // slots it will have written when it ends: a prediction while it lives, `written` once
                                   // it has ended
};

// Sums to (blocks - 1) * block_size. Blocks with several owners are not counted twice as long as prefix sharing is not
// built: each holder's blocks are its own.
SlotCounts count_slots(const ReservingCache& cache, std::span<const SlotHolder> holders);

}  // namespace kvloupe
