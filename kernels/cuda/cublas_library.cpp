// SPDX-License-Identifier: GPL-3.0-or-later
//
// cublasGemmEx: its heuristics choose the kernel; accumulating in f32 is asked for by the type of the computation. cublasLt
// would add fused epilogues, of which an f32 output without bias uses none.
#include "kernels/cuda/matrix_library.h"

#include <cublas_v2.h>

#include <string>

namespace kvloupe::cuda {

namespace {

class CublasLibrary final : public MatrixLibrary {
public:
    explicit CublasLibrary(cublasHandle_t handle) : m_handle(handle) {}
    ~CublasLibrary() override { cublasDestroy(m_handle); }

    // Row-major out (rows, matrix_rows) is cuBLAS's column-major (matrix_rows, rows): matrix turned, in as it is.
    const char* multiply(const Gemm& gemm) override {
        const float one = 1, factor = gemm.accumulate ? 1.0f : 0.0f;
        const cudaDataType type = gemm.type == DType::f16 ? CUDA_R_16F : gemm.type == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F;
        const int cols = static_cast<int>(gemm.cols);
        const cublasStatus_t status =
            gemm.count == 1
                ? cublasGemmEx(m_handle, CUBLAS_OP_T, CUBLAS_OP_N, static_cast<int>(gemm.matrix_rows), static_cast<int>(gemm.rows), cols,
                               &one, gemm.matrix, type, cols, gemm.in, type, static_cast<int>(gemm.in_width), &factor, gemm.out,
                               CUDA_R_32F, static_cast<int>(gemm.out_width), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT)
                : cublasGemmStridedBatchedEx(m_handle, CUBLAS_OP_T, CUBLAS_OP_N, static_cast<int>(gemm.matrix_rows),
                                             static_cast<int>(gemm.rows), cols, &one, gemm.matrix, type, cols,
                                             static_cast<long long>(gemm.matrix_rows) * cols, gemm.in, type,
                                             static_cast<int>(gemm.in_width), cols, &factor, gemm.out, CUDA_R_32F,
                                             static_cast<int>(gemm.out_width), gemm.matrix_rows, static_cast<int>(gemm.count),
                                             CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
        return status == CUBLAS_STATUS_SUCCESS ? nullptr : cublasGetStatusString(status);
    }

private:
    cublasHandle_t m_handle;
};

}  // namespace

Result<std::unique_ptr<MatrixLibrary>> make_matrix_library(cudaStream_t stream, const Workspace& workspace) {
    cublasHandle_t handle = nullptr;
    cublasStatus_t status = cublasCreate(&handle);
    if (status != CUBLAS_STATUS_SUCCESS)
        return Error{std::string("cuBLAS does not start: ") + cublasGetStatusString(status),
                     "Close what else uses the card, or choose the device 'cpu'"};
    std::unique_ptr<MatrixLibrary> library(new CublasLibrary(handle));
    status = cublasSetStream(handle, stream);
    if (status == CUBLAS_STATUS_SUCCESS) status = cublasSetWorkspace(handle, workspace.data, workspace.bytes);
    if (status == CUBLAS_STATUS_SUCCESS) status = cublasSetMathMode(handle, CUBLAS_DEFAULT_MATH);  // f32 stays f32: no TF32
    if (status != CUBLAS_STATUS_SUCCESS)
        return Error{std::string("cuBLAS does not take the stream: ") + cublasGetStatusString(status), "Choose the device 'cpu'"};
    return library;
}

}  // namespace kvloupe::cuda
