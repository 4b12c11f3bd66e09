// SPDX-License-Identifier: GPL-3.0-or-later
//
// Decode attention over latents in f16 or bf16 on tensor cores (m16n8k16): absorbed multi-head latent attention, 512 values of a
// latent and 64 of its rotary key, 16 query heads a block.
//
// Bytes: a key is 1,152, read once for 16 heads, as key and as value. An H200 has 4.8 TB/s: 20.7 bytes per clock and multiprocessor,
// 56 clocks a key. Products: 17 mma a key (36 steps of the scores and 32 of the values by 8 keys, each twice), 28 clocks at 60 %
// of the pipes' rate, half of that floor; in bf16, with three parts, 25 mma and 42 clocks. Shared memory: 1,152 bytes a
// key written, read once by the scores' warps and once by the values', and 0.6 KB of scores and weights: about 32 clocks at 128
// bytes each. Expected, not measured: 70 to 80 % of the bandwidth in f16. With 128 heads (eight passes, the rows from L2) the
// products bound it: 8 * 28 clocks a key.
//
// Form: 8 warps, tiles of 32 keys in two stages of 37 KB filled by cp.async: one is on its way (37 KB where 20.7 bytes per clock
// at a latency of 900 clocks, assumed, need 19) while the other is multiplied. Scores: a warp takes a quarter of the depth (9 steps)
// of 16 keys, so that its part of the queries stays in registers for all tiles; quarters are added in shared memory.
// Softmax: 16 threads a head. Values: a warp takes 64 columns of the output for all keys. Three barriers a tile.
// As in decode_tensor.h, queries and weights are cut into parts of the cache's type (two of f16, three of bf16), so that products are
// exact and the result differs from an f32 kernel's by sums alone; and the values' products of a tile are added in f32.
//
// Rejected: rows straight to registers as in decode_tensor.h (a row serves as key and as value in two layouts: it would be read
// twice); a warp a tile with all of the depth (a warp's queries are 288 registers of parts, or 36 KB of shared memory read for every
// 8 keys); tiles of 64 keys (150 KB: no sm_86, and nothing to gain from more on its way); two blocks a multiprocessor (the
// queries' parts and the outputs are 104 registers already); wgmma and TMA (sm_90 only).
#pragma once

#include "kernels/cuda/async_copy.h"
#include "kernels/cuda/decode_parts.h"
#include "kernels/cuda/mma.h"

#include <cstdint>
#include <type_traits>

namespace kvloupe::cuda {

template <class T>
struct LatentDecode {
    static constexpr std::uint32_t rank = 512, rotary = 64, width = rank + rotary;
    static constexpr std::uint32_t warps = 8, threads = 32 * warps, tile_keys = 32;
    static constexpr std::uint32_t steps = width / 16 / 4;      // of 16 elements: a warp's quarter of the scores' depth
    static constexpr std::uint32_t columns = rank / warps;      // of the output, of a warp
    static constexpr std::uint32_t parts = std::is_same_v<T, __half> ? 2 : 3;
    static constexpr std::uint32_t pitch = 2 * width + 16;      // bytes from a staged row to the next: no bank twice
    static constexpr std::uint32_t weight_pitch = 2 * tile_keys + 16;
    static constexpr std::uint32_t chunks = 2 * width / 16, latent_chunks = 2 * rank / 16;
    static constexpr float weight_scale_exponent = 15;          // weights reach 2^15: the smallest still has bits in f16
    static_assert(tile_keys * chunks % threads == 0 && decode_tile % tile_keys == 0);

    struct Shared {
        std::byte stages[2][tile_keys * pitch];                 // before the first tile: queries as sinks see them, f32
        float scores[4][latent_heads][tile_keys];               // by quarters of the depth
        std::byte weights[parts][latent_heads * weight_pitch];  // parts of T
        float2 states[latent_heads];                            // at the end: maximum, sum of weights
        float scales[latent_heads];                             // a power of two for each head
        float kept[latent_heads];                               // by what earlier sums are multiplied
        std::uint32_t rows[2][tile_keys];
        DecodeWork work;
    };

    Shared& shared;
    const DecodeWork& work;
    const AttentionArgs& args;
    std::uint32_t thread, lane, warp, g, t;
    std::uint32_t queries[parts][steps][4];  // left operands of the warp's quarter
    float sums[columns / 8][4];              // weighted values so far: heads g and g + 8

    __device__ LatentDecode(Shared& memory, const AttentionArgs& given)
        : shared(memory), work(memory.work), args(given), thread(threadIdx.x), lane(thread % 32), warp(thread / 32), g(lane / 4), t(lane % 4) {
        KVLOUPE_UNROLL
        for (std::uint32_t n = 0; n < columns / 8; ++n) sums[n][0] = sums[n][1] = sums[n][2] = sums[n][3] = 0;
    }

    // --- tiles: all that the part has, one after another ---

    __device__ std::uint32_t tile_after(std::uint32_t tile) const {
        tile += tile_keys;
        return tile >= work.sinks && tile < work.padded_sinks ? work.padded_sinks : tile;  // padding alone
    }
    // The cache's row of key `lane` of a tile; those behind the last key repeat it, so that no masked row is read.
    __device__ KeyLookup look_up(std::uint32_t tile) const {
        return work.look_up(args, tile + min(lane, work.keys_of<tile_keys>(tile) - 1));
    }
    __device__ void note_rows(std::uint32_t stage, const KeyLookup& key) { shared.rows[stage][lane] = work.row_of(args.cache, key); }

    // Sends the copies of a tile whose rows are noted on their way.
    __device__ void fetch(std::uint32_t stage) {
        KVLOUPE_UNROLL
        for (std::uint32_t i = 0; i < tile_keys * chunks / threads; ++i) {
            const std::uint32_t item = thread + i * threads, key = item / chunks, chunk = item % chunks;
            const std::uint64_t row = shared.rows[stage][key];
            const std::byte* const from = chunk < latent_chunks ? args.cache.keys.data + row * (2 * rank) + 16 * chunk
                                                                : args.cache.values.data + row * (2 * rotary) + 16 * (chunk - latent_chunks);
            copy_async(shared.stages[stage] + key * pitch + 16 * chunk, from);
        }
        copy_async_commit();
    }

    // --- queries ---

    // Powers of two that bring each head's query to 2^13 .. 2^14 in f16, so that second parts keep their bits; 1 in bf16.
    __device__ void find_scales() {
        for (std::uint32_t head = warp; head < latent_heads; head += warps) {
            float largest = 0;
            if (parts == 2 && head < work.heads)
                for (std::uint32_t i = lane; i < width; i += 32) largest = fmaxf(largest, fabsf(work.query(args, head)[i]));
            for (int other = 16; other > 0; other /= 2) largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, other));
            const std::uint32_t exponent = max(64u, __float_as_uint(largest) >> 23);  // of f32, with its bias of 127
            if (lane == 0)
                shared.scales[head] = parts == 3 || head >= work.heads ? 1.0f : __uint_as_float((2 * 127 + 13 - exponent) << 23);
        }
    }
    __device__ float* seen_by_sinks() { return reinterpret_cast<float*>(shared.stages); }
    __device__ void turn_for_sinks() {
        for (std::uint32_t i = thread; i < work.heads * width; i += threads)
            seen_by_sinks()[i] = as_sinks_see(args, work.query(args, i / width), i % width, work.dropped);
    }
    // The warp's quarter of the queries (heads, width), cut into parts.
    __device__ void load_queries(const float* from) {
        KVLOUPE_UNROLL
        for (std::uint32_t s = 0; s < steps; ++s) {
            KVLOUPE_UNROLL
            for (std::uint32_t r = 0; r < 4; ++r) {  // registers of an operand: heads g, g + 8, then columns 8 further on
                const std::uint32_t head = g + 8 * (r % 2), element = 16 * (warp % 4 * steps + s) + 2 * t + 8 * (r / 2);
                float first = 0, second = 0;
                if (head < work.heads) {
                    const float2 pair = *reinterpret_cast<const float2*>(from + head * width + element);
                    first = pair.x * shared.scales[head];
                    second = pair.y * shared.scales[head];
                }
                KVLOUPE_UNROLL
                for (std::uint32_t p = 0; p < parts; ++p) queries[p][s][r] = take_part<T>(first, second);
            }
        }
    }

    // --- a tile ---

    // Of the warp's 16 keys and its quarter of the depth.
    __device__ void score(std::uint32_t stage) {
        const std::uint32_t key = warp / 4 * 16 + lane / 16 * 8 + lane % 8, half = lane / 8 % 2;
        const std::byte* const at = shared.stages[stage] + key * pitch + 2 * (16 * (warp % 4 * steps) + 8 * half);
        float products[2][4] = {};
        KVLOUPE_UNROLL
        for (std::uint32_t s = 0; s < steps; ++s) {
            std::uint32_t keys[4];  // keys 0 .. 7, depth 0 .. 7 and 8 .. 15; keys 8 .. 15
            load_matrices(keys, at + 32 * s);
            const std::uint32_t low[2] = {keys[0], keys[1]}, high[2] = {keys[2], keys[3]};
            KVLOUPE_UNROLL
            for (std::uint32_t p = 0; p < parts; ++p) {
                multiply_accumulate<T>(products[0], queries[p][s], low);
                multiply_accumulate<T>(products[1], queries[p][s], high);
            }
        }
        KVLOUPE_UNROLL
        for (std::uint32_t n = 0; n < 2; ++n) {
            const std::uint32_t column = warp / 4 * 16 + 8 * n + 2 * t;
            *reinterpret_cast<float2*>(&shared.scores[warp % 4][g][column]) = float2{products[n][0], products[n][1]};
            *reinterpret_cast<float2*>(&shared.scores[warp % 4][g + 8][column]) = float2{products[n][2], products[n][3]};
        }
    }

    // Two keys of head thread / 16: weights = exp2(score - maximum + 15), in parts; state: maximum, sum of the thread's weights.
    __device__ void weigh(std::uint32_t keys, float scale, float2& state) {
        const std::uint32_t head = thread / 16, key = 2 * (thread % 16);
        float2 score{0, 0};
        KVLOUPE_UNROLL
        for (std::uint32_t quarter = 0; quarter < 4; ++quarter) {
            const float2 part = *reinterpret_cast<const float2*>(&shared.scores[quarter][head][key]);
            score.x += part.x;
            score.y += part.y;
        }
        score.x = key < keys ? score.x * scale : -INFINITY;
        score.y = key + 1 < keys ? score.y * scale : -INFINITY;
        float largest = fmaxf(state.x, fmaxf(score.x, score.y));
        for (int other = 8; other > 0; other /= 2) largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, other));
        const float kept = exp2f(state.x - largest), shift = largest - weight_scale_exponent;
        float first = exp2f(score.x - shift), second = exp2f(score.y - shift);
        state = float2{largest, state.y * kept + (first + second)};
        if (thread % 16 == 0) shared.kept[head] = kept;
        KVLOUPE_UNROLL
        for (std::uint32_t p = 0; p < parts; ++p)
            *reinterpret_cast<std::uint32_t*>(shared.weights[p] + head * weight_pitch + 2 * key) = take_part<T>(first, second);
    }

    // sums = sums * kept + weights * values, the warp's columns
    __device__ void add_values(std::uint32_t stage) {
        const std::uint32_t row = lane / 8 % 2 * 8 + lane % 8, second = lane / 16;
        float products[columns / 8][4] = {};
        KVLOUPE_UNROLL
        for (std::uint32_t k = 0; k < tile_keys / 16; ++k) {
            std::uint32_t weights[parts][4];
            KVLOUPE_UNROLL
            for (std::uint32_t p = 0; p < parts; ++p)
                load_matrices(weights[p], shared.weights[p] + row * weight_pitch + 2 * (16 * k + 8 * second));
            const std::byte* const at = shared.stages[stage] + (16 * k + row) * pitch + 2 * (warp * columns + 8 * second);
            KVLOUPE_UNROLL
            for (std::uint32_t n = 0; n < columns / 8; n += 2) {
                std::uint32_t values[4];  // columns 0 .. 7, keys 0 .. 7 and 8 .. 15; columns 8 .. 15
                load_matrices<true>(values, at + 16 * n);
                const std::uint32_t left[2] = {values[0], values[1]}, right[2] = {values[2], values[3]};
                KVLOUPE_UNROLL
                for (std::uint32_t p = 0; p < parts; ++p) {
                    multiply_accumulate<T>(products[n], weights[p], left);
                    multiply_accumulate<T>(products[n + 1], weights[p], right);
                }
            }
        }
        const float kept = shared.kept[g], kept_8 = shared.kept[g + 8];
        KVLOUPE_UNROLL
        for (std::uint32_t n = 0; n < columns / 8; ++n) {
            sums[n][0] = sums[n][0] * kept + products[n][0];
            sums[n][1] = sums[n][1] * kept + products[n][1];
            sums[n][2] = sums[n][2] * kept_8 + products[n][2];
            sums[n][3] = sums[n][3] * kept_8 + products[n][3];
        }
    }

    // --- the end ---

    __device__ void finish(const DecodePlan& plan, float2 state) {
        for (int other = 8; other > 0; other /= 2) state.y += __shfl_xor_sync(0xFFFFFFFFu, state.y, other);
        if (thread % 16 == 0) shared.states[thread / 16] = state;
        __syncthreads();
        if (plan.splits > 1 && thread < work.heads) plan.states[work.state(plan, thread)] = shared.states[thread];
        KVLOUPE_UNROLL
        for (std::uint32_t half = 0; half < 2; ++half) {
            const std::uint32_t head = g + 8 * half;
            if (head >= work.heads) continue;
            const bool whole = plan.splits == 1;
            const float sum = whole ? shared.states[head].y : 1.0f;
            float* const to = whole ? args.out + (std::uint64_t{work.row} * args.query_heads + work.first_head + head) * rank
                                    : plan.sums + work.state(plan, head) * rank;
            KVLOUPE_UNROLL
            for (std::uint32_t n = 0; n < columns / 8; ++n)
                *reinterpret_cast<float2*>(to + warp * columns + 8 * n + 2 * t) = float2{sums[n][2 * half] / sum, sums[n][2 * half + 1] / sum};
        }
    }
};

// One block of a part of a sequence; see DecodeWork. Dynamic shared memory: LatentDecode<T>::Shared.
template <class T>
__global__ void __launch_bounds__(LatentDecode<T>::threads, 1) decode_latents(DecodePlan plan) {
    KVLOUPE_KERNEL(decode_latents);
    using Decode = LatentDecode<T>;
    KVLOUPE_DYNAMIC_SHARED(std::byte, memory);
    typename Decode::Shared& shared = *reinterpret_cast<typename Decode::Shared*>(memory);
    const DecodeWork& work = shared.work;
    if (threadIdx.x == 0) shared.work.find(plan);
    __syncthreads();
    if (work.empty()) return finish_empty_part(plan, work);

    Decode decode(shared, plan.args);
    decode.find_scales();
    const bool turned = work.holds_sinks() && work.dropped > 0;
    if (turned) decode.turn_for_sinks();
    std::uint32_t tile = work.begin, following = decode.tile_after(tile);
    KeyLookup lookup;
    if (decode.warp == 0) {
        decode.note_rows(0, decode.look_up(tile));
        lookup = decode.look_up(following < work.end ? following : tile);
    }
    __syncthreads();
    decode.load_queries(turned ? decode.seen_by_sinks() : work.query(plan.args, 0));
    __syncthreads();  // nobody reads the turned queries any more
    decode.fetch(0);
    bool other_queries = turned;

    const float scale = plan.args.scale * log2_e / shared.scales[threadIdx.x / 16];
    float2 state{-INFINITY, 0};
    for (std::uint32_t stage = 0; tile < work.end; stage ^= 1) {
        const std::uint32_t later = decode.tile_after(following);
        if (decode.warp == 0) {  // rows of `following`, whose copies are sent behind the barrier
            decode.note_rows(stage ^ 1, lookup);
            lookup = decode.look_up(later < work.end ? later : tile);
        }
        if (other_queries && !work.sink(tile)) {
            decode.load_queries(work.query(plan.args, 0));
            other_queries = false;
        }
        copy_async_wait<0>();
        __syncthreads();  // the tile is there, and nobody reads the one before it
        if (following < work.end) decode.fetch(stage ^ 1);
        decode.score(stage);
        __syncthreads();
        decode.weigh(work.keys_of<Decode::tile_keys>(tile), scale, state);
        __syncthreads();
        decode.add_values(stage);
        tile = following;
        following = later;
    }
    decode.finish(plan, state);
}

}  // namespace kvloupe::cuda
