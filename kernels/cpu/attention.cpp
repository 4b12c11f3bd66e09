// SPDX-License-Identifier: GPL-3.0-or-later
//
// Runs the plan: a task attends one tile, or all tiles of a query group one after another. Of a group whose tiles are
// shared out, the thread that finishes the last tile joins them, in ascending order: no second parallel section.
#include "kernels/cpu/attention.h"

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/kv_quantise.h"
#include "kernels/cpu/kv_rows.h"

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

std::uint64_t query_floats(std::uint32_t head_dim) { return (std::uint64_t{tile_queries} * head_dim + 15) / 16 * 16; }

std::uint64_t scratch_bytes(std::uint32_t head_dim) {
    return (tile_scratch_floats + 2 * query_floats(head_dim) + 2 * state_floats(head_dim)) * sizeof(float);
}

bool same_plan(const AttentionShape& a, const AttentionShape& b) {
    return a.query_heads == b.query_heads && a.kv_heads == b.kv_heads && a.head_dim == b.head_dim && a.span == b.span &&
           (!a.span.rank || (a.rotary.theta == b.rotary.theta && a.rotary.rotary_dim == b.rotary.rotary_dim &&
                             a.rotary.layout == b.rotary.layout));
}

// The part of `keys` that lies in a tile that begins at position `first`.
TileSpan inside(const SeenKeys& keys, std::uint32_t first) {
    const auto clip = [&](std::uint32_t position) {
        return position <= first ? 0 : std::min(tile_tokens, position - first);
    };
    return {clip(keys.sinks), clip(keys.begin), clip(keys.end)};
}

// Block table of a sequence in the shape's group, and the f16 pages beside it.
KvTable table_of(const Batch& batch, const Batch::Sequence& sequence, const AttentionShape& shape) {
    const std::size_t begin = sequence.table_begin + std::size_t{shape.group} * sequence.table_size;
    return {batch.block_tables.data() + begin, batch.table_pages.empty() ? nullptr : batch.table_pages.data() + begin};
}

// Bytes of the rows of one tile, K and V.
std::uint64_t room_bytes(const CpuKvCache& cache, std::uint32_t layer) {
    return tile_room_bytes(cache.keys(layer)) + tile_room_bytes(cache.values(layer));
}

bool grow(AlignedBytes& bytes, std::uint64_t wanted, Counters& counters) {
    if (bytes.size() >= wanted) return true;
    auto larger = AlignedBytes::make(wanted + wanted / 2, counters.activations, "the scratch of attention");
    if (!larger) return false;
    bytes = std::move(*larger);
    return true;
}

// Scores of what is seen become weights.
void soften_seen(const SeenKeys& keys, float* weights) {
    const auto for_seen = [&](auto&& f) {
        for (std::uint32_t key = 0; key < keys.sinks; ++key) f(weights[key]);
        for (std::uint32_t key = keys.begin; key < keys.end; ++key) f(weights[key]);
    };
    float top = -std::numeric_limits<float>::infinity();
    for_seen([&](float& weight) { top = std::max(top, weight); });
    double sum = 0;
    for_seen([&](float& weight) { sum += static_cast<double>(weight = std::exp(weight - top)); });
    for_seen([&](float& weight) { weight = static_cast<float>(static_cast<double>(weight) / sum); });
}

}  // namespace

struct Attention::Call {
    const Batch& batch;
    const float* q;
    const AttentionShape& shape;
    const CpuKvCache& cache;
    std::uint32_t layer;
    float* out;
    const Planned& planned;
};

struct Attention::Scratch {
    float* tile;
    float* q;
    float* sink_q;
    AttentionState state, next;
    KvTileRoom keys, values;
};

Attention::Scratch Attention::scratch(const Call& call, unsigned thread) const {
    const std::uint32_t d = call.shape.head_dim;
    std::byte* base = m_scratch.data() + thread * scratch_bytes(d);
    float* tile = reinterpret_cast<float*>(base);
    float* q = tile + tile_scratch_floats;
    float* sink_q = q + query_floats(d);
    float* first = sink_q + query_floats(d);
    float* second = first + state_floats(d);
    const CpuPlane& keys = call.cache.keys(call.layer);
    std::byte* room = m_rooms.data() + thread * room_bytes(call.cache, call.layer);
    return {tile, q, sink_q, state_at(first, d), state_at(second, d), tile_room(keys, room),
            tile_room(call.cache.values(call.layer), room + tile_room_bytes(keys))};
}

Attention::Planned& Attention::planned_for(const AttentionShape& shape) {
    for (const auto& planned : m_planned)
        if (same_plan(planned->shape, shape)) return *planned;
    // Models differ in their spans, and an old plan costs memory only: keep a few.
    constexpr std::size_t most = 8;
    if (m_planned.size() == most) m_planned.erase(m_planned.begin());
    return *m_planned.emplace_back(std::make_unique<Planned>(Planned{shape, false, {}, {}, {}}));
}

bool Attention::make_room(const Planned& planned, std::uint64_t rooms) {
    const std::uint32_t d = planned.shape.head_dim;
    const std::size_t groups = planned.plan.groups.size();
    if (!grow(m_scratch, m_pool.threads() * scratch_bytes(d), m_counters)) return false;
    if (!grow(m_rooms, m_pool.threads() * rooms, m_counters)) return false;
    if (!grow(m_states, planned.plan.states * state_floats(d) * sizeof(float), m_counters)) return false;
    if (m_tiles_left_size >= groups) return true;
    m_tiles_left.reset(new (std::nothrow) std::atomic<std::uint32_t>[groups * 2]);
    m_tiles_left_size = m_tiles_left ? groups * 2 : 0;
    return m_tiles_left != nullptr;
}

// Plans once per batch and span; memory grows here and is kept. Null: there is none.
const Attention::Planned* Attention::prepare(const Batch& batch, const AttentionShape& shape, std::uint64_t rooms) {
    try {
        Planned& planned = planned_for(shape);
        if (!planned.valid) {
            planned.plan.make(batch, shape, m_pool.threads());
            if (shape.span.rank) {
                planned.dropped.resize(batch.rows());
                for (std::uint32_t row = 0; row < batch.rows(); ++row)
                    planned.dropped[row] = shape.span.dropped(batch.positions[row]);
                planned.turn_back.begin_batch();
                planned.turn_back.prepare(planned.dropped, shape.rotary, RotaryTable::Turn::back);
            }
            planned.valid = true;
        }
        if (!make_room(planned, rooms)) return nullptr;
        for (std::size_t g = 0; g < planned.plan.groups.size(); ++g)
            m_tiles_left[g].store(planned.plan.groups[g].tiles, std::memory_order_relaxed);
        return &planned;
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}

bool Attention::run(const Batch& batch, const float* q, const AttentionShape& shape, const CpuKvCache& cache,
                    std::uint32_t layer, float* out) {
    const Planned* planned = prepare(batch, shape, room_bytes(cache, layer));
    if (planned == nullptr) {
        const std::uint64_t count = std::uint64_t{batch.rows()} * shape.query_heads * shape.head_dim;
        std::fill(out, out + count, std::numeric_limits<float>::quiet_NaN());
        return false;
    }
    const Call call{batch, q, shape, cache, layer, out, *planned};
    const std::vector<AttentionTask>& tasks = planned->plan.tasks;
    m_pool.run(static_cast<std::uint32_t>(tasks.size()), [&](std::uint32_t task, unsigned thread) {
        run_task(call, tasks[task], scratch(call, thread));
    });
    return true;
}

// The queries of a group, packed, and as its sinks see them: a key that is read by rank is turned forward, or the query
// back by the same angle, which is one rotation instead of one per key (their product is the same).
void Attention::pack_queries(const Call& call, const QueryGroup& group, bool sinks, Scratch& scratch) {
    const std::uint32_t d = call.shape.head_dim;
    const std::uint64_t width = std::uint64_t{group.heads} * d;
    for (std::uint32_t row = 0; row < group.rows; ++row) {
        const float* from = call.q + (std::uint64_t{group.first_row + row} * call.shape.query_heads + group.first_head) * d;
        std::memcpy(scratch.q + row * width, from, width * sizeof(float));
    }
    // Keys that a Hadamard matrix has turned meet queries that it has turned: their product is the same (Q4).
    const auto turn = [&](float* q) {
        if (call.cache.keys(call.layer).plane.format.rotate)
            for (std::uint32_t query = 0; query < group.queries(); ++query) hadamard(q + std::size_t{query} * d, d);
    };
    if (!sinks || !call.shape.span.rank) {
        turn(scratch.sink_q = scratch.q);
        return;
    }
    std::memcpy(scratch.sink_q, scratch.q, group.rows * width * sizeof(float));
    for (std::uint32_t row = 0; row < group.rows; ++row)
        if (call.planned.dropped[group.first_row + row] > 0)
            call.planned.turn_back.rotate(group.first_row + row, scratch.sink_q + row * width, group.heads, d);
    turn(scratch.q);
    turn(scratch.sink_q);
}

void Attention::run_task(const Call& call, const AttentionTask& task, const Scratch& scratch) {
    const QueryGroup& group = call.planned.plan.groups[task.group];
    const std::uint32_t d = call.shape.head_dim;
    Scratch target = scratch;
    pack_queries(call, group, task.tile < group.sink_tiles, target);
    if (!group.split) {
        attend(call, group, 0, target);
        std::swap(target.state, target.next);
        for (std::uint32_t tile = 1; tile < group.tiles; ++tile) {
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
    for (std::uint32_t tile = 1; tile < group.tiles; ++tile)
        join_states(target.state, state_at(states + tile * state_floats(d), d), group.queries(), d);
    finish(call, group, target);
}

// One tile of a group (0 .. group.tiles - 1), into scratch.state.
void Attention::attend(const Call& call, const QueryGroup& group, std::uint32_t tile, const Scratch& scratch) {
    const std::uint32_t first = group.tile(tile) * tile_tokens;
    TileSpan seen[tile_queries];
    AttentionTile work;
    for (std::uint32_t row = 0; row < group.rows; ++row) {
        const TileSpan of_row = inside(call.shape.span.seen(group.first_position + row), first);
        if (row == 0) work.any.begin = of_row.begin;
        work.any.sinks = std::max(work.any.sinks, of_row.sinks);
        work.any.end = std::max(work.any.end, of_row.end);
        for (std::uint32_t head = 0; head < group.heads; ++head) seen[row * group.heads + head] = of_row;
    }
    work.any.begin = std::max(work.any.begin, work.any.sinks);
    const Batch::Sequence& sequence = call.batch.sequences[group.sequence];
    const KvTable table = table_of(call.batch, sequence, call.shape);
    work.keys = read_tile(call.cache, call.layer, KvPart::keys, group.kv_head, table, first, work.any, scratch.keys);
    work.values = read_tile(call.cache, call.layer, KvPart::values, group.kv_head, table, first, work.any, scratch.values);
    work.queries = group.queries();
    work.head_dim = call.shape.head_dim;
    work.scale = call.shape.scale;
    work.q = scratch.q;
    work.sink_q = scratch.sink_q;
    work.seen = seen;
    attend_tile(work, scratch.tile, scratch.state);
}

void Attention::finish(const Call& call, const QueryGroup& group, const Scratch& scratch) {
    const std::uint32_t d = call.shape.head_dim;
    for (std::uint32_t row = 0; row < group.rows; ++row)
        for (std::uint32_t head = 0; head < group.heads; ++head) {
            float* out = call.out + (std::uint64_t{group.first_row + row} * call.shape.query_heads + group.first_head + head) * d;
            finish_state(scratch.state, row * group.heads + head, d, out);
            if (call.cache.values(call.layer).plane.format.rotate) hadamard(out, d);  // its own inverse
        }
}

bool Attention::probe(const Batch& batch, const float* q, const AttentionShape& shape, const CpuKvCache& cache,
                      std::uint32_t layer, AttentionProbe& probe) {
    const Planned* planned = prepare(batch, shape, room_bytes(cache, layer));
    if (planned == nullptr) return false;
    try {
        probe.weights.resize(probe.heads.size());
        for (auto& rows : probe.weights) {
            rows.resize(batch.rows());
            for (const Batch::Sequence& sequence : batch.sequences)
                for (std::uint32_t r = 0; r < sequence.rows; ++r)
                    rows[sequence.first_row + r].assign(sequence.first_position + r + 1, 0.0f);
        }
    } catch (const std::bad_alloc&) {
        probe.weights.clear();
        return false;
    }
    const std::uint32_t d = shape.head_dim;
    const auto one_row = [&](std::uint32_t head, const Batch::Sequence& sequence, std::uint32_t row, unsigned thread) {
        const QueryGroup query{0, sequence.first_row + row, 1, probe.heads[head], 1};
        const Call call{batch, q, shape, cache, layer, nullptr, *planned};
        Scratch memory = scratch(call, thread);
        const SeenKeys keys = shape.span.seen(sequence.first_position + row);
        pack_queries(call, query, keys.sinks > 0, memory);
        AttentionTile work;
        work.queries = 1;
        work.head_dim = d;
        work.scale = shape.scale;
        work.q = memory.q;
        work.sink_q = memory.sink_q;
        const std::uint32_t kv_head = probe.heads[head] / (shape.query_heads / shape.kv_heads);
        float* weights = probe.weights[head][sequence.first_row + row].data();
        for (std::uint32_t first = 0; first < keys.end; first += tile_tokens) {
            work.any = inside(keys, first);
            if (work.any.count() == 0) continue;
            work.keys = read_tile(cache, layer, KvPart::keys, kv_head, table_of(batch, sequence, shape), first, work.any, memory.keys);
            tile_scores(work, memory.tile);
            std::copy_n(memory.tile, work.any.sinks, weights + first);
            std::copy(memory.tile + work.any.begin, memory.tile + work.any.end, weights + first + work.any.begin);
        }
        soften_seen(keys, weights);
    };
    const auto heads = static_cast<std::uint32_t>(probe.heads.size());
    for (const Batch::Sequence& sequence : batch.sequences)
        m_pool.run(sequence.rows * heads, [&](std::uint32_t part, unsigned thread) {
            one_row(part % heads, sequence, part / heads, thread);
        });
    return true;
}

}  // namespace kvloupe::cpu
