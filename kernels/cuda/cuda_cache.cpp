// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cuda/cuda_cache.h"

#include "kernels/backend_checks.h"

#include <algorithm>

namespace kvloupe::cuda {

namespace {

std::uint64_t rounded(std::uint64_t bytes, std::uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

// The largest pool of that shape that the free memory holds; 0 where none does. What the driver itself takes by the way
// (its pages are of 2 MiB) is left to it.
std::uint64_t blocks_that_fit(const KvCacheShape& shape, const CacheLayout& layout, std::uint64_t free) {
    constexpr std::uint64_t page = std::uint64_t{2} << 20;
    const std::uint64_t rounding = std::uint64_t{512} * shape.layers.size();
    const std::uint64_t of_block = (layout.block_key_bytes + layout.block_value_bytes) * shape.layers.size();
    const std::uint64_t usable = free / page * page;
    return usable <= rounding ? 0 : std::min<std::uint64_t>((usable - rounding) / of_block, shape.blocks);
}

}  // namespace

Result<CacheLayout> CacheLayout::of(const KvCacheShape& shape) {
    if (auto checked = check_shape(shape, "A card"); !checked) return checked.error();
    const KvLayerShape& layer = shape.layers.front();
    std::uint64_t elements = shape.block_size;
    const auto times = [&](std::uint64_t factor) { return !__builtin_mul_overflow(elements, factor, &elements); };
    bool fits = times(layer.kv_heads) && times(layer.key_dim);
    const std::uint64_t of_block = elements;
    fits = fits && times(shape.blocks) && elements <= (UINT64_MAX >> 5) / shape.layers.size();
    if (!fits) return Error{"A KV cache of " + text_of(shape) + " is larger than any memory", "Use fewer blocks"};
    CacheLayout layout;
    layout.block_key_bytes = row_bytes(layer.keys.dtype, of_block);
    layout.block_value_bytes = row_bytes(layer.values.dtype, of_block);
    layout.key_bytes = rounded(layout.block_key_bytes * shape.blocks, 256);
    layout.value_bytes = rounded(layout.block_value_bytes * shape.blocks, 256);
    return layout;
}

Result<std::unique_ptr<KvCache>> CudaKvCache::make(Card& card, OverflowCounters& counters, const KvCacheShape& shape, Purpose purpose) {
    const auto layout = CacheLayout::of(shape);
    if (!layout) return layout.error();
    auto memory = CardMemory::make(card, layout->layer_bytes() * shape.layers.size(), purpose, "a KV cache of " + text_of(shape));
    if (!memory) {
        if (card.fault().lost()) return memory.error();
        const std::uint64_t most = blocks_that_fit(shape, *layout, card.room().free);
        return Error{memory.error().sentence + "; " +
                         (most > 1 ? "the largest pool that fits has " + std::to_string(most) + " blocks" : "not even a small pool fits"),
                     most > 1 ? "Set \"blocks\" to at most " + std::to_string(most) + ", or use a smaller precision or model"
                              : "Use a smaller model, close what else uses the card, or choose the device 'cpu'"};
    }
    const auto counter = counters.take();
    if (!counter) return counter.error();
    std::unique_ptr<CudaKvCache> cache(new CudaKvCache(card, counters, *counter));
    cache->m_shape = shape;
    cache->m_layout = *layout;
    cache->m_memory = std::move(*memory);
    return std::unique_ptr<KvCache>(std::move(cache));
}

CudaKvCache::~CudaKvCache() {
    m_card.forget_passes();
    m_counters.give_back(m_counter);
}

std::byte* CudaKvCache::keys_of(std::uint32_t block, std::uint32_t layer) const {
    return m_memory.data() + layer * m_layout.layer_bytes() + block * m_layout.block_key_bytes;
}

CacheLayer CudaKvCache::layer(std::uint32_t layer) const {
    CacheLayer view;
    view.keys = {keys_of(0, layer), m_shape.layers[layer].keys.dtype};
    view.values = {values_of(0, layer), m_shape.layers[layer].values.dtype};
    view.block_size = m_shape.block_size;
    view.kv_heads = m_shape.layers[layer].kv_heads;
    view.head_dim_k = m_shape.layers[layer].key_dim;
    view.head_dim_v = m_shape.layers[layer].value_dim;
    return view;
}

BlockCopy::Place CudaKvCache::block(std::uint32_t block) const {
    return {keys_of(block, 0), values_of(block, 0), m_layout.layer_bytes(), m_layout.layer_bytes()};
}

BlockCopy CudaKvCache::copy(std::uint32_t tokens) const {
    BlockCopy copy;
    const KvLayerShape& layer = m_shape.layers.front();  // all are alike
    copy.layers = static_cast<std::uint32_t>(m_shape.layers.size());
    copy.kv_heads = layer.kv_heads;
    copy.block_size = m_shape.block_size;
    copy.tokens = std::min(tokens, m_shape.block_size);
    copy.key_bytes = static_cast<std::uint32_t>(row_bytes(layer.keys.dtype, layer.key_dim));
    copy.value_bytes = static_cast<std::uint32_t>(row_bytes(layer.values.dtype, layer.value_dim));
    return copy;
}

Result<std::unique_ptr<HostBlocks>> CudaHostBlocks::make(Card& card, const CudaKvCache& cache, std::uint32_t count) {
    std::unique_ptr<CudaHostBlocks> host(new CudaHostBlocks);
    host->m_count = count;
    host->m_layers = static_cast<std::uint32_t>(cache.shape().layers.size());
    host->m_key_bytes = rounded(cache.layout().block_key_bytes, 16);
    host->m_value_bytes = rounded(cache.layout().block_value_bytes, 16);
    std::uint64_t bytes = host->m_key_bytes + host->m_value_bytes;
    if (__builtin_mul_overflow(bytes, std::uint64_t{host->m_layers}, &bytes) || __builtin_mul_overflow(bytes, std::uint64_t{count}, &bytes))
        return Error{std::to_string(count) + " host blocks for a KV cache of " + text_of(cache.shape()) + " are larger than any memory",
                     "Use fewer host blocks"};
    auto memory = PinnedMemory::make(card, bytes, true, std::to_string(count) + " host blocks");
    if (!memory) return memory.error();
    host->m_memory = std::move(*memory);
    return std::unique_ptr<HostBlocks>(std::move(host));
}

BlockCopy::Place CudaHostBlocks::block(std::uint32_t block) const {
    const std::uint64_t stride = m_key_bytes + m_value_bytes;
    std::byte* keys = m_memory.device() + std::uint64_t{block} * m_layers * stride;
    return {keys, keys + m_key_bytes, stride, stride};
}

}  // namespace kvloupe::cuda
