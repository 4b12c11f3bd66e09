// SPDX-License-Identifier: GPL-3.0-or-later
//
// PagedCache: blocks of one pool given to sequences through block tables, one table per KV cache group, shared through
// reference counts and found again through a prefix index. Rules: vLLM v1 (CACHE_SEMANTICS 1.1); copy-on-write and
// swapping as in v0 (1.2); windows with sinks (1.9).
//
// What apply() does to grow a sequence, in this order: blocks out of sight become null and are freed; all hits of all
// groups are touched; blocks that it writes and that others own are copied; then new blocks are popped, group by group;
// blocks that are full now are registered in the prefix index. Per sequence and step O(blocks touched), not O(table).
#pragma once

#include "engine/cache/attention_span.h"
#include "engine/cache/block_pool.h"
#include "engine/cache/cache_manager.h"
#include "engine/cache/host_pool.h"
#include "engine/cache/prefix_index.h"

#include <memory>
#include <unordered_map>
#include <vector>

namespace kvloupe {

class PagedCache final : public CacheManager {
public:
    // Checked options (CacheManager::create).
    explicit PagedCache(CacheManagerOptions options);
    PagedCache(const PagedCache& other);

    std::uint32_t used_blocks() const override { return m_pool.used_count(); }
    std::uint32_t cached_blocks() const override { return m_pool.cached_count(); }
    std::uint32_t host_blocks_used() const override { return m_host.used(); }
    std::uint64_t most_slots(std::uint32_t prompt_tokens, std::uint32_t new_tokens) const override;

    PrefixMatch match(const CacheSequence& sequence) override;
    CachePlan plan_grow(const GrowRequest& request) const override;
    Result<CachePlan> plan_fork(const CacheSequence& child, SequenceId parent, std::uint32_t position) const override;
    CachePlan plan_release(const CacheSequence& sequence, Cause cause, std::uint32_t valid_tokens) const override;
    CachePlan plan_swap_out(const CacheSequence& sequence, std::uint32_t computed) const override;
    CachePlan plan_swap_in(const CacheSequence& sequence) const override;
    Result<CachePlan> plan_evict(BlockId block) const override;
    Result<CachePlan> plan_reset() const override;
    Result<std::vector<Event>> apply(const CachePlan& plan) override;
    std::vector<Event> note_computed(const CacheSequence& sequence, std::uint32_t computed) override;

    std::span<const BlockId> table(SequenceId sequence, std::uint32_t group) const override;
    std::uint32_t owners(BlockId block) const override;
    std::optional<BlockHash> hash(BlockId block) const override;
    std::vector<BlockId> free_order(std::size_t limit) const override { return m_pool.free_order(limit); }
    SlotCounts count_slots(std::span<const SlotHolder> holders, std::uint64_t waiting_slots) const override;
    Result<void> audit() const override;
    std::unique_ptr<CacheManager> clone() const override { return std::make_unique<PagedCache>(*this); }
    std::uint64_t bytes() const override;
    std::vector<std::uint32_t> taken_host_blocks() const override;
    void set_rules(std::uint32_t watermark_blocks, FreeOrder free_order, RadixEviction radix_eviction) override {
        CacheManager::set_rules(watermark_blocks, free_order, radix_eviction);
        m_pool.set_order(free_order);
        if (m_index) m_index->set_eviction(radix_eviction);
    }

private:
    struct Swapped {
        std::vector<std::vector<std::uint32_t>> host;  // (groups)(logical blocks); no_host where nothing was kept
        std::uint32_t computed = 0;
        HashChain chain;
    };
    static constexpr std::uint32_t no_host = 0xFFFFFFFFu;

    PagedSequence* find(SequenceId sequence) const {
        return sequence.value < m_sequences.size() ? m_sequences[sequence.value].get() : nullptr;
    }
    PagedSequence& make(SequenceId sequence);
    CachePlan plan_of(CachePlan::Kind kind, const CacheSequence& sequence) const;
    BlockRange newly_unseen(const PagedSequence& state, std::uint32_t group, std::uint32_t computed) const;
    // Logical blocks of the group's table that positions [first, end) lie in.
    BlockRange written_blocks(const PagedSequence::Group& group, std::uint64_t first, std::uint64_t end) const;
    bool written_by_copy(BlockId block) const;  // it has an owner beside its writer
    std::uint64_t copies_needed(const GrowRequest& request, const PagedSequence& state) const;
    std::uint64_t given_back(const GrowRequest& request, const PagedSequence& state) const;
    std::uint64_t hits_leaving(const PrefixMatch& match) const;

    Result<void> check(const CachePlan& plan) const;
    void apply_grow(const CachePlan& plan, std::vector<Event>& events);
    void apply_fork(const CachePlan& plan, std::vector<Event>& events);
    void apply_release(const CachePlan& plan, std::vector<Event>& events);
    void apply_swap_out(const CachePlan& plan, std::vector<Event>& events);
    void apply_swap_in(const CachePlan& plan, std::vector<Event>& events);

    void drop_unseen(SequenceId sequence, PagedSequence& state, std::uint32_t computed, std::vector<Event>& events);
    void take_hits(const CachePlan& plan, PagedSequence& state, std::vector<Event>& events);
    void prepare_writes(const CachePlan& plan, PagedSequence& state, std::vector<Event>& events);
    BlockId pop(SequenceId taker, std::vector<Event>& events);
    void forget(BlockId block, SequenceId sequence, Cause cause, std::vector<Event>& events);
    void leave_all(const CachePlan& plan, PagedSequence& state, std::vector<Event>& events);
    void leave(SequenceId sequence, BlockId block, std::uint32_t group, Cause cause, std::vector<Event>& events);

    BlockPool m_pool;
    HostPool m_host;
    bool m_all_full = true;                                 // no group has a window or chunk
    std::unique_ptr<PrefixIndex> m_index;                   // null: no prefix caching
    std::vector<std::unique_ptr<PagedSequence>> m_sequences;  // index: SequenceId; null: owns nothing
    std::unordered_map<SequenceId, Swapped> m_swapped;
    SequenceId m_matched;                                   // whose chain m_matched_chain is: the last one looked up that
    HashChain m_matched_chain;                              // owns nothing, so that the head of a queue is hashed once
    std::uint64_t m_version = 0;
};

}  // namespace kvloupe
