// SPDX-License-Identifier: GPL-3.0-or-later
//
// How the attention of a batch is cut into tasks for threads. All layers of a step share one plan.
//
// The arithmetic of a query is fixed: tiles of tile_tokens positions from 0 on, joined in ascending order. The plan only
// decides which thread computes which tile, so results cannot depend on it.
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
    std::uint32_t keys = 0;         // tokens that the last row sees
    std::uint32_t first_state = 0;  // its tiles' states, where the tiles are shared out
    bool split = false;             // one task per tile, else one task for all tiles

    std::uint32_t queries() const { return rows * heads; }
};

struct AttentionTask {
    std::uint32_t group = 0;
    std::uint32_t tile = 0;  // of a split group
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
