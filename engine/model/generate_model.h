// SPDX-License-Identifier: GPL-3.0-or-later
//
// A model of any shape with seeded random weights, for benchmarks and tests: its arithmetic costs what a real model of
// that shape costs, its text means nothing.
#pragma once

#include "engine/model/model.h"

#include <cstdint>
#include <memory>

namespace kvloupe {

struct GenerateOptions {
    // layers, hidden, query_heads, kv_heads, head_dim, intermediate, vocabulary and context_length must be set; rotary_dim 0
    // means head_dim. With a latent, kv_heads, head_dim and rotary_dim follow from it. Without layer_shapes all layers are
    // alike, with experts if there are any. name, architecture, parameters and weight_bytes are filled in.
    ModelConfig shape;
    DType matrices = DType::f16;  // embedding, projections and output; norms are f32
    std::uint64_t seed = 0;
    std::shared_ptr<const Tokenizer> tokenizer;  // may be null: such a model takes token ids only
};

// The same options give the same bytes on every machine. Weights are uniform with variance 1 / columns, so that
// activations keep their size through the layers; norms lie between 0.9 and 1.1.
// Errors: a value that is missing or contradicts another; rows that are no multiple of 32 for a packed type.
Result<std::shared_ptr<const Model>> generate_model(const GenerateOptions& options);

}  // namespace kvloupe
