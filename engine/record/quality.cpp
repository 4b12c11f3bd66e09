// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/quality.h"

#include <algorithm>

namespace kvloupe {

FirstDifference summary_of(const std::vector<std::optional<std::uint32_t>>& first_difference) {
    FirstDifference result;
    result.texts = first_difference.size();
    std::vector<std::uint32_t> positions;
    for (const auto& position : first_difference) {
        if (position) positions.push_back(*position);
        else ++result.never;
    }
    std::sort(positions.begin(), positions.end());
    const std::size_t middle = (first_difference.size() + 1) / 2;  // of an even count the lower one
    if (middle > 0 && middle <= positions.size()) result.median = positions[middle - 1];
    return result;
}

}  // namespace kvloupe
