// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/cache/reserving_cache.h"

#include <algorithm>
#include <cassert>

namespace kvloupe {

ReservingCache::ReservingCache(std::uint32_t blocks, std::uint32_t block_size) : m_pool(blocks), m_block_size(block_size) {
    assert(block_size >= 1);
}

CachePlan ReservingCache::plan_grow(SequenceId sequence, std::uint32_t tokens) const {
    const BlockTable& held = table(sequence);
    CachePlan plan;
    plan.kind = CachePlan::grow;
    plan.sequence = sequence;
    plan.tokens = std::max(tokens, held.tokens);
    const auto needed = blocks_for(plan.tokens, m_block_size);
    plan.new_blocks = needed - std::min<std::uint32_t>(needed, static_cast<std::uint32_t>(held.blocks.size()));
    plan.free_blocks = m_pool.free_count();
    plan.version = m_version;
    return plan;
}

CachePlan ReservingCache::plan_release(SequenceId sequence) const {
    CachePlan plan;
    plan.kind = CachePlan::release;
    plan.sequence = sequence;
    plan.free_blocks = m_pool.free_count();
    plan.version = m_version;
    return plan;
}

Result<CacheChanges> ReservingCache::apply(const CachePlan& plan) {
    if (plan.version != m_version)
        return Error{"The cache plan of sequence " + std::to_string(plan.sequence.value) + " is out of date",
                     "Plan again after every change of the pool."};
    if (!plan.fits())
        return Error{"Sequence " + std::to_string(plan.sequence.value) + " needs " + std::to_string(plan.new_blocks) +
                         " blocks, but " + std::to_string(plan.free_blocks) + " are free",
                     "Wait until another sequence ends, or give the pool more blocks."};
    ++m_version;
    CacheChanges changes;
    if (plan.kind == CachePlan::release) {
        const auto found = m_tables.find(plan.sequence);
        if (found == m_tables.end()) return changes;
        const std::vector<BlockId>& blocks = found->second.blocks;
        for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
            if (*block == null_block_id) continue;
            const BlockPool::Released released = m_pool.release(*block);
            changes.freed.push_back({*block, static_cast<std::uint32_t>(released.owners_left), released.front});
        }
        m_tables.erase(found);
        return changes;
    }
    BlockTable& held = m_tables[plan.sequence];
    for (std::uint32_t i = 0; i < plan.new_blocks; ++i) {
        bool evicted = false;
        const auto block = m_pool.take(&evicted);
        assert(block);
        changes.allocated.push_back({*block, static_cast<std::uint32_t>(held.blocks.size()), evicted});
        held.blocks.push_back(*block);
    }
    held.tokens = plan.tokens;
    return changes;
}

const BlockTable& ReservingCache::table(SequenceId sequence) const {
    static const BlockTable empty;
    const auto found = m_tables.find(sequence);
    return found == m_tables.end() ? empty : found->second;
}

}  // namespace kvloupe
