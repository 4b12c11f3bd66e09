// SPDX-License-Identifier: GPL-3.0-or-later
//
// SequenceScan: the steps of a lane in which one sequence lives, read forwards from its request's arrival until the sequence ends.
// What it costs follows from that life, not from the length of the recording.
#pragma once

#include "engine/record/recording.h"

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace kvloupe {

// What may be looked at in one go.
struct ScanLimit {
    std::uint64_t records = 0;
    std::uint64_t chunks = UINT64_MAX;  // of logs, that have to be read from a file: a millisecond or two each
};

class SequenceScan {
public:
    static constexpr std::uint64_t read_at_once = 8'000;  // records: a few milliseconds, also from a file

    SequenceScan() = default;
    SequenceScan(const Recording& recording, LaneId lane, SequenceId sequence) : m_sequence(sequence) {
        const LaneRecord& record = recording.lane(lane);
        if (!sequence.valid() || sequence.value >= record.sequences().size()) return;
        const RequestId request = record.sequences()[sequence.value].request;
        // Nothing of a sequence comes before its request; in a cut that began earlier, arrivals before it count as its first step.
        if (request.valid() && request.value < recording.requests().size()) m_first = recording.requests()[request.value].arrival_step;
        m_steps = m_first = std::min<std::size_t>(m_first, record.step_count());
    }

    SequenceId sequence() const { return m_sequence; }
    std::size_t first() const { return m_first; }
    // Steps that need no look any more; all that are published once the sequence has ended.
    std::size_t steps() const { return m_steps; }
    // Records looked at so far.
    std::uint64_t looked() const { return m_looked; }

    // Calls visit(step) for the steps that are new, until so much was looked at or it is cancelled.
    template <class Visit>
    void read(const LaneRecord& lane, ScanLimit limit, const std::atomic<bool>& cancelled, const Visit& visit) {
        const std::size_t count = lane.step_count();
        const std::uint64_t stop = m_looked + std::min(limit.records, UINT64_MAX - m_looked);
        for (; m_steps < count && !m_ended && m_looked < stop && !cancelled.load(std::memory_order_relaxed); ++m_steps) {
            const StepRecord& step = lane.step(m_steps);
            const std::uint64_t missing = missingChunks(lane.events(), step.events) + missingChunks(lane.tokens(), step.tokens);
            if (missing > limit.chunks) break;
            limit.chunks -= missing;
            m_looked += 1 + step.events.size() + visit(step);
            for (std::uint64_t i = step.events.begin; i < step.events.end && !m_ended; ++i) {
                const Event& event = lane.events()[i];
                m_ended = event.sequence == m_sequence && (event.kind == EventKind::finish || event.kind == EventKind::reject);
            }
        }
        if (m_ended) m_steps = count;
    }

private:
    template <class Log>
    static std::uint64_t missingChunks(const Log& log, LogRange range) {
        std::uint64_t missing = 0;
        for (std::uint64_t i = range.begin; i < range.end; i = (i / Log::chunk_size + 1) * Log::chunk_size) missing += !log.at_hand(i);
        return missing;
    }

    SequenceId m_sequence;
    std::size_t m_first = 0;
    std::size_t m_steps = 0;
    std::uint64_t m_looked = 0;
    bool m_ended = false;
};

}  // namespace kvloupe
