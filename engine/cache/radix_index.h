// SPDX-License-Identifier: GPL-3.0-or-later
//
// RadixIndex: the radix tree as the paged cache's prefix index, by SGLang's rules (CACHE_SEMANTICS 1.4). Page = block.
//
// - A block is found only once its step has run: after a prefill step the tree takes in the sequence's full blocks, as
//   SGLang's cache_unfinished_req does; what decoding adds comes in when the sequence ends (cache_finished_req). A step is
//   a prefill step if it computes prompt tokens or more than one token.
// - Equal content is kept once: where the tree has the tokens already, its block replaces the sequence's (prefix_hit with
//   cause duplicate_owner and tokens 0, then free of the duplicate), before and at the end alike.
// - Nobody's blocks stay with the tree (free with flag_held) until a leaf is evicted (evict with flag_released): whole
//   leaves, when the free queue is empty and a block is needed.
// - A sequence that is preempted, swapped out or failed adds nothing; it only lets go.
// - A sequence locks the path to the deepest of its blocks that the tree has. So an unlocked page has no owner, and it is
//   cached_blocks less what a fork's lock covers although another sequence's equal blocks took its place.
// - The tree counts as an owner: who would write into one of its blocks (a fork inside a full block) copies it, also as
//   its last owner. So content in the tree never changes, and there is no cause last_owner_writes here.
//
// Cost: a look-up or an insertion is O(prompt), a decode step O(1). Blocks shared by forks that come into the tree cost
// O(sequences there ever were), since every owner must lock them.
#pragma once

#include "engine/cache/prefix_index.h"
#include "engine/cache/radix_tree.h"

#include <vector>

namespace kvloupe {

class RadixIndex final : public PrefixIndex {
public:
    // Both must outlive the index.
    RadixIndex(BlockPool& pool, const CacheManagerOptions& options);

    PrefixMatch match(const CacheSequence& sequence, HashChain& chain) override;
    bool holds(const PrefixMatch& match, const HashChain& chain) const override;

    void after_match(const CacheSequence& sequence, PagedSequence& state) override;
    void after_grow(const CacheSequence& sequence, PagedSequence& state, std::vector<Event>& events) override;
    void after_computed(const CacheSequence& sequence, PagedSequence& state, std::uint32_t computed,
                        std::vector<Event>& events) override;
    void after_fork(SequenceId parent, SequenceId child, PagedSequence& state) override;
    void after_swap_in(SequenceId sequence, PagedSequence& state) override;
    void after_copy(SequenceId sequence, std::uint32_t block) override;
    void before_release(const CachePlan& plan, PagedSequence& state, std::vector<Event>& events) override;

    bool keeps(BlockId block) const override { return m_tree.node_of(block).has_value(); }
    bool pinned(BlockId block) const override;
    std::uint32_t evictable() const override;
    void evict_for(std::uint32_t blocks, SequenceId taker, std::vector<Event>& events) override;
    void forget(BlockId block) override;
    void evict(BlockId block, std::vector<Event>& events) override;
    void reset(std::vector<Event>& events) override;
    void set_eviction(RadixEviction eviction) override { m_tree.set_policy(eviction); }
    std::unique_ptr<PrefixIndex> clone(BlockPool& pool, const CacheManagerOptions& options, const Sequences& sequences) const override;
    std::uint64_t bytes() const override { return m_tree.bytes() + m_owners.size() * sizeof(Owner); }
    Result<void> audit() const override;

    const RadixTree& tree() const { return m_tree; }

private:
    struct Owner {
        PagedSequence* state = nullptr;      // null: the sequence owns nothing
        RadixNodeId node = RadixTree::root;  // locked
        std::uint32_t pages = 0;             // of its table up to the end of that node
        std::uint32_t noted = 0;             // tokens computed when it was last told
    };

    Owner& owner_of(SequenceId sequence, PagedSequence& state);
    RadixKey key_of(const CacheSequence& sequence, std::size_t tokens) const;
    void take_in(const CacheSequence& sequence, Owner& owner, std::uint32_t computed, std::vector<Event>& events);
    void replace(const CacheSequence& sequence, Owner& owner, std::uint32_t block, BlockId page, std::vector<Event>& events);
    void store(const CacheSequence& sequence, Owner& owner, std::uint32_t block, std::vector<Event>& events);
    void lock_for_sharers(SequenceId sequence, std::span<const BlockId> pages, std::uint32_t first);
    void move_lock(Owner& owner, RadixNodeId node, std::uint32_t pages);
    void let_go(std::span<const BlockId> pages, const Event& event, std::vector<Event>& events);

    BlockPool& m_pool;
    const CacheManagerOptions& m_options;
    HashChain::Rules m_rules;
    RadixTree m_tree;
    std::vector<Owner> m_owners;  // index: SequenceId
};

}  // namespace kvloupe
