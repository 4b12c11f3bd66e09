// SPDX-License-Identifier: GPL-3.0-or-later
//
// What the decode kernels share, whatever reads the rows: which part of which sequence a block attends to, and how the states
// of its warps become one.
//
// A block has decode_warps warps and attends for up to decode_heads query heads of one KV head. A group of more heads is
// attended to in passes by neighbouring blocks, which run at the same time and find each other's rows in L2.
#pragma once

#include "kernels/cuda/attention_common.h"

#include <cstdint>

namespace kvloupe::cuda {

inline constexpr std::uint32_t decode_warps = 4;
inline constexpr std::uint32_t decode_threads = 32 * decode_warps;
inline constexpr std::uint32_t decode_heads = 8;

// The keys that one query sees, as a list of entries that is cut into tiles: sinks first, padded to whole tiles of decode_tile,
// then the rest. So a tile holds either sinks or other keys, never both, and which keys share a tile depends on positions
// alone.
struct KeyEntries {
    std::uint32_t sinks = 0;
    std::uint32_t padded_sinks = 0;
    std::uint32_t shift = 0;  // position of an entry behind the sinks, less the entry (modulo 2^32)
    std::uint32_t count = 0;

    __device__ explicit KeyEntries(const VisibleKeys& keys)
        : sinks(keys.sinks), padded_sinks((keys.sinks + decode_tile - 1) / decode_tile * decode_tile),
          shift(keys.begin - padded_sinks), count(padded_sinks + (keys.end - keys.begin)) {}

    __device__ bool sink(std::uint32_t entry) const { return entry < padded_sinks; }
    __device__ std::uint32_t position(std::uint32_t entry) const { return sink(entry) ? entry : entry + shift; }
};

// What the kernels are given.
struct DecodePlan {
    AttentionArgs args;
    const std::uint32_t* list = nullptr;  // (count) sequences
    std::uint32_t count = 0;
    std::uint32_t splits = 1;
    std::uint32_t passes = 1;             // of decode_heads heads over a group
    float2* states = nullptr;             // (count, query_heads, splits) maximum, sum of weights; where splits > 1
    float* sums = nullptr;                // (count, query_heads, splits, head_dim_v) weighted values, not yet divided
};

// Where a block's result goes. Lies in shared memory meanwhile: registers are for rows.
struct DecodePart {
    std::uint32_t item;        // in the list
    std::uint32_t split;
    std::uint32_t row;         // of q and out
    std::uint32_t first_head;  // query heads first_head .. first_head + heads - 1
    std::uint32_t heads;

    __device__ const float* query(const AttentionArgs& args, std::uint32_t head) const {
        return args.q + (std::uint64_t{row} * args.query_heads + first_head + head) * args.cache.head_dim_k;
    }
    __device__ std::uint64_t state(const DecodePlan& plan, std::uint32_t head) const {
        return (item * std::uint64_t{plan.args.query_heads} + first_head + head) * plan.splits + split;
    }
};

// The keys that a block attends to. Grid (count * splits * kv_heads * passes), the passes of a KV head next to each other.
struct DecodeWork {
    DecodePart part;
    KeyRows rows;
    KeyEntries entries;
    std::uint32_t begin = 0;    // entries begin .. end - 1; none: an empty part
    std::uint32_t end = 0;
    std::uint32_t dropped = 0;  // by so much the query is turned back for sinks

    __device__ explicit DecodeWork(const DecodePlan& plan) : entries(VisibleKeys{}) {
        const AttentionArgs& args = plan.args;
        const std::uint32_t group = args.query_heads / args.cache.kv_heads;
        std::uint32_t rest = blockIdx.x;
        const std::uint32_t first = rest % plan.passes * decode_heads;  // of the group
        rest /= plan.passes;
        const std::uint32_t kv_head = rest % args.cache.kv_heads;
        rest /= args.cache.kv_heads;
        part.split = rest % plan.splits;
        part.item = rest / plan.splits;
        const SequenceRows sequence = args.sequences[plan.list[part.item]];
        part.row = sequence.first_row;
        part.first_head = kv_head * group + first;
        part.heads = min(group - first, decode_heads);
        rows = {args.block_tables + sequence.table_begin, args.cache.block_size, args.cache.kv_heads, kv_head};
        const VisibleKeys keys = visible_keys(args.span, sequence.first_position);
        entries = KeyEntries(keys);
        dropped = dropped_keys(args.span, keys);
        const std::uint32_t tiles = (entries.count + decode_tile - 1) / decode_tile;
        const std::uint32_t entries_each = (tiles + plan.splits - 1) / plan.splits * decode_tile;
        begin = part.split * entries_each;
        end = min(begin + entries_each, entries.count);
    }

    __device__ bool holds_sinks() const { return begin < entries.sinks; }
    // The cache row of an entry that is a key. Entry `begin` is one.
    __device__ std::uint32_t row_of(std::uint32_t entry) const { return rows.row(entries.position(entry)); }
};

// The warps' tiles of a part: warp w has every decode_warps-th, so that a block reads neighbouring rows at a time.
template <std::uint32_t TileKeys>
struct TileWalk {
    std::uint32_t first = 0;  // entry
    std::uint32_t keys = 0;   // 0: no tile is left

    __device__ TileWalk(const DecodeWork& work, std::uint32_t warp) : first(work.begin + warp * TileKeys) { settle(work); }
    __device__ void next(const DecodeWork& work) {
        first += decode_warps * TileKeys;
        settle(work);
    }

private:
    // Tiles behind the last sink hold padding alone: go on to the next.
    __device__ void settle(const DecodeWork& work) {
        for (keys = 0; first < work.end; first += decode_warps * TileKeys) {
            const std::uint32_t end = work.entries.sink(first) ? work.entries.sinks : work.end;
            if (first >= end) continue;
            keys = min(TileKeys, end - first);
            return;
        }
    }
};

// What each warp leaves in shared memory for its heads: weighted values (warps, heads, head_dim_v), then maxima and sums of
// weights (warps, heads). In powers of two: weights are exp2(score - maximum), times any factor that all warps share.
struct WarpStates {
    float* values = nullptr;
    float2* states = nullptr;

    __device__ WarpStates(float* shared, std::uint32_t heads)
        : values(shared + 2 * decode_warps * heads), states(reinterpret_cast<float2*>(shared)) {}
    static constexpr std::uint32_t floats(std::uint32_t heads, std::uint32_t head_dim) {
        return decode_warps * heads * (head_dim + 2);
    }
};

// All threads of the block, after the warps have left their states and a barrier: joins them in ascending order and writes
// the part's state, or where it is the only part, the output.
__device__ inline void finish_part(const DecodePlan& plan, const DecodePart& part, const WarpStates& warps) {
    const AttentionArgs& args = plan.args;
    const std::uint32_t head_dim = args.cache.head_dim_v;
    for (std::uint32_t i = threadIdx.x; i < part.heads * head_dim; i += decode_threads) {
        const std::uint32_t head = i / head_dim, element = i % head_dim;
        float maximum = -INFINITY;
        for (std::uint32_t w = 0; w < decode_warps; ++w) maximum = fmaxf(maximum, warps.states[w * part.heads + head].x);
        float value = 0, sum = 0;
        for (std::uint32_t w = 0; w < decode_warps; ++w) {
            const float2 state = warps.states[w * part.heads + head];
            const float weight = merge_weight(state.x, maximum);
            if (weight == 0) continue;
            value += weight * warps.values[(w * part.heads + head) * head_dim + element];
            sum += weight * state.y;
        }
        if (plan.splits == 1) {
            args.out[(std::uint64_t{part.row} * args.query_heads + part.first_head + head) * head_dim + element] = value / sum;
            continue;
        }
        if (element == 0) plan.states[part.state(plan, head)] = float2{maximum, sum};
        plan.sums[part.state(plan, head) * head_dim + element] = value;
    }
}

// An empty part: a state that the merge leaves out; its values are not written.
__device__ inline void finish_empty_part(const DecodePlan& plan, const DecodePart& part) {
    if (threadIdx.x < part.heads) plan.states[part.state(plan, threadIdx.x)] = float2{-INFINITY, 0.0f};
}

}  // namespace kvloupe::cuda
