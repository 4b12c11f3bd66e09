// SPDX-License-Identifier: GPL-3.0-or-later
//
// What the decode kernels share, whatever reads the rows: which part of which sequence a block attends to, and how the
// states of its warps become one.
//
// A block attends for up to heads_at_once query heads of one KV head. A group of more heads is attended to in passes by
// neighbouring blocks, which run at the same time and find each other's rows in L2.
#pragma once

#include "kernels/cuda/attention_common.h"

#include <cstdint>

namespace kvloupe::cuda {

inline constexpr std::uint32_t decode_warps = 4;
inline constexpr std::uint32_t decode_threads = 32 * decode_warps;
inline constexpr std::uint32_t decode_heads = 8;

// What the kernels are given.
struct DecodePlan {
    AttentionArgs args;
    const std::uint32_t* list = nullptr;  // (count) sequences
    std::uint32_t count = 0;
    std::uint32_t splits = 1;
    std::uint32_t heads_at_once = decode_heads;
    std::uint32_t passes = 1;             // of so many heads over a group
    float2* states = nullptr;             // (count, query_heads, splits) maximum, sum of weights; where splits > 1
    float* sums = nullptr;                // (count, query_heads, splits, out_dim) weighted values, not yet divided
};

// decode_codes.h on its way: whether it takes the layer (attention_decode_codes.cu), and its launch.
bool takes_codes(const CacheLayer& cache);
cudaError_t launch_decode_codes(const DecodePlan& plan, std::uint32_t group, bool sinks, cudaStream_t stream);

// decode_latent.h likewise (attention_decode_latent.cu).
inline constexpr std::uint32_t latent_heads = 16;
bool takes_latents(const AttentionArgs& args);
cudaError_t launch_decode_latents(const DecodePlan& plan, cudaStream_t stream);

// Where a key's row lies: what the block table said, not yet turned into a row, so that nothing waits for it before
// then.
struct KeyLookup {
    std::uint32_t block = 0;
    std::uint32_t offset = 0;  // in the block
};

// The work of one block. It lies in shared memory: registers are for rows. Grid (count * splits * kv_heads * passes),
// the passes of a KV head next to each other.
//
// The keys that the query sees are a list of entries: sinks first, padded to whole tiles of decode_tile, then the rest.
// A part has the entries begin .. end - 1, and each warp has every decode_warps-th of its tiles. So a tile holds either
// sinks or other keys, never both, and which keys share a tile depends on positions alone.
struct DecodeWork {
    std::uint32_t item;          // in the list
    std::uint32_t split;
    std::uint32_t row;           // of q and out
    std::uint32_t query_width;
    std::uint32_t first_head;    // query heads first_head .. first_head + heads - 1
    std::uint32_t heads;
    std::uint32_t dropped;       // by so much the query is turned back for sinks
    std::uint32_t begin;         // an entry that is a key; none: the part is empty
    std::uint32_t end;
    std::uint32_t sinks;
    std::uint32_t padded_sinks;
    std::uint32_t shift;         // position of an entry behind the sinks, less the entry (modulo 2^32)
    std::uint32_t kv_head;
    std::uint32_t table;         // where the sequence's begins

    // By one thread; a barrier follows.
    __device__ void find(const DecodePlan& plan) {
        const AttentionArgs& args = plan.args;
        const std::uint32_t group = args.query_heads / args.cache.kv_heads;
        std::uint32_t rest = blockIdx.x;
        const std::uint32_t first = rest % plan.passes * plan.heads_at_once;  // of the group
        rest /= plan.passes;
        kv_head = rest % args.cache.kv_heads;
        rest /= args.cache.kv_heads;
        split = rest % plan.splits;
        item = rest / plan.splits;
        const SequenceRows sequence = args.sequences[plan.list[item]];
        table = sequence.table_begin;
        row = sequence.first_row;
        first_head = kv_head * group + first;
        heads = min(group - first, plan.heads_at_once);
        query_width = query_dim(args);
        const VisibleKeys keys = visible_keys(args.span, sequence.first_position);
        dropped = dropped_keys(args.span, keys);
        sinks = keys.sinks;
        padded_sinks = (sinks + decode_tile - 1) / decode_tile * decode_tile;
        shift = keys.begin - padded_sinks;
        const std::uint32_t entries = padded_sinks + (keys.end - keys.begin);
        const std::uint32_t tiles = (entries + decode_tile - 1) / decode_tile;
        const std::uint32_t entries_each = (tiles + plan.splits - 1) / plan.splits * decode_tile;
        begin = split * entries_each;
        end = min(begin + entries_each, entries);
    }

    __device__ const float* query(const AttentionArgs& args, std::uint32_t head) const {
        return args.q + (std::uint64_t{row} * args.query_heads + first_head + head) * query_width;
    }
    __device__ std::uint64_t state(const DecodePlan& plan, std::uint32_t head) const {
        return (item * std::uint64_t{plan.args.query_heads} + first_head + head) * plan.splits + split;
    }
    __device__ bool empty() const { return begin >= end; }
    __device__ bool holds_sinks() const { return begin < sinks; }
    __device__ bool sink(std::uint32_t entry) const { return entry < padded_sinks; }

    // First entry of the warp's first tile, and of the tile after one; `end` or more: there is none.
    template <std::uint32_t TileKeys>
    __device__ std::uint32_t first_tile(std::uint32_t warp) const {
        return without_padding<TileKeys>(begin + warp * TileKeys);
    }
    template <std::uint32_t TileKeys>
    __device__ std::uint32_t tile_after(std::uint32_t tile) const {
        return without_padding<TileKeys>(tile + decode_warps * TileKeys);
    }
    // How many entries of the tile are keys: they come first.
    template <std::uint32_t TileKeys>
    __device__ std::uint32_t keys_of(std::uint32_t tile) const {
        return min(TileKeys, (sink(tile) ? sinks : end) - tile);
    }
    // Of an entry that is a key.
    __device__ std::uint32_t position(std::uint32_t entry) const { return sink(entry) ? entry : entry + shift; }
    __device__ KeyLookup look_up(const AttentionArgs& args, std::uint32_t entry) const {
        const std::uint32_t position = this->position(entry);
        const std::uint32_t block = position / args.cache.block_size;
        return {args.block_tables[table + block], position - block * args.cache.block_size};
    }
    // Rows of the cache are counted in 32 bits: a layer's pool has fewer than 2^32 (137 GB at 64 cells of 16 bits).
    __device__ std::uint32_t row_of(const CacheLayer& cache, const KeyLookup& key) const {
        return (key.block * cache.kv_heads + kv_head) * cache.block_size + key.offset;
    }

private:
    // Tiles behind the last sink hold padding alone, less than decode_tile entries: one step leads out of it.
    template <std::uint32_t TileKeys>
    __device__ std::uint32_t without_padding(std::uint32_t tile) const {
        static_assert(decode_warps * TileKeys >= decode_tile);
        return tile >= sinks && tile < padded_sinks ? tile + decode_warps * TileKeys : tile;
    }
};

// What each warp leaves in shared memory for its heads: weighted values (warps, heads, out_dim), then maxima and
// sums of weights (warps, heads). In powers of two: weights are exp2(score - maximum), times any factor that all warps
// share.
struct WarpStates {
    float* values = nullptr;
    float2* states = nullptr;

    __device__ WarpStates(float* shared, std::uint32_t heads)
        : values(shared + 2 * decode_warps * heads), states(reinterpret_cast<float2*>(shared)) {}
    static constexpr std::uint32_t floats(std::uint32_t heads, std::uint32_t head_dim) {
        return decode_warps * heads * (head_dim + 2);
    }
};

// All threads of the block, after the warps have left their states and a barrier: joins them in ascending order and
// writes the part's state, or where it is the only part, the output.
__device__ inline void finish_part(const DecodePlan& plan, const DecodeWork& work, const WarpStates& warps) {
    const AttentionArgs& args = plan.args;
    const std::uint32_t head_dim = out_dim(args);
    for (std::uint32_t i = threadIdx.x; i < work.heads * head_dim; i += decode_threads) {
        const std::uint32_t head = i / head_dim, element = i % head_dim;
        float maximum = -INFINITY;
        for (std::uint32_t w = 0; w < decode_warps; ++w) maximum = fmaxf(maximum, warps.states[w * work.heads + head].x);
        float value = 0, sum = 0;
        for (std::uint32_t w = 0; w < decode_warps; ++w) {
            const float2 state = warps.states[w * work.heads + head];
            const float weight = merge_weight(state.x, maximum);
            if (weight == 0) continue;
            value += weight * warps.values[(w * work.heads + head) * head_dim + element];
            sum += weight * state.y;
        }
        if (plan.splits == 1) {
            const std::uint64_t to = std::uint64_t{work.row} * args.query_heads + work.first_head + head;
            args.out[to * head_dim + element] = value / sum;
            continue;
        }
        if (element == 0) plan.states[work.state(plan, head)] = float2{maximum, sum};
        plan.sums[work.state(plan, head) * head_dim + element] = value;
    }
}

// An empty part: a state that the merge leaves out; its values are not written.
__device__ inline void finish_empty_part(const DecodePlan& plan, const DecodeWork& work) {
    if (threadIdx.x < work.heads) plan.states[work.state(plan, threadIdx.x)] = float2{-INFINITY, 0.0f};
}

}  // namespace kvloupe::cuda
