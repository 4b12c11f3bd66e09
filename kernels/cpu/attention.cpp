// SPDX-License-Identifier: GPL-3.0-or-later
//
// Runs the plan: a task attends one tile, or all tiles of a query group one after another. Of a group whose tiles are
// shared out, the thread that finishes the last tile joins them, in ascending order: no second parallel section.
#include "kernels/cpu/attention.h"

#include "kernels/cpu/kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>

namespace kvloupe::cpu {

namespace {

// Floats of one state: values of all queries, maxima, sums.
std::uint64_t state_floats(std::uint32_t head_dim) {
    return (std::uint64_t{tile_queries} * head_dim + 2 * tile_queries + 15) / 16 * 16;
}

AttentionState state_at(float* memory, std::uint32_t head_dim) {
    float* after = memory + std::uint64_t{tile_queries} * head_dim;
    return {memory, after, after + tile_queries};
}

std::uint64_t scratch_bytes(std::uint32_t head_dim) {
    const std::uint64_t q = (std::uint64_t{tile_queries} * head_dim + 15) / 16 * 16;
    return (tile_scratch_floats + q + 2 * state_floats(head_dim)) * sizeof(float) + tile_tokens * sizeof(std::uint64_t);
}

bool grow(AlignedBytes& bytes, std::uint64_t wanted, Counters& counters) {
    if (bytes.size() >= wanted) return true;
    auto larger = AlignedBytes::make(wanted + wanted / 2, counters.activations, "the scratch of attention");
    if (!larger) return false;
    bytes = std::move(*larger);
    return true;
}

}  // namespace

struct Attention::Call {
    const Batch& batch;
    const float* q;
    const CpuKvCache& cache;
    std::uint32_t layer;
    float* out;
};

struct Attention::Scratch {
    float* tile;
    float* q;
    AttentionState state, next;
    std::uint64_t* offsets;
};

Attention::Scratch Attention::scratch(unsigned thread) const {
    const std::uint32_t d = m_shape.head_dim;
    std::byte* base = m_scratch.data() + thread * scratch_bytes(d);
    float* tile = reinterpret_cast<float*>(base);
    float* q = tile + tile_scratch_floats;
    float* first = q + (std::uint64_t{tile_queries} * d + 15) / 16 * 16;
    float* second = first + state_floats(d);
    return {tile, q, state_at(first, d), state_at(second, d), reinterpret_cast<std::uint64_t*>(second + state_floats(d))};
}

// Plans once per batch; memory grows here and is kept.
bool Attention::prepare(const Batch& batch, const AttentionShape& shape) {
    const bool same_shape = shape.query_heads == m_shape.query_heads && shape.kv_heads == m_shape.kv_heads &&
                            shape.head_dim == m_shape.head_dim;
    if (!m_planned || !same_shape) m_plan.make(batch, shape, m_pool.threads());
    m_shape = shape;
    m_planned = true;
    if (!grow(m_scratch, m_pool.threads() * scratch_bytes(shape.head_dim), m_counters)) return false;
    if (!grow(m_states, m_plan.states * state_floats(shape.head_dim) * sizeof(float), m_counters)) return false;
    if (m_tiles_left_size < m_plan.groups.size()) {
        m_tiles_left.reset(new (std::nothrow) std::atomic<std::uint32_t>[m_plan.groups.size() * 2]);
        m_tiles_left_size = m_tiles_left ? m_plan.groups.size() * 2 : 0;
        if (!m_tiles_left) return false;
    }
    for (std::size_t g = 0; g < m_plan.groups.size(); ++g)
        m_tiles_left[g].store(tiles_of(m_plan.groups[g].keys), std::memory_order_relaxed);
    return true;
}

bool Attention::run(const Batch& batch, const float* q, const AttentionShape& shape, const CpuKvCache& cache,
                    std::uint32_t layer, float* out) {
    if (!prepare(batch, shape)) {
        const std::uint64_t count = std::uint64_t{batch.rows()} * shape.query_heads * shape.head_dim;
        std::fill(out, out + count, std::numeric_limits<float>::quiet_NaN());
        return false;
    }
    const Call call{batch, q, cache, layer, out};
    m_pool.run(static_cast<std::uint32_t>(m_plan.tasks.size()), [&](std::uint32_t task, unsigned thread) {
        run_task(call, m_plan.tasks[task], scratch(thread));
    });
    return true;
}

void Attention::run_task(const Call& call, const AttentionTask& task, const Scratch& scratch) {
    const QueryGroup& group = m_plan.groups[task.group];
    const std::uint32_t d = m_shape.head_dim;
    // Its queries, packed.
    for (std::uint32_t row = 0; row < group.rows; ++row)
        std::memcpy(scratch.q + std::uint64_t{row} * group.heads * d,
                    call.q + (std::uint64_t{group.first_row + row} * m_shape.query_heads + group.first_head) * d,
                    std::uint64_t{group.heads} * d * sizeof(float));
    const std::uint32_t tiles = tiles_of(group.keys);
    Scratch target = scratch;
    if (!group.split) {
        attend(call, group, 0, scratch);
        std::swap(target.state, target.next);
        for (std::uint32_t tile = 1; tile < tiles; ++tile) {
            attend(call, group, tile, target);
            join_states(scratch.state, scratch.next, group.queries(), d);
        }
        finish(call, group, scratch);
        return;
    }
    float* states = m_states.as<float>() + group.first_state * state_floats(d);
    target.state = state_at(states + task.tile * state_floats(d), d);
    attend(call, group, task.tile, target);
    if (m_tiles_left[task.group].fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    target.state = state_at(states, d);
    for (std::uint32_t tile = 1; tile < tiles; ++tile)
        join_states(target.state, state_at(states + tile * state_floats(d), d), group.queries(), d);
    finish(call, group, target);
}

// One tile of a group, into scratch.state.
void Attention::attend(const Call& call, const QueryGroup& group, std::uint32_t tile, const Scratch& scratch) {
    const KvCacheShape& shape = call.cache.shape();
    const std::uint32_t first = tile * tile_tokens;
    std::uint32_t visible[tile_queries];
    AttentionTile work;
    work.tokens = std::min(tile_tokens, group.keys - first);
    for (std::uint32_t row = 0; row < group.rows; ++row) {
        const std::uint32_t keys = group.keys - (group.rows - 1 - row);
        const std::uint32_t seen = keys <= first ? 0 : std::min(work.tokens, keys - first);
        for (std::uint32_t head = 0; head < group.heads; ++head) visible[row * group.heads + head] = seen;
    }
    const std::uint32_t* table = call.batch.block_tables.data() + call.batch.sequences[group.sequence].table_begin;
    call.cache.offsets(table, group.kv_head, first, work.tokens, scratch.offsets);
    work.keys = call.cache.keys(call.layer);
    work.values = call.cache.values(call.layer);
    work.offsets = scratch.offsets;
    work.queries = group.queries();
    work.head_dim = shape.head_dim;
    work.dtype_k = shape.dtype_k;
    work.dtype_v = shape.dtype_v;
    work.scale = m_shape.scale;
    work.q = scratch.q;
    work.visible = visible;
    attend_tile(work, scratch.tile, scratch.state);
}

void Attention::finish(const Call& call, const QueryGroup& group, const Scratch& scratch) {
    const std::uint32_t d = m_shape.head_dim;
    for (std::uint32_t row = 0; row < group.rows; ++row)
        for (std::uint32_t head = 0; head < group.heads; ++head)
            finish_state(scratch.state, row * group.heads + head, d,
                         call.out + (std::uint64_t{group.first_row + row} * m_shape.query_heads + group.first_head + head) * d);
}

bool Attention::probe(const Batch& batch, const float* q, const AttentionShape& shape, const CpuKvCache& cache,
                      std::uint32_t layer, AttentionProbe& probe) {
    if (!prepare(batch, shape)) return false;
    try {
        probe.weights.resize(probe.heads.size());
        for (auto& rows : probe.weights) {
            rows.resize(batch.rows());
            for (const Batch::Sequence& sequence : batch.sequences)
                for (std::uint32_t r = 0; r < sequence.rows; ++r)
                    rows[sequence.first_row + r].resize(sequence.first_position + r + 1);
        }
    } catch (const std::bad_alloc&) {
        probe.weights.clear();
        return false;
    }
    const std::uint32_t d = shape.head_dim;
    const auto one_row = [&](std::uint32_t head, const Batch::Sequence& sequence, std::uint32_t row, unsigned thread) {
        const Scratch memory = scratch(thread);
        std::vector<float>& weights = probe.weights[head][sequence.first_row + row];
        AttentionTile work;
        work.keys = cache.keys(layer);
        work.offsets = memory.offsets;
        work.queries = 1;
        work.head_dim = d;
        work.dtype_k = cache.shape().dtype_k;
        work.scale = shape.scale;
        work.q = q + (std::uint64_t{sequence.first_row + row} * shape.query_heads + probe.heads[head]) * d;
        const auto keys = static_cast<std::uint32_t>(weights.size());
        const std::uint32_t* table = batch.block_tables.data() + sequence.table_begin;
        const std::uint32_t kv_head = probe.heads[head] / (shape.query_heads / shape.kv_heads);
        for (std::uint32_t first = 0; first < keys; first += tile_tokens) {
            work.tokens = std::min(tile_tokens, keys - first);
            cache.offsets(table, kv_head, first, work.tokens, memory.offsets);
            tile_scores(work, memory.tile);
            std::copy(memory.tile, memory.tile + work.tokens, weights.begin() + first);
        }
        const float top = *std::max_element(weights.begin(), weights.end());
        double sum = 0;
        for (float& weight : weights) sum += static_cast<double>(weight = std::exp(weight - top));
        for (float& weight : weights) weight = static_cast<float>(static_cast<double>(weight) / sum);
    };
    const auto heads = static_cast<std::uint32_t>(probe.heads.size());
    for (const Batch::Sequence& sequence : batch.sequences)
        m_pool.run(sequence.rows * heads, [&](std::uint32_t part, unsigned thread) {
            one_row(part % heads, sequence, part / heads, thread);
        });
    return true;
}

}  // namespace kvloupe::cpu
