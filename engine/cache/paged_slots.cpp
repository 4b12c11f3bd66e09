// SPDX-License-Identifier: GPL-3.0-or-later
//
// PagedCache::count_slots: each slot of the pool by kind (contract, section 4), a shared one once.
//
// A sequence alone is counted in O(1): its table's slots, what is written and what it will need. Entries of one block in
// several tables count too often that way. Nearly all shared blocks are full for all their owners; those are corrected by
// one counter of the pool. Only blocks at or behind a sequence's write position can differ; those are looked at singly.
#include "engine/cache/paged_cache.h"

#include <algorithm>

namespace kvloupe {

namespace {

// A shared block that one of its owners has not filled.
struct Open {
    std::uint32_t block = 0;
    std::uint32_t written = 0;   // slots of it that this owner has written
    std::uint32_t final_size = 0;  // … and will have written when it ends; at least `written`
};

// Slots of the range [begin, begin + size) that lie before `end`.
std::uint32_t slots_before(std::uint64_t end, std::uint64_t begin, std::uint32_t size) {
    return end <= begin ? 0 : static_cast<std::uint32_t>(std::min<std::uint64_t>(end - begin, size));
}

}  // namespace

SlotCounts PagedCache::count_slots(std::span<const SlotHolder> holders, std::uint64_t) const {
    const std::uint32_t size = m_options.block_size;
    const auto wide = [](std::uint64_t value) { return static_cast<std::int64_t>(value); };
    std::int64_t token = 0, reserved = 0;
    std::vector<Open> open;
    for (const SlotHolder& holder : holders) {
        const PagedSequence* state = find(holder.sequence);
        if (!state) continue;
        for (const PagedSequence::Group& group : state->groups) {
            const std::uint64_t slots = group.table.size() * std::uint64_t{size};
            const std::uint64_t written = std::min<std::uint64_t>(holder.written, slots);
            const std::uint64_t final_size = std::clamp<std::uint64_t>(holder.final_size, written, slots);
            // Null entries lie before the write position.
            token += wide(written) - wide(std::uint64_t{group.nulls} * size);
            reserved += wide(final_size - written);
            if (m_pool.extra_references() == 0) continue;
            for (std::size_t block = written / size; block < group.table.size(); ++block) {
                const BlockId id = group.table[block];
                if (m_pool.block(id).references < 2) continue;
                const std::uint64_t begin = block * std::uint64_t{size};
                open.push_back({id.value, slots_before(written, begin, size), slots_before(final_size, begin, size)});
            }
        }
    }
    // As if every shared block were full for every owner …
    token -= wide(m_pool.extra_references() * size);
    // … and then those that are not.
    std::sort(open.begin(), open.end(), [](const Open& a, const Open& b) { return a.block < b.block; });
    for (auto first = open.begin(); first != open.end();) {
        const auto last = std::find_if(first, open.end(), [&](const Open& entry) { return entry.block != first->block; });
        const auto owners = static_cast<std::uint32_t>(m_pool.block(BlockId{first->block}).references);
        const auto not_full = static_cast<std::uint32_t>(last - first);
        std::uint32_t most_written = not_full < owners ? size : 0, most_final = 0;
        for (auto entry = first; entry != last; ++entry) {
            most_written = std::max(most_written, entry->written);
            most_final = std::max(most_final, entry->final_size);
            token += wide(size) - wide(entry->written);  // it was taken away as full
            reserved -= wide(entry->final_size - entry->written);
        }
        token -= wide(size) - wide(most_written);
        reserved += most_final > most_written ? wide(most_final - most_written) : 0;
        first = last;
    }
    SlotCounts counts;
    const std::uint64_t used = std::uint64_t{m_pool.used_count()} * size;
    counts.token = static_cast<std::uint64_t>(std::clamp<std::int64_t>(token, 0, wide(used)));
    counts.reserved = static_cast<std::uint64_t>(std::clamp<std::int64_t>(reserved, 0, wide(used - counts.token)));
    counts.internal = used - counts.token - counts.reserved;
    counts.cached = std::uint64_t{m_pool.cached_count()} * size;
    counts.free = std::uint64_t{m_options.blocks - 1} * size - used - counts.cached;
    return counts;
}

}  // namespace kvloupe
