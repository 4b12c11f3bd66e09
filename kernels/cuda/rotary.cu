// SPDX-License-Identifier: GPL-3.0-or-later
//
// Rotary embedding fused with the cache write: q and k are turned in place, k and v go into their slots.
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
#include "kernels/cuda/conversions.h"
#include "kernels/cuda/kernels.h"

#include <algorithm>

namespace kvloupe::cuda {

namespace {

constexpr unsigned threads = 128;
constexpr unsigned heads_per_block = 8;

struct HeadBlocks {
    unsigned of_queries = 0, of_keys = 0;  // blocks in y; those of values follow
    unsigned first = 0;                    // of this launch
};

__device__ __forceinline__ float2 cosine_and_sine(double angle) {
    constexpr double pi = 3.141592653589793238;
    const double half_turns = angle * (1.0 / pi);
    const double reduced = half_turns - 2.0 * rint(half_turns * 0.5);  // exact
    const float near = static_cast<float>(reduced);
    const float rest = static_cast<float>((reduced - static_cast<double>(near)) * pi);
    float sine, cosine;
    sincospif(near, &sine, &cosine);
    return make_float2(fmaf(-sine, rest, cosine), fmaf(cosine, rest, sine));
}

// A number is stored, and counted where it was finite and is not any more.
template <class Element>
__device__ __forceinline__ unsigned becomes_infinite(float value) {
    if constexpr (std::is_same_v<Element, float>) return 0;
    else return isfinite(value) && !isfinite(to_float(from_float<Element>(value))) ? 1u : 0u;
}

template <class Element, unsigned width>
__device__ __forceinline__ unsigned store(Element* to, const float (&values)[width]) {
    unsigned overflowed = 0;
    KVLOUPE_UNROLL
    for (unsigned i = 0; i < width; ++i) overflowed += becomes_infinite<Element>(values[i]);
    if constexpr (width == 4) store_four(to, values);
    else to[0] = from_float<Element>(values[0]);
    return overflowed;
}

template <unsigned width>
__device__ __forceinline__ void load(const float* from, float (&values)[width]) {
    if constexpr (width == 4) load_four(from, values);
    else values[0] = from[0];
}

// Pairs first .. first + width - 1 of a head: where their two halves lie, loaded, turned and stored again.
template <RotaryLayout layout, unsigned width>
struct Pairs {
    float a[width], b[width];

    __device__ __forceinline__ void load_from(const float* head, unsigned first, unsigned half) {
        if constexpr (layout == RotaryLayout::half_split) {
            load(head + first, a);
            load(head + half + first, b);
        } else {
            float low[width], high[width];
            load(head + 2 * first, low);
            load(head + 2 * first + width, high);
            if constexpr (width == 4)
                a[0] = low[0], b[0] = low[1], a[1] = low[2], b[1] = low[3],
                a[2] = high[0], b[2] = high[1], a[3] = high[2], b[3] = high[3];
            else
                a[0] = low[0], b[0] = high[0];
        }
    }
    __device__ __forceinline__ void turn(const float2* turns, unsigned first) {
        KVLOUPE_UNROLL
        for (unsigned i = 0; i < width; ++i) {
            const float2 by = turns[first + i];
            const float x = a[i], y = b[i];
            a[i] = x * by.x - y * by.y;
            b[i] = x * by.y + y * by.x;
        }
    }
    template <class Element>
    __device__ __forceinline__ unsigned store_to(Element* head, unsigned first, unsigned half) const {
        if constexpr (layout == RotaryLayout::half_split) {
            return store(head + first, a) + store(head + half + first, b);
        } else if constexpr (width == 4) {
            const float low[4] = {a[0], b[0], a[1], b[1]}, high[4] = {a[2], b[2], a[3], b[3]};
            return store(head + 2 * first, low) + store(head + 2 * first + 4, high);
        } else {
            return store(head + 2 * first, a) + store(head + 2 * first + 1, b);
        }
    }
};

// Block (row, heads). Element: of the cache. width: pairs per thread and access.
template <class Element, RotaryLayout layout, unsigned width>
__global__ void __launch_bounds__(threads) turn_and_store(const RotaryStore args, const HeadBlocks blocks) {
    KVLOUPE_KERNEL(turn_and_store);
    KVLOUPE_DYNAMIC_SHARED(float2, turns);  // (rotary_dim / 2)
    const CacheLayer& cache = args.cache;
    const unsigned row = blockIdx.x;
    const unsigned half = args.rotary.rotary_dim / 2;
    const unsigned part = blocks.first + blockIdx.y;
    const bool values = part >= blocks.of_queries + blocks.of_keys;  // the same for the whole block
    if (!values) {
        const double position = args.positions[row];
        for (unsigned i = threadIdx.x; i < half; i += threads) {
            const float2 turn = cosine_and_sine(position * args.rotary.frequencies[i]);
            turns[i] = make_float2(turn.x * args.rotary.magnitude, turn.y * args.rotary.magnitude);
        }
        __syncthreads();
    }
    if (part < blocks.of_queries) {
        const unsigned first_head = part * heads_per_block;
        const unsigned heads = min(heads_per_block, args.query_heads - first_head);
        float* const q = args.q + (std::uint64_t{row} * args.query_heads + first_head) * cache.head_dim_k;
        const unsigned pieces = half / width;
        for (unsigned item = threadIdx.x; item < heads * pieces; item += threads) {
            float* const head = q + item / pieces * cache.head_dim_k;
            const unsigned first = item % pieces * width;
            Pairs<layout, width> pairs;
            pairs.load_from(head, first, half);
            pairs.turn(turns, first);
            pairs.store_to(head, first, half);
        }
        return;
    }
    const std::uint64_t slot = args.slots[row];
    const std::uint64_t block = slot / cache.block_size, offset = slot - block * cache.block_size;
    const auto cache_row = [&](unsigned head) { return (block * cache.kv_heads + head) * cache.block_size + offset; };
    unsigned overflowed = 0;
    if (!values) {
        const unsigned first_head = (part - blocks.of_queries) * heads_per_block;
        const unsigned heads = min(heads_per_block, cache.kv_heads - first_head);
        float* const k = args.k + (std::uint64_t{row} * cache.kv_heads + first_head) * cache.head_dim_k;
        Element* const keys = reinterpret_cast<Element*>(cache.keys.data);
        const unsigned turned = half / width, pieces = turned + (cache.head_dim_k - 2 * half) / width;
        for (unsigned item = threadIdx.x; item < heads * pieces; item += threads) {
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
        const unsigned first_head = (part - blocks.of_queries - blocks.of_keys) * heads_per_block;
        const unsigned heads = min(heads_per_block, cache.kv_heads - first_head);
        const float* const v = args.v + (std::uint64_t{row} * cache.kv_heads + first_head) * cache.head_dim_v;
        Element* const stored = reinterpret_cast<Element*>(cache.values.data);
        const unsigned pieces = cache.head_dim_v / width;
        for (unsigned item = threadIdx.x; item < heads * pieces; item += threads) {
            const unsigned head = item / pieces, at = item % pieces * width;
            float four[width];
            load(v + head * cache.head_dim_v + at, four);
            overflowed += store(stored + cache_row(first_head + head) * cache.head_dim_v + at, four);
        }
    }
    if (overflowed > 0) atomicAdd(args.overflowed, static_cast<unsigned long long>(overflowed));  // seldom
}

// Whether four pairs, or four elements, always lie in one aligned piece.
bool takes_four(const RotaryStore& args) {
    const CacheLayer& cache = args.cache;
    return args.rotary.rotary_dim % 8 == 0 && cache.head_dim_k % 4 == 0 && cache.head_dim_v % 4 == 0 && is_aligned(args.q, 16) &&
           is_aligned(args.k, 16) && is_aligned(args.v, 16) && is_aligned(cache.keys.data, 16) && is_aligned(cache.values.data, 16);
}

unsigned blocks_of(std::uint32_t heads) { return (heads + heads_per_block - 1) / heads_per_block; }

// The launch over `count` parts from blocks.first on.
cudaError_t run(const RotaryStore& args, const HeadBlocks& blocks, DType dtype, unsigned count, cudaStream_t stream) {
    const dim3 grid(args.rows, count);
    const std::size_t shared_bytes = args.rotary.rotary_dim / 2 * sizeof(float2);
    const bool four = takes_four(args), split = args.rotary.layout == RotaryLayout::half_split;
    return with_element(dtype, [&](auto element) {
        using Element = decltype(element);
        const auto kernel = split ? (four ? turn_and_store<Element, RotaryLayout::half_split, 4>
                                          : turn_and_store<Element, RotaryLayout::half_split, 1>)
                                  : (four ? turn_and_store<Element, RotaryLayout::adjacent, 4>
                                          : turn_and_store<Element, RotaryLayout::adjacent, 1>);
        return launch(kernel, grid, threads, shared_bytes, stream, args, blocks);
    });
}

}  // namespace

cudaError_t rotary_store(const RotaryStore& args, cudaStream_t stream) {
    const CacheLayer& cache = args.cache;
    if (args.rotary.rotary_dim > cache.head_dim_k || args.rotary.rotary_dim % 2 != 0) return cudaErrorInvalidValue;
    if (args.rows == 0) return cudaSuccess;
    HeadBlocks blocks;
    blocks.of_queries = args.rotary.rotary_dim > 0 ? blocks_of(args.query_heads) : 0;
    blocks.of_keys = blocks_of(cache.kv_heads);
    const unsigned turned = blocks.of_queries + blocks.of_keys, all = turned + blocks.of_keys;
    if (cache.keys.dtype == cache.values.dtype) return run(args, blocks, cache.keys.dtype, all, stream);
    // Keys and values of two precisions: a launch for each.
    if (const cudaError_t error = run(args, blocks, cache.keys.dtype, turned, stream); error != cudaSuccess) return error;
    blocks.first = turned;
    return run(args, blocks, cache.values.dtype, blocks.of_keys, stream);
}

}  // namespace kvloupe::cuda
