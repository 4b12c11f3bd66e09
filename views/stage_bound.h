// SPDX-License-Identifier: GPL-3.0-or-later
//
// What bounds a stage: its rates held against a device's measured ceilings.
// The rule is the roofline (Williams, Waterman, Patterson: "Roofline: an insightful visual performance model for multicore
// architectures", Communications of the ACM 52(4), 2009): FLOP/s <= min(matrix rate, FLOP per byte * bandwidth). Left of
// the ridge, where both meet, memory bounds a stage, right of it compute. Ours on top: a stage that reaches less than 30 %
// of both ceilings is bound by neither; it waits, for a launch, a barrier or a dependent read, and is called latency.
#pragma once

#include "engine/record/ceilings.h"

#include <cstdint>

namespace kvloupe {

struct StageWork {
    std::uint64_t duration_ns = 0;  // measured
    std::uint64_t bytes = 0;        // derived from shapes
    std::uint64_t flops = 0;        // derived from shapes
};

enum class StageLimit : std::uint8_t { unknown, memory, compute, latency };

struct StageBound {
    // Derived; 0 where the divisor is.
    double bytes_per_second = 0, flops_per_second = 0, flops_per_byte = 0;
    double of_memory = 0;           // share of the measured read bandwidth; 0 where that is not measured
    double of_compute = 0;          // share of the measured matrix rate; 0 where that is not measured
    StageLimit limit = StageLimit::unknown;  // unknown: no time, or the ceilings do not tell
    double share = 0;               // of the ceiling that bounds it; for latency the larger of the two
};

inline constexpr double latency_share = 0.3;

StageBound bound_of(const StageWork& costs, const Ceilings& ceilings);

// FLOP per byte at which both ceilings meet; 0 where one of them is not measured.
double ridge_of(const Ceilings& ceilings);
// FLOP/s that the roofline allows at `flops_per_byte`; 0 where no ceiling is measured.
double attainable(double flops_per_byte, const Ceilings& ceilings);

}  // namespace kvloupe
