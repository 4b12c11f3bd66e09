// SPDX-License-Identifier: GPL-3.0-or-later
//
// The median of values at hand (running_median.h keeps one over values that keep coming).
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace kvloupe {

// The mean of the two in the middle for an even count; 0 for none. Reorders the values; linear time.
inline double medianOf(std::vector<double>& values) {
    if (values.empty()) return 0;
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    if (values.size() % 2 == 1) return *middle;
    return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

}  // namespace kvloupe
