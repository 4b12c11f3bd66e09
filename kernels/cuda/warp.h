// SPDX-License-Identifier: GPL-3.0-or-later
//
// Sums and maxima over the lanes of a warp and the threads of a block. Every lane has the result, and the order is fixed:
// the same values give the same bits.
#pragma once

#include "kernels/cuda/platform.h"

namespace kvloupe::cuda {

inline constexpr unsigned all_lanes = 0xFFFFFFFFu;

// Over `width` neighbouring lanes, a power of two. All 32 lanes of the warp call it.
template <unsigned width = 32, class T>
__device__ __forceinline__ T warp_sum(T value) {
    KVLOUPE_UNROLL
    for (unsigned lanes = width / 2; lanes > 0; lanes /= 2) value += __shfl_xor_sync(all_lanes, value, static_cast<int>(lanes));
    return value;
}
template <unsigned width = 32>
__device__ __forceinline__ float warp_max(float value) {
    KVLOUPE_UNROLL
    for (unsigned lanes = width / 2; lanes > 0; lanes /= 2)
        value = fmaxf(value, __shfl_xor_sync(all_lanes, value, static_cast<int>(lanes)));
    return value;
}

// Over a block of `threads` threads, a multiple of 32. parts: shared memory, threads / 32 of them, free again after the next
// __syncthreads() of the caller.
template <unsigned threads, class T>
__device__ __forceinline__ T block_sum(T value, T* parts) {
    static_assert(threads % 32 == 0 && threads <= 1024);
    value = warp_sum(value);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    T sum = parts[0];
    KVLOUPE_UNROLL
    for (unsigned i = 1; i < threads / 32; ++i) sum += parts[i];
    return sum;
}

}  // namespace kvloupe::cuda
