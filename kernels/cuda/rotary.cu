// SPDX-License-Identifier: GPL-3.0-or-later
//
// Rotary embedding fused with the cache write: q and k are turned in place, k and v go into their slots. Here caches whose
// elements are numbers by themselves; codes are written by cache_write.cu.
//
// Bytes per row: 8 per element of q and of k that is turned, 4 per element of v (and of what k does not turn), and the cache's
// element per element of k and v. Floor: those over the bandwidth; nothing is read twice.
//
// Form: a block takes a row and eight heads of one kind (q, k or v), so that one row spreads over several multiprocessors
// and many rows share nothing. Its angles are computed once, into shared memory, and used for its eight heads. A thread
// turns four pairs with 16-byte accesses where the shape allows it, one pair otherwise.
//
// Angle of pair i: position * frequency[i], in double half turns reduced to [-1, 1], because f32 would lose every digit of it
// at position 1e6. sincospif takes the f32 part of that; the rest enters by the first-order term, so that sine and cosine
// are right to f32 rounding. Rejected: sincosf (its path for large arguments costs 32 bytes of stack that no reduced angle
// needs); sincos in double (slow where double is); a table of all positions (a read per element that costs what it saves);
// turning k and writing the cache in two kernels (reads k again).
#include "kernels/cuda/cache_write.h"
#include "kernels/cuda/rotary_turn.h"

namespace kvloupe::cuda {

namespace {

struct HeadBlocks {
    unsigned of_queries = 0, of_keys = 0;  // blocks in y; those of values follow
    unsigned first = 0;                    // of this launch
};

// Block (row, heads). Element: of the cache. width: pairs per thread and access.
template <class Element, RotaryLayout layout, unsigned width>
__global__ void __launch_bounds__(turn_threads) turn_and_store(const RotaryStore args, const HeadBlocks blocks) {
    KVLOUPE_KERNEL(turn_and_store);
    KVLOUPE_DYNAMIC_SHARED(float2, turns);  // (rotary_dim / 2)
    const CacheLayer& cache = args.cache;
    const unsigned row = blockIdx.x;
    const unsigned half = args.rotary.rotary_dim / 2;
    const unsigned part = blocks.first + blockIdx.y;
    const bool values = part >= blocks.of_queries + blocks.of_keys;  // the same for the whole block
    if (!values) {
        find_turns(args.rotary, args.positions[row], turns);
        __syncthreads();
    }
    if (part < blocks.of_queries) {
        turn_queries<layout, width>(args, row, part * turn_heads, turns);
        return;
    }
    const std::uint64_t slot = args.slots[row];
    const std::uint64_t block = slot / cache.block_size, offset = slot - block * cache.block_size;
    const auto cache_row = [&](unsigned head) { return (block * cache.kv_heads + head) * cache.block_size + offset; };
    unsigned overflowed = 0;
    if (!values) {
        const unsigned first_head = (part - blocks.of_queries) * turn_heads;
        const unsigned heads = min(turn_heads, cache.kv_heads - first_head);
        float* const k = args.k + (std::uint64_t{row} * cache.kv_heads + first_head) * cache.head_dim_k;
        Element* const keys = reinterpret_cast<Element*>(cache.keys.data);
        const unsigned turned = half / width, pieces = turned + (cache.head_dim_k - 2 * half) / width;
        for (unsigned item = threadIdx.x; item < heads * pieces; item += turn_threads) {
            const unsigned head = item / pieces, piece = item % pieces;
            float* const from = k + head * cache.head_dim_k;
            Element* const to = keys + cache_row(first_head + head) * cache.head_dim_k;
            if (piece < turned) {
                Pairs<layout, width> pairs;
                pairs.load_from(from, piece * width, half);
                pairs.turn(turns, piece * width);
                pairs.store_to(from, piece * width, half);
                overflowed += pairs.store_to(to, piece * width, half);
            } else {
                const unsigned at = 2 * half + (piece - turned) * width;
                float rest[width];
                load(from + at, rest);
                overflowed += store(to + at, rest);
            }
        }
    } else {
        const unsigned first_head = (part - blocks.of_queries - blocks.of_keys) * turn_heads;
        const unsigned heads = min(turn_heads, cache.kv_heads - first_head);
        const float* const v = args.v + (std::uint64_t{row} * cache.kv_heads + first_head) * cache.head_dim_v;
        Element* const stored = reinterpret_cast<Element*>(cache.values.data);
        const unsigned pieces = cache.head_dim_v / width;
        for (unsigned item = threadIdx.x; item < heads * pieces; item += turn_threads) {
            const unsigned head = item / pieces, at = item % pieces * width;
            float four[width];
            load(v + head * cache.head_dim_v + at, four);
            overflowed += store(stored + cache_row(first_head + head) * cache.head_dim_v + at, four);
        }
    }
    if (overflowed > 0) atomicAdd(args.overflowed, static_cast<unsigned long long>(overflowed));  // seldom
}

unsigned blocks_of(std::uint32_t heads) { return parts_of(heads, turn_heads); }

// The launch over `count` parts from blocks.first on.
cudaError_t run(const RotaryStore& args, const HeadBlocks& blocks, DType dtype, unsigned count, cudaStream_t stream) {
    const dim3 grid(args.rows, count);
    const std::size_t shared_bytes = args.rotary.rotary_dim / 2 * sizeof(float2);
    const bool four = turns_fours(args) && is_aligned(args.cache.keys.data, 16) && is_aligned(args.cache.values.data, 16);
    const bool split = args.rotary.layout == RotaryLayout::half_split;
    return with_element(dtype, [&](auto element) {
        using Element = decltype(element);
        const auto kernel = split ? (four ? turn_and_store<Element, RotaryLayout::half_split, 4>
                                          : turn_and_store<Element, RotaryLayout::half_split, 1>)
                                  : (four ? turn_and_store<Element, RotaryLayout::adjacent, 4>
                                          : turn_and_store<Element, RotaryLayout::adjacent, 1>);
        return launch(kernel, grid, turn_threads, shared_bytes, stream, args, blocks);
    });
}

}  // namespace

cudaError_t rotary_store(const RotaryStore& args, cudaStream_t stream) {
    const CacheLayer& cache = args.cache;
    if (args.rotary.rotary_dim > cache.head_dim_k || args.rotary.rotary_dim % 2 != 0) return cudaErrorInvalidValue;
    if (args.rows == 0) return cudaSuccess;
    if (!cache.keys.in_rows || !cache.values.in_rows) return turn_and_quantise_rows(args, stream);
    HeadBlocks blocks;
    blocks.of_queries = args.rotary.rotary_dim > 0 ? blocks_of(args.query_heads) : 0;
    blocks.of_keys = blocks_of(cache.kv_heads);
    const unsigned turned = blocks.of_queries + blocks.of_keys, of_values = cache.head_dim_v > 0 ? blocks.of_keys : 0;
    if (cache.keys.dtype == cache.values.dtype) return run(args, blocks, cache.keys.dtype, turned + of_values, stream);
    // Keys and values of two precisions: a launch for each.
    const cudaError_t error = run(args, blocks, cache.keys.dtype, turned, stream);
    if (error != cudaSuccess || of_values == 0) return error;
    blocks.first = turned;
    return run(args, blocks, cache.values.dtype, of_values, stream);
}

}  // namespace kvloupe::cuda
