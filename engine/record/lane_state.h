// SPDX-License-Identifier: GPL-3.0-or-later
//
// LaneState: block pool, block tables and sequences of one lane at one moment, rebuilt by applying events.
// The writer keeps one and stores copies as key frames; readers start from a copy and apply the events since. A copy
// shares with its original what neither has written since (cow_vector.h), and an event costs O(1) amortised whatever
// the size of pool, tables and number of owners.
//
// What an event does (vLLM v1 rules, CACHE_SEMANTICS 1.1; others where said):
// - allocate, prefix_hit, swap_in: the block leaves the free queue (or the radix tree's keeping) if nobody owned it,
//   gains an owner and stands in the table of the event's group. An entry that stood there before is replaced; its
//   owner leaves by a free event of its own.
// - free: one owner less; without owners the block goes to the tail of the free queue, with flag_front to its head, with
//   flag_held nowhere: the radix tree keeps it.
// - fork: the child shares, in all groups, the blocks that hold the parent's first `tokens` positions.
// - copy_on_write: the destination takes the source's place in the sequence's table and the sequence leaves the source.
//   With cause grown_by_copy the source, which nobody else owns, is given back by a free event of its own.
// - null_block: the table entry points at block 0; the owner leaves by a free event of its own.
// - prefill, decode: the sequence's computed tokens and the fill of its blocks grow; preempt gives computed tokens up.
// - swap_out: one more block of host memory holds the sequence, whose status is `swapped`; the block leaves by a free
//   event. swap_in brings `tokens` slots back; a resume with cause swapped_in says how many tokens are computed then.
// - store: the block's hash, and that of the entry before it in the sequence's table as its parent. evict, reset: the
//   hash is lost; with flag_released (or reset) a block that the radix tree keeps goes to the free queue.
// - finish, reject: the sequence's status; its blocks leave by free events.
#pragma once

#include "engine/record/cow_vector.h"
#include "engine/record/event.h"

#include <cstdint>
#include <span>
#include <unordered_set>
#include <vector>

namespace kvloupe {

enum class SequenceStatus : std::uint8_t { arrived, running, preempted, swapped, finished, rejected, cancelled, failed };

using TableState = CowVector<BlockId, 6>;  // logical index -> physical block

struct SequenceState {
    SequenceStatus status = SequenceStatus::arrived;
    std::uint32_t prompt_tokens = 0;    // a child's: those of its parent up to the fork (SequenceInfo has all)
    std::uint32_t computed_tokens = 0;  // tokens whose K/V lies in the pool, or while swapped out in host memory
                                        // (uncached: pushed through the model last)
    std::uint32_t output_tokens = 0;    // known at finish
    std::uint32_t host_blocks = 0;      // of host memory that hold it while it is swapped out
    TableState table;                   // of group 0; empty without a cache and after release
    std::vector<TableState> group_tables;  // of KV cache groups 1, 2, …; empty with one group

private:
    friend class LaneState;
    friend class LaneStateCode;
    struct Stored {                     // the block of a group whose hash it knew last
        std::uint32_t logical = 0;
        std::uint64_t hash = 0;
    };
    std::uint32_t m_holder = 0xFFFFFFFFu;  // its place among the holders
    std::vector<Stored> m_stored;
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
    std::uint32_t last_use = no_step;   // last step in which an owner took it, wrote to it or left it (last_use_of())
    std::uint64_t hash = 0;             // first 8 bytes of its hash while hashed
    std::uint64_t parent_hash = 0;      // of the block before it in its prefix; 0: it begins the prefix

    static constexpr std::uint32_t no_step = 0xFFFFFFFFu;

    bool cached() const { return owners == 0 && (hashed || held); }  // nobody owns it, its content can be hit

private:
    friend class LaneState;
    friend class LaneStateCode;
    std::uint32_t m_more = 0xFFFFFFFFu;  // further owners, newest first, and some that have left
    std::uint32_t m_more_count = 0;
};

class LaneState {
public:
    using Blocks = CowVector<BlockState, 7>;
    using Sequences = CowVector<SequenceState, 5>;

    LaneState() = default;
    // A pool of `blocks` blocks (null block included; 0 without a cache) of `block_size` slots, all free.
    LaneState(std::uint32_t blocks, std::uint32_t block_size);

    void begin_step(std::uint32_t step) { m_step = step; }  // the step to which the next events belong
    void apply(const Event& event);
    void apply(std::span<const Event> events);

    std::uint32_t step() const { return m_step; }
    const Blocks& blocks() const { return m_blocks; }
    const Sequences& sequences() const { return m_sequences; }  // index: SequenceId
    std::uint32_t block_size() const { return m_block_size; }
    std::uint32_t used_blocks() const { return m_used; }        // blocks with an owner
    std::uint32_t cached_blocks() const { return m_cached; }    // blocks without one whose content can be hit
    std::uint32_t host_blocks() const { return m_host; }        // of host memory that hold swapped-out sequences
    std::uint64_t token_slots() const { return m_filled; }      // slots with a token in blocks with an owner, each once
    std::uint64_t saved_blocks() const { return m_saved; }      // by sharing: owners - 1, over all shared blocks
    std::uint32_t groups() const { return m_groups; }           // KV cache groups seen so far, at least 1

    const std::vector<std::uint32_t>& holders() const { return m_holders; }  // sequences with a table, unordered

    // Table of the sequence in a group; empty where it has none.
    const TableState& table(SequenceId sequence, std::uint8_t group = 0) const;
    // Sequences that own the block, at most `limit`; costs no more than their number.
    std::vector<SequenceId> owners_of(BlockId block, std::size_t limit = SIZE_MAX) const;
    // Last step in which a sequence owned the block: this one while it has an owner. no_step: never.
    std::uint32_t last_use_of(BlockId block) const;
    // Physical ids of free blocks from the head of the free queue; at most `limit`. Blocks held by the radix tree are
    // not among them.
    std::vector<BlockId> free_order(std::size_t limit = SIZE_MAX) const;

    // Bytes that this state reaches, pages that it shares with copies included.
    std::uint64_t memory_bytes() const;
    // Bytes of pages made by this object since forget_made(), and of its own lists: what keeping a copy now costs
    // beyond the copies kept before. Pages that copies share are so counted once, by whoever made them.
    std::uint64_t made_bytes() const;
    void forget_made() { m_made = 0; }

private:
    friend class LaneStateCode;

    struct Link {  // in the free queue; by default the neighbours by id
        std::uint32_t previous = 0xFFFFFFFFu;
        std::uint32_t next = 0xFFFFFFFFu;
    };
    struct Owner {
        SequenceId sequence;
        std::uint32_t logical = 0;
        std::uint32_t next = 0xFFFFFFFFu;
    };
    static constexpr std::uint32_t none = 0xFFFFFFFFu;

    // Free queue (lane_state_queue.cpp): intrusive, index `blocks` is the sentinel.
    std::uint32_t previous(std::uint32_t block) const;
    std::uint32_t next(std::uint32_t block) const;
    void link(std::uint32_t block, std::uint32_t before);  // in front of `before`
    void link_back(std::uint32_t block);
    void link_front(std::uint32_t block);
    void unlink(std::uint32_t block);

    // Owners of blocks (lane_state_owners.cpp).
    void join(SequenceId id, std::uint32_t block, std::uint32_t logical, std::uint8_t group);
    void leave(SequenceId id, std::uint32_t block, std::uint8_t flags);   // table entry included
    void part(SequenceId id, std::uint32_t block, std::uint8_t flags);    // without it
    void detach(SequenceId id, std::uint32_t block);   // its entry was replaced; it stays an owner until it leaves
    bool stands(SequenceId id, std::uint32_t logical, std::uint32_t block) const;
    std::uint32_t find(SequenceId id, std::uint32_t block) const;         // logical index, or none
    void settle(std::uint32_t block);                                     // first owner and fill by those who are left
    void compact(BlockState& state, std::uint32_t block);
    void forget_owners(BlockState& state);
    std::uint32_t take_owner(std::uint32_t index);                        // out of a list; returns the next
    void drop_hash(std::uint32_t block);

    // Tables and sequences.
    SequenceState& sequence(SequenceId id);
    TableState& edit_table(SequenceState& state, std::uint8_t group);
    void set_entry(SequenceId id, std::uint32_t logical, std::uint32_t block, std::uint8_t group);
    void trim(SequenceId id, std::uint8_t group);
    void trim_all(SequenceId id);
    void remember(SequenceId id, std::uint8_t group, std::uint32_t logical, std::uint64_t hash);
    std::uint32_t slots_written(SequenceId id, std::uint32_t logical) const;
    BlockState& edit(std::uint32_t block) { return m_blocks.edit(block, m_made); }
    void set_filled(BlockState& state, std::uint32_t filled);
    bool in_pool(BlockId block) const { return block.value != null_block_id.value && block.value < m_blocks.size(); }

    // Events.
    void place(const Event& event);  // allocate, prefix_hit, swap_in
    void fill(SequenceId id, std::uint32_t first, std::uint32_t end);  // positions [first, end) were written
    void fork(const Event& event);
    void copy_on_write(const Event& event);
    void null_block(const Event& event);
    void store(const Event& event);
    void evict(const Event& event);
    void reset();
    void finish(const Event& event);

    std::uint32_t m_block_size = 0;
    std::uint32_t m_step = 0;
    std::uint32_t m_used = 0;
    std::uint32_t m_cached = 0;
    std::uint32_t m_host = 0;
    std::uint64_t m_filled = 0;
    std::uint64_t m_saved = 0;
    std::uint32_t m_groups = 1;
    Blocks m_blocks;
    Sequences m_sequences;
    CowVector<Link, 10> m_links;
    CowVector<Owner, 9> m_owners;
    std::uint32_t m_free_owner = none;                // unused entries of m_owners
    std::vector<std::uint32_t> m_holders;             // sequences with a table, unordered
    std::unordered_set<std::uint64_t> m_detached;     // sequence and block, between replacement and free
    std::uint32_t m_hashed = 0;                       // blocks with a hash
    TableState m_no_table;
    std::uint64_t m_made = 0;
};

}  // namespace kvloupe
