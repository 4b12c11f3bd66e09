// SPDX-License-Identifier: GPL-3.0-or-later
//
// DecoderBuffers: the activations of a forward pass, and how wide a row of each is. One table says both what is allocated and
// how many bytes that takes.
#pragma once

#include "engine/serve/device_model.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace kvloupe {

struct DecoderBuffers {
    using Slot = std::unique_ptr<Buffer>;

    // (rows, …); null where the model has no use for it
    Slot hidden, normed;         // (hidden): the residual stream; what goes into a half
    Slot projected;              // (hidden): what comes out of a half, where a norm is behind it
    Slot q, k, v;                // (heads, head_dim)
    Slot attended;               // (query_heads, value_dim of the attention)
    Slot gate, up;               // (intermediate)
    Slot router;                 // (experts)
    Slot expert_in, expert_out;  // (hidden): of the rows of one expert
    Slot query_low, query_low_normed;  // (query_rank)
    Slot key_value_low;          // (kv_rank + rotary_dim)
    Slot latent_low, latent;     // (kv_rank): before its norm, and as it is cached
    Slot rotary_key;             // (rotary_dim)
    Slot query_nope;             // (query_heads, nope_dim)
    Slot query_absorbed;         // (query_heads, kv_rank)
    Slot query_latent;           // (query_heads, kv_rank + rotary_dim)
    Slot head_values;            // (query_heads, value_dim): attended latents, taken up again
    // (logit_rows, …)
    Slot gathered, gathered_normed;  // (hidden)
    Slot logits;                     // (vocabulary)

    struct Part {
        Slot DecoderBuffers::*slot;
        std::uint64_t width;     // floats of a row
    };
    static std::vector<Part> row_parts(const ModelConfig& config, const DecoderOptions& options);
    static std::vector<Part> logit_parts(const ModelConfig& config);
    static std::uint64_t bytes_of(const std::vector<Part>& parts, std::uint64_t rows);
    // Replaces the parts. Errors: the backend's; what was there is gone then.
    Result<void> make(Backend& backend, const std::vector<Part>& parts, std::uint64_t rows);
};

}  // namespace kvloupe
