// SPDX-License-Identifier: GPL-3.0-or-later
//
// Whole steps of a session over a model of 8 B's shape with random f16 weights: decode, cached against uncached, and what
// recording stages costs.
#pragma once

#include "engine/record/ceilings.h"
#include "engine/serve/session.h"
#include "tests/gpu/bench_results.h"

namespace kvloupe::test {

struct StepBench {
    std::string device = "cuda:0";
    Ceilings ceilings;
    BackendFactory make_backend;
    bool tiny = false;              // a small model in place of the large one, to try the program out
};
void bench_step(const StepBench& bench, BenchResults& results);

}  // namespace kvloupe::test
