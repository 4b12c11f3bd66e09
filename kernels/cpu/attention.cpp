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
std::uint64_t state_floats(const AttentionShape& shape) {
    return (std::uint64_t{tile_queries} * value_dim_of(shape) + 2 * tile_queries + 15) / 16 * 16;
}

AttentionState state_at(float* memory, const AttentionShape& shape) {
    float* after = memory + std::uint64_t{tile_queries} * value_dim_of(shape);
    return {memory, after, after + tile_queries};
}

std::uint64_t query_floats(const AttentionShape& shape) { return (std::uint64_t{tile_queries} * shape.head_dim + 15) / 16 * 16; }

std::uint64_t scratch_bytes(const AttentionShape& shape) {
    return (tile_scratch_floats + 2 * query_floats(shape) + 2 * state_floats(shape)) * sizeof(float);
}

bool same_plan(const AttentionShape& a, const AttentionShape& b) {
    return a.query_heads == b.query_heads && a.kv_heads == b.kv_heads && a.span == b.span &&
           (!a.span.rank || a.rotary == b.rotary);
}

// The part of `keys` that lies in a tile that begins at position `first`.
TileSpan inside(const SeenKeys& keys, std::uint32_t first) {
    const auto clip = [&](std::uint32_t position) {
        return position <= first ? 0 : std::min(tile_tokens, position - first);
    };
    return {clip(keys.sinks), clip(keys.begin), clip(keys.end)};
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

Attention::Scratch Attention::scratch(const Call& call, unsigned thread) const {
    const AttentionShape& shape = call.shape;
    std::byte* base = m_scratch.data() + thread * scratch_bytes(shape);
    float* tile = reinterpret_cast<float*>(base);
    float* q = tile + tile_scratch_floats;
    float* sink_q = q + query_floats(shape);
    float* first = sink_q + query_floats(shape);
    float* second = first + state_floats(shape);
    const CpuPlane& keys = call.cache.keys(call.layer);
    std::byte* room = m_rooms.data() + thread * room_bytes(call.cache, call.layer);
    return {tile, q, sink_q, state_at(first, shape), state_at(second, shape), tile_room(keys, room),
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

bool Attention::make_room(const Planned& planned, const AttentionShape& shape, std::uint64_t rooms) {
    const std::size_t groups = planned.plan.groups.size();
    if (!grow(m_scratch, m_pool.threads() * scratch_bytes(shape), m_counters)) return false;
    if (!grow(m_rooms, m_pool.threads() * rooms, m_counters)) return false;
    if (!grow(m_states, planned.plan.states * state_floats(shape) * sizeof(float), m_counters)) return false;
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
        if (!make_room(planned, shape, rooms)) return nullptr;
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
    const auto fail = [&] {
        const std::uint64_t count = std::uint64_t{batch.rows()} * shape.query_heads * value_dim_of(shape);
        std::fill(out, out + count, std::numeric_limits<float>::quiet_NaN());
        return false;
    };
    if (planned == nullptr) return fail();
    const Call call{batch, q, shape, cache, layer, out, *planned};
    if (shape.form == AttentionForm::materialised) return run_materialised(call) || fail();
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
    // With a latent the queries' two parts are packed apart, as the keys' are.
    const std::uint32_t latent = call.shape.latent ? value_dim_of(call.shape) : 0;
    float* turned = scratch.q + std::uint64_t{tile_queries} * latent;  // the part with positions
    for (std::uint32_t row = 0; row < group.rows; ++row) {
        const float* from = call.q + (std::uint64_t{group.first_row + row} * call.shape.query_heads + group.first_head) * d;
        if (latent == 0) {
            std::memcpy(scratch.q + row * width, from, width * sizeof(float));
            continue;
        }
        for (std::uint32_t head = 0; head < group.heads; ++head, from += d) {
            const std::uint64_t query = std::uint64_t{row} * group.heads + head;
            std::memcpy(scratch.q + query * latent, from, latent * sizeof(float));
            std::memcpy(turned + query * (d - latent), from + latent, (d - latent) * sizeof(float));
        }
    }
    // Keys that a Hadamard matrix has turned meet queries that it has turned: their product is the same (Q4).
    const std::uint32_t first_width = latent == 0 ? d : latent;
    const auto hadamard_of = [&](float* q) {
        if (call.cache.keys(call.layer).plane.format.rotate)
            for (std::uint32_t query = 0; query < group.queries(); ++query) hadamard(q + std::size_t{query} * first_width, first_width);
        if (latent == 0 || !call.cache.values(call.layer).plane.format.rotate) return;
        float* rest = q + (turned - scratch.q);
        for (std::uint32_t query = 0; query < group.queries(); ++query) hadamard(rest + std::size_t{query} * (d - latent), d - latent);
    };
    if (!sinks || !call.shape.span.rank) {
        hadamard_of(scratch.sink_q = scratch.q);
        return;
    }
    std::memcpy(scratch.sink_q, scratch.q, query_floats(call.shape) * sizeof(float));
    float* back = scratch.sink_q + (turned - scratch.q);
    for (std::uint32_t row = 0; row < group.rows; ++row)
        if (call.planned.dropped[group.first_row + row] > 0)
            call.planned.turn_back.rotate(group.first_row + row, back + std::uint64_t{row} * group.heads * (d - latent), group.heads,
                                          d - latent);
    hadamard_of(scratch.q);
    hadamard_of(scratch.sink_q);
}

void Attention::run_task(const Call& call, const AttentionTask& task, const Scratch& scratch) {
    const QueryGroup& group = call.planned.plan.groups[task.group];
    const std::uint32_t width = value_dim_of(call.shape);
    Scratch target = scratch;
    pack_queries(call, group, task.tile < group.sink_tiles, target);
    if (!group.split) {
        attend(call, group, 0, target);
        std::swap(target.state, target.next);
        for (std::uint32_t tile = 1; tile < group.tiles; ++tile) {
            attend(call, group, tile, target);
            join_states(scratch.state, scratch.next, group.queries(), width);
        }
        finish(call, group, scratch);
        return;
    }
    const std::uint64_t floats = state_floats(call.shape);
    float* states = m_states.as<float>() + group.first_state * floats;
    target.state = state_at(states + task.tile * floats, call.shape);
    attend(call, group, task.tile, target);
    if (m_tiles_left[task.group].fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    target.state = state_at(states, call.shape);
    for (std::uint32_t tile = 1; tile < group.tiles; ++tile)
        join_states(target.state, state_at(states + tile * floats, call.shape), group.queries(), width);
    finish(call, group, target);
}

TileSpan Attention::find_spans(const Call& call, const QueryGroup& group, std::uint32_t first, TileSpan* seen) {
    TileSpan any;
    for (std::uint32_t row = 0; row < group.rows; ++row) {
        const TileSpan of_row = inside(call.shape.span.seen(group.first_position + row), first);
        if (row == 0) any.begin = of_row.begin;
        any.sinks = std::max(any.sinks, of_row.sinks);
        any.end = std::max(any.end, of_row.end);
        for (std::uint32_t head = 0; head < group.heads; ++head) seen[row * group.heads + head] = of_row;
    }
    any.begin = std::max(any.begin, any.sinks);
    return any;
}

void Attention::find_rows(const Call& call, const QueryGroup& group, std::uint32_t first, const Scratch& scratch, TileWork& work) {
    const KvLayerShape& cache = call.cache.shape().layers[call.layer];
    const Batch::Sequence& sequence = call.batch.sequences[group.sequence];
    // The block table in the shape's group, and the f16 pages beside it.
    const std::size_t begin = sequence.table_begin + std::size_t{call.shape.group} * sequence.table_size;
    const KvTable table{call.batch.block_tables.data() + begin,
                        call.batch.table_pages.empty() ? nullptr : call.batch.table_pages.data() + begin};
    AttentionTile& tile = work.tile;
    tile.keys = read_tile(call.cache, call.layer, KvPart::keys, group.kv_head, table, first, tile.any, scratch.keys);
    tile.values = read_tile(call.cache, call.layer, KvPart::values, group.kv_head, table, first, tile.any, scratch.values);
    tile.queries = group.queries();
    tile.head_dim = cache.key_dim;
    tile.value_dim = value_dim_of(call.shape);
    tile.scale = call.shape.scale;
    tile.soft_cap = call.shape.soft_cap;
    tile.q = scratch.q;
    tile.sink_q = scratch.sink_q;
    if (!call.shape.latent) return;
    // The rotary keys are the rest of the keys, and the latents are read once more as values.
    work.rest = tile;
    work.rest.keys = tile.values;
    work.rest.head_dim = cache.value_dim;
    work.rest.q = tile.q + std::uint64_t{tile_queries} * cache.key_dim;
    work.rest.sink_q = tile.sink_q + std::uint64_t{tile_queries} * cache.key_dim;
    tile.rest = &work.rest;
    tile.values = tile.keys;
}

// A Hadamard matrix is its own inverse. With a latent the values are the latents, which are stored as keys.
void Attention::turn_back_values(const Call& call, float* rows, std::uint32_t count) {
    const CpuPlane& values = call.shape.latent ? call.cache.keys(call.layer) : call.cache.values(call.layer);
    const std::uint32_t width = value_dim_of(call.shape);
    if (!values.plane.format.rotate) return;
    for (std::uint32_t row = 0; row < count; ++row) hadamard(rows + std::size_t{row} * width, width);
}

// One tile of a group (0 .. group.tiles - 1), into scratch.state.
void Attention::attend(const Call& call, const QueryGroup& group, std::uint32_t tile, const Scratch& scratch) {
    const std::uint32_t first = group.tile(tile) * tile_tokens;
    TileSpan seen[tile_queries];
    TileWork work;
    work.tile.any = find_spans(call, group, first, seen);
    work.tile.seen = seen;
    find_rows(call, group, first, scratch, work);
    attend_tile(work.tile, scratch.tile, scratch.state);
}

void Attention::finish(const Call& call, const QueryGroup& group, const Scratch& scratch) {
    const std::uint32_t width = value_dim_of(call.shape);
    for (std::uint32_t row = 0; row < group.rows; ++row) {
        float* out = call.out + (std::uint64_t{group.first_row + row} * call.shape.query_heads + group.first_head) * width;
        for (std::uint32_t head = 0; head < group.heads; ++head)
            finish_state(scratch.state, row * group.heads + head, width, out + std::size_t{head} * width);
        turn_back_values(call, out, group.heads);
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
    const Call call{batch, q, shape, cache, layer, nullptr, *planned};
    const auto one_row = [&](std::uint32_t head, std::uint32_t s, std::uint32_t row, unsigned thread) {
        const Batch::Sequence& sequence = batch.sequences[s];
        Scratch memory = scratch(call, thread);
        QueryGroup query;
        query.sequence = s;
        query.first_row = sequence.first_row + row;
        query.rows = query.heads = 1;
        query.first_head = probe.heads[head];
        query.kv_head = probe.heads[head] / (shape.query_heads / shape.kv_heads);
        const SeenKeys keys = shape.span.seen(sequence.first_position + row);
        pack_queries(call, query, keys.sinks > 0, memory);
        float* weights = probe.weights[head][query.first_row].data();
        for (std::uint32_t first = 0; first < keys.end; first += tile_tokens) {
            TileWork work;
            work.tile.any = inside(keys, first);
            if (work.tile.any.count() == 0) continue;
            find_rows(call, query, first, memory, work);
            tile_scores(work.tile, memory.tile);
            std::copy_n(memory.tile, work.tile.any.sinks, weights + first);
            std::copy(memory.tile + work.tile.any.begin, memory.tile + work.tile.any.end, weights + first + work.tile.any.begin);
        }
        soften_seen(keys, weights);
    };
    const auto heads = static_cast<std::uint32_t>(probe.heads.size());
    for (std::uint32_t s = 0; s < batch.sequences.size(); ++s)
        m_pool.run(batch.sequences[s].rows * heads, [&](std::uint32_t part, unsigned thread) {
            one_row(part % heads, s, part / heads, thread);
        });
    return true;
}

}  // namespace kvloupe::cpu
