// SPDX-License-Identifier: GPL-3.0-or-later
//
// ContiguousCache: one run of blocks for each sequence, from a buddy allocator; what engines did before paging (FORMATS
// 3.2, the PagedAttention paper's baselines), to be seen beside it. Nothing is shared, nothing is found again.
//
// How long a run is *requested*, in slots (options().reserve):
//   max     max_model_len
//   pow2    prompt + new tokens rounded up to a power of two (25 -> 32), never beyond max_model_len where one is given
//   oracle  what it will need: prompt + new tokens - 1
//   grow    what it needs now; each step that needs more takes a new run of exactly the needed length, copies into it and
//           gives the old one back, as a cache that concatenates does (DynamicCache). Both are held during the copy.
// What is *given* is a chunk: the requested blocks rounded up to a power of two. The slots of a chunk beyond the requested
// ones are lost to the allocator and count as external; so do free chunks too short for the head of the waiting queue.
// A reservation that turns out too short (a sequence given more tokens than it announced) grows by copy, too.
//
// Plans: needed_blocks is the chunk's length, free_blocks the longest free chunk (what one run could get, not the sum of
// the holes). The waiting_slots of count_slots() are therefore needed_blocks * block_size of the plan that was refused.
// With `grow`, whole_prompt asks for a chunk for all tokens, but takes one for the step.
//
// Events of a growth: copy_on_write for every block that holds tokens (the destination takes the source's place in the
// table), allocate for the blocks of the new run that take none, then free for every block of the old one. So a replay has
// both runs in use at once, as they are.
// free_order() is the order of addresses: the allocator has no queue.
#pragma once

#include "engine/cache/buddy_allocator.h"
#include "engine/cache/cache_manager.h"

#include <unordered_map>
#include <vector>

namespace kvloupe {

class ContiguousCache final : public CacheManager {
public:
    // Checked options (CacheManager::create).
    explicit ContiguousCache(CacheManagerOptions options);

    std::uint32_t used_blocks() const override { return m_buddy.blocks() - m_buddy.free_blocks(); }
    std::uint32_t cached_blocks() const override { return 0; }
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

    std::span<const BlockId> table(SequenceId sequence, std::uint32_t group = 0) const override;
    std::uint32_t owners(BlockId block) const override;
    std::optional<BlockHash> hash(BlockId) const override { return std::nullopt; }
    std::vector<BlockId> free_order(std::size_t limit = SIZE_MAX) const override;
    SlotCounts count_slots(std::span<const SlotHolder> holders, std::uint64_t waiting_slots) const override;
    std::unique_ptr<CacheManager> clone() const override { return std::make_unique<ContiguousCache>(*this); }
    std::uint64_t bytes() const override {
        return m_owner.size() * (sizeof(SequenceId) + sizeof(BlockId)) + m_regions.size() * sizeof(Region);
    }
    Result<void> audit() const override;

    // Slots that a sequence's run is requested for when `needed` must be there now.
    std::uint64_t requested_slots(const CacheSequence& sequence, std::uint64_t needed) const;

private:
    struct Region {
        Chunk chunk;
        std::uint64_t requested = 0;  // slots, at most the chunk's
        std::vector<BlockId> table;   // the chunk's blocks
    };

    CachePlan plan_of(CachePlan::Kind kind, const CacheSequence& sequence) const;
    CachePlan refused_swap(CachePlan::Kind kind, const CacheSequence& sequence) const;
    std::uint64_t chunk_for(std::uint64_t slots) const;  // blocks of the chunk that holds them
    std::uint64_t most_growing_slots(std::uint32_t prompt_tokens, std::uint32_t new_tokens) const;
    void reserve(const CachePlan& plan, std::uint64_t requested, std::vector<Event>& events);
    void move(const CachePlan& plan, std::uint64_t requested, std::vector<Event>& events);
    void release(const CachePlan& plan, std::vector<Event>& events);
    Region make_region(std::uint64_t requested);
    void set_owner(const Region& region, SequenceId owner);

    BuddyAllocator m_buddy;
    std::unordered_map<SequenceId, Region> m_regions;
    std::vector<SequenceId> m_owner;  // (blocks); none: free
    std::uint64_t m_version = 0;
};

}  // namespace kvloupe
