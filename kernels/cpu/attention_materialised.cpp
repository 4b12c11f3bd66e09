// SPDX-License-Identifier: GPL-3.0-or-later
//
// Attention as the textbook has it, one sequence after another: all scores of all heads are written, (query_heads, rows,
// keys) with the masked ones as -infinity; a second pass reads them and writes softmax weights; a third reads the weights and
// multiplies the values. Nothing is skipped but what is masked for a whole tile of the keys: its scores are written without
// reading the keys. Moves 16 bytes per query, head and key where the tiled form moves none of them.
#include "kernels/cpu/attention.h"

#include "kernels/cpu/kernels.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace kvloupe::cpu {

namespace {

// The place of a tile among those that a group reads, or `tiles` where all of it is masked.
std::uint32_t place_of(const QueryGroup& group, std::uint32_t tile) {
    if (tile < group.sink_tiles) return tile;
    if (tile < group.first_tile) return group.tiles;
    return std::min(group.tiles, group.sink_tiles + (tile - group.first_tile));
}

}  // namespace

bool Attention::run_materialised(const Call& call) {
    const std::vector<QueryGroup>& groups = call.planned.plan.groups;
    for (std::size_t begin = 0, end = 0; begin < groups.size(); begin = end) {
        const Batch::Sequence& sequence = call.batch.sequences[groups[begin].sequence];
        while (end < groups.size() && groups[end].sequence == groups[begin].sequence) ++end;
        const std::uint32_t tiles = tiles_of(sequence.first_position + sequence.rows);
        const std::uint64_t stride = std::uint64_t{tiles} * tile_tokens;
        const std::uint64_t rows = std::uint64_t{call.shape.query_heads} * sequence.rows;
        if (m_scores.size() < rows * stride * sizeof(float)) {
            auto larger = AlignedBytes::make(rows * stride * sizeof(float), m_counters.activations, "the scores of attention");
            if (!larger) return false;
            m_scores = std::move(*larger);
        }
        const auto count = static_cast<std::uint32_t>(end - begin);
        m_pool.run(count * tiles, [&](std::uint32_t part, unsigned thread) {
            write_scores(call, groups[begin + part / tiles], part % tiles, stride, scratch(call, thread));
        });
        float* scores = m_scores.as<float>();
        const std::uint64_t keys = sequence.first_position + sequence.rows;
        m_pool.run(static_cast<std::uint32_t>(rows), [&](std::uint32_t row, unsigned) { softmax_row(scores + row * stride, keys); });
        m_pool.run(count, [&](std::uint32_t group, unsigned thread) {
            weigh_values(call, groups[begin + group], stride, scratch(call, thread));
        });
    }
    return true;
}

// Scores of a group's queries for the keys of one tile, counted from position 0.
void Attention::write_scores(const Call& call, const QueryGroup& group, std::uint32_t tile, std::uint64_t stride,
                             const Scratch& scratch) {
    const Batch::Sequence& sequence = call.batch.sequences[group.sequence];
    const std::uint32_t first = tile * tile_tokens;
    const float masked = -std::numeric_limits<float>::infinity();
    const std::uint32_t place = place_of(group, tile);
    TileSpan seen[tile_queries] = {};
    TileWork work;
    if (place < group.tiles) {
        Scratch target = scratch;
        pack_queries(call, group, place < group.sink_tiles, target);
        work.tile.any = find_spans(call, group, first, seen);
        work.tile.seen = seen;
        find_rows(call, group, first, target, work);
        tile_scores(work.tile, target.tile);
    }
    for (std::uint32_t query = 0; query < group.queries(); ++query) {
        const std::uint64_t head = group.first_head + query % group.heads;
        const std::uint64_t row = group.first_row - sequence.first_row + query / group.heads;
        float* to = m_scores.as<float>() + (head * sequence.rows + row) * stride + first;
        const float* from = scratch.tile + std::size_t{query} * tile_tokens;
        const TileSpan& span = seen[query];
        std::copy_n(from, span.sinks, to);
        std::fill(to + span.sinks, to + std::max(span.sinks, span.begin), masked);
        std::copy(from + std::max(span.sinks, span.begin), from + std::max(span.begin, span.end), to + std::max(span.sinks, span.begin));
        std::fill(to + std::max(span.begin, span.end), to + tile_tokens, masked);
    }
}

// The weights of a group's queries times the values, tile by tile in ascending order.
void Attention::weigh_values(const Call& call, const QueryGroup& group, std::uint64_t stride, const Scratch& scratch) {
    const Batch::Sequence& sequence = call.batch.sequences[group.sequence];
    const std::uint32_t width = value_dim_of(call.shape);
    for (std::uint32_t place = 0; place < group.tiles; ++place) {
        const std::uint32_t first = group.tile(place) * tile_tokens;
        TileSpan seen[tile_queries];
        TileWork work;
        work.tile.any = find_spans(call, group, first, seen);
        work.tile.seen = seen;
        find_rows(call, group, first, scratch, work);
        for (std::uint32_t query = 0; query < group.queries(); ++query) {
            const std::uint64_t head = group.first_head + query % group.heads;
            const std::uint64_t row = group.first_row - sequence.first_row + query / group.heads;
            std::memcpy(scratch.tile + std::size_t{query} * tile_tokens,
                        m_scores.as<float>() + (head * sequence.rows + row) * stride + first, tile_tokens * sizeof(float));
        }
        weigh_tile(work.tile, scratch.tile, place == 0 ? scratch.state.value : scratch.next.value);
        if (place > 0) add_scaled_row(scratch.next.value, 1, std::uint64_t{group.queries()} * width, scratch.state.value);
    }
    turn_back_values(call, scratch.state.value, group.queries());
    for (std::uint32_t query = 0; query < group.queries(); ++query) {
        const std::uint64_t row = group.first_row + query / group.heads;
        std::memcpy(call.out + (row * call.shape.query_heads + group.first_head + query % group.heads) * width,
                    scratch.state.value + std::uint64_t{query} * width, width * sizeof(float));
    }
}

}  // namespace kvloupe::cpu
