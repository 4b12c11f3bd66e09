// SPDX-License-Identifier: GPL-3.0-or-later
//
// Copies of one cache block, all layers in one launch: a fork's copy on write, a swap to and from main memory.
//
// The tokens of one head lie together, so that a block is 2 * layers * kv_heads runs of tokens * row bytes, with gaps where
// the block is not full. Bytes: each read once and written once; floor: twice the bytes over the bandwidth (of the bus for a
// swap). Form: grid (runs, pieces of a run), 16 bytes per thread and access, four accesses in flight.
// Rejected: cudaMemcpy2DAsync (2 * layers calls, each 2 to 4 us of launch, for 4 KiB runs).
#include "kernels/cuda/conversions.h"
#include "kernels/cuda/kernels.h"

#include <algorithm>

namespace kvloupe::cuda {

namespace {

constexpr unsigned threads = 128;
constexpr unsigned in_flight = 4;

// Run: (layer, keys or values, kv_head); all counts and strides in words.
template <class Word>
__global__ void __launch_bounds__(threads) copy_runs(const BlockCopy copy) {
    KVLOUPE_KERNEL(copy_runs);
    const unsigned head = blockIdx.x % copy.kv_heads;
    const unsigned layer = blockIdx.x / copy.kv_heads / 2;
    const bool values = blockIdx.x / copy.kv_heads % 2 != 0;
    const std::uint64_t row = values ? copy.value_bytes : copy.key_bytes;
    const std::uint64_t begin = head * (copy.block_size * row);
    const std::byte* const from =
        begin + (values ? copy.from.values + layer * copy.from.value_stride : copy.from.keys + layer * copy.from.key_stride);
    std::byte* const to =
        begin + (values ? copy.to.values + layer * copy.to.value_stride : copy.to.keys + layer * copy.to.key_stride);
    const std::uint64_t words = copy.tokens * row / sizeof(Word);
    const std::uint64_t first = std::uint64_t{blockIdx.y} * (threads * in_flight) + threadIdx.x;
    Word held[in_flight] = {};
    KVLOUPE_UNROLL
    for (unsigned i = 0; i < in_flight; ++i)
        if (first + i * threads < words) held[i] = reinterpret_cast<const Word*>(from)[first + i * threads];
    KVLOUPE_UNROLL
    for (unsigned i = 0; i < in_flight; ++i)
        if (first + i * threads < words) reinterpret_cast<Word*>(to)[first + i * threads] = held[i];
}

template <class Word>
cudaError_t copy_words(const BlockCopy& copy, cudaStream_t stream) {
    const std::uint64_t longest = std::uint64_t{copy.tokens} * std::max(copy.key_bytes, copy.value_bytes) / sizeof(Word);
    const std::uint64_t pieces = (longest + threads * in_flight - 1) / (threads * in_flight);
    if (pieces > 65535) return cudaErrorInvalidValue;  // a run of 512 MiB
    return launch(copy_runs<Word>, dim3(copy.layers * 2 * copy.kv_heads, static_cast<unsigned>(pieces)), threads, 0, stream, copy);
}

bool in_words_of(const BlockCopy& copy, std::uint64_t bytes) {
    const auto place = [bytes](const BlockCopy::Place& at) {
        return is_aligned(at.keys, bytes) && is_aligned(at.values, bytes) && at.key_stride % bytes == 0 &&
               at.value_stride % bytes == 0;
    };
    return copy.key_bytes % bytes == 0 && copy.value_bytes % bytes == 0 && place(copy.from) && place(copy.to);
}

}  // namespace

cudaError_t copy_block(const BlockCopy& copy, cudaStream_t stream) {
    if (copy.tokens > copy.block_size) return cudaErrorInvalidValue;
    if (copy.tokens == 0 || copy.layers == 0 || copy.kv_heads == 0 || copy.key_bytes + copy.value_bytes == 0) return cudaSuccess;
    if (in_words_of(copy, 16)) return copy_words<uint4>(copy, stream);
    if (in_words_of(copy, 4)) return copy_words<unsigned>(copy, stream);
    return copy_words<unsigned char>(copy, stream);
}

}  // namespace kvloupe::cuda
