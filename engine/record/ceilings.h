// SPDX-License-Identifier: GPL-3.0-or-later
//
// Ceilings: what a device reaches at best, measured on it. The numbers that stages are held against, beside the data
// sheet's (gpu_table.h).
#pragma once

#include "engine/record/dtype.h"

#include <string>

namespace kvloupe {

struct Ceilings {
    double read_bandwidth = 0;   // bytes/s read from memory by all threads; 0: not measured
    double copy_bandwidth = 0;   // bytes/s read + written by a copy within memory; 0: not measured
    double matrix_rate = 0;      // FLOP/s of a large matrix product; 0: not measured
    DType matrix_type = DType::f32;  // of its factors: f32 on a CPU, f16 on a GPU's tensor cores
    std::string measured_on;     // day of the measurement, ISO 8601 ("2026-11-30"); "" while nothing is measured

    bool measured() const { return read_bandwidth > 0; }
    bool operator==(const Ceilings&) const = default;
};

}  // namespace kvloupe
