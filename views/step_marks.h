// SPDX-License-Identifier: GPL-3.0-or-later
//
// StepMarks: how many copies, evictions and preemptions each step of a lane had, for controls that mark steps: 6 bytes a step,
// counted once. Many events are counted in the background, a few at once.
#pragma once

#include "views/background_job.h"

#include "engine/record/recording.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace kvloupe {

class StepMarks {
public:
    struct Counts {  // counts end at 65,535
        std::uint16_t copies = 0, evictions = 0, preemptions = 0;
        bool any() const { return copies > 0 || evictions > 0 || preemptions > 0; }
    };
    struct Sums {
        std::uint64_t copies = 0, evictions = 0, preemptions = 0;
    };
    // To read more than these, a file's events would take more memory than marks are worth.
    static constexpr std::uint64_t most_events = 40'000'000;
    explicit StepMarks(std::uint64_t most = most_events) : m_most(most) {}
    std::uint64_t most() const { return m_most; }

    // Of the published steps that `known` lacks, in order; fewer when cancelled.
    static std::vector<Counts> countFrom(const LaneRecord& lane, std::size_t known, std::size_t end, const std::atomic<bool>& cancelled);

    // Looks at what is new. changed: more steps are counted, called in the caller's thread.
    void follow(const std::shared_ptr<const Recording>& recording, LaneId lane, std::function<void()> changed);

    const std::vector<Counts>& counts() const { return m_counts; }
    bool complete() const { return m_complete; }  // false: counting, or too many events
    bool tooMany() const { return m_tooMany; }
    Sums sums(std::size_t first, std::size_t end) const;
    // The next step with a mark beyond `step`.
    std::optional<std::size_t> next(std::size_t step, bool forwards) const;
    void wait() { m_job.finish(); }  // until what is being counted is there

private:
    std::shared_ptr<const Recording> m_recording;
    LaneId m_lane;
    std::vector<Counts> m_counts;
    std::uint64_t m_most;
    bool m_complete = false, m_tooMany = false;
    BackgroundJob m_job;
};

}  // namespace kvloupe
