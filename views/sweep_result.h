// SPDX-License-Identifier: GPL-3.0-or-later
//
// What a length sweep measured: the time to generate so many tokens, with and without a KV cache.
#pragma once

#include <vector>

namespace kvloupe {

struct SweepResult {
    std::vector<int> lengths;            // new tokens, ascending
    std::vector<double> cached_ms;       // measured, median over the repeats; same order as lengths
    std::vector<double> uncached_ms;     // may be shorter than lengths while the sweep runs
    int repeats = 0;                     // runs per length
};

}  // namespace kvloupe
