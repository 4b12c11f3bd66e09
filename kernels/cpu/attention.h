// SPDX-License-Identifier: GPL-3.0-or-later
//
// Attention of a batch over the paged cache, on all threads.
#pragma once

#include "engine/backend.h"
#include "kernels/cpu/aligned_bytes.h"
#include "kernels/cpu/attention_plan.h"
#include "kernels/cpu/cpu_cache.h"
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
    // out (rows, query_heads, head_dim); false: no memory for the scratch, out is then NaN.
    bool run(const Batch& batch, const float* q, const AttentionShape& shape, const CpuKvCache& cache, std::uint32_t layer,
             float* out);
    // Softmax weights of the probe's heads for every row of the batch.
    bool probe(const Batch& batch, const float* q, const AttentionShape& shape, const CpuKvCache& cache,
               std::uint32_t layer, AttentionProbe& probe);

private:
    struct Call;  // what run() was given
    struct Scratch;
    // Layers of one span share a plan.
    struct Planned {
        AttentionShape shape;
        bool valid = false;               // for the batch at hand
        AttentionPlan plan;
        std::vector<std::uint32_t> dropped;  // (rows) where keys are read by rank
        RotaryTable turn_back;               // by these
    };

    // rooms: bytes that a thread needs for the rows of a tile.
    const Planned* prepare(const Batch& batch, const AttentionShape& shape, std::uint64_t rooms);
    Planned& planned_for(const AttentionShape& shape);
    bool make_room(const Planned& planned, std::uint64_t rooms);
    Scratch scratch(const Call& call, unsigned thread) const;
    void run_task(const Call& call, const AttentionTask& task, const Scratch& scratch);
    void pack_queries(const Call& call, const QueryGroup& group, bool sinks, Scratch& scratch);
    void attend(const Call& call, const QueryGroup& group, std::uint32_t tile, const Scratch& scratch);
    void finish(const Call& call, const QueryGroup& group, const Scratch& scratch);

    ThreadPool& m_pool;
    Counters& m_counters;
    std::vector<std::unique_ptr<Planned>> m_planned;
    AlignedBytes m_scratch;  // per thread
    AlignedBytes m_rooms;    // per thread: rows of a tile
    AlignedBytes m_states;   // (plan.states) of shared-out tiles
    std::unique_ptr<std::atomic<std::uint32_t>[]> m_tiles_left;  // (groups) of split groups
    std::size_t m_tiles_left_size = 0;
};

}  // namespace kvloupe::cpu
