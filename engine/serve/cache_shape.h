// SPDX-License-Identifier: GPL-3.0-or-later
//
// CacheShape: how a lane keeps its model's layers: which keys each sees, how K and V are stored, which layers share block tables
// and which memory. Everything but the number of blocks, which depends on the room there is (pool_size.h).
//
// Layers that see alike form a kind. A model with several kinds is kept as vLLM does (CACHE_SEMANTICS 1.1 "Hybrid models"): one
// pool of block ids for all; every kind is split into cache groups of as many layers as the smallest kind has, every n-th layer
// in one group; the k-th layer of every group has place k. So a block id belongs to one group at a time, memory is blocks ×
// places, and places that the last groups of a kind do not fill stay empty. Rejected: a pool per kind, because their sizes would
// have to be guessed before anybody knows how long the sequences are.
#pragma once

#include "engine/cache/cache_options.h"
#include "engine/record/kv_layout.h"
#include "engine/serve/scenario.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kvloupe {

struct CacheShape {
    std::vector<KeySpan> spans;            // (layers) which keys a query sees
    std::vector<std::uint32_t> groups;     // (layers) whose block tables a layer uses
    std::vector<CacheGroup> cache_groups;  // as the cache manager is told
    std::vector<KvLayerShape> layers;      // without a cache: of a step's scratch, in f32
    std::uint32_t block_size = 0;
    bool keeps_residual = false;           // a layer keeps the newest tokens in f16 (KIVI)
    std::uint32_t residual = 0;            // as many tokens
    std::uint32_t most_pages = 0;          // residual pages that can be needed at once
    bool window_is_foreign = false;        // the lane's window or chunk is not the one that the model was trained with
    std::vector<std::string> notes;        // sentences: what was chosen because nothing was given

    // Errors name the lane's key, the value and what to do: precisions for another number of layers, a format that a layer's
    // shape does not take (in the words of KvPlane::of), mla: "expanded" where there is no latent.
    static Result<CacheShape> of(const ModelConfig& config, const LaneOptions& lane);

    KvCacheShape pool(std::uint32_t blocks) const;
    std::uint32_t pages_of(std::uint32_t blocks) const;  // residual pages beside so many blocks
    std::uint64_t pool_bytes(std::uint32_t blocks) const { return layout(block_size).pool_bytes(blocks, pages_of(blocks)); }
    // The largest pool that takes at most so many bytes; 0 where not even one block does.
    std::uint64_t blocks_in(std::uint64_t bytes) const;
    // One run of slots for a sequence, for a step without a cache.
    KvCacheShape scratch(std::uint32_t tokens) const;
    std::uint64_t scratch_bytes(std::uint32_t tokens) const { return layout(tokens).pool_bytes(1, 0); }

    // By the layouts in blocks of that many slots.
    KvLayout layout(std::uint32_t slots) const;
    // What a recording says about the layers.
    std::vector<LayerInfo> layer_infos(const ModelConfig& config, bool kv_cache) const;
};

}  // namespace kvloupe
