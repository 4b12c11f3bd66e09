// SPDX-License-Identifier: GPL-3.0-or-later
//
// Synthetic recordings for tests: a small scheduler and block pool replay made-up requests through a RecordingWriter, so
// that every record a real session writes is there and agrees with every other. Times are set, tokens, probabilities
// and attention come from a hash: the same options always give the same recording.
//
// What happens with the defaults (200 steps, 24 blocks of 16 slots):
//   a  37 + 60 tokens from step 0, finishes by length    b  20 + 400 from step 4, decodes to the end of the recording
//   c  50 + 40 from step 10, waits until a has ended     d  400 + 100 from step 12, rejected: it exceeds the pool
//   e  60 + 130 from 20 steps before the end, waits      r0, r1, ... fill longer recordings
#pragma once

#include "engine/record/writer.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace kvloupe {

struct DemoOptions {
    std::uint32_t steps = 200;          // of every lane but the uncached one
    std::uint32_t uncached_steps = 0;   // 0: as many as the others; else the uncached lane stops there
    std::uint32_t block_size = 16;
    std::uint32_t blocks = 0;           // null block included; 0: room for a, b and a little more
    std::uint32_t token_budget = 32;    // prompts longer than that are prefilled in chunks
    std::uint32_t layers = 4;
    std::uint32_t query_heads = 8;
    bool attention = true;              // rows of all layers and heads
    std::uint32_t stages_every = 1;     // 0: no stage records
    std::uint64_t memory_budget = std::uint64_t{256} << 20;
    bool one_lane = false;              // only "GQA", as when one model was opened
};

// Lanes "MHA", "GQA", "MQA", "GQA uncached"; the last shares its weights with "GQA" and so has logit differences.
std::shared_ptr<const Recording> demo_recording(const DemoOptions& options = {});

// Lanes, no step yet, paused.
std::shared_ptr<const Recording> demo_empty_recording(const DemoOptions& options = {});

// The same, step by step: for tests of what happens while a recording grows.
class DemoLane;
class DemoSession {
public:
    explicit DemoSession(const DemoOptions& options = {});
    ~DemoSession();

    std::shared_ptr<const Recording> recording() const { return m_writer.recording(); }
    bool step();                         // all lanes; false when options.steps are reached
    void run();                          // to the end, then the phase is paused
    void set_phase(Phase phase, std::string reason = {}) { m_writer.set_phase(phase, std::move(reason)); }
    RecordingWriter& writer() { return m_writer; }

private:
    DemoOptions m_options;
    RecordingWriter m_writer;
    std::vector<std::unique_ptr<DemoLane>> m_lanes;
    std::uint64_t m_time_ns = 0;
    std::uint32_t m_step = 0;
};

}  // namespace kvloupe
