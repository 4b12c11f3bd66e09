// SPDX-License-Identifier: GPL-3.0-or-later
//
// How the two formats spell the tensors' names (FORMATS 2.2, 2.4; the constants of the gguf package). A layer's tensor is
// layer_prefix + number + "." + name.
#pragma once

#include "engine/model/config.h"

#include <string_view>

namespace kvloupe {

struct TensorNames {
    std::string_view embedding, output_norm, output, layer_prefix;
    std::string_view attention_norm, query, key, value, attention_out, ffn_norm, gate, up, down;
    std::string_view query_bias, key_bias, value_bias, query_norm, key_norm, post_attention_norm, post_ffn_norm;
    // Multi-head latent attention. key_up_transposed and value_up: GGUF's newer form of key_value_up; "": there is none.
    std::string_view query_down, query_down_norm, query_up, key_value_down, key_value_norm, key_value_up;
    std::string_view key_up_transposed, value_up;
    // Experts. Stacked: all of a layer in one tensor; otherwise expert e is expert_prefix + e + "." + name.
    std::string_view router, router_bias, shared_gate, shared_up, shared_down;
    std::string_view expert_prefix, expert_gate, expert_up, expert_down;
    bool stacked_experts = false;
    bool norms_lack_one = false;  // a norm multiplies by 1 + w (Gemma in Hugging Face form)
};

const TensorNames& gguf_names();
// The families name their feed-forward parts and norms differently.
TensorNames huggingface_names(const ModelConfig& config);

}  // namespace kvloupe
