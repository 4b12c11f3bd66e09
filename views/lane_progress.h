// SPDX-License-Identifier: GPL-3.0-or-later
//
// LaneProgress: sums over the steps of one lane that comparisons need, kept up to date by looking at new steps only.
#pragma once

#include "engine/record/recording.h"
#include "views/running_median.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace kvloupe {

// What a step did, and sums up to and including it.
struct StepSums {
    std::uint32_t sequences = 0;        // scheduled in the step
    bool prompt = false;                // a prompt token was computed for the first time
    std::uint64_t durationNs = 0;       // measured
    std::uint64_t totalNs = 0;          // measured, sum
    std::uint64_t computed = 0;         // tokens pushed through the model, measured, sum
    std::uint64_t naive = 0;            // tokens that would be computed without a cache, predicted, sum; see naiveTokens()
    std::uint64_t prefillNs = 0;        // sum over steps that computed prompt tokens and decoded nothing
    std::uint64_t prefillTokens = 0;    // prompt tokens computed in those steps, sum

    // The step decoded and did nothing else: its duration is a decode time.
    bool decodes() const { return sequences > 0 && !prompt; }
};

// Tokens computed by generating up to `tokens` tokens behind a prompt of `prompt` when every step recomputes the whole
// prefix: prompt, prompt + 1, ..., tokens, so T(T+1)/2 - P(P-1)/2, and T(T+1)/2 behind a prompt of one token.
std::uint64_t naiveTokens(std::uint64_t prompt, std::uint64_t tokens);

// The first lane before `lane` with the same weights, to which its logits are compared.
std::optional<LaneId> referenceLane(const Recording& recording, LaneId lane);
// For an uncached lane: the lane with a cache and the same weights that differs in little else: if there is one, with the same form
// of attention and on the same device, else a cache in floating point before a quantised one; of equal ones the first.
std::optional<LaneId> cachedTwin(const Recording& recording, LaneId lane);

class LaneProgress {
public:
    LaneProgress(const Recording* recording, LaneId lane);

    // Reads the steps published since the last time.
    void advance();

    std::size_t steps() const { return m_sums.size(); }
    const StepSums& at(std::size_t step) const { return m_sums[step]; }
    const LaneRecord& record() const { return m_recording->lane(m_lane); }
    // Median over the decode steps up to and including `step` of duration / sequences scheduled, nanoseconds (derived).
    // Constant time: medians are kept as the steps come.
    std::optional<double> medianDecodeNsPerToken(std::size_t step) const;
    // Decode steps up to and including `step`.
    std::size_t decodeSteps(std::size_t step) const { return step < m_decodeCount.size() ? m_decodeCount[step] : 0; }

private:
    struct Sequence {
        std::uint64_t prompt = 0;
        std::uint64_t tokens = 0;   // that have been through the model
        std::uint64_t naive = 0;
        std::size_t step = SIZE_MAX;   // last scheduled; an uncached decode is two events of one step
    };
    Sequence& sequence(SequenceId id);

    const Recording* m_recording;
    LaneId m_lane;
    std::vector<StepSums> m_sums;
    std::vector<Sequence> m_sequences;   // index: SequenceId
    RunningMedian m_decode;                    // of the decode times
    std::vector<double> m_median;              // per step
    std::vector<std::uint32_t> m_decodeCount;  // per step: decode steps up to it
};

}  // namespace kvloupe
