// SPDX-License-Identifier: GPL-3.0-or-later
//
// What a recording says about each layer of a lane's model and about how its cache keeps that layer.
#pragma once

#include "engine/record/kv_format.h"

#include <cstdint>

namespace kvloupe {

struct LayerInfo {
    std::uint32_t query_heads = 0;
    std::uint32_t kv_heads = 0;      // with a latent: 1
    std::uint32_t key_dim = 0;       // of a key row as it is stored; with a latent: its width
    std::uint32_t value_dim = 0;     // of a value row; with a latent: of the rotary key, there is no V
    bool latent = false;             // multi-head latent attention
    KvFormat keys, values;           // f32 without a cache: the scratch of a step
    // Keys that a query sees; all 0: those of all positions before it.
    std::uint32_t window = 0;        // tokens, the query's own included
    std::uint32_t sinks = 0;
    std::uint32_t chunk = 0;
    std::uint32_t group = 0;         // KV cache group: whose block tables it uses
    std::uint32_t place = 0;         // layers of different groups with the same place share memory (KvLayerShape)
    double key_bytes_per_token = 0;  // derived from the layout, scales included; 0 without a cache
    double value_bytes_per_token = 0;
    std::uint32_t experts = 0;       // of a mixture-of-experts feed-forward part; 0: a dense one
    std::uint32_t intermediate = 0;  // of the dense part, or of one expert

    double bytes_per_token() const { return key_bytes_per_token + value_bytes_per_token; }
    // Keys that the newest of `tokens` tokens sees: what the size formula counts of such a sequence (FORMATS 3.1: min(n, W)).
    std::uint64_t kept_tokens(std::uint64_t tokens) const {
        if (window > 0) return tokens < std::uint64_t{window} + sinks ? tokens : std::uint64_t{window} + sinks;
        if (chunk > 0) return tokens == 0 ? 0 : (tokens - 1) % chunk + 1;
        return tokens;
    }
};

// Parameters of a model by part, counted from its tensors; an output projection that is the embedding counts once, there.
struct ParameterParts {
    std::uint64_t embedding = 0;
    std::uint64_t attention = 0;     // projections, latents, biases and norms of heads
    std::uint64_t feed_forward = 0;  // experts and routers included
    std::uint64_t norms = 0;
    std::uint64_t output = 0;

    std::uint64_t total() const { return embedding + attention + feed_forward + norms + output; }
    bool operator==(const ParameterParts&) const = default;
};

// Parameters that are stored in one precision.
struct StoredParameters {
    DType dtype = DType::f32;
    std::uint64_t count = 0;

    bool operator==(const StoredParameters&) const = default;
};

}  // namespace kvloupe
