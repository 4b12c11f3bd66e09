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

// out (count, matrix.rows) = in (count, matrix.cols) * matrix^T. panels: scratch of each thread, panel_floats(cols) each.
// The result does not depend on the number of threads.
void multiply(const PackedMatrix& matrix, const ProductRows& rows, ThreadPool& pool, std::span<float* const> panels);

// BLAS must not start threads of its own beneath ours. Its setting belongs to the process; it is made by every backend,
// always to the same value.
void limit_blas_threads();

}  // namespace kvloupe::cpu
