// SPDX-License-Identifier: GPL-3.0-or-later
//
// Attention of a batch over the paged cache, on all threads.
#pragma once

#include "engine/backend.h"
#include "kernels/cpu/aligned_bytes.h"
#include "kernels/cpu/attention_plan.h"
#include "kernels/cpu/cpu_cache.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/kv_rows.h"
#include "kernels/cpu/rotary.h"
#include "kernels/cpu/thread_pool.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace kvloupe::cpu {

class Attention {
public:
    Attention(ThreadPool& pool, Counters& counters) : m_pool(pool), m_counters(counters) {}

    // The next run has another batch: plan anew.
    void begin_batch() {
        for (const auto& planned : m_planned) planned->valid = false;
    }
    // out (rows, query_heads, value_dim); false: no memory for the scratch, out is then NaN.
    bool run(const Batch& batch, const float* q, const AttentionShape& shape, const CpuKvCache& cache, std::uint32_t layer,
             float* out);
    // Softmax weights of the probe's heads for every row of the batch.
    bool probe(const Batch& batch, const float* q, const AttentionShape& shape, const CpuKvCache& cache,
               std::uint32_t layer, AttentionProbe& probe);

private:
    // Layers of one span share a plan.
    struct Planned {
        AttentionShape shape;
        bool valid = false;               // for the batch at hand
        AttentionPlan plan;
        std::vector<std::uint32_t> dropped;  // (rows) where keys are read by rank
        RotaryTable turn_back;               // by these
    };
    // What run() was given.
    struct Call {
        const Batch& batch;
        const float* q;
        const AttentionShape& shape;
        const CpuKvCache& cache;
        std::uint32_t layer;
        float* out;
        const Planned& planned;
    };
    struct Scratch {
        float* tile;
        float* q;       // (tile_queries, head_dim); with a latent (tile_queries, kv_rank), then (tile_queries, rotary_dim)
        float* sink_q;  // the same as sinks see it
        AttentionState state, next;
        KvTileRoom keys, values;
    };
    // A tile and, with a latent, the rest of its keys.
    struct TileWork {
        AttentionTile tile, rest;
    };

    // rooms: bytes that a thread needs for the rows of a tile.
    const Planned* prepare(const Batch& batch, const AttentionShape& shape, std::uint64_t rooms);
    Planned& planned_for(const AttentionShape& shape);
    bool make_room(const Planned& planned, const AttentionShape& shape, std::uint64_t rooms);
    Scratch scratch(const Call& call, unsigned thread) const;
    void run_task(const Call& call, const AttentionTask& task, const Scratch& scratch);
    static void pack_queries(const Call& call, const QueryGroup& group, bool sinks, Scratch& scratch);
    // The spans of a group's queries (tile_queries) in the tile that begins at position `first`, and what any of them sees.
    static TileSpan find_spans(const Call& call, const QueryGroup& group, std::uint32_t first, TileSpan* seen);
    // Fills in the keys and values of a tile; `any` is set before.
    static void find_rows(const Call& call, const QueryGroup& group, std::uint32_t first, const Scratch& scratch, TileWork& work);
    // Attended rows (count, value_dim) of a cache whose values were turned before they were stored.
    static void turn_back_values(const Call& call, float* rows, std::uint32_t count);
    void attend(const Call& call, const QueryGroup& group, std::uint32_t tile, const Scratch& scratch);
    void finish(const Call& call, const QueryGroup& group, const Scratch& scratch);
    // attention_materialised.cpp
    bool run_materialised(const Call& call);
    void write_scores(const Call& call, const QueryGroup& group, std::uint32_t tile, std::uint64_t stride, const Scratch& scratch);
    void weigh_values(const Call& call, const QueryGroup& group, std::uint64_t stride, const Scratch& scratch);

    ThreadPool& m_pool;
    Counters& m_counters;
    std::vector<std::unique_ptr<Planned>> m_planned;
    AlignedBytes m_scratch;  // per thread
    AlignedBytes m_rooms;    // per thread: rows of a tile
    AlignedBytes m_states;   // (plan.states) of shared-out tiles
    AlignedBytes m_scores;   // (query_heads, rows, keys) of one sequence, where scores are kept whole
    std::unique_ptr<std::atomic<std::uint32_t>[]> m_tiles_left;  // (groups) of split groups
    std::size_t m_tiles_left_size = 0;
};

}  // namespace kvloupe::cpu
