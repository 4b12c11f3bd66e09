// SPDX-License-Identifier: GPL-3.0-or-later
//
// Length sweep: generates up to N tokens with and without a KV cache on the model at hand and takes the time to every
// length from the same runs. No Qt.
#pragma once

#include "engine/record/result.h"
#include "views/sweep_result.h"

#include <functional>
#include <stop_token>
#include <string>
#include <vector>

namespace kvloupe {

struct SweepOptions {
    std::string model;                  // bundled, bundled:NAME or a path
    std::vector<int> lengths;           // new tokens, ascending, e.g. 10 … 500
    int repeats = 3;                    // the median of each length is taken
    int threads = 0;                    // 0: one per core
};

// The lengths from `least` to `most`, at most `count` of them, evenly spread and without repetition.
std::vector<int> sweepLengths(int least, int most, int count);

// Lengths that leave no room in the context are cut to `room`, once.
std::vector<int> lengthsWithin(std::vector<int> lengths, int room);

// Blocking. progress: 0 … 1 and a sentence. Times are sums of measured step durations until the length was reached.
Result<SweepResult> runLengthSweep(const SweepOptions& options, std::stop_token stop,
                                   const std::function<void(double, const std::string&)>& progress);

}  // namespace kvloupe
