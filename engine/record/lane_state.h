// SPDX-License-Identifier: GPL-3.0-or-later
//
// LaneState: block pool, block tables and sequences of one lane at one moment, rebuilt by applying events.
// The writer keeps one and stores copies as key frames; readers start from a copy and apply the events since.
//
// What an event does (vLLM v1 rules, CACHE_SEMANTICS 1.1):
// - allocate, prefix_hit: the block leaves the free queue if nobody owned it, gains an owner and stands in the table.
// - free: one owner less; without owners it goes to the tail of the free queue, or with flag_front to its head.
// - fork: the child shares the blocks that hold the parent's first `tokens` positions.
// - copy_on_write: the destination leaves the free queue and takes the source's place in the sequence's table.
// - null_block: the table entry points at block 0; the owner leaves by a free event of its own.
// - prefill, decode: the sequence's computed tokens and the fill of its blocks grow; preempt gives computed tokens up.
// - store, evict, reset: a block's hash. finish, reject: the sequence's status; its blocks leave by free events.
#pragma once

#include "engine/record/event.h"

#include <cstdint>
#include <span>
#include <vector>

namespace kvloupe {

enum class SequenceStatus : std::uint8_t { arrived, running, preempted, swapped, finished, rejected, cancelled, failed };

struct SequenceState {
    SequenceStatus status = SequenceStatus::arrived;
    std::uint32_t prompt_tokens = 0;
    std::uint32_t computed_tokens = 0;  // tokens whose K/V was written (uncached: tokens pushed through the model last)
    std::uint32_t output_tokens = 0;    // known at finish
    std::vector<BlockId> table;         // logical index -> physical block; empty without a cache and after release
    std::vector<std::vector<BlockId>> group_tables;  // of KV cache groups 1, 2, …; empty with one group
};

struct BlockState {
    std::uint32_t owners = 0;           // reference count
    bool hashed = false;
    SequenceId first_owner;             // one of the owners, none if free
    std::uint32_t logical = 0;          // logical index in first_owner's table
    std::uint32_t filled = 0;           // slots that hold a token
    bool held = false;                  // by the radix tree: nobody owns it and it is in no free queue
    std::uint8_t group = 0;             // KV cache group of its last owner
    std::uint32_t born = no_step;       // step in which its present content began: allocated, copied or swapped in
    std::uint32_t last_use = no_step;   // last step in which a sequence owned it
    std::uint64_t hash = 0;             // first 8 bytes of its hash while hashed
    std::uint64_t parent_hash = 0;      // of the block before it in its prefix; 0: it begins the prefix

    static constexpr std::uint32_t no_step = 0xFFFFFFFFu;
};

class LaneState {
public:
    LaneState() = default;
    // A pool of `blocks` blocks (null block included; 0 without a cache) of `block_size` slots, all free.
    LaneState(std::uint32_t blocks, std::uint32_t block_size);

    void apply(const Event& event);
    void apply(std::span<const Event> events);

    const std::vector<BlockState>& blocks() const { return m_blocks; }
    const std::vector<SequenceState>& sequences() const { return m_sequences; }  // index: SequenceId
    std::uint32_t block_size() const { return m_block_size; }
    std::uint32_t used_blocks() const { return m_used; }  // blocks with an owner
    std::uint64_t memory_bytes() const;                    // held by this object (measured by capacity)

    const std::vector<std::uint32_t>& holders() const { return m_holders; }  // sequences with a table, unordered

    // Physical ids of free blocks from the head of the free queue; at most `limit`.
    std::vector<BlockId> free_order(std::size_t limit = SIZE_MAX) const;

private:
    void link_back(std::uint32_t block);
    void link_front(std::uint32_t block);
    void unlink(std::uint32_t block);
    void fill(SequenceId id, std::uint32_t first, std::uint32_t end);  // positions [first, end) were written
    void take(std::uint32_t block);                                    // one owner more
    void leave(SequenceId id, std::uint32_t block, const Event& event);// one owner less, table entry included
    void put(SequenceId id, std::uint32_t logical, std::uint32_t block);
    void fork(const Event& event);
    void copy_on_write(const Event& event);
    void trim(SequenceId id);
    void drop_hash(std::uint32_t block);
    void settle_owner(std::uint32_t block);
    std::uint32_t slots_written(SequenceId id, std::uint32_t logical) const;
    bool in_pool(BlockId block) const { return block.value != null_block_id.value && block.value < m_blocks.size(); }
    SequenceState& sequence(SequenceId id);

    std::uint32_t m_block_size = 0;
    std::uint32_t m_used = 0;
    std::vector<BlockState> m_blocks;
    std::vector<SequenceState> m_sequences;
    std::vector<std::uint32_t> m_holders;           // sequences with a table, unordered
    std::vector<std::uint32_t> m_previous, m_next;  // free queue, intrusive, index `blocks` is the sentinel
};

}  // namespace kvloupe
