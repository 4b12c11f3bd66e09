// SPDX-License-Identifier: GPL-3.0-or-later
//
// RequestProgress: medians of a lane's request times and sums of its cache's work at every step, kept up to date by looking
// at new steps only.
#pragma once

#include "engine/record/request_pass.h"
#include "views/running_median.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace kvloupe {

// Up to and including a step.
struct RequestSums {
    std::optional<double> ttftMs;      // median over the requests that have a first token, measured
    std::size_t requests = 0;          // how many these are
    std::optional<double> itlMs;       // median over the times between successive tokens of all sequences, measured
    std::size_t gaps = 0;              // how many these are
    std::uint64_t computed = 0;        // tokens pushed through the model, measured
    std::uint64_t queried = 0;         // prompt tokens looked up at first admissions, measured
    std::uint64_t hit = 0;             // of them found
    std::uint64_t preemptions = 0;     // measured
};

class RequestProgress {
public:
    RequestProgress(const Recording* recording, LaneId lane);

    // Reads the steps published since the last time.
    void advance();

    std::size_t steps() const { return m_sums.size(); }
    const RequestSums& at(std::size_t step) const { return m_sums[step]; }

private:
    void note(SequenceId sequence);

    const LaneRecord* m_record;
    RequestPass m_pass;
    std::vector<bool> m_begun;           // index: RequestId; its first token has come
    std::vector<std::size_t> m_counted;  // index: SequenceId; times between tokens that are in the median
    RunningMedian m_ttft, m_itl;
    std::vector<RequestSums> m_sums;     // per step
};

}  // namespace kvloupe
