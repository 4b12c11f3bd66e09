// SPDX-License-Identifier: GPL-3.0-or-later
//
// What a kernel source includes first. Under nvcc: the CUDA runtime. Under a host compiler: the emulation of tests/emulation,
// which gives the same names (threadIdx, __syncthreads, __shfl_xor_sync, atomicAdd, cudaStream_t, …) on fibers.
//
// The differences between the two hide behind these macros and functions (and cp.async, mma.sync and ldmatrix behind
// async_copy.h and mma.h):
//   KVLOUPE_SHARED(type, name, count)        a __shared__ array of a size known at compile time
//   KVLOUPE_DYNAMIC_SHARED(type, name)       the launch's dynamic shared memory, as `type* name`, aligned to 16
//   KVLOUPE_UNROLL                           before a loop: unroll it
//   KVLOUPE_NO_UNROLL                        before a loop: leave it as it is (its body is long)
//   KVLOUPE_NO_INLINE                        before a function: it is called where others would be copied
//   KVLOUPE_KERNEL(name)                     first statement of every __global__ function: its own name. The emulation notes
//                                            that it ran, and names it in its failures; nothing under nvcc. A test compares
//                                            what ran with the __global__ functions of the sources
//   launch(kernel, grid, block, shared_bytes, stream, args...)   -> cudaError_t of the launch
#pragma once

#if defined(__CUDACC__)

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#define KVLOUPE_SHARED(type, name, count) __shared__ type name[count]
#define KVLOUPE_DYNAMIC_SHARED(type, name)                     \
    extern __shared__ __align__(16) unsigned char name##_raw[]; \
    type* const name = reinterpret_cast<type*>(name##_raw)
#define KVLOUPE_UNROLL _Pragma("unroll")
#define KVLOUPE_NO_UNROLL _Pragma("unroll 1")
#define KVLOUPE_NO_INLINE __noinline__
#define KVLOUPE_KERNEL(name) static_cast<void>(0)

namespace kvloupe::cuda {

// Launches kernel<<<grid, block, shared_bytes, stream>>>(args...); raises the kernel's limit of dynamic shared memory where
// it needs more than 48 KiB.
template <class... Parameters, class... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream,
                   Arguments... arguments) {
    if (shared_bytes > 48 * 1024) {
        const cudaError_t raised = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                                        cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                        static_cast<int>(shared_bytes));
        if (raised != cudaSuccess) return raised;
    }
    kernel<<<grid, block, shared_bytes, stream>>>(static_cast<Parameters>(arguments)...);
    return cudaPeekAtLastError();
}

}  // namespace kvloupe::cuda

#elif defined(KVLOUPE_CUDA_TOOLKIT)  // the plugin's host code, which the host's own compiler translates

#include <cuda_runtime_api.h>

#else

#include <kvloupe_cuda_emulation.h>  // tests/emulation/include

#endif
