// SPDX-License-Identifier: GPL-3.0-or-later
//
// One lane of a synthetic recording: first come first served, chunked prefill, admission only when everything that a
// request may need fits, blocks given back last first to the head of the free queue.
#pragma once

#include "tests/support/demo_recording.h"

#include <deque>

namespace kvloupe {

class DemoLane {
public:
    DemoLane(RecordingWriter& writer, LaneWriter& lane, const DemoOptions& options);

    // One step; the clock goes from start_ns to the returned time.
    std::uint64_t step(std::uint64_t start_ns);

private:
    struct Running {
        SequenceId sequence;
        RequestId request;
        std::uint32_t prompt = 0;
        std::uint32_t max_new = 0;
        std::uint32_t computed = 0;
        std::uint32_t output = 0;
        std::uint32_t first = 0;      // positions computed in this step: [first, computed)
        std::uint32_t attended = 0;   // positions whose attention rows were recorded
        std::vector<TokenId> tokens;  // prompt and output
        std::vector<std::uint32_t> table;
    };

    void arrive(std::uint32_t step);
    void admit();
    void schedule();
    void hold_blocks(Running& running);
    void sample(StepRecord& counters);
    void attend(Running& running);
    void stages(const StepRecord& counters);
    void release();
    void count(StepRecord& counters) const;
    std::uint32_t blocks_for(std::uint64_t tokens) const;
    std::uint32_t may_need(const Running& running) const;
    void emit(Event event);
    void pass(std::uint64_t nanoseconds);

    RecordingWriter& m_writer;
    LaneWriter& m_lane;
    DemoOptions m_options;
    const LaneInfo& m_info;
    std::deque<std::uint32_t> m_free;
    std::deque<Running> m_waiting;
    std::vector<Running> m_running;
    std::uint32_t m_next_request = 0;  // requests are in the order of their arrival
    std::uint64_t m_now = 0;
};

}  // namespace kvloupe
