// SPDX-License-Identifier: GPL-3.0-or-later
//
// TimelineData: what the timeline draws, gathered from a lane's events once per step: prefill work, runs of decode steps,
// waiting times and the events that deserve a mark.
#pragma once

#include "engine/record/recording.h"

#include <atomic>
#include <bitset>
#include <cstdint>
#include <vector>

namespace kvloupe {

class TimelineData {
public:
    struct Prefill {
        std::uint32_t step = 0;
        SequenceId sequence;
        std::uint32_t tokens = 0;
    };
    struct Span {           // steps begin .. end - 1
        SequenceId sequence;
        std::uint32_t begin = 0, end = 0;
        bool waiting = false;
    };
    struct Mark {
        std::uint32_t step = 0;
        EventKind kind = EventKind::arrive;
        std::uint64_t event = 0;
    };

    // Of marks on one spot the heaviest is shown: a copy follows from the fork before it and says more.
    static int weight(EventKind kind);

    // Reads the steps that are new; another lane or recording starts over.
    void update(const Recording& recording, LaneId lane, const std::atomic<bool>& cancelled = std::atomic<bool>(false));

    std::uint32_t steps() const { return m_steps; }
    const std::vector<Prefill>& prefills() const { return m_prefills; }   // by step
    const std::vector<Span>& spans() const { return m_spans; }
    const std::vector<Mark>& marks() const { return m_marks; }            // by step
    bool marked(EventKind kind) const { return m_marked[static_cast<std::size_t>(kind)]; }  // whether any mark is of that kind
    std::uint32_t mostPrefill() const { return m_mostPrefill; }           // tokens of the busiest step
    std::uint32_t firstStep(SequenceId sequence) const;                   // of arrival
    // Rows such that no two sequences that live at the same time share one; row of each sequence.
    std::vector<std::uint32_t> packRows(std::uint32_t& rowCount) const;

private:
    void extend(SequenceId sequence, std::uint32_t step, bool waiting);

    const Recording* m_recording = nullptr;
    LaneId m_lane;
    std::uint32_t m_steps = 0;
    std::uint32_t m_mostPrefill = 0;
    std::vector<Prefill> m_prefills;
    std::vector<Span> m_spans;
    std::vector<Mark> m_marks;
    std::bitset<event_kind_count> m_marked;
    struct Life {
        std::uint32_t first = 0, last = 0;  // steps
        std::size_t span = SIZE_MAX;        // the newest
        bool waits = false;
        bool seen = false;
    };
    std::vector<Life> m_lives;  // index: sequence
};

}  // namespace kvloupe
