// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/serve/shadow_cache.h"

#include <algorithm>

namespace kvloupe {

namespace {

// Bytes of a block in f32, place by place the widest layer.
std::uint64_t plain_block_bytes(const KvCacheShape& shape) {
    std::vector<std::uint64_t> places;
    for (const KvLayerShape& layer : shape.layers) {
        if (layer.place >= places.size()) places.resize(layer.place + 1);
        const std::uint64_t values = std::uint64_t{layer.kv_heads} * (layer.key_dim + layer.value_dim) * shape.block_size;
        places[layer.place] = std::max(places[layer.place], values * sizeof(float));
    }
    std::uint64_t bytes = 0;
    for (const std::uint64_t place : places) bytes += place;
    return bytes;
}

}  // namespace

Result<std::unique_ptr<ShadowCache>> ShadowCache::make(Backend& backend, const KvCacheShape& pool, std::uint32_t layer, std::uint64_t since) {
    std::unique_ptr<ShadowCache> shadow(new ShadowCache);
    KvCacheShape shape = pool;
    shape.residual_pages = 0;
    for (KvLayerShape& each : shape.layers) each.keys = each.values = KvFormat::of(DType::f32);
    if (plain_block_bytes(shape) > most_bytes / std::max(1u, shape.blocks)) {
        shape.layers = {shape.layers[layer]};
        shape.layers.front().place = 0;
        shadow->m_first = layer;
    }
    shadow->m_layers = static_cast<std::uint32_t>(shape.layers.size());
    auto cache = backend.kv_cache(shape, Purpose::activations);
    if (!cache) return cache.error();
    shadow->m_backend = &backend;
    shadow->m_cache = std::move(*cache);
    shadow->begin(since);
    return shadow;
}

void ShadowCache::begin(std::uint64_t since) {
    m_since = since;
    for (std::uint32_t block = 0; block < m_cache->shape().blocks; ++block) forget(BlockId(block));
}

void ShadowCache::store(const Buffer& k, const Buffer& v, std::uint32_t group, std::uint32_t layer) {
    if (holds(layer)) m_backend->store(k, v, group, *m_cache, layer - m_first);
}

Result<void> ShadowCache::read(std::uint32_t layer, BlockId block, std::uint32_t tokens, std::span<float> keys, std::span<float> values) const {
    return m_backend->read_block(*m_cache, layer - m_first, block.value, 0, tokens, keys, values);
}

}  // namespace kvloupe
