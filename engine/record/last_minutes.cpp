// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/last_minutes.h"

#include <algorithm>

namespace kvloupe {

std::size_t first_step_of_last_minutes(const Recording& recording, unsigned minutes, std::size_t end_step) {
    const std::uint64_t span = std::uint64_t{minutes} * 60'000'000'000u;
    std::size_t first = SIZE_MAX;
    for (const auto& lane : recording.lanes()) {
        const std::size_t steps = std::min(lane->step_count(), end_step);
        if (steps == 0) continue;
        const StepRecord& last = lane->step(steps - 1);
        const std::uint64_t end = last.start_ns + last.duration_ns, begin = end > span ? end - span : 0;
        std::size_t low = 0, high = steps;  // steps begin one after the other
        while (low < high) {
            const std::size_t middle = low + (high - low) / 2;
            if (lane->step(middle).start_ns < begin) low = middle + 1;
            else high = middle;
        }
        first = std::min(first, std::min(low, steps - 1));
    }
    return first == SIZE_MAX ? 0 : first;
}

}  // namespace kvloupe
