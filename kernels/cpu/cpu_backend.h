// SPDX-License-Identifier: GPL-3.0-or-later
//
// CpuBackend: engine/backend.h in main memory. Operations are finished when they return.
//
// Goals: weights stay where they are (views into the mapped file, any alignment); no allocation in a step but scratch
// that grows with the context; results that depend on neither threads nor block size.
// One caller at a time; several backends may compute at once, each on its own threads.
#pragma once

#include "engine/backend.h"

#include <memory>

namespace kvloupe::cpu {

// threads: 0: one per core at hand. Errors: not enough memory.
Result<std::unique_ptr<Backend>> make_cpu_backend(unsigned threads);

}  // namespace kvloupe::cpu
