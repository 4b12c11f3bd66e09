// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/cpu_cache.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace kvloupe::cpu {

namespace {

bool is_float(DType type) { return type == DType::f32 || type == DType::f16 || type == DType::bf16; }

bool multiply(std::uint64_t& product, std::uint64_t factor) { return !__builtin_mul_overflow(product, factor, &product); }

std::string text_of(const KvCacheShape& shape) {
    return std::to_string(shape.layers) + " layers of " + std::to_string(shape.blocks) + " blocks of " +
           std::to_string(shape.block_size) + " tokens with " + std::to_string(shape.kv_heads) + " KV heads of " +
           std::to_string(shape.head_dim) + " values";
}

// All bits set is NaN in f32, f16 and bf16.
constexpr int nan_byte = 0xFF;

}  // namespace

Result<std::unique_ptr<KvCache>> CpuKvCache::make(const KvCacheShape& shape, Purpose purpose, Counters& counters) {
    if (shape.layers == 0 || shape.blocks == 0 || shape.block_size == 0 || shape.kv_heads == 0 || shape.head_dim == 0)
        return Error{"A KV cache of " + text_of(shape) + " holds nothing", "Every one of these numbers must be at least 1"};
    for (DType type : {shape.dtype_k, shape.dtype_v})
        if (!is_float(type))
            return Error{"The CPU cannot keep a KV cache in " + std::string(name_of(type)), "Choose f32, f16 or bf16"};
    std::uint64_t elements = shape.blocks;
    if (!multiply(elements, shape.block_size) || !multiply(elements, shape.kv_heads) || !multiply(elements, shape.head_dim) ||
        elements > (UINT64_MAX >> 4) / shape.layers)
        return Error{"A KV cache of " + text_of(shape) + " is larger than any memory", "Use fewer blocks"};
    auto& counter = counters.of(purpose);
    std::unique_ptr<CpuKvCache> cache(new CpuKvCache);
    cache->m_shape = shape;
    for (std::uint32_t layer = 0; layer < shape.layers; ++layer)
        for (auto [tensors, type] : {std::pair{&cache->m_keys, shape.dtype_k}, std::pair{&cache->m_values, shape.dtype_v}}) {
            // Asked for as a whole before the first part is taken: half a cache helps nobody.
            auto bytes = AlignedBytes::make(row_bytes(type, elements), counter, "the KV cache");
            if (!bytes) return bytes.error();
            cache->m_bytes += bytes->size();
            tensors->push_back(std::move(*bytes));
        }
    return std::unique_ptr<KvCache>(std::move(cache));
}

void CpuKvCache::offsets(const std::uint32_t* table, std::uint32_t kv_head, std::uint32_t first, std::uint32_t count,
                         std::uint64_t* out) const {
    const std::uint32_t size = m_shape.block_size;
    std::uint32_t block = first / size;
    std::uint32_t inside = first % size;
    for (std::uint32_t done = 0; done < count; ++block, inside = 0) {
        std::uint64_t at = offset(std::uint64_t{table[block]} * size + inside, kv_head);
        const std::uint32_t end = std::min(count, done + (size - inside));
        for (; done < end; ++done, at += m_shape.head_dim) out[done] = at;
    }
}

void CpuKvCache::copy_block(std::uint32_t from, std::uint32_t to, std::uint32_t tokens) {
    const auto copy = [&](std::byte* base, DType type) {
        const std::uint64_t bytes = row_bytes(type, std::uint64_t{tokens} * m_shape.head_dim);
        for (std::uint32_t head = 0; head < m_shape.kv_heads; ++head)
            std::memcpy(base + row_bytes(type, offset(std::uint64_t{to} * m_shape.block_size, head)),
                        base + row_bytes(type, offset(std::uint64_t{from} * m_shape.block_size, head)), bytes);
    };
    if (from == to) return;
    for (std::uint32_t layer = 0; layer < m_shape.layers; ++layer) {
        copy(keys(layer), m_shape.dtype_k);
        copy(values(layer), m_shape.dtype_v);
    }
}

void CpuKvCache::poison_block(std::uint32_t block) {
    const std::uint64_t elements = std::uint64_t{m_shape.kv_heads} * m_shape.block_size * m_shape.head_dim;
    for (std::uint32_t layer = 0; layer < m_shape.layers; ++layer) {
        std::memset(keys(layer) + row_bytes(m_shape.dtype_k, block * elements), nan_byte, row_bytes(m_shape.dtype_k, elements));
        std::memset(values(layer) + row_bytes(m_shape.dtype_v, block * elements), nan_byte, row_bytes(m_shape.dtype_v, elements));
    }
}

}  // namespace kvloupe::cpu
