// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/config_limits.h"
#include "engine/model/hf_parts.h"
#include "engine/model/message.h"

#include <algorithm>
#include <cmath>

namespace kvloupe {

namespace {

using nlohmann::json;

bool read_heads(HfConfigReader& reader, const HfFamily& family, ModelConfig& model) {
    std::vector<std::uint32_t> query_heads, kv_heads, intermediate;
    if (!reader.read_counts({"num_attention_heads", "n_head", "n_heads"}, ConfigLimits::heads, model.layers,
                            family.query_heads, query_heads))
        return false;
    // An explicit null means as many as query heads, an absent key what the class says.
    const bool as_queries = family.kv_heads == 0 || reader.is_null("num_key_value_heads");
    if (as_queries && !reader.find({"num_key_value_heads", "num_kv_heads"})) {
        kv_heads = query_heads;
        reader.assume("num_key_value_heads", std::to_string(query_heads.front()));
    } else if (!reader.read_counts({"num_key_value_heads", "num_kv_heads"}, ConfigLimits::heads, model.layers,
                                   family.kv_heads, kv_heads)) {
        return false;
    }
    if (!reader.read_counts({"intermediate_size"}, ConfigLimits::width, model.layers, family.intermediate, intermediate))
        return false;
    for (std::uint32_t i = 0; i < model.layers; ++i) {
        model.layer_shapes[i].query_heads = query_heads[i];
        model.layer_shapes[i].kv_heads = kv_heads[i];
        model.layer_shapes[i].intermediate = intermediate[i];
    }
    model.query_heads = query_heads.front();
    model.kv_heads = kv_heads.front();
    model.intermediate = *std::max_element(intermediate.begin(), intermediate.end());
    return true;
}

bool read_head_dim(HfConfigReader& reader, const HfFamily& family, ModelConfig& model) {
    if (family.is_deepseek()) return true;  // of its own parts
    model.head_dim = family.head_dim;
    if (family.head_dim > 0 || reader.find({"head_dim"})) {
        if (!reader.read_count({"head_dim"}, ConfigLimits::width, model.head_dim)) return false;
    } else if (model.hidden % model.query_heads != 0) {
        return reader.fail("has no 'head_dim', and 'hidden_size' " + std::to_string(model.hidden) +
                           " is no multiple of 'num_attention_heads' " + std::to_string(model.query_heads));
    } else {
        model.head_dim = model.hidden / model.query_heads;
        reader.assume("head_dim", std::to_string(model.head_dim));
    }
    model.rotary_dim = model.head_dim;
    return true;
}

bool read_activation(HfConfigReader& reader, const HfFamily& family, ModelConfig& model) {
    const char* const key = family.is_gemma() ? "hidden_activation" : "hidden_act";
    std::string name = family.is_gemma() ? "gelu_pytorch_tanh" : "silu";
    if (reader.find({key}) && !reader.read_name(key, name)) return false;
    if (name == "silu" || name == "swish")
        model.activation = Activation::silu;
    else if (name == "gelu_pytorch_tanh")
        model.activation = Activation::gelu_tanh;
    else
        return reader.refuse(in_quotes(key) + " is " + in_quotes(name) +
                             ": activations other than silu and gelu_pytorch_tanh are not built yet");
    return true;
}

bool read_biases(HfConfigReader& reader, const HfFamily& family, ModelConfig& model) {
    bool mlp_bias = false;
    if (!reader.read_flag("attention_bias", model.attention_bias) || !reader.read_flag("mlp_bias", mlp_bias)) return false;
    if (mlp_bias) return reader.refuse("'mlp_bias' is true: feed-forward parts with a bias are not built yet");
    if (family.is_deepseek() && model.attention_bias)
        return reader.refuse("'attention_bias' is true: latent attention with a bias is not built yet");
    if (family.kind == HfFamily::Kind::qwen2) model.attention_bias = true;  // no key says so
    if (const json* const part = reader.find({"partial_rotary_factor"}))
        if (!part->is_number() || part->get<double>() != 1.0)
            return reader.refuse("'partial_rotary_factor' is " + describe(*part) + ": only 1 is built yet");
    return true;
}

// Gemma multiplies embeddings by sqrt(hidden), has its own scale of the scores, soft caps, and norms on both sides.
bool read_gemma(HfConfigReader& reader, const HfFamily& family, ModelConfig& model) {
    model.post_norms = true;
    model.embedding_scale = std::sqrt(static_cast<float>(model.hidden));
    model.query_key_norm = family.kind == HfFamily::Kind::gemma3;
    float scalar = 256;
    if (!reader.read_number({"query_pre_attn_scalar"}, scalar)) return false;
    model.attention_scale = 1 / std::sqrt(scalar);
    bool bidirectional = false;
    if (!reader.read_flag("use_bidirectional_attention", bidirectional)) return false;
    if (bidirectional) return reader.refuse("'use_bidirectional_attention' is true, which is not built yet");
    // Absent, Gemma 2's caps are 50 and 30; null, there are none.
    const bool capped = family.kind == HfFamily::Kind::gemma2;
    const auto read_cap = [&](const char* key, float fallback, float& cap) {
        cap = fallback;
        if (capped && !reader.is_null(key)) return reader.read_number({key}, cap);
        return reader.read_optional_number({key}, cap);
    };
    return read_cap("attn_logit_softcapping", 50, model.attention_soft_cap) &&
           read_cap("final_logit_softcapping", 30, model.logit_soft_cap);
}

}  // namespace

bool read_hf_sizes(HfConfigReader& reader, const HfFamily& family, ModelConfig& model) {
    model.vocabulary = family.vocabulary;
    model.hidden = family.hidden;
    model.layers = family.layers;
    model.context_length = family.context_length;
    model.rms_epsilon = family.rms_epsilon;
    if (!reader.read_count({"vocab_size"}, ConfigLimits::vocabulary, model.vocabulary) ||
        !reader.read_count({"hidden_size", "n_embd", "dim"}, ConfigLimits::width, model.hidden) ||
        !reader.read_count({"num_hidden_layers", "n_layer", "n_layers"}, ConfigLimits::layers, model.layers) ||
        !reader.read_count({"max_position_embeddings"}, ConfigLimits::context, model.context_length) ||
        !reader.read_number({"rms_norm_eps"}, model.rms_epsilon))
        return false;
    model.layer_shapes.assign(model.layers, LayerShape{});
    model.query_key_norm = family.kind == HfFamily::Kind::qwen3;
    model.tied_embeddings = family.tied_embeddings;
    if (!reader.find({"tie_word_embeddings"})) reader.assume("tie_word_embeddings", family.tied_embeddings ? "true" : "false");
    return reader.read_flag("tie_word_embeddings", model.tied_embeddings) && read_heads(reader, family, model) &&
           read_head_dim(reader, family, model) && read_activation(reader, family, model) &&
           read_biases(reader, family, model) && (!family.is_gemma() || read_gemma(reader, family, model));
}

}  // namespace kvloupe
