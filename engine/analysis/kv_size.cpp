// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/analysis/kv_size.h"

#include <algorithm>

namespace kvloupe {

KvShape kv_shape(const ModelConfig& config, DType dtype_k, DType dtype_v) {
    return {config.layers, config.kv_heads, config.head_dim, dtype_k, dtype_v};
}

std::uint64_t kv_bytes_per_token(const KvShape& shape) {
    const std::uint64_t width = std::uint64_t{shape.kv_heads} * shape.head_dim;
    return shape.layers * (row_bytes(shape.dtype_k, width) + row_bytes(shape.dtype_v, width));
}

std::uint64_t kv_bytes(const KvShape& shape, std::uint64_t tokens) { return tokens * kv_bytes_per_token(shape); }

std::uint64_t blocks_for(std::uint64_t tokens, std::uint32_t block_size) {
    return (tokens + block_size - 1) / block_size;
}

std::uint64_t paged_kv_bytes(const KvShape& shape, std::uint64_t tokens, std::uint32_t block_size) {
    return blocks_for(tokens, block_size) * block_size * kv_bytes_per_token(shape);
}

std::uint64_t sequences_that_fit(const GpuEntry& gpu, double share, std::uint64_t weight_bytes,
                                 std::uint64_t bytes_per_sequence) {
    const double usable = static_cast<double>(gpu.memory_bytes) * std::clamp(share, 0.0, 1.0);
    const double left = usable - static_cast<double>(weight_bytes);
    if (left <= 0 || bytes_per_sequence == 0) return 0;
    return static_cast<std::uint64_t>(left / static_cast<double>(bytes_per_sequence));
}

double decode_bound_seconds(const GpuEntry& gpu, std::uint64_t weight_bytes, std::uint64_t kv_bytes_read) {
    return (static_cast<double>(weight_bytes) + static_cast<double>(kv_bytes_read)) / gpu.bandwidth;
}

}  // namespace kvloupe
