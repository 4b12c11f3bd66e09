// SPDX-License-Identifier: GPL-3.0-or-later
//
// What differs between the uses of two pools over steps: shares of each kind of slots here minus there, which sum to 0.
#pragma once

#include "views/slot_series.h"

#include <array>
#include <cstddef>

namespace kvloupe {

using SlotShares = std::array<double, slot_kind_count>;

struct StepSpan {
    std::size_t begin = 0, end = 0;  // [begin, end)
};

// Mean shares of the pool over steps that the series has; zeros for an empty span or pool.
inline SlotShares slotShares(const SlotSeries& series, const StepSpan& span) {
    SlotShares shares{};
    if (span.end <= span.begin || series.pool() == 0) return shares;
    const SlotSums sums = series.sum(span.begin, span.end);
    for (std::size_t kind = 0; kind < shares.size(); ++kind)
        shares[kind] = static_cast<double>(sums[kind]) / static_cast<double>(series.pool()) / static_cast<double>(span.end - span.begin);
    return shares;
}

inline SlotShares slotDifference(const SlotSeries& here, const StepSpan& hereSpan, const SlotSeries& there, const StepSpan& thereSpan) {
    SlotShares difference = slotShares(here, hereSpan);
    const SlotShares other = slotShares(there, thereSpan);
    for (std::size_t kind = 0; kind < difference.size(); ++kind) difference[kind] -= other[kind];
    return difference;
}

}  // namespace kvloupe
