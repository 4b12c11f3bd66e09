// SPDX-License-Identifier: GPL-3.0-or-later
//
// CUDA device code on the CPU: what kernels/cuda/platform.h includes under a host compiler. A kernel's source, unchanged,
// becomes C++ that runs one fiber per CUDA thread, so that its indexing, its barriers and its shared memory are checked
// without a GPU, by values and by the sanitizers.
//
// What it checks in every build (a launch that breaks one of these returns cudaErrorLaunchFailure and leaves a sentence in
// emulation::last_failure()): every thread of a block reaches the same __syncthreads; every lane that a mask names takes
// part in the same operation with the same mask; a shuffle reads a lane that takes part; shared memory fits sm_80.
// Under AddressSanitizer: overruns of global, shared and local memory. Under ThreadSanitizer: accesses of two threads
// that no barrier orders. As in CUDA, shuffles, votes and atomics order no memory; __syncwarp and __syncthreads do. Between
// blocks races show where different workers ran them (block b runs on worker b mod workers).
// Not shown: lock-step, bank conflicts, occupancy, speed, approximations of __expf.
//
// Nothing of a CUDA toolkit is used, so that it is the same with and without one.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))

#include "emulation/errors.h"   // NOLINT: the order matters
#include "emulation/vectors.h"
#include "emulation/half.h"
#include "emulation/bfloat16.h"
#include "emulation/threads.h"
#include "emulation/warp.h"
#include "emulation/memory.h"
#include "emulation/math.h"
#include "emulation/launch.h"

#define KVLOUPE_UNROLL  // nothing depends on it here, and a host compiler takes minutes for the unrolled kernels
#define KVLOUPE_NO_UNROLL
#define KVLOUPE_NO_INLINE __attribute__((noinline))

// type (&name)[count] in the block's static shared memory.
#define KVLOUPE_SHARED(type, name, count)                                              \
    static const char name##_site = 0;                                                 \
    type(&name)[count] = *static_cast<type(*)[count]>(                                 \
        ::kvloupe::emulation::shared_array(&name##_site, sizeof(type) * (count), alignof(type)))
#define KVLOUPE_DYNAMIC_SHARED(type, name) type* const name = static_cast<type*>(::kvloupe::emulation::dynamic_shared())

// First line of a kernel: notes that it ran.
#define KVLOUPE_KERNEL(name)                                                           \
    do {                                                                               \
        if (::kvloupe::emulation::this_thread->first) ::kvloupe::emulation::note_kernel(#name); \
    } while (false)
