// SPDX-License-Identifier: GPL-3.0-or-later
//
// How the attention of a batch is cut into tasks for threads. All layers of a step that see the same keys share one plan.
//
// The arithmetic of a query is fixed: tiles of tile_tokens positions from 0 on, joined in ascending order; a tile of which
// it sees nothing changes nothing. The plan only decides which thread computes which tile, so results cannot depend on it.
#pragma once

#include "engine/backend.h"

#include <cstdint>
#include <vector>

namespace kvloupe::cpu {

// Queries that read the same keys: consecutive rows of one sequence times query heads of one KV head.
struct QueryGroup {
    std::uint32_t sequence = 0;
    std::uint32_t first_row = 0;    // in the batch
    std::uint32_t rows = 0;
    std::uint32_t first_head = 0;   // query head
    std::uint32_t heads = 0;
    std::uint32_t kv_head = 0;
    std::uint32_t first_position = 0;  // of its first row
    // Tiles that hold keys of some row: 0 .. sink_tiles - 1, then `tiles - sink_tiles` from first_tile on.
    std::uint32_t sink_tiles = 0;
    std::uint32_t first_tile = 0;
    std::uint32_t tiles = 0;
    std::uint32_t first_state = 0;  // its tiles' states, where the tiles are shared out
    bool split = false;             // one task per tile, else one task for all tiles

    std::uint32_t queries() const { return rows * heads; }
    // Its place among all tiles of the sequence.
    std::uint32_t tile(std::uint32_t index) const {
        return index < sink_tiles ? index : first_tile + (index - sink_tiles);
    }
};

struct AttentionTask {
    std::uint32_t group = 0;
    std::uint32_t tile = 0;  // of a split group: 0 .. tiles - 1
};

struct AttentionPlan {
    std::vector<QueryGroup> groups;
    std::vector<AttentionTask> tasks;
    std::uint32_t states = 0;  // of split groups

    // Makes the plan; keeps the vectors' memory.
    void make(const Batch& batch, const AttentionShape& shape, unsigned threads);
};

// Tiles that cover `keys` tokens.
std::uint32_t tiles_of(std::uint32_t keys);

}  // namespace kvloupe::cpu
