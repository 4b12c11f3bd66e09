// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/config_limits.h"
#include "engine/model/gguf_parts.h"
#include "engine/model/message.h"

#include <algorithm>

namespace kvloupe {

namespace {

constexpr std::uint32_t softmax_gate = 1, sigmoid_gate = 2;  // expert_gating_func

void give_experts(ModelConfig& config, std::uint32_t from) {
    for (std::uint32_t i = from; i < config.layers; ++i) {
        config.layer_shapes[i].experts = true;
        config.layer_shapes[i].intermediate = 0;
    }
    std::uint32_t widest = config.experts.intermediate * std::max(1u, config.experts.shared);
    for (const LayerShape& layer : config.layer_shapes) widest = std::max(widest, layer.intermediate);
    config.intermediate = widest;
}

bool read_deepseek(GgufConfigReader& reader, ModelConfig& config) {
    ExpertShape& experts = config.experts;
    std::uint32_t dense = 0, gate = softmax_gate;
    if (!reader.read_optional_count("leading_dense_block_count", ConfigLimits::layers, dense) ||
        !reader.need_count("expert_feed_forward_length", ConfigLimits::width, experts.intermediate) ||
        !reader.read_optional_count("expert_shared_count", ConfigLimits::experts, experts.shared) ||
        !reader.read_optional_count("expert_gating_func", 2, gate) ||
        !reader.read_number("expert_weights_scale", experts.weight_scale) ||
        !reader.read_flag("expert_weights_norm", experts.normalised) ||
        !reader.read_optional_count("expert_group_count", ConfigLimits::experts, experts.groups) ||
        !reader.read_optional_count("expert_group_used_count", ConfigLimits::experts, experts.used_groups))
        return false;
    experts.groups = std::max(1u, experts.groups);
    experts.used_groups = std::max(1u, experts.used_groups);
    const std::uint32_t first = std::min(dense, config.layers);
    experts.corrected = reader.file().tensor("blk." + std::to_string(first) + ".exp_probs_b.bias") != nullptr;
    if (gate == sigmoid_gate) {
        config.architecture = "deepseek_v3";
        experts.score = ExpertShape::Score::sigmoid;
    }
    // Files of before group keys were written choose among all experts, as the program that they were written for does.
    if (experts.groups > 1)
        experts.group_score = experts.corrected ? ExpertShape::GroupScore::best_two : ExpertShape::GroupScore::best;
    else if (!reader.has("expert_group_count"))
        reader.assume("expert_group_count", "1");
    if (first < config.layers) give_experts(config, first);
    return true;
}

}  // namespace

bool read_gguf_experts(GgufConfigReader& reader, const GgufFamily& family, ModelConfig& config) {
    ExpertShape& experts = config.experts;
    if (!reader.read_optional_count("expert_count", ConfigLimits::experts, experts.count)) return false;
    if (!experts.present()) return true;
    if (!reader.need_count("expert_used_count", ConfigLimits::experts, experts.used)) return false;
    if (family.is("deepseek2")) return read_deepseek(reader, config);
    if (!family.is("llama"))
        return reader.refuse("key " + in_quotes(reader.full("expert_count")) + " is " + grouped(experts.count) +
                             ", which is not built yet");
    config.architecture = "mixtral";
    experts.intermediate = config.intermediate;
    experts.normalised = true;
    give_experts(config, 0);
    return true;
}

}  // namespace kvloupe
