// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/cache/paged_audit.h"

#include "engine/cache/paged_cache.h"

#include <algorithm>
#include <string>

namespace kvloupe {

namespace {

Error broken(int invariant, const std::string& what) {
    return Error{"Cache invariant " + std::to_string(invariant) + " does not hold: " + what,
                 "This is a defect of the program; please report it with the scenario."};
}

std::string block_name(std::uint32_t id) { return "block " + std::to_string(id); }

}  // namespace

Result<void> audit_pool(const BlockPool& pool) {
    const std::vector<BlockId> order = pool.free_order();
    if (order.size() != pool.free_count())
        return broken(2, "the free queue holds " + std::to_string(order.size()) + " blocks, the counter says " +
                             std::to_string(pool.free_count()));
    std::vector<bool> listed(pool.size(), false);
    for (const BlockId id : order) {
        if (listed[id.value]) return broken(2, block_name(id.value) + " stands twice in the free queue");
        listed[id.value] = true;
    }
    std::uint32_t in_use = 0, held = 0, cached = 0;
    std::uint64_t extra = 0;
    for (std::uint32_t id = 1; id < pool.size(); ++id) {
        const Block& block = pool.block(BlockId{id});
        if (block.references < 0 || (block.references > 0 && listed[id]) || block.linked() != listed[id])
            return broken(1, block_name(id) + " has " + std::to_string(block.references) + " references and is " +
                                 (listed[id] ? "" : "not ") + "in the free queue");
        in_use += block.references > 0;
        held += block.references == 0 && !listed[id];
        cached += block.references == 0 && (!listed[id] || pool.hashed(BlockId{id}));
        extra += block.references > 0 ? static_cast<std::uint32_t>(block.references) - 1 : 0;
    }
    if (pool.block(null_block_id).references != 0 || listed[null_block_id.value]) return broken(1, "the null block is in the free queue");
    if (held != pool.held_count())
        return broken(1, std::to_string(held) + " blocks have no owner and are not in the free queue, but " +
                             std::to_string(pool.held_count()) + " are held");
    if (order.size() + in_use + held + 1 != pool.size())
        return broken(7, std::to_string(order.size()) + " free + " + std::to_string(in_use) + " in use + " + std::to_string(held) +
                             " held + 1 null are not " + std::to_string(pool.size()));
    if (cached != pool.cached_count() || extra != pool.extra_references())
        return broken(7, std::to_string(cached) + " cached blocks and " + std::to_string(extra) +
                             " shared references, but the counters say " + std::to_string(pool.cached_count()) + " and " +
                             std::to_string(pool.extra_references()));
    return {};
}

Result<void> audit_tables(const BlockPool& pool, std::span<const std::unique_ptr<PagedSequence>> sequences,
                          std::uint32_t block_size) {
    std::vector<std::int32_t> pointed(pool.size(), 0);
    for (std::uint32_t sequence = 0; sequence < sequences.size(); ++sequence) {
        if (!sequences[sequence]) continue;
        const PagedSequence& state = *sequences[sequence];
        const std::string who = "sequence " + std::to_string(sequence);
        for (const PagedSequence::Group& group : state.groups) {
            std::vector<std::uint32_t> sorted;
            std::uint32_t nulls = 0;
            if (state.covered > group.table.size() * std::uint64_t{block_size})
                return broken(3, who + " holds " + std::to_string(state.covered) + " tokens in " +
                                     std::to_string(group.table.size()) + " blocks of " + std::to_string(block_size));
            for (std::uint32_t logical = 0; logical < group.table.size(); ++logical) {
                const BlockId id = group.table[logical];
                if (id.value >= pool.size()) return broken(3, who + " points at " + block_name(id.value));
                if (id == null_block_id) {
                    ++nulls;
                    continue;
                }
                ++pointed[id.value];
                sorted.push_back(id.value);
                const bool own = logical >= group.own_from && logical < group.registered;
                if (own && pool.hashed(id) && (std::uint64_t{logical} + 1) * block_size > state.covered)
                    return broken(5, block_name(id.value) + " has a hash, but " + who + " has not filled it");
            }
            if (nulls != group.nulls)
                return broken(3, who + " has " + std::to_string(nulls) + " null entries, the counter says " +
                                     std::to_string(group.nulls));
            std::sort(sorted.begin(), sorted.end());
            const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
            if (twice != sorted.end()) return broken(6, block_name(*twice) + " occurs twice in the table of " + who);
        }
    }
    for (std::uint32_t id = 1; id < pool.size(); ++id)
        if (pool.block(BlockId{id}).references != pointed[id])
            return broken(3, block_name(id) + " has " + std::to_string(pool.block(BlockId{id}).references) + " references, but " +
                                 std::to_string(pointed[id]) + " table entries point at it");
    return {};
}

Result<void> PagedCache::audit() const {
    if (auto result = audit_pool(m_pool); !result) return result;
    if (auto result = audit_tables(m_pool, m_sequences, m_options.block_size); !result) return result;
    std::uint64_t host = 0;
    for (const auto& [sequence, swapped] : m_swapped)
        for (const std::vector<std::uint32_t>& table : swapped.host)
            host += static_cast<std::uint64_t>(std::count_if(table.begin(), table.end(), [](auto id) { return id != no_host; }));
    if (host != m_host.used())
        return broken(7, std::to_string(host) + " host blocks hold swapped sequences, the counter says " + std::to_string(m_host.used()));
    return m_index ? m_index->audit() : Result<void>();
}

}  // namespace kvloupe
