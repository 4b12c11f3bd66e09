// SPDX-License-Identifier: GPL-3.0-or-later
//
// Copies of 16 bytes from global to shared memory that run beside the thread (cp.async, sm_80 and newer).
//
//     copy_async(to, from, inside);   // any number of them
//     copy_async_commit();            // closes a group
//     copy_async_wait<1>();           // all of this thread's groups but the last 1 have arrived; then __syncthreads()
//
// Emulated, a copy arrives at the wait and its destination holds NaN until then, so that a missing wait shows in values
// and a missing barrier under ThreadSanitizer.
#pragma once

#include "kernels/cuda/platform.h"

namespace kvloupe::cuda {

// *to (16 bytes of shared memory) = *from, or zeros where `inside` is false; then `from` is not read. Both aligned to 16.
__device__ __forceinline__ void copy_async(void* to, const void* from, bool inside = true) {
#if defined(__CUDACC__)
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
    const int bytes = inside ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(address), "l"(from), "r"(bytes) : "memory");
#else
    emulation::begin_copy(to, from, inside ? 16 : 0);
#endif
}

__device__ __forceinline__ void copy_async_commit() {
#if defined(__CUDACC__)
    asm volatile("cp.async.commit_group;\n" ::: "memory");
#else
    emulation::commit_copies();
#endif
}

template <int groups_left>
__device__ __forceinline__ void copy_async_wait() {
#if defined(__CUDACC__)
    asm volatile("cp.async.wait_group %0;\n" ::"n"(groups_left) : "memory");
#else
    emulation::wait_for_copies(groups_left);
#endif
}

}  // namespace kvloupe::cuda
