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

}  // namespace

Result<std::unique_ptr<KvCache>> CpuKvCache::make(const KvCacheShape& shape, Purpose purpose, Counters& counters) {
    if (auto checked = check_shape(shape, "The CPU"); !checked) return checked.error();
    const KvLayerShape& layer_shape = shape.layers.front();
    std::uint64_t elements = shape.blocks;
    if (!multiply(elements, shape.block_size) || !multiply(elements, layer_shape.kv_heads) || !multiply(elements, layer_shape.key_dim) ||
        elements > (UINT64_MAX >> 4) / shape.layers.size())
        return Error{"A KV cache of " + text_of(shape) + " is larger than any memory", "Use fewer blocks"};
    auto& counter = counters.of(purpose);
    std::unique_ptr<CpuKvCache> cache(new CpuKvCache);
    cache->m_shape = shape;
    for (std::uint32_t layer = 0; layer < shape.layers.size(); ++layer)
        for (auto [tensors, type] : {std::pair{&cache->m_keys, layer_shape.keys.dtype}, std::pair{&cache->m_values, layer_shape.values.dtype}}) {
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
        for (; done < end; ++done, at += m_shape.layers.front().key_dim) out[done] = at;
    }
}

void CpuKvCache::copy_rows(const std::byte* from, std::byte* to, DType type, std::uint32_t tokens) const {
    const std::uint64_t head_bytes = row_bytes(type, std::uint64_t{m_shape.block_size} * first().key_dim);
    const std::uint64_t bytes = row_bytes(type, std::uint64_t{tokens} * first().key_dim);
    for (std::uint32_t head = 0; head < first().kv_heads; ++head)
        std::memcpy(to + head * head_bytes, from + head * head_bytes, bytes);
}

void CpuKvCache::copy_block(std::uint32_t from, std::uint32_t to, std::uint32_t tokens) {
    if (from == to) return;
    for (std::uint32_t layer = 0; layer < m_shape.layers.size(); ++layer) {
        copy_rows(keys_of(from, layer), keys_of(to, layer), first().keys.dtype, tokens);
        copy_rows(values_of(from, layer), values_of(to, layer), first().values.dtype, tokens);
    }
}

void CpuKvCache::swap_out(std::uint32_t block, const CpuHostBlocks& host, std::uint32_t host_block,
                          std::uint32_t tokens) const {
    for (std::uint32_t layer = 0; layer < m_shape.layers.size(); ++layer) {
        copy_rows(keys_of(block, layer), host.keys(host_block, layer), first().keys.dtype, tokens);
        copy_rows(values_of(block, layer), host.values(host_block, layer), first().values.dtype, tokens);
    }
}

void CpuKvCache::swap_in(std::uint32_t block, const CpuHostBlocks& host, std::uint32_t host_block, std::uint32_t tokens) {
    for (std::uint32_t layer = 0; layer < m_shape.layers.size(); ++layer) {
        copy_rows(host.keys(host_block, layer), keys_of(block, layer), first().keys.dtype, tokens);
        copy_rows(host.values(host_block, layer), values_of(block, layer), first().values.dtype, tokens);
    }
}

void CpuKvCache::poison_block(std::uint32_t block) {
    for (std::uint32_t layer = 0; layer < m_shape.layers.size(); ++layer) {
        std::memset(keys_of(block, layer), nan_byte, row_bytes(first().keys.dtype, block_elements()));
        std::memset(values_of(block, layer), nan_byte, row_bytes(first().values.dtype, block_elements()));
    }
}

Result<std::unique_ptr<HostBlocks>> CpuHostBlocks::make(const KvCacheShape& shape, std::uint32_t count, Counters& counters) {
    const KvLayerShape& layer = shape.layers.front();
    const std::uint64_t elements = std::uint64_t{layer.kv_heads} * shape.block_size * layer.key_dim;
    std::unique_ptr<CpuHostBlocks> host(new CpuHostBlocks);
    host->m_count = count;
    host->m_layers = static_cast<std::uint32_t>(shape.layers.size());
    host->m_key_bytes = row_bytes(layer.keys.dtype, elements);
    host->m_value_bytes = row_bytes(layer.values.dtype, elements);
    std::uint64_t bytes = host->m_key_bytes + host->m_value_bytes;
    if (!multiply(bytes, host->m_layers) || !multiply(bytes, count))
        return Error{std::to_string(count) + " host blocks for a KV cache of " + text_of(shape) + " are larger than any memory",
                     "Use fewer host blocks"};
    auto memory = AlignedBytes::make(bytes, counters.host_blocks, "the host blocks");
    if (!memory) return memory.error();
    host->m_bytes = std::move(*memory);
    return std::unique_ptr<HostBlocks>(std::move(host));
}

}  // namespace kvloupe::cpu
