// SPDX-License-Identifier: GPL-3.0-or-later
//
// BlockPool: the physical blocks of one KV cache, their reference counts and the queue of free ones.
// Rules: CACHE_SEMANTICS 1.1 (vLLM v1). Goals: every operation is O(1) per block, also taking a block out of the middle
// of the queue; the order of the queue is part of the contract. Non-goals: who owns what (BlockTable), which hash means
// what (the prefix index).
// Rejected: a std::deque of free ids (a prefix hit on a free block would search it).
#pragma once

#include "engine/cache/cache_options.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace kvloupe {

// Chained hash of a full block (block_hash.h).
using BlockHash = std::array<std::byte, 32>;

struct Block {
    static constexpr std::uint32_t not_linked = 0xFFFFFFFFu;

    std::int32_t references = 0;             // table entries that point here; not maintained for the null block
    std::uint32_t previous = not_linked;     // free queue
    std::uint32_t next = not_linked;
    std::uint32_t hash_age = 0;              // its hash counts while this is the pool's present age; 0: none

    bool linked() const { return previous != not_linked; }  // in the free queue
};

class BlockPool {
public:
    // `blocks` >= 2. Block 0 becomes the null block, so that blocks - 1 are usable. The queue starts with `first`
    // (distinct, not the null block), then all others ordered by id.
    explicit BlockPool(std::uint32_t blocks, FreeOrder order = FreeOrder::vllm, std::span<const BlockId> first = {});
    BlockPool(const BlockPool& other);
    BlockPool& operator=(const BlockPool&) = delete;
    std::uint64_t bytes() const { return m_blocks.size() * (sizeof(Block) + sizeof(BlockHash)); }  // that a copy takes

    std::uint32_t size() const { return static_cast<std::uint32_t>(m_blocks.size() - 1); }  // null block included
    std::uint32_t usable() const { return size() - 1; }
    std::uint32_t free_count() const { return m_free; }
    std::uint32_t used_count() const { return usable() - m_free - m_held; }
    // Nobody owns them and their content can be hit: free with a hash, or held.
    std::uint32_t cached_count() const { return m_free_hashed + m_held; }
    std::uint32_t held_count() const { return m_held; }
    // Sum over owned blocks of their owners but the first.
    std::uint64_t extra_references() const { return m_extra_references; }
    const Block& block(BlockId id) const { return m_blocks[id.value]; }

    // The block at the head of the queue, none when it is empty.
    BlockId front() const {
        const std::uint32_t head = m_blocks[sentinel()].next;
        return head == sentinel() ? BlockId::none() : BlockId{head};
    }
    // Takes the block at the head of the queue with one reference, or nothing when the queue is empty.
    // A hash that it still had is removed; `evicted` (may be null) is then set.
    std::optional<BlockId> take(bool* evicted = nullptr);

    // One more owner. A free block (a prefix hit) leaves the queue, a held one is held no longer. The null block is left
    // alone.
    void touch(BlockId id);

    struct Released {
        std::int32_t owners_left = 0;
        bool front = false;            // it was put at the head of the queue (else, with no owner left, at the tail)
    };
    // One owner less. With none left the block is free: at the tail if it has a hash (least recently used last) or the
    // order is append, else at the head (reused first); with `hold` it stays out of the queue until let_go(). A request's
    // blocks are handed over in reverse. A second release of a free block changes nothing; the null block is left alone.
    Released release(BlockId id, bool hold = false);
    // A held block becomes free, by the rule of release(). True: it went to the head.
    bool let_go(BlockId id);

    // Set once all slots of the block are computed or scheduled and prefix caching knows it.
    void set_hash(BlockId id, const BlockHash& hash);
    void clear_hash(BlockId id);
    void clear_all_hashes();
    bool hashed(BlockId id) const { return m_blocks[id.value].hash_age == m_age; }
    // Null if the block has none. Good until the pool changes.
    const BlockHash* hash(BlockId id) const { return hashed(id) ? &m_hashes[id.value] : nullptr; }

    // Several blocks at one end of the queue, keeping the order of `ids`; none of them linked. Empty: nothing changes.
    void append(std::span<const BlockId> ids);
    void prepend(std::span<const BlockId> ids);
    // Takes a block out of the queue, wherever it stands.
    void unlink(BlockId id);

    // Where a block goes from now on that nobody owns any more.
    void set_order(FreeOrder order) { m_order = order; }

    // Free blocks from the head; at most `limit`.
    std::vector<BlockId> free_order(std::size_t limit = SIZE_MAX) const;

private:
    void link_between(std::uint32_t previous, std::uint32_t id, std::uint32_t next);
    bool link_by_rule(BlockId id);
    std::uint32_t sentinel() const { return size(); }

    std::vector<Block> m_blocks;  // (size + 1); the last one is head and tail of the queue and no block
    std::unique_ptr<BlockHash[]> m_hashes;  // (size), apart from the queue; never read where none was set
    std::uint32_t m_age = 1;                // of hashes: forgetting all of them is O(1)
    FreeOrder m_order;
    std::uint32_t m_free = 0;
    std::uint32_t m_free_hashed = 0;
    std::uint32_t m_held = 0;
    std::uint64_t m_extra_references = 0;
};

}  // namespace kvloupe
