// SPDX-License-Identifier: GPL-3.0-or-later
//
// HistoryIndex: what each block of a lane was after each step, built from the events once and read by block and step.
// Goals: appending costs the new events only; a block's life is found without replaying; at most 16 bytes per change.
// Non-goals: what happened inside a step (the events tell), the order of the free queue.
// Shape: slabs of consecutive steps, each with the state of all blocks at its beginning and the changes sorted by block.
// Rejected: a cell per block and step (10^10 for a million blocks and ten thousand steps), a list per block (one cache
// miss per change when a picture reads them all).
// One owner at a time: advance() and readers must not run at the same moment.
#pragma once

#include "engine/record/lane_state.h"
#include "engine/record/recording.h"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace kvloupe {

// State of a block after a step.
enum class BlockKind : std::uint8_t { free, cached, owned, shared };

class HistoryIndex {
public:
    // Kind in the two highest bits; below: owned: the sequence; shared: a set of owners; cached: whose content it was.
    using Code = std::uint32_t;
    static constexpr Code detail_mask = 0x3FFFFFFFu;
    static BlockKind kindOf(Code code) { return static_cast<BlockKind>(code >> 30); }
    static std::uint32_t detailOf(Code code) { return code & detail_mask; }

    struct Interval {  // steps begin .. end - 1
        std::uint32_t begin = 0, end = 0;
        Code code = 0;
    };
    // Events of which there are few and which stand at one block: forks (the last block shared), copies (the
    // destination) and preemptions (no block).
    struct Mark {
        std::uint32_t step = 0;
        std::uint32_t block = Index<int>::none_value;
        std::uint64_t event = 0;
    };

    HistoryIndex(std::shared_ptr<const Recording> recording, LaneId lane);

    const LaneRecord& lane() const { return *m_lane; }
    std::uint32_t blocks() const { return m_lane->info().blocks; }
    std::uint32_t steps() const { return m_steps; }           // indexed so far
    std::uint64_t eventsRead() const { return m_events; }

    // Reads up to `steps` steps (<= step_count()); stops early when cancelled. Any thread, one at a time.
    void advance(std::size_t steps, const std::atomic<bool>& cancelled);

    Code codeAt(std::uint32_t block, std::uint32_t step) const;
    // The block's states in steps begin .. end - 1, in order, without gaps; neighbours differ.
    std::vector<Interval> intervals(std::uint32_t block, std::uint32_t begin, std::uint32_t end) const;
    // Owners of an owned or shared block, ascending; whose content a cached block holds.
    std::vector<SequenceId> owners(Code code) const;
    const std::vector<Mark>& marks() const { return m_marks; }  // by step

    std::uint64_t changes() const { return m_changes; }
    std::uint64_t memoryBytes() const;  // held by the index (measured by capacity)

    struct Change {
        std::uint32_t step = 0;
        Code code = 0;
    };
    struct Slab {
        std::uint32_t begin = 0, end = 0;      // steps
        std::vector<Code> codes;               // (blocks) before step `begin`
        std::vector<std::uint32_t> offsets;    // (blocks + 1) into changes
        std::vector<Change> changes;           // by block, then by step
    };
    // In the order of steps; all of them together cover 0 .. steps() - 1.
    const std::vector<std::shared_ptr<const Slab>>& slabs() const { return m_slabs; }

private:
    struct BlockChange {
        std::uint32_t block = 0;
        Change change;
    };
    void readStep(std::uint32_t step);
    void touch(std::uint32_t block);
    void touchTables(SequenceId sequence);
    Code codeOf(std::uint32_t block);
    std::uint32_t ownerSet(std::uint32_t block);
    std::shared_ptr<const Slab> sorted() const;
    void closeTail();

    std::shared_ptr<const Recording> m_recording;
    const LaneRecord* m_lane;
    std::uint32_t m_steps = 0;
    std::uint64_t m_events = 0;
    std::uint64_t m_changes = 0;
    LaneState m_state;                          // after step m_steps - 1
    std::vector<Code> m_now;                    // (blocks)
    std::vector<std::uint32_t> m_touchedIn;     // (blocks) last step in which an event named the block, plus one
    std::vector<std::uint32_t> m_touched;       // in the step being read
    std::map<std::vector<std::uint32_t>, std::uint32_t> m_setIds;
    std::vector<std::vector<std::uint32_t>> m_sets;
    std::vector<Mark> m_marks;
    std::vector<std::shared_ptr<const Slab>> m_slabs;  // the last one is the tail, sorted anew by advance()
    std::uint32_t m_tailBegin = 0;
    std::vector<Code> m_tailCodes;              // before step m_tailBegin
    std::vector<BlockChange> m_tail;            // by step
    bool m_hasTail = false;
};

}  // namespace kvloupe
