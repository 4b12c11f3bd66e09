// SPDX-License-Identifier: GPL-3.0-or-later
//
// BlockLineage: where the content of a block came from and what became of it: the contents it was copied from back to the
// first, all copies made of them since, and the sequences that owned each, with the event by which they came.
// A content is what a block holds from one allocation, copy or swap-in to the next.
#pragma once

#include "engine/record/lane_state.h"
#include "engine/record/recording.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace kvloupe {

// Events by block, read once per step, so that a lineage costs its own events and not the recording's.
class BlockEvents {
public:
    // Reads the steps that are new; another lane or recording starts over.
    void update(const Recording& recording, LaneId lane);

    const LaneRecord* lane() const { return m_lane; }
    // Indices of events that name the block and change its owners or its content, ascending.
    const std::vector<std::uint64_t>& of(BlockId block) const;
    const std::vector<std::uint64_t>& forks() const { return m_forks; }
    const std::vector<std::uint64_t>& copies() const { return m_copies; }
    const std::vector<std::uint64_t>& swapsIn() const { return m_swapsIn; }
    const std::vector<std::uint64_t>& swapsOut() const { return m_swapsOut; }
    const std::vector<std::uint64_t>& resets() const { return m_resets; }
    std::uint32_t stepOf(std::uint64_t event) const;
    // The event that began the content which the block had before event `end`, or none.
    std::optional<std::uint64_t> birth(BlockId block, std::uint64_t end) const;

private:
    const Recording* m_recording = nullptr;
    const LaneRecord* m_lane = nullptr;
    LaneId m_laneId;
    std::uint32_t m_steps = 0;
    std::vector<std::vector<std::uint64_t>> m_blocks;  // index: block
    std::vector<std::uint64_t> m_forks, m_copies, m_swapsIn, m_swapsOut, m_resets;
};

class BlockLineage {
public:
    static constexpr std::uint32_t none = 0xFFFFFFFFu;
    static constexpr std::uint32_t open_end = 0xFFFFFFFFu;
    static constexpr std::size_t most_contents = 4096;   // what exceeds it is counted, not shown
    static constexpr std::size_t most_holds = 16384;

    struct Content {
        BlockId block;
        std::uint64_t birth = 0;       // event
        std::uint32_t parent = none;   // content it was copied from
        std::uint32_t logical = 0;
    };
    // A sequence owned a content, in steps begin .. end - 1; or nobody did and it stayed in the cache.
    struct Hold {
        SequenceId sequence;
        std::uint32_t content = 0;
        std::uint32_t begin = 0, end = open_end;
        std::uint64_t event = 0;       // by which it came
        bool cached = false;           // in the cache after this sequence, the last owner, had left
    };
    struct Line {                      // a sequence in the picture
        SequenceId sequence;
        std::uint32_t parent = none;   // line it forked from
        std::uint32_t depth = 0;
        std::vector<std::uint32_t> holds;  // by begin
    };

    // Lineage of the content that the block had before event `when`, up to event `end`; empty where it never had one.
    static BlockLineage of(const BlockEvents& events, BlockId block, std::uint64_t when, std::uint64_t end);

    bool empty() const { return m_contents.empty(); }
    const std::vector<Content>& contents() const { return m_contents; }  // the first is the oldest
    std::uint32_t focus() const { return m_focus; }                      // content that was asked for
    const std::vector<Hold>& holds() const { return m_holds; }
    const std::vector<Line>& lines() const { return m_lines; }           // a child stands below its parent
    const std::vector<std::uint64_t>& events() const { return m_events; }  // of the lineage, ascending
    std::size_t left() const { return m_left; }                          // contents that were not followed
    // Logical index of the block that the event speaks of.
    std::uint32_t logical() const { return m_contents.empty() ? 0 : m_contents.front().logical; }

private:
    void ancestors(const BlockEvents& events, BlockId block, std::uint64_t end);
    void follow(const BlockEvents& events, std::uint32_t content, std::uint64_t end);
    std::uint32_t child(BlockId block, std::uint64_t birth, std::uint32_t parent);
    void join(const BlockEvents& events, SequenceId sequence, std::uint32_t content, std::uint64_t event);
    void leave(const BlockEvents& events, SequenceId sequence, std::uint32_t content, std::uint64_t event);
    void keepCached(const BlockEvents& events, const Hold& after, std::uint64_t end);
    void lineUp(const LaneRecord& lane);

    std::vector<Content> m_contents;
    std::vector<Hold> m_holds;
    std::vector<Line> m_lines;
    std::vector<std::uint64_t> m_events;
    std::uint32_t m_focus = 0;
    std::size_t m_left = 0;
};

// Bytes that sharing saves in a state (derived): whole blocks that would be needed besides, (owners - 1) * block_bytes over
// the shared blocks; and to the slot, what their other owners wrote or share of them.
struct SharingSaved {
    std::uint64_t blocks = 0;      // shared blocks
    std::uint64_t bytes = 0;
    std::uint64_t slotBytes = 0;
};
SharingSaved sharingSaved(const LaneInfo& lane, const LaneState& state);

}  // namespace kvloupe
