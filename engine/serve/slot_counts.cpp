// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/serve/slot_counts.h"

#include <algorithm>

namespace kvloupe {

SlotCounts count_slots(const ReservingCache& cache, std::span<const SlotHolder> holders) {
    SlotCounts counts;
    for (const SlotHolder& holder : holders) {
        const std::uint64_t held = cache.table(holder.sequence).blocks.size() * std::uint64_t{cache.block_size()};
        const std::uint64_t token = std::min<std::uint64_t>(holder.written, held);
        const std::uint64_t last = std::clamp<std::uint64_t>(holder.final_size, token, held);
        counts.token += token;
        counts.reserved += last - token;
        counts.internal += held - last;
    }
    counts.free = std::uint64_t{cache.pool().free_count()} * cache.block_size();
    return counts;
}

}  // namespace kvloupe
