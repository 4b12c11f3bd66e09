// SPDX-License-Identifier: GPL-3.0-or-later
//
// SequenceFacts: what events say about sequences beyond their state: tokens found in the cache, copies, preemptions. Read
// incrementally; a step back costs nothing. And the slots that each sequence wastes at one moment.
#pragma once

#include "engine/record/recording.h"
#include "views/growing_data.h"

#include <vector>

namespace kvloupe {

class LaneState;

struct SequenceCounts {
    std::uint32_t hit_tokens = 0;    // of its present run: found in the cache when it was (last) admitted, measured
    std::uint32_t copies = 0;        // blocks it copied because others owned them, measured
    std::uint32_t copied_slots = 0;
    std::uint32_t preemptions = 0;
    std::uint32_t nulled = 0;        // table entries that left its window
};

class SequenceFactLog {
public:
    void update(const Recording& recording, LaneId lane, const std::atomic<bool>& cancelled);
    std::size_t steps() const { return m_steps; }
    SequenceCounts upTo(SequenceId sequence, std::size_t step) const;

private:
    struct Entry {
        std::uint32_t step = 0;
        SequenceCounts counts;  // after the event
    };
    std::size_t m_steps = 0;                     // looked at
    std::vector<std::vector<Entry>> m_entries;   // by sequence, ascending
};

class SequenceFacts {
public:
    // ready: called when a job has read what was too much to be read at once.
    void update(const std::shared_ptr<const Recording>& recording, LaneId lane, std::function<void()> ready = {}) {
        m_log.follow(recording, lane, std::move(ready));
    }
    SequenceCounts upTo(SequenceId sequence, std::size_t step) const { return m_log->upTo(sequence, step); }
    void settle() { m_log.settle(); }

private:
    GrowingData<SequenceFactLog> m_log;
};

// Slots that a sequence holds and that have no token: a slot of a shared block is its first owner's.
struct SequenceWaste {
    std::uint64_t reserved = 0;  // predicted: it may still write them (prompt + new tokens - 1 positions)
    std::uint64_t never = 0;     // predicted: beyond what it may write: the end of its last block, or of its region
    std::uint64_t total() const { return reserved + never; }
};
// By sequence, as many as the state has.
std::vector<SequenceWaste> wasteOf(const Recording& recording, const LaneRecord& lane, const LaneState& state);

// Positions whose keys and values a sequence took over from its parent: those before its fork; 0 without a parent.
std::uint32_t inheritedTokens(const LaneRecord& lane, SequenceId sequence);

}  // namespace kvloupe
