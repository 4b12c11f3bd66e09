// SPDX-License-Identifier: GPL-3.0-or-later
//
// ShadowCache: a copy in f32 of what goes into a lane's pool, by the same block ids, so that keys and values before they were
// stored can be held against what is stored. Made when a lane's values are first looked at; a slot that was written earlier, or
// that came back from host memory, holds NaN and counts as not known.
//
// All layers where that takes at most `most_bytes`, else the one layer that is looked at. Rejected: quantising a copy of the
// stored values again, because it says nothing about the first loss.
#pragma once

#include "engine/backend.h"
#include "engine/record/ids.h"

#include <cstdint>
#include <memory>

namespace kvloupe {

class ShadowCache {
public:
    static constexpr std::uint64_t most_bytes = std::uint64_t{256} << 20;

    // pool: the shape of what it stands beside. since: the first step whose values it gets. Errors: the backend's.
    static Result<std::unique_ptr<ShadowCache>> make(Backend& backend, const KvCacheShape& pool, std::uint32_t layer, std::uint64_t since);

    // Nothing is known; from step `since` on it will be.
    void begin(std::uint64_t since);
    bool holds(std::uint32_t layer) const { return layer >= m_first && layer - m_first < m_layers; }
    std::uint64_t since() const { return m_since; }
    std::uint64_t bytes() const { return m_cache->bytes(); }  // as allocated

    // Rows of the batch as Backend::store(); of a layer that it does not hold, nothing.
    void store(const Buffer& k, const Buffer& v, std::uint32_t group, std::uint32_t layer);
    // The block's content is somebody else's from now on.
    void forget(BlockId block) { m_backend->poison_block(*m_cache, block.value); }
    void copy(BlockId from, BlockId to, std::uint32_t tokens) { m_backend->copy_block(*m_cache, from.value, to.value, tokens); }
    // As Backend::read_block(); NaN where not known.
    Result<void> read(std::uint32_t layer, BlockId block, std::uint32_t tokens, std::span<float> keys, std::span<float> values) const;

private:
    ShadowCache() = default;

    Backend* m_backend = nullptr;  // outlives it
    std::unique_ptr<KvCache> m_cache;
    std::uint32_t m_first = 0, m_layers = 0;
    std::uint64_t m_since = 0;
};

}  // namespace kvloupe
