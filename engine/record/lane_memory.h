// SPDX-License-Identifier: GPL-3.0-or-later
//
// What a lane's creation took of its device's memory: differences of the allocator's counters before and after. All measured.
#pragma once

#include <cstdint>

namespace kvloupe {

struct LaneMemory {
    std::uint64_t weights = 0;         // allocated for the model's weights; lanes of one model on one device share them
    std::uint64_t mapped_weights = 0;  // weights that are used where they lie in the mapped file
    std::uint64_t kv_cache = 0;        // the pool, residual pages and scales included
    std::uint64_t kv_rounding = 0;     // of it: by how much the pool's buffers are larger than its layout, as they say themselves
    std::uint64_t host_blocks = 0;     // main memory for swapped-out blocks
    std::uint64_t host_rounding = 0;   // of it

    bool operator==(const LaneMemory&) const = default;
};

}  // namespace kvloupe
