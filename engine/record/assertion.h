// SPDX-License-Identifier: GPL-3.0-or-later
//
// Assertions on a recording: "copies <= 3", "GQA:waste_percent < 4", "p95(duration_us) < 20000", "requests.a.finish_reason == stop".
// A name is a key of summary.json, by its path below a lane ("cache.copies") or by its last part where that is one key only;
// keys that stand beside the lanes ("model.layers", "comparison.max_abs_logit_difference.GQA") are named by their path. p50, p95,
// max, mean, sum take a column of steps.csv over the lane's steps. What is a lane's holds for every lane; "LANE:name" picks one.
#pragma once

#include "engine/record/recording.h"
#include "engine/record/result.h"

#include <memory>
#include <string>
#include <vector>

namespace kvloupe {

struct AssertionResult {
    std::string assertion;   // as it was given
    std::string lane;        // whose value it is; "" where it is of the recording
    std::string value;       // as text; "none" where the number does not exist
    bool holds = false;
};

class Assertions {
public:
    explicit Assertions(const Recording& recording);
    ~Assertions();
    Assertions(const Assertions&) = delete;
    Assertions& operator=(const Assertions&) = delete;

    // One result for each lane that it is about. Errors: not understood; the sentence says which part and what there is.
    Result<std::vector<AssertionResult>> judge(const std::string& assertion) const;

private:
    struct Data;
    std::unique_ptr<Data> m_data;
};

}  // namespace kvloupe
