// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/config_limits.h"
#include "engine/model/hf_parts.h"
#include "engine/model/message.h"

#include <algorithm>

namespace kvloupe {

namespace {

bool read_mixtral(HfConfigReader& reader, ModelConfig& model) {
    ExpertShape& experts = model.experts;
    experts.count = 8;
    experts.used = 2;
    if (!reader.read_count({"num_local_experts"}, ConfigLimits::experts, experts.count) ||
        !reader.read_count({"num_experts_per_tok"}, ConfigLimits::experts, experts.used))
        return false;
    experts.intermediate = model.intermediate;
    experts.normalised = true;  // softmax over the chosen logits is softmax over all of them, normalised
    for (LayerShape& layer : model.layer_shapes) {
        layer.experts = true;
        layer.intermediate = 0;
    }
    return true;
}

// How DeepSeek's routers choose: arXiv 2405.04434 section 2.2, arXiv 2412.19437 section 2.1.
bool read_deepseek_router(HfConfigReader& reader, const HfFamily& family, ExpertShape& experts) {
    const bool third = family.kind == HfFamily::Kind::deepseek_v3;
    std::string method = third ? "noaux_tc" : "greedy", score = third ? "sigmoid" : "softmax";
    if (!reader.read_name("topk_method", method) || !reader.read_name("scoring_func", score)) return false;
    if (method == "greedy")
        experts.group_score = ExpertShape::GroupScore::none;
    else if (method == "group_limited_greedy")
        experts.group_score = ExpertShape::GroupScore::best;
    else if (method == "noaux_tc")
        experts.group_score = ExpertShape::GroupScore::best_two;
    else
        return reader.refuse("'topk_method' is " + in_quotes(method) + ", which is not built yet");
    experts.corrected = method == "noaux_tc";
    if (score == "softmax")
        experts.score = ExpertShape::Score::softmax;
    else if (score == "sigmoid")
        experts.score = ExpertShape::Score::sigmoid;
    else
        return reader.refuse("'scoring_func' is " + in_quotes(score) + ", which is not built yet");
    if (experts.group_score != ExpertShape::GroupScore::none) {
        experts.groups = third ? 8 : 1;
        experts.used_groups = third ? 4 : 1;
        if (!reader.read_count({"n_group"}, ConfigLimits::experts, experts.groups) ||
            !reader.read_count({"topk_group"}, ConfigLimits::experts, experts.used_groups))
            return false;
    }
    experts.normalised = third;
    if (!reader.find({"norm_topk_prob"})) reader.assume("norm_topk_prob", third ? "true" : "false");
    experts.weight_scale = third ? 2.5f : 1.0f;
    if (!reader.read_flag("norm_topk_prob", experts.normalised) ||
        !reader.read_number({"routed_scaling_factor"}, experts.weight_scale))
        return false;
    // DeepSeek-V2's own code scales only weights that it does not normalise; V3's scales always.
    if (!third && experts.normalised) experts.weight_scale = 1;
    return true;
}

bool read_deepseek(HfConfigReader& reader, const HfFamily& family, ModelConfig& model) {
    const bool third = family.kind == HfFamily::Kind::deepseek_v3;
    std::uint32_t dense = third ? 3 : 0, every = 1;
    if (!reader.read_count_or_zero("first_k_dense_replace", ConfigLimits::layers, dense)) return false;
    if (reader.find({"moe_layer_freq"}) && !reader.read_count({"moe_layer_freq"}, ConfigLimits::layers, every)) return false;
    if (dense >= model.layers || reader.is_null("n_routed_experts")) return true;  // dense throughout
    ExpertShape& experts = model.experts;
    experts.count = third ? 256 : 64;
    experts.used = 8;
    experts.shared = third ? 1 : 2;
    experts.intermediate = third ? 2048 : 1407;
    if (!reader.read_count({"n_routed_experts"}, ConfigLimits::experts, experts.count) ||
        !(third ? reader.read_count({"num_experts_per_tok"}, ConfigLimits::experts, experts.used)
                : reader.need_count("num_experts_per_tok", ConfigLimits::experts, experts.used, "a mixture of experts")) ||
        !reader.read_count({"moe_intermediate_size"}, ConfigLimits::width, experts.intermediate))
        return false;
    if (reader.is_null("n_shared_experts"))
        experts.shared = 0;
    else if (!reader.read_count_or_zero("n_shared_experts", ConfigLimits::experts, experts.shared))
        return false;
    for (std::uint32_t i = dense; i < model.layers; ++i) {
        if (i % every != 0) continue;
        model.layer_shapes[i].experts = true;
        model.layer_shapes[i].intermediate = 0;
    }
    return read_deepseek_router(reader, family, experts);
}

}  // namespace

bool read_hf_experts(HfConfigReader& reader, const HfFamily& family, ModelConfig& model) {
    if (family.kind == HfFamily::Kind::mixtral) return read_mixtral(reader, model);
    return !family.is_deepseek() || read_deepseek(reader, family, model);
}

}  // namespace kvloupe
