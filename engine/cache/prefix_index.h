// SPDX-License-Identifier: GPL-3.0-or-later
//
// PrefixIndex: what the paged cache asks of an index of cached prefixes. The cache owns tables, reference counts and the
// free queue; the index knows which content lies in which block, and may hold blocks that nobody owns.
#pragma once

#include "engine/cache/block_hash.h"
#include "engine/cache/block_pool.h"
#include "engine/record/event.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace kvloupe {

// What the paged cache keeps of a sequence that owns blocks.
struct PagedSequence {
    struct Group {
        std::vector<BlockId> table;       // logical index -> physical block; the null block where nothing is kept
        std::uint32_t unseen_end = 0;     // end of the unseen blocks (attention_span.h) that are null already
        std::uint32_t nulls = 0;          // null entries of the table
        std::uint32_t registered = 0;     // blocks 0 .. registered - 1 need no registering any more
        std::uint32_t own_from = 0;       // first block that this sequence itself may have registered
    };
    std::vector<Group> groups;
    std::uint32_t covered = 0;            // tokens that have slots and were given to compute or found
    HashChain chain;
};

class PrefixIndex {
public:
    virtual ~PrefixIndex() = default;

    // Longest prefix of whole blocks, at most tokens - 1, that every group supports. May extend the chain.
    virtual PrefixMatch match(const CacheSequence& sequence, HashChain& chain) = 0;
    // Whether a match still holds: its blocks have not lost their content since.
    virtual bool holds(const PrefixMatch& match, const HashChain& chain) const = 0;

    // Why the sequence gets this block at this logical index of its prefix: prefix_shared, or what was mistaken.
    virtual Cause cause_of_hit(const CacheSequence&, std::uint32_t /*logical*/, BlockId) const { return Cause::prefix_shared; }
    // The sequence was given its hits: they stand in its tables and are touched.
    virtual void after_match(const CacheSequence&, PagedSequence&) {}
    // It has slots for its first `covered` tokens, which are computed in this step at the latest.
    virtual void after_grow(const CacheSequence& sequence, PagedSequence& state, std::vector<Event>& events) = 0;
    // The K/V of its first `computed` tokens lies in the cache.
    virtual void after_computed(const CacheSequence&, PagedSequence&, std::uint32_t /*computed*/, std::vector<Event>&) {}
    // The child shares the parent's blocks: they stand in its tables and are touched.
    virtual void after_fork(SequenceId /*parent*/, SequenceId /*child*/, PagedSequence&) {}
    // It came back from host memory, in blocks of its own.
    virtual void after_swap_in(SequenceId, PagedSequence&) {}
    // A copy took the place of this logical block in its table.
    virtual void after_copy(SequenceId, std::uint32_t /*block*/) {}
    // Its blocks are about to be released (plan: release or swap_out).
    virtual void before_release(const CachePlan&, PagedSequence&, std::vector<Event>&) {}

    // The index owns the block beside its owners: who writes it copies it, and it stays out of the free queue when its
    // last owner leaves.
    virtual bool keeps(BlockId) const { return false; }
    // A block without an owner that cannot be evicted, because others that are owned depend on it.
    virtual bool pinned(BlockId) const { return false; }
    // Held blocks that evict_for() can give to the free queue.
    virtual std::uint32_t evictable() const { return 0; }
    // Gives at least `blocks` of them to the free queue; `taker` needs them.
    virtual void evict_for(std::uint32_t /*blocks*/, SequenceId /*taker*/, std::vector<Event>&) {}

    // KV cache group of a block that has a hash.
    virtual std::uint32_t group_of(BlockId) const { return 0; }
    // The block's content is about to change or was never computed: it loses its hash, which it has.
    virtual void forget(BlockId block) = 0;
    // A block that nobody owns loses its hash by an action, with whatever depends on it; appends the evict events.
    virtual void evict(BlockId block, std::vector<Event>& events) = 0;
    // Everything is forgotten; no block is owned. Held blocks go to the free queue (evict events come first).
    virtual void reset(std::vector<Event>& events) = 0;

    // The order in which held blocks go from now on.
    virtual void set_eviction(RadixEviction) {}

    // The same over a copy of the pool and of the sequences (index: SequenceId), which outlive it as the options do. Nobody listens
    // to it.
    using Sequences = std::vector<std::unique_ptr<PagedSequence>>;
    virtual std::unique_ptr<PrefixIndex> clone(BlockPool& pool, const CacheManagerOptions& options, const Sequences& sequences) const = 0;
    virtual std::uint64_t bytes() const = 0;  // that a clone takes, about

    // Error: the first entry that does not hold.
    virtual Result<void> audit() const = 0;

    void set_listener(CacheListener* listener) { m_listener = listener; }

protected:
    CacheListener* m_listener = nullptr;
};

}  // namespace kvloupe
