// SPDX-License-Identifier: GPL-3.0-or-later
//
// Decode attention in f32 arithmetic: f32 caches (PlainRows), and whatever has no instance of its own (AnyRows: packs, KIVI,
// K and V of two precisions, odd head sizes up to 256, capped scores, latents of other sizes and precisions than decode_latent.h's;
// slower). Over latents a block attends for four heads, not eight: 512 sums for eight would take 128 registers of each lane.
//
// Bytes: as in decode_tensor.h. For a group of up to 8 heads a cell of f32 costs 8 FMA: at 20.7 bytes per clock 41 of
// the 128 that a multiprocessor does in a clock. With what is around them, per warp and tile of 32 keys, head 128
// (32,768 bytes, 1,583 clocks, 6,332 issue slots): 3,250 instructions for up to 8 heads, 51 %, 1,300 for up to 2, 20 %
// (compiler 13.0, sm_90). In flight: 4,096 bytes for each of 12 or 20 warps (135 or 90 registers), but fetched when they
// are used and not before, so that a warp waits and computes in turn. Nothing of this was measured on a card.
//
// Keys: 8 lanes share a row and hold 4 rows each, so that a query's piece read once serves 4 keys. The partial sums of
// the heads are added up by halving: lanes exchange half of their heads at each of the 3 steps, 7 shuffles for 8 heads
// where a butterfly for each takes 24, and a lane is left with the scores of one head. Weights go through shared
// memory, as lane and row change places: with values, lanes share out the elements. Rejected: three parts of tf32 on
// tensor cores (K and V would have to be cut too, at 9 products for f32's digits).
#pragma once

#include "kernels/cuda/decode_parts.h"

#include <cstdint>

namespace kvloupe::cuda {

inline constexpr std::uint32_t plain_keys = 32;         // of a tile
inline constexpr std::uint32_t plain_rows_at_once = 4;  // of a lane

// Rows of f32, head size a multiple of 4 up to MostElements: pieces of 16 bytes.
template <std::uint32_t MostElements>
struct PlainRows {
    static constexpr std::uint32_t width = 4;  // elements of a piece
    static constexpr std::uint32_t most_elements = MostElements;
    using Place = std::uint32_t;               // the row's number
    __device__ PlainRows(const AttentionArgs& args, const DecodeWork&) : m_cache(args.cache) {}
    __device__ std::uint32_t key_elements() const { return m_cache.head_dim_k; }
    __device__ std::uint32_t value_elements() const { return m_cache.head_dim_v; }
    // Of an entry that is a key.
    __device__ static Place place(const AttentionArgs& args, const DecodeWork& work, std::uint32_t entry) {
        return work.row_of(args.cache, work.look_up(args, entry));
    }
    __device__ static Place of_lane(Place place, std::uint32_t lane) {
        return __shfl_sync(0xFFFFFFFFu, place, static_cast<int>(lane));
    }
    __device__ void key(Place row, std::uint32_t piece, float (&to)[width]) const {
        load(reinterpret_cast<const float*>(m_cache.keys.data) + std::uint64_t{row} * m_cache.head_dim_k + width * piece, to);
    }
    __device__ void value(Place row, std::uint32_t piece, float (&to)[width]) const {
        load(reinterpret_cast<const float*>(m_cache.values.data) + std::uint64_t{row} * m_cache.head_dim_v + width * piece, to);
    }

    // A piece from an address aligned to 16, whatever memory.
    __device__ static void load(const float* from, float (&to)[width]) { load_four(from, to); }

private:
    CacheLayer m_cache;
};

// Rows in any precision, keys and values each their own, latents too, values of up to MostElements: Width elements at a time, 4 where
// the sizes are multiples of it, else 1.
template <std::uint32_t Width, std::uint32_t MostElements>
struct AnyRows {
    static constexpr std::uint32_t width = Width;
    static constexpr std::uint32_t most_elements = MostElements;
    using Place = TokenPlace;
    __device__ AnyRows(const AttentionArgs& args, const DecodeWork& work)
        : m_rows(args.cache, args.latent, work.kv_head), m_elements{query_dim(args), out_dim(args)} {}
    __device__ std::uint32_t key_elements() const { return m_elements[0]; }
    __device__ std::uint32_t value_elements() const { return m_elements[1]; }
    __device__ static Place place(const AttentionArgs& args, const DecodeWork& work, std::uint32_t entry) {
        return place_of(args.block_tables + work.table, args.table_pages == nullptr ? nullptr : args.table_pages + work.table,
                        work.position(entry), args.cache.block_size);
    }
    __device__ static Place of_lane(const Place& place, std::uint32_t lane) {
        const int from = static_cast<int>(lane);
        return {__shfl_sync(0xFFFFFFFFu, place.block, from), __shfl_sync(0xFFFFFFFFu, place.page, from),
                __shfl_sync(0xFFFFFFFFu, place.offset, from)};
    }
    __device__ void key(const Place& place, std::uint32_t piece, float (&to)[width]) const { take(load_key_apart<width>(m_rows, place, width * piece), to); }
    __device__ void value(const Place& place, std::uint32_t piece, float (&to)[width]) const { take(load_value_apart<width>(m_rows, place, width * piece), to); }
    __device__ static void load(const float* from, float (&to)[width]) {
        if constexpr (width == 4) load_four(from, to);
        else to[0] = *from;
    }

private:
    __device__ static void take(const LoadedElements<width>& loaded, float (&to)[width]) {
        KVLOUPE_UNROLL
        for (std::uint32_t i = 0; i < width; ++i) to[i] = loaded.at[i];
    }

    AttendedRows m_rows;
    std::uint32_t m_elements[2];
};

// Sums values[h] of 8 neighbouring lanes: returns head lane % 8 * Heads / 8 of the row of lanes.
template <std::uint32_t Heads>
__device__ float add_up_heads(float (&values)[Heads], std::uint32_t lane) {
    std::uint32_t left = Heads;
    KVLOUPE_UNROLL
    for (std::uint32_t other = 4; other > 0; other /= 2) {
        left /= 2;
        const bool upper = (lane & other) != 0;
        if (left == 0) values[0] += __shfl_xor_sync(0xFFFFFFFFu, values[0], static_cast<int>(other));
        KVLOUPE_UNROLL
        for (std::uint32_t h = 0; h < left; ++h) {
            const float give = upper ? values[h] : values[h + left], keep = upper ? values[h + left] : values[h];
            values[h] = keep + __shfl_xor_sync(0xFFFFFFFFu, give, static_cast<int>(other));
        }
    }
    return values[0];
}

template <class Rows, std::uint32_t Heads>
struct PlainDecode {
    using Place = typename Rows::Place;
    static constexpr std::uint32_t width = Rows::width;
    static constexpr std::uint32_t value_pieces = (Rows::most_elements / width + 31) / 32;  // of a row, per lane
    static constexpr std::uint32_t own_keys = plain_keys / 4;                               // whose scores a lane has

    std::uint32_t lane, sub, head;  // sub: which of 4 rows at a time; head: whose scores
    float sums[Heads][value_pieces][width] = {};
    float maximum = -INFINITY;
    float weights = 0;              // over the lane's keys

    __device__ PlainDecode() : lane(threadIdx.x % 32), sub(lane / 8), head(lane % 8 * Heads / 8) {}

    // Key 4 i + sub of the tile is the lane's i-th. queries (Heads, elements) in shared memory, times scale * log2(e).
    __device__ void score(const Rows& rows, const float* queries, const Place& place, float (&scores)[own_keys]) const {
        const std::uint32_t elements = rows.key_elements(), pieces = elements / width;
        KVLOUPE_UNROLL
        for (std::uint32_t i = 0; i < own_keys; i += plain_rows_at_once) {
            Place row[plain_rows_at_once];
            float partial[plain_rows_at_once][Heads] = {};
            KVLOUPE_UNROLL
            for (std::uint32_t k = 0; k < plain_rows_at_once; ++k)
                row[k] = Rows::of_lane(place, 4 * (i + k) + sub);
            const auto add_piece = [&](std::uint32_t piece) {
                float key[plain_rows_at_once][width];
                KVLOUPE_UNROLL
                for (std::uint32_t k = 0; k < plain_rows_at_once; ++k) rows.key(row[k], piece, key[k]);
                KVLOUPE_UNROLL
                for (std::uint32_t h = 0; h < Heads; ++h) {
                    float query[width];
                    Rows::load(queries + h * elements + piece * width, query);
                    KVLOUPE_UNROLL
                    for (std::uint32_t e = 0; e < width; ++e) {
                        KVLOUPE_UNROLL
                        for (std::uint32_t k = 0; k < plain_rows_at_once; ++k) partial[k][h] += query[e] * key[k][e];
                    }
                }
            };
            // Two pieces at a time: all of a row's at once would fill the registers.
            for (std::uint32_t piece = lane % 8; piece < pieces; piece += 16) {
                add_piece(piece);
                if (piece + 8 < pieces) add_piece(piece + 8);
            }
            KVLOUPE_UNROLL
            for (std::uint32_t k = 0; k < plain_rows_at_once; ++k) scores[i + k] = add_up_heads<Heads>(partial[k], lane);
        }
    }

    // Leaves the weights of the tile in tile_weights (plain_keys, Heads) and, in tile_kept (Heads), by what earlier
    // sums are multiplied. cap: of the scores, times log2(e).
    __device__ void weigh(float (&scores)[own_keys], std::uint32_t keys, float cap, float* tile_weights, float* tile_kept) {
        float largest = maximum;
        KVLOUPE_UNROLL
        for (std::uint32_t i = 0; i < own_keys; ++i) {
            scores[i] = 4 * i + sub < keys ? capped_score(scores[i], cap) : -INFINITY;
            largest = fmaxf(largest, scores[i]);
        }
        largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, 8));
        largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, 16));
        const float kept = exp2f(maximum - largest);
        maximum = largest;
        weights *= kept;
        const bool writes = lane % 8 * Heads % 8 == 0;  // one of the lanes that have the head
        if (writes && sub == 0) tile_kept[head] = kept;
        KVLOUPE_UNROLL
        for (std::uint32_t i = 0; i < own_keys; ++i) {
            const float weight = exp2f(scores[i] - largest);
            weights += weight;
            if (writes) tile_weights[(4 * i + sub) * Heads + head] = weight;
        }
    }

    __device__ void add_values(const Rows& rows, const Place& place, const float* tile_weights, const float* tile_kept) {
        const std::uint32_t elements = rows.value_elements();
        KVLOUPE_UNROLL
        for (std::uint32_t h = 0; h < Heads; ++h) {
            const float kept = tile_kept[h];
            KVLOUPE_UNROLL
            for (std::uint32_t p = 0; p < value_pieces; ++p) {
                KVLOUPE_UNROLL
                for (std::uint32_t e = 0; e < width; ++e) sums[h][p][e] *= kept;
            }
        }
        // Rows in flight; one where a row takes 16 loads, each of them a switch over precisions.
        constexpr std::uint32_t at_once = value_pieces * width <= 4 ? 8 : value_pieces < 16 ? 4 : 1;
        for (std::uint32_t first = 0; first < plain_keys; first += at_once) {
            float value[at_once][value_pieces][width] = {};
            KVLOUPE_UNROLL
            for (std::uint32_t k = 0; k < at_once; ++k) {
                const Place row = Rows::of_lane(place, first + k);
                KVLOUPE_UNROLL
                for (std::uint32_t p = 0; p < value_pieces; ++p) {
                    // Lanes behind the row's end sum its last piece, and leave() drops it.
                    if (within(p, elements)) rows.value(row, min(lane + 32 * p, elements / width - 1), value[k][p]);
                }
            }
            KVLOUPE_UNROLL
            for (std::uint32_t k = 0; k < at_once; ++k) {
                KVLOUPE_UNROLL
                for (std::uint32_t h = 0; h < Heads; ++h) {
                    const float weight = tile_weights[(first + k) * Heads + h];
                    KVLOUPE_UNROLL
                    for (std::uint32_t p = 0; p < value_pieces; ++p) {
                        if (!within(p, elements)) continue;
                        KVLOUPE_UNROLL
                        for (std::uint32_t e = 0; e < width; ++e) sums[h][p][e] += weight * value[k][p][e];
                    }
                }
            }
        }
    }

    // Whether some lane has a p-th piece.
    __device__ static bool within(std::uint32_t p, std::uint32_t elements) { return p == 0 || 32 * p * width < elements; }

    __device__ void leave(const WarpStates& states, std::uint32_t warp, std::uint32_t heads, std::uint32_t elements) {
        weights += __shfl_xor_sync(0xFFFFFFFFu, weights, 8);
        weights += __shfl_xor_sync(0xFFFFFFFFu, weights, 16);
        if (sub == 0 && lane * Heads % 8 == 0 && head < heads)
            states.states[warp * heads + head] = float2{maximum, weights};
        KVLOUPE_UNROLL
        for (std::uint32_t h = 0; h < Heads; ++h) {
            KVLOUPE_UNROLL
            for (std::uint32_t p = 0; p < value_pieces; ++p) {
                KVLOUPE_UNROLL
                for (std::uint32_t e = 0; e < width; ++e) {
                    const std::uint32_t element = (lane + 32 * p) * width + e;
                    if (h < heads && element < elements)
                        states.values[(warp * heads + h) * elements + element] = sums[h][p][e];
                }
            }
        }
    }
};

// One block of a part of a sequence; see DecodeWork. Heads: 2, 4 or 8, at least those of a pass. Dynamic shared memory:
// plain_decode_bytes().
template <class Rows, std::uint32_t Heads>
__global__ void __launch_bounds__(decode_threads, 2) decode_plain(DecodePlan plan) {
    KVLOUPE_KERNEL(decode_plain);
    KVLOUPE_DYNAMIC_SHARED(float, shared);
    KVLOUPE_SHARED(float, weights, decode_warps * plain_keys * Heads);
    KVLOUPE_SHARED(float, kept, decode_warps * Heads);
    KVLOUPE_SHARED(DecodeWork, shared_work, 1);

    const DecodeWork& work = shared_work[0];
    if (threadIdx.x == 0) shared_work[0].find(plan);
    __syncthreads();
    if (work.empty()) return finish_empty_part(plan, work);
    const Rows rows(plan.args, work);
    const std::uint32_t warp = threadIdx.x / 32, elements = rows.key_elements();
    // Queries (Heads, elements), then the same as sinks see them.
    for (std::uint32_t i = threadIdx.x; i < Heads * elements; i += decode_threads) {
        const std::uint32_t head = i / elements, element = i % elements;
        const float* const query = work.query(plan.args, head < work.heads ? head : 0);
        const float scale = head < work.heads ? plan.args.scale * log2_e : 0;
        shared[i] = query[element] * scale;
        if (work.holds_sinks())
            shared[Heads * elements + i] = as_sinks_see(plan.args, query, element, work.dropped) * scale;
    }
    __syncthreads();

    PlainDecode<Rows, Heads> decode;
    float* const tile_weights = weights + warp * plain_keys * Heads;
    float* const tile_kept = kept + warp * Heads;
    for (std::uint32_t tile = work.first_tile<plain_keys>(warp); tile < work.end;
         tile = work.tile_after<plain_keys>(tile)) {
        const std::uint32_t keys = work.keys_of<plain_keys>(tile);
        // Lanes behind the last key repeat it, so that no masked row is read.
        const auto place = Rows::place(plan.args, work, tile + min(decode.lane, keys - 1));
        float scores[PlainDecode<Rows, Heads>::own_keys];
        decode.score(rows, shared + (work.sink(tile) ? Heads * elements : 0), place, scores);
        decode.weigh(scores, keys, plan.args.soft_cap * log2_e, tile_weights, tile_kept);
        __syncwarp();
        decode.add_values(rows, place, tile_weights, tile_kept);
        __syncwarp();
    }
    __syncthreads();  // the queries are no longer needed: the warps' states take their place
    const WarpStates states(shared, work.heads);
    decode.leave(states, warp, work.heads, rows.value_elements());
    __syncthreads();
    finish_part(plan, work, states);
}

template <std::uint32_t Heads>
std::size_t plain_decode_bytes(const AttentionArgs& args, std::uint32_t group, bool sinks) {
    const std::size_t queries = std::size_t{Heads} * query_dim(args) * (sinks ? 2 : 1);
    const std::size_t states = WarpStates::floats(group < Heads ? group : Heads, out_dim(args));
    return (queries > states ? queries : states) * sizeof(float);
}

}  // namespace kvloupe::cuda
