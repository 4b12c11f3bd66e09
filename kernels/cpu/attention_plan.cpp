// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/attention_plan.h"

#include "kernels/cpu/kernels.h"

#include <algorithm>

namespace kvloupe::cpu {

std::uint32_t tiles_of(std::uint32_t keys) { return keys / tile_tokens + (keys % tile_tokens != 0 ? 1 : 0); }

namespace {

// What some row sees: sinks of the last row, the beginning of the first one.
void find_tiles(QueryGroup& group, const KeySpan& span) {
    const SeenKeys first = span.seen(group.first_position);
    const SeenKeys last = span.seen(group.first_position + group.rows - 1);
    group.sink_tiles = tiles_of(last.sinks);
    group.first_tile = std::max(group.sink_tiles, first.begin / tile_tokens);
    group.tiles = group.sink_tiles + std::max(tiles_of(last.end), group.first_tile) - group.first_tile;
}

}  // namespace

void AttentionPlan::make(const Batch& batch, const AttentionShape& shape, unsigned threads) {
    groups.clear();
    tasks.clear();
    states = 0;
    const std::uint32_t heads_per_kv = shape.query_heads / shape.kv_heads;
    const std::uint32_t heads_at_once = std::min(heads_per_kv, tile_queries);
    const std::uint32_t rows_at_once = std::max(1u, tile_queries / heads_at_once);
    for (std::uint32_t s = 0; s < batch.sequences.size(); ++s) {
        const Batch::Sequence& sequence = batch.sequences[s];
        for (std::uint32_t row = 0; row < sequence.rows; row += rows_at_once) {
            const std::uint32_t rows = std::min(rows_at_once, sequence.rows - row);
            for (std::uint32_t kv_head = 0; kv_head < shape.kv_heads; ++kv_head)
                for (std::uint32_t head = 0; head < heads_per_kv; head += heads_at_once) {
                    QueryGroup group;
                    group.sequence = s;
                    group.first_row = sequence.first_row + row;
                    group.rows = rows;
                    group.first_head = kv_head * heads_per_kv + head;
                    group.heads = std::min(heads_at_once, heads_per_kv - head);
                    group.kv_head = kv_head;
                    group.first_position = sequence.first_position + row;
                    find_tiles(group, shape.span);
                    groups.push_back(group);
                }
        }
    }
    // Enough groups keep all threads busy by themselves; else long contexts are shared out by tile.
    constexpr std::size_t groups_per_thread = 4;
    const bool share = threads > 1 && groups.size() < groups_per_thread * threads;
    for (std::uint32_t g = 0; g < groups.size(); ++g) {
        const std::uint32_t tiles = groups[g].tiles;
        groups[g].split = share && tiles > 1;
        groups[g].first_state = states;
        if (groups[g].split) states += tiles;
        for (std::uint32_t tile = 0; tile < (groups[g].split ? tiles : 1); ++tile) tasks.push_back({g, tile});
    }
}

}  // namespace kvloupe::cpu
