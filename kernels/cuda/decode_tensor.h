// SPDX-License-Identifier: GPL-3.0-or-later
//
// Decode attention over f16 and bf16 caches on tensor cores (m16n8k16).
//
// Bytes: K and V of the keys that are seen, once per KV head and pass of 8 heads. An H200 has 4.8 TB/s: 20.7 bytes per
// clock and multiprocessor (132 of them, 1.755 GHz); nothing of this was measured on one, the instructions are the
// compiler's (13.0, sm_90). A warp's tile of 16 keys, head 128, f16 is 8,192 bytes of K and V, 396 clocks at that rate,
// in which the multiprocessor issues 1,583 warp instructions. The loop has
//                     f16 64   f16 128   f16 256   bf16 64   bf16 128   bf16 256
//     instructions       218       295       472       259        400        621
//     of them mma         16        32        64        32         64        128
//     of the slots      28 %      19 %      15 %      33 %       25 %       20 %
// and its mma take 13 % (bf16: 26 %) of the tensor pipes, if mma.sync reaches 60 % of their rate. So there is
// room by a factor of 3, for groups of 1 to 8 heads alike. In flight: 8,192 bytes for each of 8 warps (two blocks of 4,
// at most 255 registers) from the end of the scores to the next tile's; 20.7 bytes per clock at a latency of 900 clocks
// (assumed) need 19 KB. A warp's turn is that latency plus some 350 clocks of scores, so that the warps ask for 52 bytes
// per clock. Beside the loop: about 4 us, estimated, for a block to find its sequence, query and first rows and to leave its states
// (four dependent reads), once where all blocks are resident at once.
//
// Why this form. On CUDA cores a cell costs an FMA for each head and a conversion: 640 instructions for this tile and 4
// heads before any softmax, address or shuffle, 1,152 for 8. On tensor cores the heads of the group fill rows of the 16
// x 16 operand that a single query leaves empty, and its other 8 rows are not wasted either: rows 0 .. 7 hold the first
// parts of the f32 queries (or weights), rows 8 .. 15 their second parts, so that products with the stored K and V are
// exact (attention_common.h) and the result differs from an f32 kernel's by the rounding of sums alone. bf16 has a
// third part in a second product. Rows go from memory to registers without shared memory: the order of the elements
// inside a dot product, and of the columns of the output, is free, so each thread takes 16 consecutive bytes of a row
// and calls them what the operand's layout wants. V needs pairs along the keys: a byte permutation per word. Shuffles
// for row numbers and maxima alone, no barrier in the loop. The weighted values of each tile start at zero and are
// added in f32: tensor cores cut sums off instead of rounding, which would add up over long contexts in one direction.
// The scores' 8 steps are left to them: some 1e-7 of the largest score. Rejected: cp.async into shared memory (as many
// bytes in flight, but waits, and operands by ldmatrix on top); tiles of 32 keys (255 registers and spills in bf16);
// queries rounded to the cache's type (an error of 2^-12 in every score); three blocks at head 128 (168 registers: the
// compiler then fetches K only after the values).
#pragma once

#include "kernels/cuda/decode_parts.h"
#include "kernels/cuda/mma.h"

#include <cstdint>
#include <type_traits>

namespace kvloupe::cuda {

// A row of 16-bit cells shared out to `Lanes` lanes, `Words` words each: pieces of 16 bytes as far as they go, then
// pieces of 8 or 4 bytes.
template <std::uint32_t Lanes, std::uint32_t Words>
struct RowSlice {
    static constexpr std::uint32_t wide = Words / 4, tail = Words % 4;
    static_assert(tail != 3, "head sizes of 16 * n elements leave 0, 1 or 2 words");

    // The element whose pair lane `lane` holds as its word `word`.
    __device__ static std::uint32_t element(std::uint32_t lane, std::uint32_t word) {
        if (word < 4 * wide) return 8 * (lane + Lanes * (word / 4)) + 2 * (word % 4);
        return 8 * Lanes * wide + 2 * (tail * lane + (word - 4 * wide));
    }
    __device__ static void load(const std::byte* row, std::uint32_t lane, std::uint32_t (&words)[Words]) {
        KVLOUPE_UNROLL
        for (std::uint32_t piece = 0; piece < wide; ++piece) {
            const uint4 four = *reinterpret_cast<const uint4*>(row + 16 * (lane + Lanes * piece));
            words[4 * piece] = four.x;
            words[4 * piece + 1] = four.y;
            words[4 * piece + 2] = four.z;
            words[4 * piece + 3] = four.w;
        }
        const std::byte* rest = row + 16 * Lanes * wide + 4 * tail * lane;
        if constexpr (tail == 1) words[4 * wide] = *reinterpret_cast<const std::uint32_t*>(rest);
        if constexpr (tail == 2) {
            const uint2 two = *reinterpret_cast<const uint2*>(rest);
            words[4 * wide] = two.x;
            words[4 * wide + 1] = two.y;
        }
    }
};

template <class T, std::uint32_t HeadDim>
struct TensorDecode {
    static constexpr std::uint32_t tile_keys = 16;
    static constexpr std::uint32_t key_columns = tile_keys / 8;    // tiles of 8 keys: the columns of the scores
    static constexpr std::uint32_t key_steps = tile_keys / 16;     // steps of 16 keys: the depth of the values
    static constexpr std::uint32_t steps = HeadDim / 16;           // of 16 elements: the depth of the scores
    static constexpr bool third = std::is_same_v<T, __nv_bfloat16>;  // a third part is needed
    using KeySlice = RowSlice<4, HeadDim / 8>;     // 4 lanes share a key
    using ValueSlice = RowSlice<8, HeadDim / 16>;  // 8 lanes share a value
    static constexpr std::uint32_t value_words = HeadDim / 16;
    // Resident blocks that are asked for: 168 registers for each thread, or 255.
    static constexpr std::uint32_t blocks = HeadDim >= 128 ? 2 : 3;
    static constexpr float weight_scale_exponent = 15;  // weights reach 2^15: the smallest still has bits in f16

    // Queries as left operands: rows 0 .. 7 first parts of the heads, rows 8 .. 15 second parts; behind them third
    // parts.
    struct Queries {
        uint4 parts[steps][32];
        uint4 thirds[third ? steps : 1][32];  // rows 8 .. 15 are zero
    };
    // Of one warp. Lane 4 g + t of the operand layouts: row (head) g, columns 2 t and 2 t + 1.
    std::uint32_t lane, g, t;
    std::uint32_t keys[key_columns][steps][2];
    std::uint32_t values[4 * key_steps][value_words];  // keys 16 i + 2 t + {0, 1, 8, 9}
    float sums[value_words][2][2];                     // (word, element of its pair, column): weighted values so far
    float maximum = -INFINITY;                         // of head g
    float weights = 0;                                 // their sum over this lane's columns

    __device__ TensorDecode() : lane(threadIdx.x % 32), g(lane / 4), t(lane % 4) {
        KVLOUPE_UNROLL
        for (std::uint32_t w = 0; w < value_words; ++w) sums[w][0][0] = sums[w][0][1] = sums[w][1][0] = sums[w][1][1] = 0;
    }

    // scales (decode_heads): a power of two for each head, that brings its query to 2^13 .. 2^14 in f16, so that second
    // parts keep their bits; 1 in bf16, whose exponents are those of f32.
    __device__ void scale_queries(const AttentionArgs& args, const DecodeWork& work, float* scales) const {
        for (std::uint32_t head = threadIdx.x / 32; head < decode_heads; head += decode_warps) {
            float largest = 0;
            if (!third && head < work.heads)
                for (std::uint32_t i = lane; i < HeadDim; i += 32)
                    largest = fmaxf(largest, fabsf(work.query(args, head)[i]));
            for (int other = 16; other > 0; other /= 2)
                largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, other));
            const std::uint32_t exponent = max(64u, __float_as_uint(largest) >> 23);  // of f32, with its bias of 127
            if (lane == 0)
                scales[head] = third || head >= work.heads ? 1.0f : __uint_as_float((2 * 127 + 13 - exponent) << 23);
        }
    }
    // By all threads of the block.
    __device__ void cut_queries(const AttentionArgs& args, const DecodeWork& work, const float* scales,
                                std::uint32_t dropped, Queries& queries) const {
        for (std::uint32_t s = threadIdx.x / 32; s < steps; s += decode_warps) {
            std::uint32_t parts[2][3] = {};
            for (std::uint32_t half = 0; half < 2 && g < work.heads; ++half) {
                const float* const query = work.query(args, g);
                const std::uint32_t element = KeySlice::element(t, 2 * s + half);
                float first = turned_back(query, element, args.rotary, dropped) * scales[g];
                float second = turned_back(query, element + 1, args.rotary, dropped) * scales[g];
                for (std::uint32_t& part : parts[half]) part = take_part<T>(first, second);
            }
            queries.parts[s][lane] = uint4{parts[0][0], parts[0][1], parts[1][0], parts[1][1]};
            if constexpr (third) queries.thirds[s][lane] = uint4{parts[0][2], 0, parts[1][2], 0};
        }
    }

    // Key lane % tile_keys of the tile; lanes behind the last key repeat it, so that no masked row is read.
    __device__ KeyLookup look_up(const AttentionArgs& args, const DecodeWork& work, std::uint32_t tile) const {
        return work.look_up(args, tile + min(lane % tile_keys, work.keys_of<tile_keys>(tile) - 1));
    }
    __device__ void load_keys(const std::byte* data, std::uint32_t rows) {
        KVLOUPE_UNROLL
        for (std::uint32_t n = 0; n < key_columns; ++n) {
            const std::uint64_t row = __shfl_sync(0xFFFFFFFFu, rows, 8 * n + g);
            std::uint32_t words[2 * steps];
            KeySlice::load(data + row * (2 * HeadDim), t, words);
            KVLOUPE_UNROLL
            for (std::uint32_t w = 0; w < 2 * steps; ++w) keys[n][w / 2][w % 2] = words[w];
        }
    }
    __device__ void load_values(const std::byte* data, std::uint32_t rows) {
        KVLOUPE_UNROLL
        for (std::uint32_t i = 0; i < 4 * key_steps; ++i) {
            const std::uint64_t row = __shfl_sync(0xFFFFFFFFu, rows, 16 * (i / 4) + 2 * t + (i % 2) + 8 * (i % 4 / 2));
            ValueSlice::load(data + row * (2 * HeadDim), g, values[i]);
        }
    }

    // weight[n][c] = exp2(score - maximum + 15) of head g and key 8 n + 2 t + c. Returns by what earlier sums are
    // multiplied.
    __device__ float weigh_keys(const Queries& queries, float scale, std::uint32_t tile_count,
                                float (&weight)[key_columns][2]) {
        float product[key_columns][4];
        KVLOUPE_UNROLL
        for (std::uint32_t n = 0; n < key_columns; ++n) product[n][0] = product[n][1] = product[n][2] = product[n][3] = 0;
        KVLOUPE_UNROLL
        for (std::uint32_t s = 0; s < steps; ++s) {
            const uint4 parts = queries.parts[s][lane];
            const std::uint32_t left[4] = {parts.x, parts.y, parts.z, parts.w};
            KVLOUPE_UNROLL
            for (std::uint32_t n = 0; n < key_columns; ++n) multiply_accumulate<T>(product[n], left, keys[n][s]);
            if constexpr (third) {
                const uint4 thirds = queries.thirds[s][lane];
                const std::uint32_t rest[4] = {thirds.x, thirds.y, thirds.z, thirds.w};
                KVLOUPE_UNROLL
                for (std::uint32_t n = 0; n < key_columns; ++n) multiply_accumulate<T>(product[n], rest, keys[n][s]);
            }
        }
        float largest = maximum;
        KVLOUPE_UNROLL
        for (std::uint32_t n = 0; n < key_columns; ++n) {
            KVLOUPE_UNROLL
            for (std::uint32_t c = 0; c < 2; ++c) {
                const float score = (product[n][c] + product[n][c + 2]) * scale;
                weight[n][c] = 8 * n + 2 * t + c < tile_count ? score : -INFINITY;
                largest = fmaxf(largest, weight[n][c]);
            }
        }
        largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, 1));
        largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, 2));
        const float kept = exp2f(maximum - largest), shift = largest - weight_scale_exponent;
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
        std::uint32_t parts[key_steps][4], thirds[key_steps][4];
        KVLOUPE_UNROLL
        for (std::uint32_t i = 0; i < key_steps; ++i) {
            KVLOUPE_UNROLL
            for (std::uint32_t half = 0; half < 2; ++half) {
                float &first = weight[2 * i + half][0], &second = weight[2 * i + half][1];
                parts[i][2 * half] = take_part<T>(first, second);
                parts[i][2 * half + 1] = third ? take_part<T>(first, second) : pack_pair<T>(first, second);
                thirds[i][2 * half] = third ? pack_pair<T>(first, second) : 0;
                thirds[i][2 * half + 1] = 0;
            }
        }
        KVLOUPE_UNROLL
        for (std::uint32_t w = 0; w < value_words; ++w) {
            KVLOUPE_UNROLL
            for (std::uint32_t e = 0; e < 2; ++e) {
                float product[4] = {0, 0, 0, 0};
                KVLOUPE_UNROLL
                for (std::uint32_t i = 0; i < key_steps; ++i) {
                    const std::uint32_t right[2] = {pair_of(values[4 * i][w], values[4 * i + 1][w], e),
                                                    pair_of(values[4 * i + 2][w], values[4 * i + 3][w], e)};
                    multiply_accumulate<T>(product, parts[i], right);
                    if constexpr (third) multiply_accumulate<T>(product, thirds[i], right);
                }
                sums[w][e][0] = sums[w][e][0] * kept + (product[0] + product[2]);
                sums[w][e][1] = sums[w][e][1] * kept + (product[1] + product[3]);
            }
        }
    }

    __device__ void leave(const WarpStates& states, std::uint32_t warp, std::uint32_t heads) {
        weights += __shfl_xor_sync(0xFFFFFFFFu, weights, 1);
        weights += __shfl_xor_sync(0xFFFFFFFFu, weights, 2);
        if (g >= heads) return;
        if (t == 0) states.states[warp * heads + g] = float2{maximum, weights};
        float* to = states.values + (warp * heads + g) * HeadDim;
        KVLOUPE_UNROLL
        for (std::uint32_t w = 0; w < value_words; ++w) {
            KVLOUPE_UNROLL
            for (std::uint32_t c = 0; c < 2; ++c) {
                const std::uint32_t element = ValueSlice::element(2 * t + c, w);
                to[element] = sums[w][0][c];
                to[element + 1] = sums[w][1][c];
            }
        }
    }

private:
    // The first (second) cells of two words.
    __device__ static std::uint32_t pair_of(std::uint32_t a, std::uint32_t b, std::uint32_t second) {
        return second ? second_cells(a, b) : first_cells(a, b);
    }
};

// One block of a part of a sequence; see DecodeWork. Dynamic shared memory: tensor_decode_bytes().
template <class T, std::uint32_t HeadDim>
__global__ void __launch_bounds__(decode_threads, TensorDecode<T, HeadDim>::blocks) decode_tensor(DecodePlan plan) {
    KVLOUPE_KERNEL(decode_tensor);
    using Decode = TensorDecode<T, HeadDim>;
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

    // A warp without tiles fetches a row as well, and leaves it.
    Decode decode;
    std::uint32_t tile = work.first_tile<Decode::tile_keys>(warp), following = work.tile_after<Decode::tile_keys>(tile);
    KeyLookup lookup = decode.look_up(plan.args, work, tile < work.end ? tile : work.begin);
    decode.scale_queries(plan.args, work, scales);
    __syncthreads();
    decode.cut_queries(plan.args, work, scales, 0, queries[0]);
    if (work.holds_sinks()) decode.cut_queries(plan.args, work, scales, work.dropped, queries[1]);
    __syncthreads();
    std::uint32_t rows = work.row_of(cache, lookup);
    decode.load_keys(cache.keys.data, rows);
    decode.load_values(cache.values.data, rows);
    lookup = decode.look_up(plan.args, work, following < work.end ? following : tile < work.end ? tile : work.begin);

    const float scale = plan.args.scale * log2_e / scales[decode.g];
    while (tile < work.end) {
        __syncwarp();  // nothing of `work` stays in registers
        const std::uint32_t later = work.tile_after<Decode::tile_keys>(following);
        rows = work.row_of(cache, lookup);  // of `following`
        lookup = decode.look_up(plan.args, work, later < work.end ? later : tile);
        float weight[Decode::key_columns][2];
        const float kept = decode.weigh_keys(queries[work.sink(tile) ? 1 : 0], scale,
                                             work.keys_of<Decode::tile_keys>(tile), weight);
        // Behind the last tile rows are fetched once more, from L1 or L2: fetches without a branch go straight to the
        // registers that the products read, while behind a branch the compiler copies them, and waits for them to do
        // it.
        decode.load_keys(cache.keys.data, rows);
        decode.add_values(weight, kept);
        decode.load_values(cache.values.data, rows);
        tile = following;
        following = later;
    }
    __syncthreads();  // the queries are no longer needed: the warps' states take their place
    const WarpStates states(reinterpret_cast<float*>(shared), work.heads);
    decode.leave(states, warp, work.heads);
    __syncthreads();
    finish_part(plan, work, states);
}

template <class T, std::uint32_t HeadDim>
std::size_t tensor_decode_bytes(std::uint32_t group, bool sinks) {
    const std::size_t queries = sizeof(typename TensorDecode<T, HeadDim>::Queries) * (sinks ? 2 : 1);
    const std::size_t states = WarpStates::floats(group < decode_heads ? group : decode_heads, HeadDim) * sizeof(float);
    return queries > states ? queries : states;
}

}  // namespace kvloupe::cuda
