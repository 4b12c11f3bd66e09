// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/config_limits.h"
#include "engine/model/gguf_parts.h"
#include "engine/model/message.h"

#include <cmath>

namespace kvloupe {

namespace {

// Which layers have the window: an array of truth values per layer in newer files, otherwise a rule that no file holds.
bool read_windows(GgufConfigReader& reader, const GgufFamily& family, ModelConfig& config) {
    std::uint32_t window = 4096, pattern = family.is("gemma2") ? 2 : 6;
    if (!reader.read_count("attention.sliding_window", ConfigLimits::context, window)) return false;
    const std::string key = "attention.sliding_window_pattern";
    const GgufArray* const array = reader.file().array(reader.full(key));
    if (array && array->numbers.size() != config.layers)
        return reader.fail("key " + in_quotes(reader.full(key)) + " is an array of " + grouped(array->numbers.size()) +
                           " values for " + grouped(config.layers) + " layers");
    if (!array && !reader.read_count(key, ConfigLimits::layers, pattern)) return false;
    for (std::uint32_t i = 0; i < config.layers; ++i) {
        const bool sliding = array ? array->numbers[i] != 0 : (i + 1) % pattern != 0;
        if (!sliding) continue;
        config.layer_shapes[i].window = window;
        config.layer_shapes[i].local_rotary = family.is("gemma3");
    }
    return true;
}

}  // namespace

bool read_gguf_gemma(GgufConfigReader& reader, const GgufFamily& family, ModelConfig& config) {
    config.post_norms = true;
    config.activation = Activation::gelu_tanh;
    config.embedding_scale = std::sqrt(static_cast<float>(config.hidden));
    // The files do not say the scale of the scores; the two models of 27 B parameters have one of their own.
    const bool largest = config.layers == (family.is("gemma2") ? 46u : 62u);
    const std::uint32_t width = largest ? config.hidden / config.query_heads : config.head_dim;
    config.attention_scale = 1 / std::sqrt(static_cast<float>(width));
    if (reader.has("attention.scale")) {
        if (!reader.need_number("attention.scale", config.attention_scale)) return false;
    } else {
        reader.assume("attention.scale", "1 / sqrt(" + std::to_string(width) + ")");
    }
    if (family.is("gemma2")) {
        config.attention_soft_cap = 50;
        config.logit_soft_cap = 30;
        if (!reader.read_number("attn_logit_softcapping", config.attention_soft_cap) ||
            !reader.read_number("final_logit_softcapping", config.logit_soft_cap))
            return false;
    } else {
        config.rope_local_theta = 10000;
        if (!reader.read_number("rope.freq_base_swa", config.rope_local_theta) ||
            !reader.read_optional_number("final_logit_softcapping", config.logit_soft_cap))
            return false;
    }
    return read_windows(reader, family, config);
}

}  // namespace kvloupe
