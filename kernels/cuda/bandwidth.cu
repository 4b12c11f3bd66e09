// SPDX-License-Identifier: GPL-3.0-or-later
//
// Reads memory and does as little else as it can: what the read bandwidth is measured with (FORMATS 3.13).
//
// Every 32-bit word is added up, so that no read can be left out. Eight blocks of 256 threads per multiprocessor fill it
// with threads (2048 on sm_80 and sm_90), each with four 16-byte loads in flight: 128 KiB per multiprocessor, more than
// latency times bandwidth. Rejected: cp.async into shared memory (no faster for data that is used once).
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/warp.h"

#include <algorithm>

namespace kvloupe::cuda {

namespace {

constexpr unsigned threads = 256;
constexpr unsigned blocks_per_processor = 8;
constexpr unsigned in_flight = 4;

__device__ __forceinline__ unsigned sum_of(uint4 words) { return (words.x + words.y) + (words.z + words.w); }

__global__ void __launch_bounds__(threads) add_words(const uint4* data, std::uint64_t count, unsigned* out) {
    KVLOUPE_KERNEL(add_words);
    KVLOUPE_SHARED(unsigned, parts, threads / 32);
    const std::uint64_t step = std::uint64_t{gridDim.x} * threads;
    std::uint64_t at = std::uint64_t{blockIdx.x} * threads + threadIdx.x;
    unsigned sum = 0;
    for (; at + (in_flight - 1) * step < count; at += in_flight * step) {
        uint4 words[in_flight];
        KVLOUPE_UNROLL
        for (unsigned i = 0; i < in_flight; ++i) words[i] = __ldcs(data + at + i * step);
        KVLOUPE_UNROLL
        for (unsigned i = 0; i < in_flight; ++i) sum += sum_of(words[i]);
    }
    for (; at < count; at += step) sum += sum_of(__ldcs(data + at));
    sum = block_sum<threads>(sum, parts);
    if (threadIdx.x == 0) atomicAdd(out, sum);
}

}  // namespace

cudaError_t read_all(const std::byte* data, std::uint64_t bytes, unsigned* out, std::uint32_t processors, cudaStream_t stream) {
    if (bytes % 16 != 0 || processors == 0) return cudaErrorInvalidValue;
    if (bytes == 0) return cudaSuccess;
    const std::uint64_t full = (bytes / 16 + threads - 1) / threads;
    const unsigned blocks = static_cast<unsigned>(std::min<std::uint64_t>(full, std::uint64_t{processors} * blocks_per_processor));
    return launch(add_words, blocks, threads, 0, stream, reinterpret_cast<const uint4*>(data), bytes / 16, out);
}

}  // namespace kvloupe::cuda
