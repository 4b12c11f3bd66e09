// SPDX-License-Identifier: GPL-3.0-or-later
//
// Model: configuration, weights as views into the mapped file, tokenizer. Architecture Llama, any head counts.
#pragma once

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

// How rotary pairs lie in a head: GGUF llama files keep adjacent pairs, Hugging Face files half-split ones.
enum class RotaryLayout : std::uint8_t { adjacent /* (2i, 2i+1) */, half_split /* (i, i + d/2) */ };

struct ModelConfig {
    std::string name;
    std::string architecture;       // "llama"
    std::uint32_t layers = 0;
    std::uint32_t hidden = 0;
    std::uint32_t query_heads = 0;
    std::uint32_t kv_heads = 0;     // divides query_heads
    std::uint32_t head_dim = 0;
    std::uint32_t intermediate = 0;
    std::uint32_t vocabulary = 0;
    std::uint32_t context_length = 0;
    float rope_theta = 10000.0f;
    std::uint32_t rotary_dim = 0;   // rotated values of a head; = head_dim unless the file says less
    float rms_epsilon = 1e-5f;
    RotaryLayout rotary_layout = RotaryLayout::half_split;
    bool tied_embeddings = false;
    std::uint64_t parameters = 0;   // counted from the tensors
    std::uint64_t weight_bytes = 0; // bytes of the tensors as stored
    std::vector<std::string> assumed;  // "rope_theta = 10000 (not in config.json)"

    // "MHA", "GQA" or "MQA".
    std::string attention_variant() const {
        return kv_heads == query_heads ? "MHA" : kv_heads == 1 ? "MQA" : "GQA";
    }
    // 2 * layers * kv_heads * head_dim * element size (CACHE_SEMANTICS 0).
    std::uint64_t kv_bytes_per_token(DType dtype) const {
        return 2ull * layers * row_bytes(dtype, std::uint64_t{kv_heads} * head_dim);
    }
};

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

struct LayerWeights {
    Tensor attention_norm;  // (hidden)
    Tensor query;           // (query_heads * head_dim, hidden)
    Tensor key;             // (kv_heads * head_dim, hidden)
    Tensor value;           // (kv_heads * head_dim, hidden)
    Tensor attention_out;   // (hidden, query_heads * head_dim)
    Tensor ffn_norm;        // (hidden)
    Tensor gate, up;        // (intermediate, hidden)
    Tensor down;            // (hidden, intermediate)
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
    std::vector<std::vector<std::byte>> owned;             // generated models (benchmarks, tests) keep their bytes here
    std::uint64_t weights_id = 0;                          // equal for equal files: path, size and time of change
};

struct LoadOptions {
    std::function<void(double fraction, const std::string& what)> progress;  // may be empty; any thread
    std::stop_token stop;                                                    // cancel: Error "Loading was cancelled"
};

// A GGUF file or a Hugging Face folder. Errors: one sentence naming file or key, value and remedy.
Result<std::shared_ptr<const Model>> load_model(const std::string& path, const LoadOptions& options = {});

}  // namespace kvloupe
