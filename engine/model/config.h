// SPDX-License-Identifier: GPL-3.0-or-later
//
// ModelConfig: what a decoder-only transformer is made of, whatever file or family it comes from. Readers of files fill it,
// everything else only reads it: the families differ in which of these parts they have, not in code of their own.
#pragma once

#include "engine/model/rotary.h"
#include "engine/record/dtype.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kvloupe {

enum class Activation : std::uint8_t { silu, gelu_tanh };

// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434). kv_rank 0: the model has none.
struct LatentShape {
    std::uint32_t query_rank = 0;    // of the query's low-rank projection; 0: a full one
    std::uint32_t kv_rank = 0;       // width of the latent, of the widest layer
    std::uint32_t nope_dim = 0;      // of a query or key head without position
    std::uint32_t rotary_dim = 0;    // of the part with position; one key of it for all heads
    std::uint32_t value_dim = 0;     // of a value head
    // Keys and values of the layer's KV heads are made from the latent, which has no norm and no rotary key beside it, and
    // keys get bias, norm and position afterwards (convert_model.h). nope_dim = value_dim = head_dim, rotary_dim = 0.
    bool late_rotation = false;

    bool present() const { return kv_rank > 0; }
    bool operator==(const LatentShape&) const = default;
};

// A feed-forward part that sends every token to `used` of `count` experts. count 0: the model has none.
struct ExpertShape {
    enum class Score : std::uint8_t { softmax, sigmoid };
    // How groups of experts are judged before single ones are: not at all, by their best expert (DeepSeek-V2), or by the sum of
    // their best two (DeepSeek-V3, whose correction bias takes part in choosing and not in weighting).
    enum class GroupScore : std::uint8_t { none, best, best_two };
    std::uint32_t count = 0;
    std::uint32_t used = 0;          // per token
    std::uint32_t shared = 0;        // experts that every token passes; one matrix of shared * intermediate
    std::uint32_t intermediate = 0;  // of one expert
    Score score = Score::softmax;
    GroupScore group_score = GroupScore::none;
    std::uint32_t groups = 1;        // equal parts of `count`
    std::uint32_t used_groups = 1;
    bool normalised = false;         // the chosen weights are divided by their sum
    bool corrected = false;          // there is a correction bias
    float weight_scale = 1;          // routed_scaling_factor

    bool present() const { return count > 0; }
};

// What may differ from layer to layer.
struct LayerShape {
    std::uint32_t query_heads = 0;
    std::uint32_t kv_heads = 0;      // divides query_heads
    std::uint32_t intermediate = 0;  // of a dense feed-forward part
    std::uint32_t window = 0;        // tokens a query sees, its own included; 0: all before it
    std::uint32_t chunk = 0;         // chunked local attention; 0: none
    bool local_rotary = false;       // turns by rotary_local instead of rotary (Gemma 3)
    bool experts = false;            // instead of a dense feed-forward part
    std::uint32_t latent_width = 0;  // 0: LatentShape::kv_rank

    bool operator==(const LayerShape&) const = default;
};

struct ModelConfig {
    std::string name;
    std::string architecture;       // "llama", "mistral", "mixtral", "qwen2", "qwen3", "gemma2", "gemma3", "deepseek_v2", "deepseek_v3"
    std::uint32_t layers = 0;
    std::uint32_t hidden = 0;
    std::uint32_t query_heads = 0;  // of the first layer, as the next three
    std::uint32_t kv_heads = 0;
    std::uint32_t head_dim = 0;     // of queries and keys; of all layers
    std::uint32_t intermediate = 0; // the largest of all layers
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

    std::vector<LayerShape> layer_shapes;  // (layers)
    RotaryScaling rotary_scaling;
    float rope_local_theta = 0;     // of layers with local_rotary; unscaled
    float attention_scale = 0;      // of q k^T; 0: 1 / sqrt(head_dim)
    float attention_soft_cap = 0;   // cap * tanh(score / cap); 0: none
    float logit_soft_cap = 0;
    float embedding_scale = 1;      // Gemma: sqrt(hidden)
    Activation activation = Activation::silu;
    bool query_key_norm = false;    // RMS norm of every query and key head before it is turned
    bool attention_bias = false;    // of the query, key and value projections
    bool post_norms = false;        // norms behind attention and feed-forward part as well as before (Gemma)
    LatentShape latent;
    ExpertShape experts;

    // "MHA", "GQA", "MQA" or "MLA".
    std::string attention_variant() const {
        if (latent.present()) return "MLA";
        return kv_heads == query_heads ? "MHA" : kv_heads == 1 ? "MQA" : "GQA";
    }
    std::uint32_t latent_width(std::uint32_t layer) const {
        const bool own = layer < layer_shapes.size() && layer_shapes[layer].latent_width > 0;
        return own ? layer_shapes[layer].latent_width : latent.kv_rank;
    }
    RotaryShape rotary(std::uint32_t layer) const {
        const bool local = layer < layer_shapes.size() && layer_shapes[layer].local_rotary;
        return {local ? rope_local_theta : rope_theta, rotary_dim, rotary_layout, local ? RotaryScaling{} : rotary_scaling};
    }
    // Latents with late rotation of those widths, one for every layer, in place of keys and values; layer_shapes are there.
    void make_latents(const std::vector<std::uint32_t>& widths) {
        latent = {};
        latent.nope_dim = latent.value_dim = head_dim;
        latent.late_rotation = true;
        for (std::uint32_t i = 0; i < layers; ++i) {
            layer_shapes[i].latent_width = widths[i];
            latent.kv_rank = widths[i] > latent.kv_rank ? widths[i] : latent.kv_rank;
        }
    }
    // layer_shapes of a model whose layers are all alike, from the fields above.
    void make_uniform() { layer_shapes.assign(layers, {query_heads, kv_heads, intermediate, 0, 0, false, false}); }
};

}  // namespace kvloupe
