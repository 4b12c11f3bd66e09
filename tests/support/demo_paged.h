// SPDX-License-Identifier: GPL-3.0-or-later
//
// Paged lanes of the sharing demo: reference counts, prefix index by chained hash or radix tree, copy-on-write, windows,
// preemption by recomputation or swapping. The pool itself is the writer's LaneState: what it says after each event is
// what the next decision is made from.
#pragma once

#include "tests/support/demo_engine.h"

#include <set>
#include <unordered_map>
#include <utility>

namespace kvloupe {

class DemoPaged : public DemoEngine {
public:
    DemoPaged(RecordingWriter& writer, LaneWriter& lane, const DemoSharingOptions& options);

private:
    std::uint64_t most_slots() const override;
    bool grow(std::size_t index, std::uint32_t count) override;
    bool admit(Sequence& sequence, std::uint32_t budget, std::uint32_t& count) override;
    void computed(Sequence& sequence) override;
    void release(Sequence& sequence, Cause cause) override;
    bool can_fork() const override { return true; }
    void count(SlotCounts& slots, StepRecord& counters) const override;

    std::uint32_t available() const;  // free or evictable
    std::uint32_t needed(const Sequence& sequence, std::uint32_t count) const;
    bool must_copy(const Sequence& sequence, std::uint8_t group) const;
    BlockId pop_free(SequenceId taker);
    void evict_leaf(SequenceId taker);
    void forget(BlockId block);
    void write_to(Sequence& sequence, std::uint32_t count);
    void slide(Sequence& sequence);
    void store(Sequence& sequence, std::uint32_t full_blocks);
    std::vector<std::vector<BlockId>> hits(Sequence& sequence);
    std::uint64_t hash_of(Sequence& sequence, std::size_t block);
    void preempt(std::size_t victim, SequenceId needer);
    bool swap_in(Sequence& sequence, std::uint32_t& count, std::uint32_t budget);

    bool m_radix;
    bool m_swap;
    std::uint8_t m_groups;
    std::uint32_t m_host_left;
    std::uint32_t m_next_host = 0;
    std::unordered_map<std::uint64_t, std::vector<BlockId>> m_index;       // first inserted first
    std::unordered_map<std::uint64_t, std::uint32_t> m_children;           // radix: blocks that follow one
    std::set<std::pair<std::uint32_t, std::uint32_t>> m_leaves;            // radix: last use, block; may be stale
};

}  // namespace kvloupe
