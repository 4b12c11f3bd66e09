// SPDX-License-Identifier: GPL-3.0-or-later
//
// Attention alone, through engine/backend.h: over a paged cache filled with random keys and values, blocks shuffled.
#pragma once

#include "engine/backend.h"
#include "tests/gpu/bench_results.h"

namespace kvloupe::test {

// The rows of decode and prefill attention, 32/8 heads of 128, f16, against the ceilings of the same run; decode over codes beside it.
void bench_attention(Backend& backend, const Ceilings& ceilings, BenchResults& results);

}  // namespace kvloupe::test
