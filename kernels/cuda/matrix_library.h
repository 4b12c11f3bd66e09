// SPDX-License-Identifier: GPL-3.0-or-later
//
// MatrixLibrary: products of many rows, which belong to cuBLAS (cublas_library.cpp). tests/emulation/runtime has one that
// multiplies in main memory behind the same interface.
#pragma once

#include "engine/record/dtype.h"
#include "engine/record/result.h"
#include "kernels/cuda/runtime.h"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace kvloupe::cuda {

// out (rows, matrix_rows of each out_width values) (+)= in (rows, cols of each in_width values) * matrix (matrix_rows, cols)^T. Both
// factors of one type, f32 (without TF32), f16 or bf16; sums and out in f32. All in device memory. `count` such products side by
// side, as heads lie: the next one's matrix is behind the first one's, its in and out begin cols and matrix_rows values further on.
struct Gemm {
    const void* matrix = nullptr;
    const void* in = nullptr;
    DType type = DType::f16;
    float* out = nullptr;
    std::uint32_t rows = 0, cols = 0, matrix_rows = 0;
    std::uint32_t in_width = 0;   // values from one row of in to the next
    std::uint32_t out_width = 0;  // values from one row of out to the next
    std::uint32_t count = 1;
    bool accumulate = false;
};

class MatrixLibrary {
public:
    virtual ~MatrixLibrary() = default;
    // Queues the product on the stream. Null, or what went wrong.
    virtual const char* multiply(const Gemm& gemm) = 0;
};

// workspace: device memory that the library may use as it likes; without one it would take its own, which nobody counts and
// which a recorded pass must not do. Errors: the library does not start.
struct Workspace {
    std::byte* data = nullptr;
    std::uint64_t bytes = 0;
};
Result<std::unique_ptr<MatrixLibrary>> make_matrix_library(cudaStream_t stream, const Workspace& workspace);

}  // namespace kvloupe::cuda
