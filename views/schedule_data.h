// SPDX-License-Identifier: GPL-3.0-or-later
//
// ScheduleData: what the scheduler did with every sequence, gathered from a lane's events once per step: spans of steps in
// which it waited, was preempted or swapped out, computed its prompt or decoded; its marks; how it ended; and the peaks of
// the step counters, folded so that a long run is drawn from few of them.
// An open span ends with the next change, so that a step costs its events, not the sequences that wait.
#pragma once

#include "engine/record/recording.h"

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

namespace kvloupe {

class ScheduleData {
public:
    enum class Phase : std::uint8_t { waiting, prefill, decode, preempted, swapped };
    static constexpr int phase_count = 5;

    struct Span {                          // steps begin .. end - 1
        std::uint32_t begin = 0, end = 0;  // end: open_end while it lasts
        std::uint32_t tokens = 0;          // computed in it (measured); 0 while nothing runs
        Phase phase = Phase::waiting;
        std::uint64_t event = 0;           // that began it
    };
    static constexpr std::uint32_t open_end = 0xFFFFFFFFu;

    struct Mark {                          // fork, copy, prefix hit, preemption, resume, rejection, finish
        std::uint32_t step = 0;
        std::uint32_t count = 1;           // events of that kind in that step
        EventKind kind = EventKind::arrive;
        std::uint64_t event = 0;           // the first of them
    };

    struct Row {
        bool seen = false;
        std::uint32_t first = 0;           // step of arrival or fork
        std::uint32_t last = open_end;     // step in which it ended
        std::uint32_t prompt = 0;          // tokens
        std::uint32_t decoded = 0;         // tokens computed while decoding (measured)
        EventKind ending = EventKind::decode;  // finish or reject once it ended
        std::uint32_t workStep = open_end;     // last step that computed something for it, and how many tokens
        std::uint32_t workTokens = 0;
        std::vector<Span> spans;           // by begin, not overlapping
        std::vector<Mark> marks;           // by step
    };

    // Highest values of one step, or of the steps that were folded.
    struct Load {
        std::uint32_t prefill = 0, decode = 0;  // of the step with the most tokens
        std::uint32_t running = 0, waiting = 0;
        void include(const Load& other);
    };
    struct Peaks {
        std::uint32_t tokens = 0, running = 0, waiting = 0;
    };

    // Reads the steps that are new until cancelled; another lane or recording starts over.
    void update(const Recording& recording, LaneId lane, const std::atomic<bool>& cancelled = std::atomic<bool>(false));

    std::uint32_t steps() const { return m_steps; }
    const std::vector<Row>& rows() const { return m_rows; }  // index: SequenceId
    const Peaks& peaks() const { return m_peaks; }
    bool anyMark(EventKind kind) const { return m_kinds[static_cast<std::size_t>(kind)]; }
    bool anyPhase(Phase phase) const { return m_phases[static_cast<std::size_t>(phase)]; }

    Load load(std::uint32_t begin, std::uint32_t end) const;  // of steps begin .. end - 1 below steps()

    // The span of a sequence that covers the step, or null (it had not arrived, has ended, or was not scheduled).
    const Span* spanAt(SequenceId sequence, std::uint32_t step) const;
    // Event of the last refusal of the sequence up to the step, or none: why it waits.
    std::optional<std::uint64_t> refusal(SequenceId sequence, std::uint32_t step) const;

private:
    static constexpr std::uint32_t fold = 64;  // steps per entry of m_folded
    Row& row(SequenceId sequence, std::uint32_t step);
    void hold(SequenceId sequence, Phase phase, std::uint64_t event);
    void work(SequenceId sequence, Phase phase, std::uint32_t tokens, std::uint64_t event);
    void closeOpen(Row& row);
    void mark(SequenceId sequence, EventKind kind, std::uint64_t event);
    void take(const Event& event, std::uint64_t index);

    const Recording* m_recording = nullptr;
    const LaneRecord* m_lane = nullptr;
    LaneId m_laneId;
    std::uint32_t m_steps = 0;
    std::vector<Row> m_rows;
    std::vector<Load> m_folded;
    Peaks m_peaks;
    bool m_kinds[event_kind_count] = {};
    bool m_phases[phase_count] = {};
    struct Refusal {
        std::uint32_t step = 0;
        std::uint64_t event = 0;
    };
    std::vector<std::vector<Refusal>> m_refusals;  // index: SequenceId
};

}  // namespace kvloupe
