// SPDX-License-Identifier: GPL-3.0-or-later
//
// Kernels with one fault each, for tst_emulation_faults: emulation_faults NAME. Exit status: 0 where nothing was noticed,
// 3 where the launch failed (the sentence goes to stdout), 2 for an unknown name, else what the sanitizer gives.
#include "kernels/cuda/async_copy.h"
#include "tests/emulation/device_memory.h"

#include <cstdio>
#include <map>
#include <string>

using namespace kvloupe;
using namespace kvloupe::test;
using cuda::launch;

namespace {

struct alignas(16) Four {
    float at[4];
};

template <unsigned beyond>
__global__ void write_static_shared(float* out) {
    KVLOUPE_KERNEL(write_static_shared);
    KVLOUPE_SHARED(float, tile, 64);
    float* const at = tile;
    at[threadIdx.x + beyond] = 1;
    __syncthreads();
    out[threadIdx.x] = at[63 - threadIdx.x];
}

template <unsigned beyond>
__global__ void write_dynamic_shared(float* out) {
    KVLOUPE_KERNEL(write_dynamic_shared);
    KVLOUPE_DYNAMIC_SHARED(float, tile);
    tile[threadIdx.x + beyond] = 1;
    __syncthreads();
    out[threadIdx.x] = tile[63 - threadIdx.x];
}

template <unsigned beyond>
__global__ void write_global(float* out) {
    KVLOUPE_KERNEL(write_global);
    out[threadIdx.x + beyond] = 1;
}

template <unsigned beyond>
__global__ void write_local(float* out) {
    KVLOUPE_KERNEL(write_local);
    float mine[8];
    float* const volatile at = mine;
    for (unsigned i = 0; i < 8; ++i) at[i] = static_cast<float>(i);
    at[7 + (threadIdx.x == 40 ? beyond : 0)] = 1;
    out[threadIdx.x] = at[threadIdx.x % 8];
}

template <bool waits>
__global__ void reverse(float* out) {
    KVLOUPE_KERNEL(reverse);
    KVLOUPE_SHARED(float, tile, 64);
    tile[threadIdx.x] = static_cast<float>(threadIdx.x);
    if (waits) __syncthreads();
    out[threadIdx.x] = tile[63 - threadIdx.x];
}

// The second round overwrites what the first is still reading.
template <bool waits>
__global__ void reverse_twice(float* out) {
    KVLOUPE_KERNEL(reverse_twice);
    KVLOUPE_SHARED(float, tile, 64);
    for (int round = 0; round < 2; ++round) {
        tile[threadIdx.x] = static_cast<float>(threadIdx.x);
        __syncthreads();
        out[threadIdx.x] = tile[63 - threadIdx.x];
        if (waits) __syncthreads();
    }
}

// A shuffle orders no memory; __syncwarp does.
template <bool waits>
__global__ void through_a_warp(float* out) {
    KVLOUPE_KERNEL(through_a_warp);
    KVLOUPE_SHARED(float, tile, 64);
    tile[threadIdx.x] = __shfl_xor_sync(0xFFFFFFFFu, static_cast<float>(threadIdx.x), 1);
    if (waits) __syncwarp();
    else __shfl_sync(0xFFFFFFFFu, 1, 0);
    out[threadIdx.x] = tile[threadIdx.x ^ 1u];
}

// Copies of other threads have arrived only after the barrier that follows the wait.
template <bool waits>
__global__ void copy_tile(const Four* from, float* out) {
    KVLOUPE_KERNEL(copy_tile);
    KVLOUPE_SHARED(Four, tile, 64);
    cuda::copy_async(tile + threadIdx.x, from + threadIdx.x);
    cuda::copy_async_commit();
    cuda::copy_async_wait<0>();
    if (waits) __syncthreads();
    out[threadIdx.x] = tile[63 - threadIdx.x].at[0];
}

// Two blocks write one element.
template <bool apart>
__global__ void write_from_blocks(float* out) {
    KVLOUPE_KERNEL(write_from_blocks);
    if (threadIdx.x == 0) out[apart ? blockIdx.x : 0] = 1;
}

__global__ void leave_barrier(float* out) {
    KVLOUPE_KERNEL(leave_barrier);
    if (threadIdx.x == 10) return;
    __syncthreads();
    out[threadIdx.x] = 1;
}

}  // namespace

int main(int count, char** words) {
    DeviceArray<float> out(64);
    DeviceArray<Four> from(std::vector<Four>(64, Four{}));
    float* const to = out.data();
    const auto run = [to](void (*kernel)(float*)) { return launch(kernel, 2, 64, 256, nullptr, to); };
    // Two blocks would write the same elements of `out`: one block where the fault is about a block.
    const auto run_block = [to](void (*kernel)(float*)) { return launch(kernel, 1, 64, 256, nullptr, to); };
    const std::map<std::string, std::function<cudaError_t()>> faults = {
        {"static-shared", [&] { return run_block(write_static_shared<1>); }},
        {"static-shared-before", [&] { return run_block(write_static_shared<~0u>); }},
        {"dynamic-shared", [&] { return run_block(write_dynamic_shared<1>); }},
        {"global", [&] { return run_block(write_global<1>); }},
        {"local", [&] { return run_block(write_local<1>); }},
        {"sound-memory", [&] {
             for (const auto kernel : {write_static_shared<0>, write_dynamic_shared<0>, write_global<0>, write_local<0>})
                 if (const cudaError_t error = run_block(kernel); error != cudaSuccess) return error;
             return cudaSuccess;
         }},
        {"barrier", [&] { return run_block(reverse<false>); }},
        {"second-barrier", [&] { return run_block(reverse_twice<false>); }},
        {"syncwarp", [&] { return run_block(through_a_warp<false>); }},
        {"copy-barrier", [&] { return launch(copy_tile<false>, 1, 64, 0, nullptr, from.data(), to); }},
        {"blocks", [&] { return run(write_from_blocks<false>); }},
        {"sound-threads", [&] {
             for (const auto kernel : {reverse<true>, reverse_twice<true>, through_a_warp<true>})
                 if (const cudaError_t error = run_block(kernel); error != cudaSuccess) return error;
             if (const cudaError_t error = run(write_from_blocks<true>); error != cudaSuccess) return error;
             return launch(copy_tile<true>, 1, 64, 0, nullptr, from.data(), to);
         }},
        {"divergent", [&] { return run_block(leave_barrier); }},
    };
    const auto fault = faults.find(count > 1 ? words[1] : "");
    if (fault == faults.end()) return 2;
    if (fault->second() == cudaSuccess) return 0;
    std::printf("%s\n", emulation::last_failure().c_str());
    return 3;
}
