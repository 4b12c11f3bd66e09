// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/config_limits.h"

#include <cmath>

namespace kvloupe {

namespace {

// Each returns what contradicts, or nothing.

std::string contradiction_of_heads(const ModelConfig& config) {
    for (std::size_t i = 0; i < config.layer_shapes.size(); ++i) {
        const LayerShape& layer = config.layer_shapes[i];
        const bool like_first = layer.query_heads == config.query_heads && layer.kv_heads == config.kv_heads;
        if (layer.query_heads > 0 && layer.kv_heads > 0 && layer.query_heads % layer.kv_heads == 0) continue;
        return "the number of KV heads, " + std::to_string(layer.kv_heads) + ", does not divide the number of query heads, " +
               std::to_string(layer.query_heads) + (like_first ? "" : ", in layer " + std::to_string(i));
    }
    if (config.head_dim % 2 != 0 && !config.latent.present())
        return "the head size " + std::to_string(config.head_dim) + " is odd, but rotary embedding turns pairs of values";
    if (config.rotary_dim == 0 || config.rotary_dim > config.head_dim || config.rotary_dim % 2 != 0)
        return "rotary embedding of " + std::to_string(config.rotary_dim) + " values does not fit a head of " +
               std::to_string(config.head_dim);
    return {};
}

std::string contradiction_of_experts(const ExpertShape& experts) {
    if (!experts.present()) return {};
    const auto text = [](std::uint32_t number) { return std::to_string(number); };
    if (experts.used == 0 || experts.used > experts.count)
        return text(experts.used) + " experts per token cannot be chosen among " + text(experts.count);
    if (std::uint64_t{experts.shared} * experts.intermediate > ConfigLimits::width)
        return text(experts.shared) + " shared experts of " + text(experts.intermediate) + " values are too wide";
    if (experts.groups == 0 || experts.count % experts.groups != 0)
        return text(experts.groups) + " groups do not divide " + text(experts.count) + " experts";
    if (experts.used_groups == 0 || experts.used_groups > experts.groups)
        return text(experts.used_groups) + " groups cannot be chosen among " + text(experts.groups);
    const std::uint32_t group = experts.count / experts.groups;
    if (experts.group_score == ExpertShape::GroupScore::best_two && group < 2)
        return "groups of one expert cannot be judged by their best two";
    if (experts.used > experts.used_groups * group)
        return text(experts.used_groups) + " groups of " + text(group) + " experts hold fewer than the " + text(experts.used) +
               " that a token uses";
    return {};
}

std::string contradiction_of_scaling(const RotaryScaling& scaling) {
    using Kind = RotaryScaling::Kind;
    if (scaling.kind == Kind::none) return {};
    if (!std::isfinite(scaling.factor) || scaling.factor <= 0)
        return "the rotary scaling factor " + std::to_string(scaling.factor) + " is not a positive number";
    if (scaling.kind != Kind::linear && scaling.original_context == 0) return "rotary scaling knows no original context length";
    if (scaling.kind == Kind::llama3 && !(scaling.high_frequency_factor > scaling.low_frequency_factor))
        return "the rotary scaling's high frequency factor " + std::to_string(scaling.high_frequency_factor) +
               " is not above the low one, " + std::to_string(scaling.low_frequency_factor);
    if (scaling.kind == Kind::yarn && !(scaling.beta_fast > scaling.beta_slow && scaling.beta_slow > 0))
        return "the rotary scaling's beta_fast " + std::to_string(scaling.beta_fast) + " is not above beta_slow " +
               std::to_string(scaling.beta_slow);
    if (!std::isfinite(scaling.magnitude) || scaling.magnitude <= 0)
        return "the rotary scaling's magnitude " + std::to_string(scaling.magnitude) + " is not a positive number";
    return {};
}

std::string contradiction_of_numbers(const ModelConfig& config) {
    if (!std::isfinite(config.rope_theta) || config.rope_theta <= 0)
        return "the rotary base " + std::to_string(config.rope_theta) + " is not a positive number";
    if (config.rotary_scaling.kind == RotaryScaling::Kind::yarn && config.rope_theta <= 1)
        return "the rotary base " + std::to_string(config.rope_theta) + " is not above 1, which yarn needs";
    for (const LayerShape& layer : config.layer_shapes)
        if (layer.local_rotary && (!std::isfinite(config.rope_local_theta) || config.rope_local_theta <= 0))
            return "the local rotary base " + std::to_string(config.rope_local_theta) + " is not a positive number";
    if (!std::isfinite(config.rms_epsilon) || config.rms_epsilon < 0 || config.rms_epsilon > 1)
        return "the RMS-norm epsilon " + std::to_string(config.rms_epsilon) + " is not between 0 and 1";
    for (const float value : {config.attention_scale, config.attention_soft_cap, config.logit_soft_cap})
        if (!std::isfinite(value) || value < 0)
            return "the scale or soft cap " + std::to_string(value) + " is not a positive number";
    return {};
}

}  // namespace

Result<void> check_config(const ModelConfig& config, const std::string& path) {
    const auto refuse = [&](const std::string& what) {
        return Error{path + ": " + what, "The configuration contradicts itself; use the one that came with the model."};
    };
    if (config.layer_shapes.size() != config.layers)
        return refuse("describes " + std::to_string(config.layer_shapes.size()) + " of its " + std::to_string(config.layers) +
                      " layers");
    for (const std::string& what : {contradiction_of_heads(config), contradiction_of_experts(config.experts),
                                    contradiction_of_scaling(config.rotary_scaling), contradiction_of_numbers(config)})
        if (!what.empty()) return refuse(what);
    return {};
}

}  // namespace kvloupe
