// SPDX-License-Identifier: GPL-3.0-or-later
//
// PrefixHistory: what the prefix tree needs to know of the steps before the cursor and cannot read from the state there:
// who wrote a block's content and where in its sequence it stood, how often it was hit, which blocks lost their hash, and
// the hit rate so far. Gathered from a lane's events once per step; asked for any step, so back and forth cost the same.
#pragma once

#include "engine/record/lane_state.h"
#include "engine/record/recording.h"

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

namespace kvloupe {

class PrefixHistory {
public:
    // A block that lost its hash, as it was before.
    struct Eviction {
        std::uint32_t step = 0;
        std::uint64_t event = 0;
        BlockId block;
        std::uint64_t hash = 0, parent = 0;
        std::uint32_t filled = 0;      // slots
        std::uint8_t group = 0;
    };
    // A block's content: since which event, by whom, which logical block.
    struct Content {
        std::uint64_t event = 0;       // that began it, or UINT64_MAX where none was recorded
        SequenceId writer;
        std::uint32_t logical = 0;
        std::uint32_t hits = 0;        // prefix-hit events since (measured)
        bool known() const { return event != UINT64_MAX; }
    };
    struct HitRate {                   // tokens, of all steps up to one (measured)
        std::uint64_t hit = 0, queried = 0;
        std::uint64_t resumedHit = 0, resumedQueried = 0;  // of requests that ran again after a preemption
    };

    // Reads the steps that are new until cancelled; another lane or recording starts over.
    void update(const Recording& recording, LaneId lane, const std::atomic<bool>& cancelled = std::atomic<bool>(false));

    std::uint32_t steps() const { return m_steps; }
    // Content of the block after the event before `end` (end of the cursor's step in the event log).
    Content content(BlockId block, std::uint64_t end) const;
    // Evictions in steps first .. last.
    std::span<const Eviction> evictions(std::uint32_t first, std::uint32_t last) const;
    HitRate hitRate(std::uint32_t step) const;

private:
    struct Entry {
        std::uint64_t event = 0;       // that began the content, or that hit it
        std::uint64_t began = 0;       // event that began it
        SequenceId writer;
        std::uint32_t logical = 0;
        std::uint32_t hits = 0;        // since it began, this one included
    };
    void take(const Event& event, std::uint64_t index);
    void begin(BlockId block, std::uint64_t index);

    const Recording* m_recording = nullptr;
    LaneId m_lane;
    std::uint32_t m_steps = 0;
    LaneState m_state;                 // after the last step read
    std::vector<std::vector<Entry>> m_entries;  // index: block
    std::vector<Eviction> m_evictions;
    std::vector<HitRate> m_rates;      // index: step
};

}  // namespace kvloupe
