// SPDX-License-Identifier: GPL-3.0-or-later
//
// Engine key frames: copies of all that a session's later steps depend on, kept while it steps, so that it can be put back to a step by
// computing only what came after the nearest copy.
//
// When: time decides and not a number of steps. A frame is due when the steps since the last one took so long that computing them
// again would be noticed, and so long that frames cost at most their share of the run. All frames together stay within a budget of
// memory: beyond it every second one goes, and from then on they come half as often, so that they stay spread over the run.
// Rejected: frames that share blocks which did not change between them (less memory, but every full block would need a version of its
// content that all of its writers keep; a budget with thinning bounds the memory as well).
#pragma once

#include "engine/record/writer.h"
#include "engine/serve/lane_frame.h"
#include "engine/serve/logit_comparison.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace kvloupe {

struct EngineFramePolicy {
    std::uint32_t least_steps = 16;                      // between two frames
    std::chrono::nanoseconds least_work = std::chrono::seconds(1);  // of steps between two frames
    double most_share = 0.01;                            // of the run's time that frames take; what one costs is known after the first
    std::uint64_t memory_bytes = std::uint64_t{256} << 20;  // of all frames, about; 0: none are kept
};

// What was asked of a session while it ran, as far as it is in the frame: counts.
struct AskedSoFar {
    std::size_t submitted = 0, actions = 0;
};

struct EngineFrame {
    std::vector<LaneFrame> lanes;
    LogitComparison comparison;
    std::string failure;          // of the last step that failed, since the last submit
    std::size_t requests = 0;     // of the recording
    AskedSoFar asked;
    std::uint64_t bytes = 0;      // about

    std::uint32_t first_step() const;  // the first one that is not in it: of the lane that is furthest behind
    std::uint32_t end_step() const;    // and of the one that is furthest ahead
};

class EngineFrames {
public:
    explicit EngineFrames(const EngineFramePolicy& policy) : m_policy(policy) {}

    // A step was made that took that long.
    void note_step(std::chrono::nanoseconds work);
    // The next frame would be worth its cost.
    bool due() const;
    // Whether it may take so many bytes at all.
    bool affords(std::uint64_t bytes) const { return bytes <= m_policy.memory_bytes; }
    // It was made, which took that long, or it could not be: the next one is due as late either way.
    void keep(std::unique_ptr<const EngineFrame> frame, std::chrono::nanoseconds cost);

    // The last one in which no step after `step` was made and no more was asked; null where there is none. Those after it are dropped:
    // the session will have another future.
    const EngineFrame* go_back(std::uint32_t step, const AskedSoFar& asked);
    void clear();

    std::size_t count() const { return m_frames.size(); }
    std::uint64_t bytes() const { return m_bytes; }

private:
    void thin_out();
    void forget_work();

    EngineFramePolicy m_policy;                              // its distances grow when frames are thinned out
    std::vector<std::unique_ptr<const EngineFrame>> m_frames;  // ascending
    std::uint64_t m_bytes = 0;
    std::uint32_t m_steps = 0;                               // since the last frame
    std::chrono::nanoseconds m_work{}, m_cost{};             // since the last frame; of the last frame
};

}  // namespace kvloupe
