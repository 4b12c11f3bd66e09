// SPDX-License-Identifier: GPL-3.0-or-later
//
// Copies of one cache block, all layers in one launch: a fork's copy on write, a swap to and from main memory, a page's copy.
//
// The codes of one row (head) lie together, behind them their scales, so that a block is two runs for each of its rows, of all parts
// (K and V of every layer), with gaps where the block is not full. Bytes: each read once and written once; floor: twice the bytes over
// the bandwidth (of the bus for a swap). Form: grid (parts * rows, pieces of a run, codes or scales), in the widest words that
// the run's places allow, four accesses in flight; what a part is stands in device memory, because layers need not be alike.
// Rejected: cudaMemcpy2DAsync (2 * layers calls, each 2 to 4 us of launch, for 4 KiB runs).
#include "kernels/cuda/conversions.h"
#include "kernels/cuda/kernels.h"

#include <algorithm>

namespace kvloupe::cuda {

namespace {

constexpr unsigned threads = 128;
constexpr unsigned in_flight = 4;

// The block's piece of a run of `bytes` bytes.
template <class Word>
__device__ __forceinline__ void copy_piece(const std::byte* from, std::byte* to, std::uint64_t bytes, std::uint64_t pieces) {
    const std::uint64_t words = bytes / sizeof(Word), step = std::uint64_t{threads} * in_flight;
    for (std::uint64_t first = blockIdx.y * step + threadIdx.x; first < words; first += pieces * step) {
        Word held[in_flight] = {};
        KVLOUPE_UNROLL
        for (unsigned i = 0; i < in_flight; ++i)
            if (first + i * threads < words) held[i] = reinterpret_cast<const Word*>(from)[first + i * threads];
        KVLOUPE_UNROLL
        for (unsigned i = 0; i < in_flight; ++i)
            if (first + i * threads < words) reinterpret_cast<Word*>(to)[first + i * threads] = held[i];
    }
}

__global__ void __launch_bounds__(threads) copy_runs(const BlockCopy copy) {
    KVLOUPE_KERNEL(copy_runs);
    const CopyPart& part = copy.parts[blockIdx.x / copy.most_rows];
    const unsigned row = blockIdx.x % copy.most_rows;
    if (row >= part.rows) return;
    std::uint64_t begin = std::uint64_t{row} * part.row_bytes, bytes;
    if (blockIdx.z == 0) {
        bytes = std::uint64_t{copy.tokens} * part.code_bytes;
    } else {
        begin += part.scale_begin;
        bytes = std::uint64_t{copy.tokens} * part.scale_bytes;
        if (part.group > 0) bytes = std::uint64_t{(copy.tokens + part.group - 1) / part.group} * part.group_bytes;
    }
    const auto at = [&](const BlockCopy::Place& place) {
        const CopyPart::Lies& lies = part.lies[place.lies];
        return place.start + lies.begin + place.block * lies.block_stride + begin;
    };
    const std::byte* const from = at(copy.from);
    std::byte* const to = at(copy.to);
    const std::uint64_t all = reinterpret_cast<std::uintptr_t>(from) | reinterpret_cast<std::uintptr_t>(to) | bytes;
    if (all % 16 == 0) copy_piece<uint4>(from, to, bytes, gridDim.y);
    else if (all % 4 == 0) copy_piece<unsigned>(from, to, bytes, gridDim.y);
    else copy_piece<unsigned char>(from, to, bytes, gridDim.y);
}

}  // namespace

cudaError_t copy_block(const BlockCopy& copy, cudaStream_t stream) {
    if (copy.tokens == 0 || copy.count == 0 || copy.most_rows == 0) return cudaSuccess;
    if (copy.from.lies > 1 || copy.to.lies > 1) return cudaErrorInvalidValue;
    constexpr std::uint64_t of_a_block = 16 * threads * in_flight;
    const std::uint64_t pieces = std::clamp<std::uint64_t>((copy.longest_run + of_a_block - 1) / of_a_block, 1, 65535);
    return launch(copy_runs, dim3(copy.count * copy.most_rows, static_cast<unsigned>(pieces), 2), threads, 0, stream, copy);
}

}  // namespace kvloupe::cuda
