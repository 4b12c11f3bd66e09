// SPDX-License-Identifier: GPL-3.0-or-later
//
// The arithmetic of KV-cache sizes over a model's configuration, layer by layer (predicted: nothing is measured here).
//
// Sources: bytes per token 2 * layers * KV heads * head size * bytes (CACHE_SEMANTICS 0; published figures: FORMATS
// 3.1), a latent's kv_rank + rotary_dim (DeepSeek-V2, arXiv 2405.04434, table 1), min(n, window) tokens of a local layer
// (FORMATS 2.4), layouts with their scales (engine/record/kv_format.h). Tensor parallel: a GPU holds the KV heads that
// its query heads use, so heads that more than one GPU uses are replicated, and so is a latent, which all heads use
// (vLLM, Megatron-LM).
#pragma once

#include "engine/model/config.h"
#include "engine/record/kv_format.h"
#include "engine/record/result.h"

#include <cstdint>
#include <span>
#include <vector>

namespace kvloupe {

struct CachePrecision {
    KvFormat keys = KvFormat::of(DType::f16);
    KvFormat values = KvFormat::of(DType::f16);
};

struct Parallel {
    std::uint32_t tensor = 1;    // GPUs that share every layer
    std::uint32_t pipeline = 1;  // stages that follow one another
    std::uint32_t gpus() const { return tensor * pipeline; }
};

// What a layer keeps, on one GPU.
struct KvLayerSize {
    KvPlane keys, values;        // latent: of the latent and of the rotary key
    bool latent = false;
    std::uint32_t window = 0;    // newest tokens that stay; 0: all. Of a chunked layer its chunk

    std::uint64_t bytes_per_token() const;  // KIVI: of a quantised token
    std::uint64_t tokens_kept(std::uint64_t tokens) const { return window > 0 && tokens > window ? window : tokens; }
    // Of one sequence of so many tokens.
    std::uint64_t bytes(std::uint64_t tokens) const;
    // Once per pool, beside the tokens: scales per tensor or head.
    std::uint64_t fixed_bytes() const { return keys.fixed_bytes + values.fixed_bytes; }
    // Whether a token costs the same, for the same reason, and as many of them stay.
    bool alike(const KvLayerSize& other) const;
};

// Bytes of `tokens` tokens in a plane. KIVI: the last tokens % residual are in f16, the others quantised (its keys' rule,
// arXiv 2402.02750; KVLoupe keeps values by the same one).
std::uint64_t plane_bytes(const KvPlane& plane, std::uint64_t tokens);

// (layers). Errors: a precision whose packs, groups or rotation do not divide a layer's rows; query heads that do not
// divide among the GPUs.
Result<std::vector<KvLayerSize>> kv_layers(const ModelConfig& config, const CachePrecision& precision,
                                           std::uint32_t tensor_parallel = 1);

// Every layer counted as if it kept all tokens.
std::uint64_t kv_bytes_per_token(std::span<const KvLayerSize> layers);
// One sequence of `tokens` tokens, windows included.
std::uint64_t kv_bytes(std::span<const KvLayerSize> layers, std::uint64_t tokens);
std::uint64_t kv_fixed_bytes(std::span<const KvLayerSize> layers);

// The most KV heads that one of `gpus` GPUs holds; gpus divides query_heads and kv_heads divides query_heads.
// 8 heads: 8 GPUs hold one each, 16 GPUs too (each head twice); 3 heads of 12 query heads on 2 GPUs: 2 each.
std::uint32_t kv_heads_per_gpu(std::uint32_t query_heads, std::uint32_t kv_heads, std::uint32_t gpus);

// Layers per stage, first stages one more where they do not divide: 7 layers in 3 stages are 3, 2, 2. stages: 1 to
// layers.
std::vector<std::uint32_t> pipeline_stages(std::uint32_t layers, std::uint32_t stages);

}  // namespace kvloupe
