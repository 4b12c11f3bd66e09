// SPDX-License-Identifier: GPL-3.0-or-later
//
// Model: configuration, weights as views into the mapped file, tokenizer.
#pragma once

#include "engine/model/config.h"
#include "engine/model/mapped_file.h"
#include "engine/model/tokenizer.h"
#include "engine/record/dtype.h"
#include "engine/record/result.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

namespace kvloupe {

// A matrix as it is stored: `rows` rows of `cols` contiguous elements ([out, in] for a projection). rows = 1: a vector.
struct Tensor {
    std::string name;
    const std::byte* data = nullptr;
    DType dtype = DType::f32;
    std::uint64_t rows = 0;
    std::uint64_t cols = 0;
    std::uint64_t bytes() const { return rows * row_bytes(dtype, cols); }
    bool present() const { return data != nullptr; }
};

// One expert's, or a dense, feed-forward part.
struct FeedForwardWeights {
    Tensor gate, up;        // (intermediate, hidden)
    Tensor down;            // (hidden, intermediate)
};

// Multi-head latent attention. The two key-value tensors hold the same numbers cut in two ways: absorbed attention multiplies
// queries with key_up_transposed and attended latents with value_up, expanded attention makes keys and values with key_value_up.
struct LatentWeights {
    Tensor query_down;         // (query_rank, hidden); absent without a rank: the layer's `query` is used
    Tensor query_norm;         // (query_rank)
    Tensor query_up;           // (query_heads * (nope_dim + rotary_dim), query_rank)
    Tensor key_value_down;     // (kv_rank + rotary_dim, hidden)
    Tensor key_value_norm;     // (kv_rank)
    Tensor key_value_up;       // (query_heads * (nope_dim + value_dim), kv_rank)
    Tensor key_up_transposed;  // (query_heads * kv_rank, nope_dim)
    Tensor value_up;           // (query_heads * value_dim, kv_rank)
};

// Absent tensors are those that the configuration has no use for.
struct LayerWeights {
    Tensor attention_norm;  // (hidden)
    Tensor query;           // (query_heads * head_dim, hidden)
    Tensor key;             // (kv_heads * head_dim, hidden)
    Tensor value;           // (kv_heads * head_dim, hidden)
    Tensor query_bias, key_bias, value_bias;  // (rows of the projection)
    Tensor query_norm, key_norm;              // (head_dim)
    LatentWeights latent;                     // instead of query, key and value
    Tensor attention_out;   // (hidden, query_heads * head_dim; with a latent: query_heads * value_dim)
    Tensor post_attention_norm;               // (hidden)
    Tensor ffn_norm;        // (hidden)
    Tensor gate, up;        // (intermediate, hidden); with experts: of the shared ones, or absent
    Tensor down;            // (hidden, intermediate)
    Tensor router;          // (experts, hidden)
    Tensor router_bias;     // (experts)
    std::vector<FeedForwardWeights> experts;
    Tensor post_ffn_norm;   // (hidden)
};

class Model {
public:
    ModelConfig config;
    Tensor embedding;       // (vocabulary, hidden)
    Tensor output_norm;     // (hidden)
    Tensor output;          // (vocabulary, hidden); the embedding when tied
    std::vector<LayerWeights> layers;
    std::shared_ptr<const Tokenizer> tokenizer;
    std::vector<std::shared_ptr<const MappedFile>> files;  // keep the views alive
    std::vector<std::vector<std::byte>> owned;             // generated and converted tensors keep their bytes here
    std::shared_ptr<const Model> source;                   // of a converted model: keeps the tensors alive that both share
    std::uint64_t weights_id = 0;                          // equal for equal files: path, size and time of change
};

struct LoadOptions {
    std::function<void(double fraction, const std::string& what)> progress;  // may be empty; any thread
    std::stop_token stop;                                                    // cancel: Error "Loading was cancelled"
};

// A GGUF file or a Hugging Face folder. Errors: one sentence naming file or key, value and remedy.
Result<std::shared_ptr<const Model>> load_model(const std::string& path, const LoadOptions& options = {});

}  // namespace kvloupe
