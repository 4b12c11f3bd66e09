// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/cpu_cache.h"

#include "kernels/backend_checks.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace kvloupe::cpu {

namespace {

bool multiply(std::uint64_t& product, std::uint64_t factor) { return !__builtin_mul_overflow(product, factor, &product); }

// All bits set is NaN in f32, f16 and bf16.
constexpr int nan_byte = 0xFF;

// The first `tokens` rows of every head, from one block to another.
void copy_rows(const KvPlane& plane, const std::byte* from, std::byte* to, std::uint32_t tokens) {
    for (std::uint32_t row = 0; row < plane.rows(); ++row)
        std::memcpy(to + row * plane.row_block_bytes, from + row * plane.row_block_bytes, tokens * plane.code_bytes);
}

}  // namespace

Result<std::unique_ptr<KvCache>> CpuKvCache::make(const KvCacheShape& shape, Purpose purpose, Counters& counters) {
    if (auto checked = check_shape(shape, "The CPU"); !checked) return checked.error();
    const Error too_large{"A KV cache of " + text_of(shape) + " is larger than any memory", "Use fewer blocks"};
    auto& counter = counters.of(purpose);
    std::unique_ptr<CpuKvCache> cache(new CpuKvCache);
    cache->m_shape = shape;
    for (const KvLayerShape& layer : shape.layers) {
        std::uint64_t elements = shape.blocks;
        if (!multiply(elements, shape.block_size) || !multiply(elements, layer.kv_heads) ||
            !multiply(elements, std::max(layer.key_dim, layer.value_dim)) || elements > (UINT64_MAX >> 4) / shape.layers.size())
            return too_large;
        auto keys = layer.key_plane(shape.block_size), values = layer.value_plane(shape.block_size);
        if (!keys) return keys.error();
        if (!values) return values.error();
        cache->m_key_planes.push_back(*keys);
        cache->m_value_planes.push_back(*values);
    }
    for (std::uint32_t layer = 0; layer < shape.layers.size(); ++layer)
        for (auto [tensors, planes] : {std::pair{&cache->m_keys, &cache->m_key_planes}, std::pair{&cache->m_values, &cache->m_value_planes}}) {
            auto bytes = AlignedBytes::make(shape.blocks * (*planes)[layer].block_bytes, counter, "the KV cache");
            if (!bytes) return bytes.error();
            cache->m_bytes += bytes->size();
            tensors->push_back(std::move(*bytes));
        }
    return std::unique_ptr<KvCache>(std::move(cache));
}

void CpuKvCache::offsets(std::uint32_t layer, KvPart part, const std::uint32_t* table, std::uint32_t kv_head, std::uint32_t first,
                         std::uint32_t count, std::uint64_t* out) const {
    const KvPlane& plane = part == KvPart::keys ? m_key_planes[layer] : m_value_planes[layer];
    const std::uint32_t size = m_shape.block_size;
    const std::uint64_t width = plane.width();
    std::uint32_t block = first / size;
    std::uint32_t inside = first % size;
    for (std::uint32_t done = 0; done < count; ++block, inside = 0) {
        std::uint64_t at = ((std::uint64_t{table[block]} * plane.rows() + kv_head) * size + inside) * width;
        const std::uint32_t end = std::min(count, done + (size - inside));
        for (; done < end; ++done, at += width) out[done] = at;
    }
}

void CpuKvCache::copy_block(std::uint32_t from, std::uint32_t to, std::uint32_t tokens) {
    if (from == to) return;
    for (std::uint32_t layer = 0; layer < m_shape.layers.size(); ++layer) {
        copy_rows(m_key_planes[layer], keys_of(from, layer), keys_of(to, layer), tokens);
        copy_rows(m_value_planes[layer], values_of(from, layer), values_of(to, layer), tokens);
    }
}

void CpuKvCache::swap_out(std::uint32_t block, const CpuHostBlocks& host, std::uint32_t host_block,
                          std::uint32_t tokens) const {
    for (std::uint32_t layer = 0; layer < m_shape.layers.size(); ++layer) {
        copy_rows(m_key_planes[layer], keys_of(block, layer), host.keys(host_block, layer), tokens);
        copy_rows(m_value_planes[layer], values_of(block, layer), host.values(host_block, layer), tokens);
    }
}

void CpuKvCache::swap_in(std::uint32_t block, const CpuHostBlocks& host, std::uint32_t host_block, std::uint32_t tokens) {
    for (std::uint32_t layer = 0; layer < m_shape.layers.size(); ++layer) {
        copy_rows(m_key_planes[layer], host.keys(host_block, layer), keys_of(block, layer), tokens);
        copy_rows(m_value_planes[layer], host.values(host_block, layer), values_of(block, layer), tokens);
    }
}

void CpuKvCache::poison_block(std::uint32_t block) {
    for (std::uint32_t layer = 0; layer < m_shape.layers.size(); ++layer) {
        std::memset(keys_of(block, layer), nan_byte, m_key_planes[layer].block_bytes);
        std::memset(values_of(block, layer), nan_byte, m_value_planes[layer].block_bytes);
    }
}

Result<std::unique_ptr<HostBlocks>> CpuHostBlocks::make(const KvCacheShape& shape, std::uint32_t count, Counters& counters) {
    std::unique_ptr<CpuHostBlocks> host(new CpuHostBlocks);
    host->m_count = count;
    for (const KvLayerShape& layer : shape.layers) {
        auto keys = layer.key_plane(shape.block_size), values = layer.value_plane(shape.block_size);
        if (!keys) return keys.error();
        if (!values) return values.error();
        host->m_key_begin.push_back(host->m_block_bytes);
        host->m_value_begin.push_back(host->m_block_bytes + keys->block_bytes);
        host->m_block_bytes += keys->block_bytes + values->block_bytes;
    }
    std::uint64_t bytes = host->m_block_bytes;
    if (!multiply(bytes, count))
        return Error{std::to_string(count) + " host blocks for a KV cache of " + text_of(shape) + " are larger than any memory",
                     "Use fewer host blocks"};
    auto memory = AlignedBytes::make(bytes, counters.host_blocks, "the host blocks");
    if (!memory) return memory.error();
    host->m_bytes = std::move(*memory);
    return std::unique_ptr<HostBlocks>(std::move(host));
}

}  // namespace kvloupe::cpu
