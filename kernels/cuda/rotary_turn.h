// SPDX-License-Identifier: GPL-3.0-or-later
//
// Rotary embedding on the device: angles, pairs of a head, the queries of a block. What every kernel that writes K and V shares
// (rotary.cu: precisions that are numbers by themselves; cache_write.cu: codes). Reasons: rotary.cu.
#pragma once

#include "kernels/cuda/conversions.h"
#include "kernels/cuda/kernels.h"

namespace kvloupe::cuda {

inline constexpr unsigned turn_threads = 128;
inline constexpr unsigned turn_heads = 8;  // of a block

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

// The angles of a row, into shared memory, by all threads of a block; a barrier follows.
__device__ __forceinline__ void find_turns(const RotaryArgs& rotary, double position, float2* turns) {
    for (unsigned i = threadIdx.x; i < rotary.rotary_dim / 2; i += turn_threads) {
        const float2 turn = cosine_and_sine(position * rotary.frequencies[i]);
        turns[i] = make_float2(turn.x * rotary.magnitude, turn.y * rotary.magnitude);
    }
}

// The first 2 * half values of `heads` heads that lie `stride` floats apart, by all threads of a block.
template <RotaryLayout layout, unsigned width>
__device__ __forceinline__ void turn_some_heads(float* x, unsigned heads, unsigned stride, unsigned half, const float2* turns) {
    const unsigned pieces = half / width;
    for (unsigned item = threadIdx.x; item < heads * pieces; item += turn_threads) {
        float* const head = x + item / pieces * stride;
        const unsigned first = item % pieces * width;
        Pairs<layout, width> pairs;
        pairs.load_from(head, first, half);
        pairs.turn(turns, first);
        pairs.store_to(head, first, half);
    }
}

// Queries first_head .. of a row, turn_heads of them.
template <RotaryLayout layout, unsigned width>
__device__ __forceinline__ void turn_queries(const RotaryStore& args, std::uint32_t row, unsigned first_head, const float2* turns) {
    const unsigned head_dim = args.cache.head_dim_k, heads = min(turn_heads, args.query_heads - first_head);
    float* const q = args.q + (std::uint64_t{row} * args.query_heads + first_head) * head_dim;
    turn_some_heads<layout, width>(q, heads, head_dim, args.rotary.rotary_dim / 2, turns);
}

// Whether four pairs, or four elements, of q, k and v always lie in one aligned piece.
inline bool turns_fours(const RotaryStore& args) {
    return args.rotary.rotary_dim % 8 == 0 && args.cache.head_dim_k % 4 == 0 && args.cache.head_dim_v % 4 == 0 && is_aligned(args.q, 16) &&
           is_aligned(args.k, 16) && is_aligned(args.v, 16);
}

// Parts of a grid's second dimension: of queries, then of keys, then of values.
inline unsigned parts_of(std::uint32_t heads, unsigned heads_per_part) { return (heads + heads_per_part - 1) / heads_per_part; }

}  // namespace kvloupe::cuda
