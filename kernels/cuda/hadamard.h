// SPDX-License-Identifier: GPL-3.0-or-later
//
// A row of shared memory turned by a Hadamard matrix (Sylvester's order) / sqrt(size), in place, by one warp: log2(size) rounds of
// sums and differences, the near neighbours first, as kernels/cpu has them, so that both give the same bits. Its own inverse.
//
// Rejected: rounds by shuffles of registers (a lane's elements would have to be a compile-time number; a row of 128 is turned once
// a token and takes 7 rounds of two reads and two writes here).
#pragma once

#include "kernels/cuda/warp.h"

namespace kvloupe::cuda {

// size: a power of two. What other lanes wrote to the row before is seen; what is written, after a __syncwarp() only.
__device__ __forceinline__ void hadamard_row(float* x, unsigned size) {
    const unsigned lane = threadIdx.x % 32;
    for (unsigned half = 1; half < size; half *= 2) {
        __syncwarp();
        for (unsigned pair = lane; pair < size / 2; pair += 32) {
            const unsigned i = pair / half * 2 * half + pair % half;
            const float a = x[i], b = x[i + half];
            x[i] = __fadd_rn(a, b);
            x[i + half] = __fadd_rn(a, -b);
        }
    }
    __syncwarp();
    const float factor = 1.0f / sqrtf(static_cast<float>(size));
    for (unsigned i = lane; i < size; i += 32) x[i] = __fmul_rn(x[i], factor);
}

inline bool turnable(std::uint32_t size) { return size > 0 && (size & (size - 1)) == 0 && size <= 1024; }

}  // namespace kvloupe::cuda
