// SPDX-License-Identifier: GPL-3.0-or-later
//
// PredictedBytes: what the size formula says a lane's cache takes after each step, kept up to date by looking at new steps only.
//
// Where every layer sees everything: bytes per token x slots that hold a token, shared slots once. Where layers see windows or
// chunks (FORMATS 3.1): sum over the sequences that hold blocks, and over the layers, of min(tokens, window) x bytes; counted like
// the allocator's counter before the step releases what ended. The ledger's "KV by formula" is the same number.
// Rejected: asking the ledger for every step; it starts from a key frame each time, and a curve has all steps.
#pragma once

#include "engine/record/lane_state.h"
#include "engine/record/recording.h"

#include <string>
#include <vector>

namespace kvloupe {

class PredictedBytes {
public:
    struct Step {
        std::uint64_t tokens = 0;  // in the cache: slots that hold one; with windows those of the sequences that hold blocks
        std::uint64_t bytes = 0;   // predicted
    };

    PredictedBytes(const Recording* recording, LaneId lane);

    // Reads the steps published since the last time.
    void advance();
    std::size_t steps() const { return m_steps.size(); }
    const Step& at(std::size_t step) const { return m_steps[step]; }
    const LaneRecord& record() const { return *m_lane; }
    // Measured - predicted.
    std::int64_t residual(std::size_t step) const;
    // What it is made of, by the ledger; "" where it says nothing. Not for every step: it starts from a key frame.
    std::string whyResidual(std::size_t step) const;

    // Some layers do not see all tokens.
    static bool windowed(const LaneInfo& lane);
    // Nothing but slots without a token can lie between measured and predicted: no windows, pages or scales beside the blocks.
    static bool onlySlotsAreUnpredicted(const LaneInfo& lane);
    // Tokens of one sequence at which the formula reaches `memory` bytes; 0: never.
    static std::uint64_t tokensThatFill(const LaneInfo& lane, std::uint64_t memory);

private:
    Step counted(std::size_t step);

    const LaneRecord* m_lane;
    bool m_windowed;
    LaneState m_state;  // after the steps looked at; only kept with windows
    std::vector<Step> m_steps;
};

}  // namespace kvloupe
