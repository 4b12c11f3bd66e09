// SPDX-License-Identifier: GPL-3.0-or-later
//
// The matrix library of the emulated card: plain loops in main memory, as work of the stream. Factors in their own precision,
// sums in f32 as on a card.
#include "engine/model/half.h"
#include "kernels/cuda/matrix_library.h"

#include <vector>

namespace kvloupe::cuda {

namespace {

// `cols` values from the first-th on.
std::vector<float> row_of(const void* matrix, DType type, std::uint64_t first, std::uint64_t cols) {
    std::vector<float> values(cols);
    for (std::uint64_t i = 0; i < cols; ++i) {
        const std::uint64_t at = first + i;
        if (type == DType::f32) values[i] = static_cast<const float*>(matrix)[at];
        else if (type == DType::f16) values[i] = f16_to_f32(static_cast<const std::uint16_t*>(matrix)[at]);
        else values[i] = bf16_to_f32(static_cast<const std::uint16_t*>(matrix)[at]);
    }
    return values;
}

void multiply_one(const Gemm& gemm, std::uint64_t product) {
    std::vector<std::vector<float>> in;
    for (std::uint64_t n = 0; n < gemm.rows; ++n) in.push_back(row_of(gemm.in, gemm.type, n * gemm.in_width + product * gemm.cols, gemm.cols));
    for (std::uint64_t r = 0; r < gemm.matrix_rows; ++r) {
        const std::vector<float> row = row_of(gemm.matrix, gemm.type, (product * gemm.matrix_rows + r) * gemm.cols, gemm.cols);
        for (std::uint32_t n = 0; n < gemm.rows; ++n) {
            float sum = 0;
            for (std::uint32_t i = 0; i < gemm.cols; ++i) sum += row[i] * in[n][i];
            float& out = gemm.out[std::uint64_t{n} * gemm.out_width + product * gemm.matrix_rows + r];
            out = gemm.accumulate ? out + sum : sum;
        }
    }
}

void multiply_now(const Gemm& gemm) {
    for (std::uint32_t product = 0; product < gemm.count; ++product) multiply_one(gemm, product);
}

class HostMatrixLibrary final : public MatrixLibrary {
public:
    explicit HostMatrixLibrary(cudaStream_t stream) : m_stream(stream) {}
    const char* multiply(const Gemm& gemm) override {
        const cudaError_t status = emulation::submit(m_stream, [gemm] {
            multiply_now(gemm);
            return cudaSuccess;
        });
        return status == cudaSuccess ? nullptr : cudaGetErrorString(status);
    }

private:
    cudaStream_t m_stream;
};

}  // namespace

Result<std::unique_ptr<MatrixLibrary>> make_matrix_library(cudaStream_t stream, const Workspace&) {
    return std::unique_ptr<MatrixLibrary>(new HostMatrixLibrary(stream));
}

}  // namespace kvloupe::cuda
