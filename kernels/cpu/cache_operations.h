// SPDX-License-Identifier: GPL-3.0-or-later
//
// The backend's operations on a cache's rows: whole batches in, positions or blocks out. Rows come out as they went in, but for
// what the precision loses: a row that was stored turned is turned back.
#pragma once

#include "engine/backend.h"
#include "kernels/cpu/cpu_cache.h"
#include "kernels/cpu/thread_pool.h"

#include <cstdint>
#include <span>

namespace kvloupe::cpu {

// k (rows, kv_heads, key_dim) and v (rows, kv_heads, value_dim) into the slots of the batch's rows in a group, on all threads.
void store_batch(ThreadPool& pool, const Batch& batch, const float* k, const float* v, std::uint32_t group, CpuKvCache& cache,
                 std::uint32_t layer);

struct LoadedPositions {
    std::uint32_t layer = 0, group = 0, sequence = 0, first = 0, count = 0;
};
// keys (count, kv_heads, key_dim), values (count, kv_heads, value_dim)
void load_positions(const CpuKvCache& cache, const Batch& batch, const LoadedPositions& which, float* keys, float* values);

// keys (kv_heads, tokens, key_dim), values (kv_heads, tokens, value_dim). page: page + 1, or 0. Errors: room for fewer values,
// a block, page or number of tokens that the cache does not have.
Result<void> read_slots(const CpuKvCache& cache, std::uint32_t layer, std::uint32_t block, std::uint32_t page, std::uint32_t tokens,
                        std::span<float> keys, std::span<float> values);

}  // namespace kvloupe::cpu
