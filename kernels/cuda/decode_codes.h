// SPDX-License-Identifier: GPL-3.0-or-later
//
// Decode attention over codes with one scale a token (or head, or tensor): int8, fp8 and int4, K and V in one precision, on
// tensor cores. The form is that of decode_tensor.h; here is what differs, and why.
//
// Bytes: codes and scales of the keys that are seen, once per KV head and pass of 8 heads: at head 128 132 bytes a row for int8,
// 128 for fp8 with fixed scales, 68 for int4, where f16 has 256. A warp's tile is 32 keys (16 of 256 elements), so that int8 has as many bytes in
// flight as f16 has (8,448 and 8,192): an H200 needs 19 KB a multiprocessor, eight warps have 66. int4 has half of that.
// Floor at head 128 and 20.7 bytes per clock and multiprocessor: 408 clocks a tile in int8, 1,632 issue slots.
// Instructions of the loop (compiler 13.0, sm_90, head 128): see the table in attention_decode_codes.cu.
//
// Codes are expanded to f16 in registers, where every code is exact (codes.h), just before the product that takes them; the
// scales stay out of it. K's scale multiplies the score. V's multiplies the weight before it is cut into two parts of f16; a
// power of two near the largest scale of the tile is taken out before and put back into the sums, so that no scale carries a
// weight out of f16. int4's minimum joins as (sum of the query) * centre in scores and as sum of weight * centre in outputs. So
// the result differs from exact expansion by the rounding of sums alone, as with f16.
// Each lane fetches the scales of one key of the tile and hands them out by shuffles: one load a key and tensor.
//
// Axes: precision (int8, e4m3, e5m2, int4), head size (64, 128, 256), width of loads (16 bytes; 4 where blocks are so small or odd that
// rows are not aligned to 16). Whether a scale is per token, head or tensor is a stride (kernels.h). Rejected: products in fp8
// or int8 (queries and weights would be rounded to 3 or 7 bits); scales multiplied into the expanded codes (rounds every
// element; half again as many instructions); tiles of 16 keys (half the bytes in flight).
#pragma once

#include "kernels/cuda/codes.h"
#include "kernels/cuda/decode_parts.h"
#include "kernels/cuda/mma.h"

#include <cstdint>

namespace kvloupe::cuda {

// A row of codes shared out to `Lanes` lanes, `Words` words each: pieces of 16 bytes as far as they go, then of 8 or 4.
template <class Codes, std::uint32_t Lanes, std::uint32_t Words, bool Wide>
struct CodeSlice {
    static constexpr std::uint32_t wide = Words / 4, tail = Words % 4;
    static_assert(tail != 3);

    // The first code of lane `lane`'s word `word`.
    __device__ static std::uint32_t first(std::uint32_t lane, std::uint32_t word) {
        if constexpr (wide > 0)
            if (word < 4 * wide) return Codes::in_word * (4 * (lane + Lanes * (word / 4)) + word % 4);
        return Codes::in_word * (4 * Lanes * wide + tail * lane + (word - 4 * wide));
    }
    __device__ static void load(const std::byte* row, std::uint32_t lane, std::uint32_t (&words)[Words]) {
        const std::byte* const rest = row + 16 * Lanes * wide + 4 * tail * lane;
        if constexpr (Wide) {
            if constexpr (wide > 0) {
                KVLOUPE_UNROLL
                for (std::uint32_t piece = 0; piece < wide; ++piece) {
                    const uint4 four = *reinterpret_cast<const uint4*>(row + 16 * (lane + Lanes * piece));
                    words[4 * piece] = four.x;
                    words[4 * piece + 1] = four.y;
                    words[4 * piece + 2] = four.z;
                    words[4 * piece + 3] = four.w;
                }
            }
            if constexpr (tail == 1) words[4 * wide] = *reinterpret_cast<const std::uint32_t*>(rest);
            if constexpr (tail == 2) {
                const uint2 two = *reinterpret_cast<const uint2*>(rest);
                words[4 * wide] = two.x;
                words[4 * wide + 1] = two.y;
            }
        } else {
            KVLOUPE_UNROLL
            for (std::uint32_t w = 0; w < Words; ++w)
                words[w] = *reinterpret_cast<const std::uint32_t*>(row + first(lane, w) / Codes::in_word * 4);
        }
    }
};

template <class Codes, std::uint32_t HeadDim, bool Wide>
struct CodesDecode {
    static constexpr std::uint32_t tile_keys = HeadDim > 128 ? 16 : 32;  // as far as registers go
    static constexpr std::uint32_t key_columns = tile_keys / 8, key_steps = tile_keys / 16, steps = HeadDim / 16;
    static constexpr std::uint32_t key_words = HeadDim / Codes::in_word / 4;    // of a lane: 4 lanes share a key
    static constexpr std::uint32_t value_words = HeadDim / Codes::in_word / 8;  // 8 lanes share a value
    static constexpr std::uint32_t pairs = Codes::in_word / 2;
    static constexpr std::uint32_t outputs = HeadDim / 8;
    static constexpr std::uint32_t blocks = HeadDim >= 128 ? 2 : 3;
    static constexpr float weight_exponent = 14;  // weights reach 2^14, times a scale of less than 2
    using KeySlice = CodeSlice<Codes, 4, key_words, Wide>;
    using ValueSlice = CodeSlice<Codes, 8, value_words, Wide>;

    // Queries as left operands: rows 0 .. 7 first parts of the heads, rows 8 .. 15 second parts.
    struct Queries {
        uint4 parts[steps][32];
        float sums[decode_heads];  // of a query's elements, scaled as they are
    };
    // Of one warp. Lane 4 g + t of the operand layouts: row (head) g, columns 2 t and 2 t + 1.
    std::uint32_t lane, g, t;
    std::uint32_t keys[key_columns][key_words];
    std::uint32_t values[4 * key_steps][value_words];  // keys 16 i + 2 t + {0, 1, 8, 9}
    std::uint32_t key_scale, value_scale;              // of the key that look_up() named, as stored
    float sums[outputs][2];                            // (element of a lane's row, column)
    float maximum = -INFINITY;                         // of head g
    float weights = 0;                                 // their sum over this lane's columns
    float centres = 0;                                 // weights * centre of the values, likewise

    __device__ CodesDecode() : lane(threadIdx.x % 32), g(lane / 4), t(lane % 4) {
        KVLOUPE_UNROLL
        for (std::uint32_t i = 0; i < outputs; ++i) sums[i][0] = sums[i][1] = 0;
    }

    // scales (decode_heads): a power of two for each head, that brings its query to 2^13 .. 2^14, so that second parts keep their
    // bits. By all threads of the block.
    __device__ void scale_queries(const AttentionArgs& args, const DecodeWork& work, float* scales) const {
        for (std::uint32_t head = threadIdx.x / 32; head < decode_heads; head += decode_warps) {
            float largest = 0;
            if (head < work.heads)
                for (std::uint32_t i = lane; i < HeadDim; i += 32) largest = fmaxf(largest, fabsf(work.query(args, head)[i]));
            for (int other = 16; other > 0; other /= 2) largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, other));
            const std::uint32_t exponent = max(64u, __float_as_uint(largest) >> 23);  // of f32, with its bias of 127
            if (lane == 0) scales[head] = head >= work.heads ? 1.0f : __uint_as_float((2 * 127 + 13 - exponent) << 23);
        }
    }
    __device__ void cut_queries(const AttentionArgs& args, const DecodeWork& work, const float* scales, std::uint32_t dropped,
                                Queries& queries) const {
        for (std::uint32_t s = threadIdx.x / 32; s < steps; s += decode_warps) {
            const std::uint32_t word = s / (pairs / 2), pair = s % (pairs / 2) * 2;
            std::uint32_t parts[2][2] = {};
            for (std::uint32_t half = 0; half < 2 && g < work.heads; ++half) {
                const float* const query = work.query(args, g);
                const std::uint32_t element = KeySlice::first(t, word) + Codes::first(pair + half);
                float first = as_sinks_see(args, query, element, dropped) * scales[g];
                float second = as_sinks_see(args, query, element + Codes::distance, dropped) * scales[g];
                for (std::uint32_t& part : parts[half]) part = take_part<__half>(first, second);
            }
            queries.parts[s][lane] = uint4{parts[0][0], parts[0][1], parts[1][0], parts[1][1]};
        }
        if constexpr (Codes::has_minimum) {
            for (std::uint32_t head = threadIdx.x / 32; head < decode_heads; head += decode_warps) {
                double sum = 0;
                if (head < work.heads)
                    for (std::uint32_t i = lane; i < HeadDim; i += 32)
                        sum += as_sinks_see(args, work.query(args, head), i, dropped);
                for (int other = 16; other > 0; other /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, other);
                if (lane == 0) queries.sums[head] = static_cast<float>(sum) * scales[head];
            }
        }
    }

    // Key lane % tile_keys of the tile; lanes behind the last key repeat it, so that no masked row is read.
    __device__ KeyLookup look_up(const AttentionArgs& args, const DecodeWork& work, std::uint32_t tile) const {
        return work.look_up(args, tile + min(lane % tile_keys, work.keys_of<tile_keys>(tile) - 1));
    }
    // In words of 4 bytes from the tensor's start: 16 GiB of one layer's K or V.
    __device__ static std::uint32_t word_of(const CacheTensor& tensor, std::uint32_t kv_head, const KeyLookup& key) {
        return static_cast<std::uint32_t>((key.block * tensor.block_stride + std::uint64_t{kv_head} * tensor.row_stride +
                                           std::uint64_t{key.offset} * tensor.code_bytes) / 4);
    }
    __device__ static std::uint32_t scale_of(const CacheTensor& tensor, std::uint32_t kv_head, const KeyLookup& key) {
        return *reinterpret_cast<const std::uint32_t*>(tensor.scales + key.block * tensor.scale_block_stride +
                                                       std::uint64_t{kv_head} * tensor.scale_row_stride +
                                                       std::uint64_t{key.offset} * tensor.scale_stride);
    }
    __device__ void load_keys(const CacheTensor& tensor, std::uint32_t kv_head, const KeyLookup& key) {
        const std::uint32_t word = word_of(tensor, kv_head, key);
        key_scale = scale_of(tensor, kv_head, key);
        KVLOUPE_UNROLL
        for (std::uint32_t n = 0; n < key_columns; ++n) {
            const std::uint64_t at = __shfl_sync(0xFFFFFFFFu, word, static_cast<int>(8 * n + g));
            KeySlice::load(tensor.data + 4 * at, t, keys[n]);
        }
    }
    __device__ void load_values(const CacheTensor& tensor, std::uint32_t kv_head, const KeyLookup& key) {
        const std::uint32_t word = word_of(tensor, kv_head, key);
        value_scale = scale_of(tensor, kv_head, key);
        KVLOUPE_UNROLL
        for (std::uint32_t i = 0; i < 4 * key_steps; ++i) {
            const std::uint64_t at = __shfl_sync(0xFFFFFFFFu, word, static_cast<int>(16 * (i / 4) + 2 * t + (i % 2) + 8 * (i % 4 / 2)));
            ValueSlice::load(tensor.data + 4 * at, g, values[i]);
        }
    }

    // weight[n][c] = exp2(score - maximum + 14) of head g and key 8 n + 2 t + c. Returns by what earlier sums are multiplied.
    __device__ float weigh_keys(const Queries& queries, float scale, std::uint32_t tile_count, float (&weight)[key_columns][2]) {
        float product[key_columns][4];
        KVLOUPE_UNROLL
        for (std::uint32_t n = 0; n < key_columns; ++n) product[n][0] = product[n][1] = product[n][2] = product[n][3] = 0;
        KVLOUPE_UNROLL
        for (std::uint32_t w = 0; w < key_words; ++w) {
            KVLOUPE_UNROLL
            for (std::uint32_t h = 0; h < pairs / 2; ++h) {
                const uint4 parts = queries.parts[w * (pairs / 2) + h][lane];
                const std::uint32_t left[4] = {parts.x, parts.y, parts.z, parts.w};
                KVLOUPE_UNROLL
                for (std::uint32_t n = 0; n < key_columns; ++n) {
                    std::uint32_t expanded[pairs];
                    Codes::expand(keys[n][w], expanded);
                    const std::uint32_t right[2] = {expanded[2 * h], expanded[2 * h + 1]};
                    multiply_accumulate<__half>(product[n], left, right);
                }
            }
        }
        float largest = maximum;
        KVLOUPE_UNROLL
        for (std::uint32_t n = 0; n < key_columns; ++n) {
            KVLOUPE_UNROLL
            for (std::uint32_t c = 0; c < 2; ++c) {
                const std::uint32_t bits = __shfl_sync(0xFFFFFFFFu, key_scale, static_cast<int>(8 * n + 2 * t + c));
                float score = (product[n][c] + product[n][c + 2]) * Codes::step(bits);
                if constexpr (Codes::has_minimum) score = fmaf(queries.sums[g], Codes::centre(bits), score);
                weight[n][c] = 8 * n + 2 * t + c < tile_count ? score * scale : -INFINITY;
                largest = fmaxf(largest, weight[n][c]);
            }
        }
        largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, 1));
        largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, 2));
        const float kept = exp2f(maximum - largest), shift = largest - weight_exponent;
        maximum = largest;
        weights *= kept;
        KVLOUPE_UNROLL
        for (std::uint32_t n = 0; n < key_columns; ++n) {
            KVLOUPE_UNROLL
            for (std::uint32_t c = 0; c < 2; ++c) weights += weight[n][c] = exp2f(weight[n][c] - shift);
        }
        return kept;
    }

    // sums = sums * kept + weight * values
    __device__ void add_values(float (&weight)[key_columns][2], float kept) {
        // A power of two from the largest scale of the tile down.
        float largest = fabsf(Codes::step(value_scale));
        KVLOUPE_UNROLL
        for (int other = 16; other > 0; other /= 2) largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, other));
        const std::uint32_t exponent = min(max(30u, __float_as_uint(largest) >> 23), 224u);
        const float unit = __uint_as_float(exponent << 23), inverse = __uint_as_float((254 - exponent) << 23);
        centres *= kept;
        std::uint32_t parts[key_steps][4];
        KVLOUPE_UNROLL
        for (std::uint32_t n = 0; n < key_columns; ++n) {
            KVLOUPE_UNROLL
            for (std::uint32_t c = 0; c < 2; ++c) {
                const std::uint32_t bits = __shfl_sync(0xFFFFFFFFu, value_scale, static_cast<int>(8 * n + 2 * t + c));
                if constexpr (Codes::has_minimum) centres = fmaf(weight[n][c], Codes::centre(bits), centres);
                weight[n][c] *= Codes::step(bits) * inverse;
            }
            float &first = weight[n][0], &second = weight[n][1];
            parts[n / 2][2 * (n % 2)] = take_part<__half>(first, second);
            parts[n / 2][2 * (n % 2) + 1] = pack_pair<__half>(first, second);
        }
        KVLOUPE_UNROLL
        for (std::uint32_t w = 0; w < value_words; ++w) {
            KVLOUPE_UNROLL
            for (std::uint32_t h = 0; h < 2; ++h) {
                float product[pairs][4];
                KVLOUPE_UNROLL
                for (std::uint32_t p = 0; p < pairs; ++p) product[p][0] = product[p][1] = product[p][2] = product[p][3] = 0;
                KVLOUPE_UNROLL
                for (std::uint32_t i = 0; i < key_steps; ++i) {
                    std::uint32_t low[2], high[2], first[pairs], second[pairs];
                    Codes::side_by_side(values[4 * i][w], values[4 * i + 1][w], low);
                    Codes::side_by_side(values[4 * i + 2][w], values[4 * i + 3][w], high);
                    Codes::expand(low[h], first);
                    Codes::expand(high[h], second);
                    KVLOUPE_UNROLL
                    for (std::uint32_t p = 0; p < pairs; ++p) {
                        const std::uint32_t right[2] = {first[p], second[p]};
                        multiply_accumulate<__half>(product[p], parts[i], right);
                    }
                }
                KVLOUPE_UNROLL
                for (std::uint32_t p = 0; p < pairs; ++p) {
                    float(&sum)[2] = sums[(2 * w + h) * pairs + p];
                    sum[0] = fmaf(product[p][0] + product[p][2], unit, sum[0] * kept);
                    sum[1] = fmaf(product[p][1] + product[p][3], unit, sum[1] * kept);
                }
            }
        }
    }

    __device__ void leave(const WarpStates& states, std::uint32_t warp, std::uint32_t heads) {
        KVLOUPE_UNROLL
        for (int other = 1; other < 4; other *= 2) {
            weights += __shfl_xor_sync(0xFFFFFFFFu, weights, other);
            centres += __shfl_xor_sync(0xFFFFFFFFu, centres, other);
        }
        if (g >= heads) return;
        if (t == 0) states.states[warp * heads + g] = float2{maximum, weights};
        float* to = states.values + (warp * heads + g) * HeadDim;
        KVLOUPE_UNROLL
        for (std::uint32_t w = 0; w < value_words; ++w) {
            KVLOUPE_UNROLL
            for (std::uint32_t i = 0; i < Codes::in_word; ++i) {
                KVLOUPE_UNROLL
                for (std::uint32_t c = 0; c < 2; ++c)
                    to[ValueSlice::first(2 * t + c, w) + i] = sums[w * Codes::in_word + i][c] + centres;
            }
        }
    }
};

// One block of a part of a sequence; see DecodeWork. Dynamic shared memory: codes_decode_bytes().
template <class Codes, std::uint32_t HeadDim, bool Wide>
__global__ void __launch_bounds__(decode_threads, CodesDecode<Codes, HeadDim, Wide>::blocks) decode_codes(DecodePlan plan) {
    KVLOUPE_KERNEL(decode_codes);
    using Decode = CodesDecode<Codes, HeadDim, Wide>;
    using Queries = typename Decode::Queries;
    KVLOUPE_DYNAMIC_SHARED(std::byte, shared);
    KVLOUPE_SHARED(DecodeWork, shared_work, 1);
    KVLOUPE_SHARED(float, scales, decode_heads);

    const DecodeWork& work = shared_work[0];
    if (threadIdx.x == 0) shared_work[0].find(plan);
    __syncthreads();
    if (work.empty()) return finish_empty_part(plan, work);
    const CacheLayer& cache = plan.args.cache;
    const std::uint32_t warp = threadIdx.x / 32;
    Queries* const queries = reinterpret_cast<Queries*>(shared);  // [1]: as sinks see them

    // As in decode_tensor.h: a warp without tiles fetches a tile as well, and leaves it.
    Decode decode;
    std::uint32_t tile = work.first_tile<Decode::tile_keys>(warp), following = work.tile_after<Decode::tile_keys>(tile);
    KeyLookup near = decode.look_up(plan.args, work, tile < work.end ? tile : work.begin);
    decode.scale_queries(plan.args, work, scales);
    __syncthreads();
    decode.cut_queries(plan.args, work, scales, 0, queries[0]);
    if (work.holds_sinks()) decode.cut_queries(plan.args, work, scales, work.dropped, queries[1]);
    __syncthreads();
    decode.load_keys(cache.keys, work.kv_head, near);
    decode.load_values(cache.values, work.kv_head, near);
    KeyLookup far = decode.look_up(plan.args, work, following < work.end ? following : tile < work.end ? tile : work.begin);

    const float scale = plan.args.scale * log2_e / scales[decode.g];
    while (tile < work.end) {
        __syncwarp();  // nothing of `work` stays in registers
        const std::uint32_t later = work.tile_after<Decode::tile_keys>(following);
        near = far;  // of `following`
        far = decode.look_up(plan.args, work, later < work.end ? later : tile);
        float weight[Decode::key_columns][2];
        const float kept = decode.weigh_keys(queries[work.sink(tile) ? 1 : 0], scale, work.keys_of<Decode::tile_keys>(tile), weight);
        decode.load_keys(cache.keys, work.kv_head, near);
        decode.add_values(weight, kept);
        decode.load_values(cache.values, work.kv_head, near);
        tile = following;
        following = later;
    }
    __syncthreads();  // the queries are no longer needed: the warps' states take their place
    const WarpStates states(reinterpret_cast<float*>(shared), work.heads);
    decode.leave(states, warp, work.heads);
    __syncthreads();
    finish_part(plan, work, states);
}

template <class Codes, std::uint32_t HeadDim>
std::size_t codes_decode_bytes(std::uint32_t group, bool sinks) {
    const std::size_t queries = sizeof(typename CodesDecode<Codes, HeadDim, true>::Queries) * (sinks ? 2 : 1);
    const std::size_t states = WarpStates::floats(group < decode_heads ? group : decode_heads, HeadDim) * sizeof(float);
    return queries > states ? queries : states;
}

}  // namespace kvloupe::cuda
