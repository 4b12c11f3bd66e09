// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/stage_bound.h"

#include <algorithm>

namespace kvloupe {

StageBound bound_of(const StageWork& work, const Ceilings& ceilings) {
    StageBound bound;
    const double seconds = static_cast<double>(work.duration_ns) * 1e-9;
    const auto bytes = static_cast<double>(work.bytes), flops = static_cast<double>(work.flops);
    if (bytes > 0) bound.flops_per_byte = flops / bytes;
    if (seconds <= 0) return bound;
    bound.bytes_per_second = bytes / seconds;
    bound.flops_per_second = flops / seconds;
    if (ceilings.read_bandwidth > 0) bound.of_memory = bound.bytes_per_second / ceilings.read_bandwidth;
    if (ceilings.matrix_rate > 0) bound.of_compute = bound.flops_per_second / ceilings.matrix_rate;
    bound.share = std::max(bound.of_memory, bound.of_compute);
    // The shares compare as FLOP per byte does with the ridge. With one ceiling only, it can be said to bound a stage that
    // reaches enough of it, and nothing can be said of the others.
    const bool both = ceilings.read_bandwidth > 0 && ceilings.matrix_rate > 0;
    if (bound.share < latency_share) bound.limit = both ? StageLimit::latency : StageLimit::unknown;
    else bound.limit = bound.of_memory >= bound.of_compute ? StageLimit::memory : StageLimit::compute;
    return bound;
}

double ridge_of(const Ceilings& ceilings) {
    return ceilings.read_bandwidth > 0 ? ceilings.matrix_rate / ceilings.read_bandwidth : 0;
}

double attainable(double flops_per_byte, const Ceilings& ceilings) {
    const double sloped = flops_per_byte * ceilings.read_bandwidth;
    if (ceilings.matrix_rate <= 0) return sloped;
    return ceilings.read_bandwidth > 0 ? std::min(sloped, ceilings.matrix_rate) : ceilings.matrix_rate;
}

}  // namespace kvloupe
