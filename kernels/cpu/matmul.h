// SPDX-License-Identifier: GPL-3.0-or-later
//
// Matrix products on all threads: few rows through the kernels over the packed weights, many through BLAS.
#pragma once

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/thread_pool.h"

#include <cstdint>
#include <span>

namespace kvloupe::cpu {

// Up to so many rows are computed straight from the packed weights.
inline constexpr std::uint32_t matvec_rows_limit = 8;

// Floats of scratch per thread for products with matrices of at most `cols` columns.
std::uint64_t panel_floats(std::uint64_t cols);

// What products of many rows need: scratch of each thread (panel_floats(cols) each) and who multiplies.
struct Panels {
    std::span<float* const> of_thread;
    bool blas = true;
};

// out (count, matrix.rows) = in (count, matrix.cols) * matrix^T. The result does not depend on the number of threads.
void multiply(const PackedMatrix& matrix, const ProductRows& rows, ThreadPool& pool, const Panels& panels);

// Makes BLAS compute on the calling thread only, instead of starting threads beneath ours. The setting belongs to the
// process; every backend makes it, always to the same value. True: BLAS has recognised this processor and uses its
// vectors; false: it fell back to kernels for an old one, and ours are faster, or this build has none.
bool prepare_blas();

}  // namespace kvloupe::cpu
