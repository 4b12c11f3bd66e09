// SPDX-License-Identifier: GPL-3.0-or-later
//
// Attention of the queries of one KV head over one tile of up to 256 tokens.
//
// A tile is a fixed run of positions, independent of block borders, and its tokens are reached by their rows' addresses: the
// arithmetic is the same whatever the block size, which is what makes results equal bit for bit.
// Codes of 8 bits and packs are widened to f32 in registers; a token's scale multiplies its score, or its weight before the
// values are added: once per token, not per element. Rejected: products of 8-bit integers, which need a query in 8 bits.
// Scores: a key row is expanded once into registers and multiplied with every query that reads it; the partial sums of as
// many tokens as a vector has lanes are then added crosswise, which costs three instructions per score instead of a
// horizontal sum each. Values: sixteen sums stay in registers over all tokens, of four queries times four vectors of the
// head, or of eight times two.
// Rejected: one running softmax over tiles of a few tokens (rescales the output far more often); transposing keys on the
// way into the cache (every other reader of the cache would pay). Tried: twelve queries at once (no faster than eight).
#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention_tile.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/packs-inl.h"
#include "kernels/cpu/simd-inl.h"

#include <algorithm>
#include <cmath>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace kvloupe::cpu::HWY_NAMESPACE {

// Adds vectors v[0 .. lanes - 1] crosswise: lane i of the result is the sum of v[i]'s lanes.
template <class D>
HWY_INLINE hn::Vec<D> sums_of(D d, hn::Vec<D>* v) {
#if HWY_TARGET != HWY_SCALAR
    if constexpr (hn::MaxLanes(D()) > 1)
        for (std::size_t count = hn::MaxLanes(d) / 2; count > 0; count /= 2)
            for (std::size_t i = 0; i < count; ++i)
                v[i] = hn::Add(hn::ConcatEven(d, v[2 * i + 1], v[2 * i]), hn::ConcatOdd(d, v[2 * i + 1], v[2 * i]));
#endif
    (void)d;
    return v[0];
}

// Rows of a cache lie in blocks of a few KiB each, in any order: the processor's own prefetching starts anew with every
// block. So the row of a later token is fetched while this one is read: as many tokens ahead as make about this many bytes.
constexpr std::size_t bytes_ahead = 4096;

template <class T>
HWY_INLINE std::uint32_t tokens_ahead(T type, std::uint32_t head_dim) {
    return static_cast<std::uint32_t>(std::clamp<std::size_t>(bytes_ahead / bytes_of(type, head_dim), 4, 32));
}

HWY_INLINE void fetch(const std::byte* from, std::size_t bytes) {
    for (std::size_t at = 0; at < bytes; at += 64) __builtin_prefetch(from + at, 0, 3);
}

// Multiplies S vectors of a key row, from element `at` on, with every query; lanes[query][token] takes the partial sums.
template <int S, bool First, class D, class T>
HWY_INLINE void score_slice(D d, T type, const std::byte* key, const AttentionTile& tile, const float* queries,
                            std::uint32_t at, float* lanes) {
    constexpr std::size_t n = hn::MaxLanes(D());
    hn::Vec<D> k[S];
    for (int s = 0; s < S; ++s)
        k[s] = load_at(d, type, key, at + static_cast<std::size_t>(s) * n);
    for (std::uint32_t m = 0; m < tile.queries; ++m) {
        const float* q = queries + std::size_t{m} * tile.head_dim + at;
        float* sum = lanes + std::size_t{m} * n * n;
        auto total = First ? hn::Mul(k[0], hn::LoadU(d, q)) : hn::MulAdd(k[0], hn::LoadU(d, q), hn::Load(d, sum));
        for (int s = 1; s < S; ++s) total = hn::MulAdd(k[s], hn::LoadU(d, q + static_cast<std::size_t>(s) * n), total);
        hn::Store(total, d, sum);
    }
}

// Scores of tokens first + from .. first + to - 1, by the queries given, into the rows of lanes (queries, n, n).
template <class D, class T>
HWY_INLINE void score_tokens(D d, T type, const AttentionTile& tile, const float* queries, std::uint32_t first,
                             std::uint32_t from, std::uint32_t to, float* lanes) {
    constexpr std::uint32_t n = hn::MaxLanes(D());
    const std::uint32_t ahead = tokens_ahead(type, tile.head_dim);
    const std::byte* const* rows = tile.keys.rows + first;
    // Tokens between sinks and window have no row.
    const auto has_row = [&](std::uint32_t t) { return t < tile.any.end && (t >= tile.any.begin || t < tile.any.sinks); };
    for (std::uint32_t j = from; j < to; ++j) {
        if (has_row(first + j + ahead)) fetch(rows[j + ahead], bytes_of(type, tile.head_dim));
        const std::byte* key = rows[j];
        float* row = lanes + std::size_t{j} * n;
        std::uint32_t at = 0;
        if (4 * n <= tile.head_dim) {
            score_slice<4, true>(d, type, key, tile, queries, 0, row);
            at = 4 * n;
        } else {
            score_slice<1, true>(d, type, key, tile, queries, 0, row);
            at = n;
        }
        for (; at + 4 * n <= tile.head_dim; at += 4 * n) score_slice<4, false>(d, type, key, tile, queries, at, row);
        for (; at < tile.head_dim; at += n) score_slice<1, false>(d, type, key, tile, queries, at, row);
    }
}

template <class D, class T>
void scores(D d, T type, const AttentionTile& tile, float* scratch) {
    constexpr std::uint32_t n = hn::MaxLanes(D());
    float* lanes = scratch + std::size_t{tile_queries} * tile_tokens;
    const auto scale = hn::Set(d, tile.scale);
    const TileSpan& any = tile.any;
    for (std::uint32_t t = 0; t < any.end; t += n) {
        // Of these n tokens: 0 .. sinks - 1 and begin .. end - 1.
        const std::uint32_t end = std::min(n, any.end - t);
        const std::uint32_t begin = any.begin <= t ? 0 : std::min(end, any.begin - t);
        const std::uint32_t sinks = any.sinks <= t ? 0 : std::min(n, any.sinks - t);
        if (sinks == 0 && begin == end) continue;
        score_tokens(d, type, tile, tile.sink_q, t, 0, sinks, lanes);
        score_tokens(d, type, tile, tile.q, t, begin, end, lanes);
        const auto factor = tile.keys.scales == nullptr ? scale : hn::Mul(scale, hn::LoadU(d, tile.keys.scales + t));
        for (std::uint32_t m = 0; m < tile.queries; ++m) {
            hn::Vec<D> v[n];
            for (std::uint32_t j = 0; j < n; ++j)
                v[j] = j < sinks || (j >= begin && j < end) ? hn::Load(d, lanes + (std::size_t{m} * n + j) * n) : hn::Zero(d);
            hn::StoreU(hn::Mul(sums_of(d, v), factor), d, scratch + std::size_t{m} * tile_tokens + t);
        }
    }
}

// Scores of what a query sees become exp(score - maximum); others in the same vectors become 0. The rest is not touched.
template <class D>
void soften(D d, float* score, const TileSpan& seen, float& maximum, float& sum) {
    const auto n = static_cast<std::uint32_t>(hn::Lanes(d));
    const float infinity = std::numeric_limits<float>::infinity();
    if (seen.count() == 0) {
        maximum = -infinity;
        sum = 0;
        return;
    }
    // Whole vectors: 0 .. sinks_end - 1 and begin .. end - 1.
    const std::uint32_t sinks_end = (seen.sinks + n - 1) / n * n;
    const std::uint32_t begin = std::max(sinks_end, seen.begin / n * n);
    const std::uint32_t end = (seen.end + n - 1) / n * n;
    for (std::uint32_t t = seen.sinks; t < std::min(sinks_end, seen.begin); ++t) score[t] = -infinity;
    for (std::uint32_t t = begin; t < seen.begin; ++t) score[t] = -infinity;
    for (std::uint32_t t = seen.end; t < end; ++t) score[t] = -infinity;
    auto highest = hn::Set(d, -infinity);
    for (std::uint32_t t = 0; t < sinks_end; t += n) highest = hn::Max(highest, hn::Load(d, score + t));
    for (std::uint32_t t = begin; t < end; t += n) highest = hn::Max(highest, hn::Load(d, score + t));
    maximum = hn::GetLane(hn::MaxOfLanes(d, highest));
    const auto top = hn::Set(d, maximum);
    auto total = hn::Zero(d);
    const auto soften_vector = [&](float* at) {
        const auto e = exp_f32(d, hn::Sub(hn::Load(d, at), top));
        total = hn::Add(total, e);
        hn::Store(e, d, at);
    };
    for (std::uint32_t t = 0; t < sinks_end; t += n) soften_vector(score + t);
    for (std::uint32_t t = begin; t < end; t += n) soften_vector(score + t);
    sum = hn::GetLane(hn::SumOfLanes(d, total));
}

// Weights of what a query sees are multiplied with the tokens' scales; others in the same vectors are spoilt.
template <class D>
void scale_weights(D d, const float* scales, const TileSpan& seen, float* weights) {
    const auto n = static_cast<std::uint32_t>(hn::Lanes(d));
    const auto scale = [&](std::uint32_t t) { hn::Store(hn::Mul(hn::Load(d, weights + t), hn::Load(d, scales + t)), d, weights + t); };
    const std::uint32_t sinks_end = (seen.sinks + n - 1) / n * n;
    for (std::uint32_t t = 0; t < sinks_end; t += n) scale(t);
    for (std::uint32_t t = std::max(sinks_end, seen.begin / n * n); t < seen.end; t += n) scale(t);
}

// sums (M, S) += weight * v over tokens from .. to - 1, for M queries and S vectors of the head from element `at` on.
template <int M, int S, class D, class T>
HWY_INLINE void add_values(D d, T type, const AttentionTile& tile, const float* weights, std::uint32_t from,
                           std::uint32_t to, std::uint32_t at, hn::Vec<D>* sums, bool first_queries = false) {
    constexpr std::size_t n = hn::MaxLanes(D());
    // The first queries fetch for all: the others find the tile in the second-level cache.
    const std::uint32_t ahead = first_queries ? tokens_ahead(type, tile.value_dim) : to;
    for (std::uint32_t t = from; t < to; ++t) {
        if (t + ahead < to) fetch(tile.values.rows[t + ahead] + bytes_of(type, at), bytes_of(type, S * n));
        hn::Vec<D> v[S];
        for (int s = 0; s < S; ++s) v[s] = load_at(d, type, tile.values.rows[t], at + static_cast<std::size_t>(s) * n);
        for (int m = 0; m < M; ++m) {
            const auto w = hn::Set(d, weights[static_cast<std::size_t>(m) * tile_tokens + t]);
            for (int s = 0; s < S; ++s) sums[m * S + s] = hn::MulAdd(w, v[s], sums[m * S + s]);
        }
    }
}

// Tokens that M queries see alike: 0 .. sinks - 1 and begin .. end - 1.
template <int M>
HWY_INLINE TileSpan seen_by_all(const TileSpan* seen) {
    TileSpan common = seen[0];
    for (int m = 1; m < M; ++m) {
        common.sinks = std::min(common.sinks, seen[m].sinks);
        common.begin = std::max(common.begin, seen[m].begin);
        common.end = std::min(common.end, seen[m].end);
    }
    common.end = std::max(common.begin, common.end);
    return common;
}

// value[m][at ..] = sum over tokens of weight * v, for M queries and S vectors of the head. Every query adds what it sees
// in ascending order, whatever the others see: what a query does not see must not touch it, not even times zero.
template <int M, int S, class D, class T>
void value_slice(D d, T type, const AttentionTile& tile, const float* weights, std::uint32_t first, std::uint32_t at,
                 float* value) {
    constexpr std::size_t n = hn::MaxLanes(D());
    hn::Vec<D> sums[M * S];
    for (int k = 0; k < M * S; ++k) sums[k] = hn::Zero(d);
    const TileSpan* seen = tile.seen + first;
    const float* p = weights + std::size_t{first} * tile_tokens;
    const TileSpan common = seen_by_all<M>(seen);
    add_values<M, S>(d, type, tile, p, 0, common.sinks, at, sums);
    for (int m = 0; m < M; ++m) {
        const float* own = p + static_cast<std::size_t>(m) * tile_tokens;
        add_values<1, S>(d, type, tile, own, common.sinks, seen[m].sinks, at, sums + m * S);
        add_values<1, S>(d, type, tile, own, seen[m].begin, std::min(seen[m].end, common.begin), at, sums + m * S);
    }
    add_values<M, S>(d, type, tile, p, common.begin, common.end, at, sums, first == 0);
    for (int m = 0; m < M; ++m)
        add_values<1, S>(d, type, tile, p + static_cast<std::size_t>(m) * tile_tokens, std::max(seen[m].begin, common.end),
                         seen[m].end, at, sums + m * S);
    for (int m = 0; m < M; ++m)
        for (int s = 0; s < S; ++s)
            hn::StoreU(sums[m * S + s], d,
                       value + (std::size_t{first} + static_cast<std::size_t>(m)) * tile.value_dim + at +
                           static_cast<std::size_t>(s) * n);
}

template <int M, class D, class T>
void value_rows(D d, T type, const AttentionTile& tile, const float* weights, std::uint32_t first, float* value) {
    constexpr std::uint32_t n = hn::MaxLanes(D());
    std::uint32_t at = 0;
    if constexpr (M > 4) {
        for (; at + 2 * n <= tile.value_dim; at += 2 * n) value_slice<M, 2>(d, type, tile, weights, first, at, value);
        for (; at < tile.value_dim; at += n) value_slice<M, 1>(d, type, tile, weights, first, at, value);
        return;
    }
    for (; at + 4 * n <= tile.value_dim; at += 4 * n) value_slice<M, 4>(d, type, tile, weights, first, at, value);
    for (; at < tile.value_dim; at += n) value_slice<M, 1>(d, type, tile, weights, first, at, value);
}

template <class D, class T>
void values(D d, T type, const AttentionTile& tile, const float* weights, float* value) {
    std::uint32_t m = 0;
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
    // With 32 registers, eight queries share each expanded value.
    for (; m + 8 <= tile.queries; m += 8) value_rows<8>(d, type, tile, weights, m, value);
#endif
    for (; m + 4 <= tile.queries; m += 4) value_rows<4>(d, type, tile, weights, m, value);
    if (tile.queries - m == 3) value_rows<3>(d, type, tile, weights, m, value);
    if (tile.queries - m == 2) value_rows<2>(d, type, tile, weights, m, value);
    if (tile.queries - m == 1) value_rows<1>(d, type, tile, weights, m, value);
}

// Calls f(d, type) with the element type of rows and the longest vectors that divide the head.
template <class F>
HWY_INLINE void with_rows(DType dtype, std::uint32_t head_dim, F&& f) {
    const hn::CappedTag<float, 16> widest;
    const hn::CappedTag<float, 8> eight;
    const auto with_lanes = [&](auto type) {
        if (head_dim % hn::MaxLanes(widest) == 0) return f(widest, type);
        if (head_dim % hn::MaxLanes(eight) == 0) return f(eight, type);
        f(hn::CappedTag<float, 1>(), type);
    };
    switch (dtype) {
    case DType::f32: return with_lanes(F32{});
    case DType::f16: return with_lanes(F16{});
    case DType::bf16: return with_lanes(BF16{});
    case DType::int8: return with_lanes(I8{});
    case DType::fp8_e4m3: return with_lanes(E4M3{});
    case DType::fp8_e5m2: return with_lanes(E5M2{});
    // Packs are read in place only where they divide the head.
    case DType::q8_0: return f(widest, Pack<DType::q8_0>{});
    case DType::q5_1: return f(widest, Pack<DType::q5_1>{});
    case DType::q5_0: return f(widest, Pack<DType::q5_0>{});
    case DType::q4_1: return f(widest, Pack<DType::q4_1>{});
    case DType::q4_0: return f(widest, Pack<DType::q4_0>{});
    default: return;
    }
}

// The scores of the rest of the keys are added, then the cap is laid on. In whole vectors, as soften() takes them: what no
// query sees in them is never looked at.
template <class D>
void complete_scores(D d, const AttentionTile& tile, const float* rest, float* scores) {
    const auto n = static_cast<std::uint32_t>(hn::Lanes(d));
    const auto cap = hn::Set(d, tile.soft_cap);
    const std::uint32_t sinks_end = (tile.any.sinks + n - 1) / n * n;
    const std::uint32_t begin = std::max(sinks_end, tile.any.begin / n * n);
    for (std::uint32_t m = 0; m < tile.queries; ++m) {
        const std::size_t row = std::size_t{m} * tile_tokens;
        const auto complete = [&](std::size_t t) HWY_ATTR {
            auto score = hn::LoadU(d, scores + row + t);
            if (rest != nullptr) score = hn::Add(score, hn::LoadU(d, rest + row + t));
            if (tile.soft_cap != 0) score = hn::Mul(cap, tanh_f32(d, hn::Div(score, cap)));
            hn::StoreU(score, d, scores + row + t);
        };
        for (std::uint32_t t = 0; t < sinks_end; t += n) complete(t);
        for (std::uint32_t t = begin; t < tile.any.end; t += n) complete(t);
    }
}

void tile_scores_simd(const AttentionTile& tile, float* scratch) {
    const auto of_part = [](const AttentionTile& part, float* to) {
        with_rows(part.keys.dtype, part.head_dim, [&](auto d, auto type) { scores(d, type, part, to); });
    };
    of_part(tile, scratch);
    if (tile.rest == nullptr && tile.soft_cap == 0) return;
    float* more = scratch + tile_part_floats;
    if (tile.rest != nullptr) of_part(*tile.rest, more);
    complete_scores(hn::CappedTag<float, 16>(), tile, tile.rest != nullptr ? more : nullptr, scratch);
}

void weigh_tile_simd(const AttentionTile& tile, float* weights, float* value) {
    if (tile.values.scales != nullptr)
        for (std::uint32_t m = 0; m < tile.queries; ++m)
            scale_weights(hn::CappedTag<float, 16>(), tile.values.scales, tile.seen[m], weights + std::size_t{m} * tile_tokens);
    with_rows(tile.values.dtype, tile.value_dim, [&](auto d, auto type) { values(d, type, tile, weights, value); });
}

void attend_tile_simd(const AttentionTile& tile, float* scratch, const AttentionState& state) {
    tile_scores_simd(tile, scratch);
    const hn::CappedTag<float, 16> d;
    for (std::uint32_t m = 0; m < tile.queries; ++m)
        soften(d, scratch + std::size_t{m} * tile_tokens, tile.seen[m], state.maximum[m], state.sum[m]);
    weigh_tile_simd(tile, scratch, state.value);
}

void join_states_simd(const AttentionState& state, const AttentionState& later, std::uint32_t queries,
                      std::uint32_t value_dim) {
    const hn::ScalableTag<float> d;
    const auto n = static_cast<std::uint32_t>(hn::Lanes(d));
    for (std::uint32_t m = 0; m < queries; ++m) {
        if (later.sum[m] == 0) continue;  // nothing seen: a sum is at least exp(0) otherwise, or NaN
        const float top = std::max(state.maximum[m], later.maximum[m]);
        const float a = state.sum[m] == 0 ? 0.0f : std::exp(state.maximum[m] - top);
        const float b = std::exp(later.maximum[m] - top);
        float* value = state.value + std::size_t{m} * value_dim;
        const float* added = later.value + std::size_t{m} * value_dim;
        const auto va = hn::Set(d, a), vb = hn::Set(d, b);
        std::uint32_t i = 0;
        for (; i + n <= value_dim; i += n)
            hn::StoreU(hn::MulAdd(hn::LoadU(d, value + i), va, hn::Mul(hn::LoadU(d, added + i), vb)), d, value + i);
        for (; i < value_dim; ++i) value[i] = value[i] * a + added[i] * b;
        state.sum[m] = state.sum[m] * a + later.sum[m] * b;
        state.maximum[m] = top;
    }
}

void finish_state_simd(const AttentionState& state, std::uint32_t query, std::uint32_t value_dim, float* out) {
    const hn::ScalableTag<float> d;
    const auto n = static_cast<std::uint32_t>(hn::Lanes(d));
    const float* value = state.value + std::size_t{query} * value_dim;
    const float inverse = 1.0f / state.sum[query];
    const auto factor = hn::Set(d, inverse);
    std::uint32_t i = 0;
    for (; i + n <= value_dim; i += n) hn::StoreU(hn::Mul(hn::LoadU(d, value + i), factor), d, out + i);
    for (; i < value_dim; ++i) out[i] = value[i] * inverse;
}

}  // namespace kvloupe::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvloupe::cpu {

HWY_EXPORT(tile_scores_simd);
HWY_EXPORT(attend_tile_simd);
HWY_EXPORT(weigh_tile_simd);
HWY_EXPORT(join_states_simd);
HWY_EXPORT(finish_state_simd);

void tile_scores(const AttentionTile& tile, float* scratch) { HWY_DYNAMIC_DISPATCH(tile_scores_simd)(tile, scratch); }
void attend_tile(const AttentionTile& tile, float* scratch, const AttentionState& state) {
    HWY_DYNAMIC_DISPATCH(attend_tile_simd)(tile, scratch, state);
}
void weigh_tile(const AttentionTile& tile, float* weights, float* value) {
    HWY_DYNAMIC_DISPATCH(weigh_tile_simd)(tile, weights, value);
}
void join_states(const AttentionState& state, const AttentionState& later, std::uint32_t queries, std::uint32_t value_dim) {
    HWY_DYNAMIC_DISPATCH(join_states_simd)(state, later, queries, value_dim);
}
void finish_state(const AttentionState& state, std::uint32_t query, std::uint32_t value_dim, float* out) {
    HWY_DYNAMIC_DISPATCH(finish_state_simd)(state, query, value_dim, out);
}

}  // namespace kvloupe::cpu
#endif
