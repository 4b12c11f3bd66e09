// SPDX-License-Identifier: GPL-3.0-or-later
//
// ReservingCache: which sequence owns which blocks. Knows no tensors and no requests.
// Plan -> check -> apply: plan_grow() and plan_release() only look, so that a refusal touches nothing; apply() is the one
// function that changes anything, and it says what it changed.
#pragma once

#include "engine/cache/block_pool.h"
#include "engine/cache/block_table.h"
#include "engine/record/result.h"

#include <cstdint>
#include <map>
#include <vector>

namespace kvloupe {

// What a change would take. Valid until the next apply().
struct ReservingPlan {
    enum Kind : std::uint8_t { grow, release };
    Kind kind = grow;
    SequenceId sequence;
    std::uint32_t tokens = 0;       // grow: tokens the sequence will have slots for
    std::uint32_t new_blocks = 0;   // grow: blocks to take
    std::uint32_t free_blocks = 0;  // at the time of planning
    std::uint64_t version = 0;
    bool fits() const { return new_blocks <= free_blocks; }
};
using CachePlan = ReservingPlan;

// What apply() did, in order.
struct CacheChanges {
    struct Allocated {
        BlockId block;
        std::uint32_t logical = 0;  // index in the sequence's table
        bool evicted = false;       // it still had a hash, which is gone now
    };
    struct Freed {
        BlockId block;
        std::uint32_t owners_left = 0;
        bool front = false;         // went to the head of the free queue
    };
    std::vector<Allocated> allocated;
    std::vector<Freed> freed;
};

class ReservingCache {
public:
    // blocks >= 2 (null block included), block_size >= 1.
    ReservingCache(std::uint32_t blocks, std::uint32_t block_size);

    std::uint32_t block_size() const { return m_block_size; }
    const BlockPool& pool() const { return m_pool; }

    // Slots for `tokens` tokens in all; never fewer than the sequence has.
    CachePlan plan_grow(SequenceId sequence, std::uint32_t tokens) const;
    // Gives up all blocks, the last one first.
    CachePlan plan_release(SequenceId sequence) const;

    // Errors, with nothing touched: the plan does not fit, or something was applied since it was made.
    Result<CacheChanges> apply(const CachePlan& plan);

    // The sequence's table; an empty one if it owns nothing.
    const BlockTable& table(SequenceId sequence) const;
    const std::map<SequenceId, BlockTable>& tables() const { return m_tables; }

private:
    BlockPool m_pool;
    std::uint32_t m_block_size;
    std::map<SequenceId, BlockTable> m_tables;
    std::uint64_t m_version = 0;
};

}  // namespace kvloupe
