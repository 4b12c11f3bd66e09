// SPDX-License-Identifier: GPL-3.0-or-later
//
// What the attention kernels share: which keys a query sees, where their rows lie, a query turned back for sink keys,
// f32 values cut into 16-bit parts, and softmax states that are merged.
//
// Exact products of 16-bit rows on tensor cores. Keys and values are f16 or bf16 as they are stored; the other factor
// (queries, weights) is f32. It is cut into parts of the cache's type whose sum it is: two of f16 (11 bits each), three
// of bf16 (8 bits each). Products of two such numbers are exact in f32, so that only the sums round.
#pragma once

#include "kernels/cuda/cache_rows.h"
#include "kernels/cuda/kernels.h"

#include <cmath>
#include <cstdint>
#include <cstring>

namespace kvloupe::cuda {

// --- keys ---

// The device's twin of SeenKeys: positions 0 .. sinks - 1 and begin .. end - 1, with sinks <= begin <= end.
struct VisibleKeys {
    std::uint32_t sinks = 0;
    std::uint32_t begin = 0;
    std::uint32_t end = 0;  // the query's position + 1

    __device__ bool sees(std::uint32_t key) const { return key < sinks || (key >= begin && key < end); }
};

// KeySpan::seen().
__device__ inline VisibleKeys visible_keys(const KeySpan& span, std::uint32_t position) {
    VisibleKeys keys;
    keys.end = position + 1;
    if (span.window > 0 && keys.end > span.window) keys.begin = keys.end - span.window;
    if (span.chunk > 0) keys.begin = position - position % span.chunk;
    if (span.window > 0) keys.sinks = span.sinks < keys.begin ? span.sinks : keys.begin;
    return keys;
}

// KeySpan::dropped().
__device__ inline std::uint32_t dropped_keys(const KeySpan& span, const VisibleKeys& keys) {
    return span.rank && keys.sinks > 0 ? keys.begin - keys.sinks : 0;
}

// Rows of one KV head in a layer's keys or values, counted in rows of head_dim elements; fewer than 2^32, as CacheLayer
// says.
struct KeyRows {
    const std::uint32_t* table = nullptr;  // of the sequence
    const std::uint32_t* pages = nullptr;  // of the sequence, or null
    std::uint32_t block_size = 0;
    std::uint32_t kv_heads = 0;
    std::uint32_t kv_head = 0;

    // Reads the table entry of the position's block: only for positions that some query sees.
    __device__ std::uint32_t row(std::uint32_t position) const {
        const std::uint32_t block = position / block_size;
        return (table[block] * kv_heads + kv_head) * block_size + (position - block * block_size);
    }
    // The same for any precision (cache_rows.h).
    __device__ TokenPlace place(std::uint32_t position) const { return place_of(table, pages, position, block_size); }
};

// --- queries ---

// Of a query, and of an output.
__host__ __device__ inline std::uint32_t query_dim(const AttentionArgs& args) {
    return args.latent ? args.cache.head_dim_k + args.cache.head_dim_v : args.cache.head_dim_k;
}
__host__ __device__ inline std::uint32_t out_dim(const AttentionArgs& args) {
    return args.latent ? args.cache.head_dim_k : args.cache.head_dim_v;
}

struct CosineSine {
    double cosine = 1;
    double sine = 0;
};

// Of an angle in radians, to 1e-14 of the unit circle beside the angle's own rounding. Written out because the
// library's functions keep a table for huge angles in local memory, which the compiler reports as a stack frame. Taylor
// series after reduction to 1/8 of a turn.
__device__ inline CosineSine cosine_sine(double angle) {
    const double turns = angle * 0.15915494309189533577;  // 1 / (2 pi)
    const double quarters = rint(4 * turns);
    const double x = (4 * turns - quarters) * 1.57079632679489661923;
    const double y = x * x;
    const double sine_end = -1.0 / 39916800 + y * (1.0 / 6227020800.0 - y / 1307674368000.0);
    const double sine = x * (1 + y * (-1.0 / 6 + y * (1.0 / 120 + y * (-1.0 / 5040 + y * (1.0 / 362880 + y * sine_end)))));
    const double cosine_end =
        -1.0 / 3628800 + y * (1.0 / 479001600.0 + y * (-1.0 / 87178291200.0 + y / 20922789888000.0));
    const double cosine =
        1 + y * (-1.0 / 2 + y * (1.0 / 24 + y * (-1.0 / 720 + y * (1.0 / 40320 + y * cosine_end))));
    switch (static_cast<long long>(quarters) & 3) {
    case 0: return {cosine, sine};
    case 1: return {-sine, cosine};
    case 2: return {-cosine, -sine};
    default: return {sine, -cosine};
    }
}

// Element `index` of a query (head_dim) as sink keys see it that are read by rank, `dropped` positions further on:
// turning the query back by as much gives the same products as turning the keys forward.
__device__ inline float turned_back(const float* query, std::uint32_t index, const RotaryArgs& rotary,
                                    std::uint32_t dropped) {
    if (dropped == 0 || index >= rotary.rotary_dim) return query[index];
    const bool adjacent = rotary.layout == RotaryLayout::adjacent;
    const std::uint32_t half = rotary.rotary_dim / 2;
    const std::uint32_t pair = adjacent ? index / 2 : index % half;
    const bool first = adjacent ? index % 2 == 0 : index < half;
    const double a = query[adjacent ? 2 * pair : pair], b = query[adjacent ? 2 * pair + 1 : pair + half];
    const CosineSine turn = cosine_sine(dropped * rotary.frequencies[pair]);
    return static_cast<float>(first ? a * turn.cosine + b * turn.sine : b * turn.cosine - a * turn.sine);
}

// The same of one of the batch's queries, which may have been turned beforehand.
__device__ inline float as_sinks_see(const AttentionArgs& args, const float* query, std::uint32_t index, std::uint32_t dropped) {
    if (args.sink_q != nullptr && dropped > 0) return args.sink_q[query - args.q + index];
    const std::uint32_t first = args.latent ? args.cache.head_dim_k : 0;  // a latent has no position
    return index < first ? query[index] : turned_back(query + first, index - first, args.rotary, dropped);
}

// --- cells of 16 bits ---

// Two neighbours in one word, the first in the low half, as the tensor cores take them.
template <class T>
__device__ inline std::uint32_t pack_pair(float first, float second);
template <>
__device__ inline std::uint32_t pack_pair<__half>(float first, float second) {
    const __half2 pair = __floats2half2_rn(first, second);
    std::uint32_t bits;
    memcpy(&bits, &pair, sizeof bits);
    return bits;
}
template <>
__device__ inline std::uint32_t pack_pair<__nv_bfloat16>(float first, float second) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
    std::uint32_t bits;
    memcpy(&bits, &pair, sizeof bits);
    return bits;
}

template <class T>
__device__ inline float first_of(std::uint32_t pair);
template <>
__device__ inline float first_of<__half>(std::uint32_t pair) {
    return __half2float(__ushort_as_half(static_cast<unsigned short>(pair & 0xFFFFu)));
}
template <>
__device__ inline float first_of<__nv_bfloat16>(std::uint32_t pair) {
    return __uint_as_float(pair << 16);
}

template <class T>
__device__ inline float second_of(std::uint32_t pair);
template <>
__device__ inline float second_of<__half>(std::uint32_t pair) {
    return __half2float(__ushort_as_half(static_cast<unsigned short>(pair >> 16)));
}
template <>
__device__ inline float second_of<__nv_bfloat16>(std::uint32_t pair) {
    return __uint_as_float(pair & 0xFFFF0000u);
}

// The first (second) cells of two words, a's below b's: one instruction.
__device__ inline std::uint32_t first_cells(std::uint32_t a, std::uint32_t b) {
#if defined(__CUDACC__)
    return __byte_perm(a, b, 0x5410);
#else
    return (a & 0xFFFFu) | (b << 16);
#endif
}
__device__ inline std::uint32_t second_cells(std::uint32_t a, std::uint32_t b) {
#if defined(__CUDACC__)
    return __byte_perm(a, b, 0x7632);
#else
    return (a >> 16) | (b & 0xFFFF0000u);
#endif
}

// Takes the next part out of two values: what is left of them is what the part's rounding lost.
template <class T>
__device__ inline std::uint32_t take_part(float& first, float& second) {
    const std::uint32_t part = pack_pair<T>(first, second);
    first -= first_of<T>(part);
    second -= second_of<T>(part);
    return part;
}

// Whether the general kernels take them: values of up to 256, with a latent up to 512 beside keys of up to 768.
inline bool widths_fit(const AttentionArgs& args) {
    const std::uint32_t query = query_dim(args), out = out_dim(args);
    if (args.latent) return args.cache.kv_heads == 1 && out > 0 && out <= 512 && query <= 768;
    return query > 0 && query <= 256 && out > 0 && out <= 256;
}

// --- softmax states ---

// Weights are powers of two: scores are multiplied by log2(e) once, with the scale.
inline constexpr float log2_e = 1.4426950408889634f;

// cap: 0, scores stay. Both may be in powers of two alike.
__device__ inline float capped_score(float score, float cap) { return cap == 0 ? score : cap * tanhf(score / cap); }

// What a state counts where another one has the larger maximum. A state without keys (sum 0) has the maximum -infinity
// and counts nothing; so does everything where no state has a key.
__device__ inline float merge_weight(float own_maximum, float largest) {
    return own_maximum == -INFINITY ? 0.0f : exp2f(own_maximum - largest);
}

}  // namespace kvloupe::cuda
