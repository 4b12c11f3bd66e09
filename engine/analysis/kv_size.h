// SPDX-License-Identifier: GPL-3.0-or-later
//
// The arithmetic of KV-cache sizes over a model's configuration (predicted: nothing is measured here).
// Formulae: CACHE_SEMANTICS 0; published figures that they reproduce: FORMATS 3.1.
#pragma once

#include "engine/model/model.h"
#include "engine/record/gpu_table.h"

#include <cstdint>

namespace kvloupe {

// What decides the size of a cache.
struct KvShape {
    std::uint32_t layers = 0;
    std::uint32_t kv_heads = 0;
    std::uint32_t head_dim = 0;
    DType dtype_k = DType::f16;
    DType dtype_v = DType::f16;
};

KvShape kv_shape(const ModelConfig& config, DType dtype_k, DType dtype_v);

// layers * kv_heads * head_dim * (bytes of a K element + bytes of a V element); packed types by their rows.
std::uint64_t kv_bytes_per_token(const KvShape& shape);

// One sequence of `tokens` tokens, without blocks.
std::uint64_t kv_bytes(const KvShape& shape, std::uint64_t tokens);

// Blocks that hold `tokens` tokens, rounded up; block_size > 0.
std::uint64_t blocks_for(std::uint64_t tokens, std::uint32_t block_size);

// One sequence in a paged pool: whole blocks.
std::uint64_t paged_kv_bytes(const KvShape& shape, std::uint64_t tokens, std::uint32_t block_size);

// Sequences of `tokens` tokens that fit beside the weights into `share` of the GPU's memory, whole blocks each.
// share in 0 .. 1. 0 where the weights alone do not fit.
std::uint64_t sequences_that_fit(const GpuEntry& gpu, double share, std::uint64_t weight_bytes,
                                 std::uint64_t bytes_per_sequence);

// Shortest time of one decode step, seconds: weights and cache are read once at the full bandwidth (a lower bound).
double decode_bound_seconds(const GpuEntry& gpu, std::uint64_t weight_bytes, std::uint64_t kv_bytes_read);

}  // namespace kvloupe
