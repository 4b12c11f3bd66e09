// SPDX-License-Identifier: GPL-3.0-or-later
//
// Rows of the cache handed out in f32 (an expanded latent, the views), and queries and outputs turned by a Hadamard matrix beside
// a cache whose rows are.
//
// Bytes: codes and scales once, 4 per element written; a turned row of q or out is read and written once, 8 per element: at batch 32
// with 32 heads of 128 1 MB a layer, 0.2 us of an H200's bandwidth, beside two launches. Form: a warp a row, in shared memory where it
// is turned. Rejected: turning queries inside the attention kernels (three of them, each with its own order of elements) and
// outputs in decode's merge (a split's row is spread over warps).
#include "kernels/cuda/attention_common.h"
#include "kernels/cuda/hadamard.h"

namespace kvloupe::cuda {

namespace {

constexpr unsigned read_warps = 4;
constexpr unsigned read_threads = 32 * read_warps;
constexpr unsigned widest_read_row = 4096;  // 64 KiB of shared memory

template <bool values>
__device__ __forceinline__ void read_row(const ReadRows& args, std::uint32_t token, std::uint32_t head, float* row) {
    const HeadRows rows(args.cache, values, head);
    const CacheTensor& tensor = values ? args.cache.values : args.cache.keys;
    const unsigned dim = values ? args.cache.head_dim_v : args.cache.head_dim_k;
    const TokenPlace place = place_of(args.table, args.table_pages, args.first + token, args.cache.block_size);
    for (unsigned i = threadIdx.x % 32; i < dim; i += 32) {
        float element[1];
        rows.load(place, i, element);
        row[i] = element[0];
    }
    if (tensor.rotate) hadamard_row(row, dim);
    __syncwarp();
    float* const out = args.out + token * args.token_stride + head * args.head_stride;
    for (unsigned i = threadIdx.x % 32; i < dim; i += 32) out[i] = row[i];
}

// A warp a (token, head).
__global__ void __launch_bounds__(read_threads) expand_cache_rows(const ReadRows args, const unsigned width) {
    KVLOUPE_KERNEL(expand_cache_rows);
    KVLOUPE_DYNAMIC_SHARED(float, shared);  // (warps, width)
    const std::uint64_t item = std::uint64_t{blockIdx.x} * read_warps + threadIdx.x / 32;
    if (item >= std::uint64_t{args.count} * args.cache.kv_heads) return;
    const auto token = static_cast<std::uint32_t>(item / args.cache.kv_heads), head = static_cast<std::uint32_t>(item % args.cache.kv_heads);
    float* const row = shared + threadIdx.x / 32 * width;
    if (args.values) read_row<true>(args, token, head, row);
    else read_row<false>(args, token, head, row);
}

// A warp a (row, head).
__global__ void __launch_bounds__(read_threads) turn_by_hadamard(const TurnRows args) {
    KVLOUPE_KERNEL(turn_by_hadamard);
    KVLOUPE_DYNAMIC_SHARED(float, shared);  // (warps, width)
    const std::uint64_t item = std::uint64_t{blockIdx.x} * read_warps + threadIdx.x / 32;
    if (item >= std::uint64_t{args.rows} * args.heads) return;
    float* const staged = shared + threadIdx.x / 32 * args.width;
    const float* const from = args.from + item * args.stride + args.first;
    float* const to = args.to + item * args.stride + args.first;
    std::uint32_t dropped = 0;
    if (args.positions != nullptr) dropped = dropped_keys(args.span, visible_keys(args.span, args.positions[item / args.heads]));
    for (unsigned i = threadIdx.x % 32; i < args.width; i += 32) staged[i] = turned_back(from, i, args.rotary, dropped);
    if (args.hadamard) hadamard_row(staged, args.width);
    __syncwarp();
    for (unsigned i = threadIdx.x % 32; i < args.width; i += 32) to[i] = staged[i];
}

unsigned blocks_for(std::uint64_t rows) { return static_cast<unsigned>((rows + read_warps - 1) / read_warps); }

}  // namespace

cudaError_t read_rows(const ReadRows& args, cudaStream_t stream) {
    const CacheLayer& cache = args.cache;
    const CacheTensor& tensor = args.values ? cache.values : cache.keys;
    const std::uint32_t dim = args.values ? cache.head_dim_v : cache.head_dim_k;
    if (cache.block_size == 0 || cache.kv_heads == 0 || dim == 0 || dim > widest_read_row || !readable(tensor) || (tensor.rotate && !turnable(dim)))
        return cudaErrorInvalidValue;
    if (args.count == 0) return cudaSuccess;
    return launch(expand_cache_rows, blocks_for(std::uint64_t{args.count} * cache.kv_heads), read_threads, read_warps * dim * sizeof(float), stream, args, dim);
}

cudaError_t turn_rows(const TurnRows& args, cudaStream_t stream) {
    if (args.hadamard ? !turnable(args.width) : args.width > 1024) return cudaErrorInvalidValue;
    if (args.rotary.rotary_dim > args.width || args.first + std::uint64_t{args.width} > args.stride) return cudaErrorInvalidValue;
    if (args.rows == 0 || args.heads == 0) return cudaSuccess;
    return launch(turn_by_hadamard, blocks_for(std::uint64_t{args.rows} * args.heads), read_threads, read_warps * args.width * sizeof(float), stream, args);
}

}  // namespace kvloupe::cuda
