// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/config_limits.h"
#include "engine/model/hf_parts.h"
#include "engine/model/message.h"

#include <cmath>

namespace kvloupe {

namespace {

using nlohmann::json;
using Kind = RotaryScaling::Kind;

// 1 for factors up to 1 (arXiv 2309.00071, equation 22, with DeepSeek's weight of the logarithm).
float yarn_magnitude(float factor, float weight) { return factor <= 1 ? 1.0f : 0.1f * weight * std::log(factor) + 1.0f; }

// rope_type, or type in older files; "" where the object says neither.
bool read_type(HfConfigReader& rope, std::string& type) {
    for (const char* key : {"type", "rope_type"})  // the newer spelling counts
        if (rope.find({key}) && !rope.read_name(key, type)) return false;
    return true;
}

bool read_yarn(HfConfigReader& rope, const HfFamily& family, ModelConfig& model) {
    RotaryScaling& scaling = model.rotary_scaling;
    if (const json* const truncate = rope.find({"truncate"}); truncate && *truncate != true)
        return rope.refuse("'truncate' is " + describe(*truncate) + ", which is not built yet");
    for (const auto& [key, value] : {std::pair{"beta_fast", &scaling.beta_fast}, std::pair{"beta_slow", &scaling.beta_slow}})
        if (rope.find({key}) && !rope.read_number({key}, *value)) return false;
    float weight = 0, all_weight = 0, given = 0;
    if (!rope.read_optional_number({"attention_factor"}, given)) return false;
    for (const auto& [key, value] : {std::pair{"mscale", &weight}, std::pair{"mscale_all_dim", &all_weight}})
        if (const json* const found = rope.find({key}); found && *found != 0 && !rope.read_number({key}, *value)) return false;
    if (given > 0)
        scaling.magnitude = given;
    else if (weight > 0 && all_weight > 0)
        scaling.magnitude = yarn_magnitude(scaling.factor, weight) / yarn_magnitude(scaling.factor, all_weight);
    else
        scaling.magnitude = yarn_magnitude(scaling.factor, 1);
    // DeepSeek lets mscale_all_dim act on the whole score, not only on its rotary part (its modeling_deepseek.py; transformers'
    // DeepseekV2Attention leaves it out, its DeepseekV3Attention does not).
    if (family.is_deepseek() && all_weight > 0) {
        const float magnitude = yarn_magnitude(scaling.factor, all_weight);
        model.attention_scale = magnitude * magnitude / std::sqrt(static_cast<float>(model.head_dim));
    }
    return true;
}

bool read_original_context(HfConfigReader& rope, ModelConfig& model) {
    model.rotary_scaling.original_context = model.context_length;
    return rope.read_count({"original_max_position_embeddings"}, ConfigLimits::context, model.rotary_scaling.original_context);
}

bool read_scaling(HfConfigReader& rope, const HfFamily& family, ModelConfig& model) {
    std::string type;
    if (!read_type(rope, type)) return false;
    RotaryScaling& scaling = model.rotary_scaling;
    float factor = 1;
    if (rope.find({"factor"}) && !rope.read_number({"factor"}, factor)) return false;
    if (type.empty() && factor != 1)
        return rope.fail("has the 'factor' " + describe(*rope.find({"factor"})) + " but no 'rope_type'");
    if (type.empty() || type == "default") return true;
    if (type != "linear" && type != "llama3" && type != "yarn")
        return rope.refuse("the type " + in_quotes(type) + " is not built yet");
    if (!rope.find({"factor"})) return rope.fail("has no 'factor', which the type " + in_quotes(type) + " needs");
    if (type == "linear" && factor == 1) return true;
    scaling.factor = factor;
    scaling.kind = type == "linear" ? Kind::linear : type == "llama3" ? Kind::llama3 : Kind::yarn;
    if (scaling.kind == Kind::linear) return true;
    if (!read_original_context(rope, model)) return false;
    if (scaling.kind == Kind::yarn) return read_yarn(rope, family, model);
    return rope.read_number({"low_freq_factor"}, scaling.low_frequency_factor) &&
           rope.read_number({"high_freq_factor"}, scaling.high_frequency_factor);
}

}  // namespace

bool read_hf_rotary(HfConfigReader& reader, const HfFamily& family, ModelConfig& model) {
    model.rope_theta = family.rope_theta;
    const bool local = family.kind == HfFamily::Kind::gemma3;
    const json* theta = reader.find({"rope_theta"});
    const json* local_theta = local ? reader.find({"rope_local_base_freq"}) : nullptr;
    // rope_parameters: newer files keep the base with the scaling, and for Gemma 3 one such object per kind of layer.
    for (const char* key : {"rope_scaling", "rope_parameters"}) {
        const json* found = reader.find({key});
        if (!found) continue;
        if (!found->is_object()) return reader.fail("key " + in_quotes(key) + " is " + describe(*found) + ", not an object");
        if (const auto sliding = found->find("sliding_attention"); sliding != found->end() && sliding->is_object())
            if (const auto own = sliding->find("rope_theta"); own != sliding->end()) local_theta = &*own;
        if (const auto full = found->find("full_attention"); full != found->end() && full->is_object()) found = &*full;
        HfConfigReader rope(*found, reader.where() + ": " + in_quotes(key), reader.assumed(), std::string(key) + ".");
        if (!read_scaling(rope, family, model)) {
            reader.error = rope.error;
            return false;
        }
        if (const json* const own = rope.find({"rope_theta"})) theta = own;
    }
    const auto read_base = [&](const json* base, const char* key, float& value) {
        const json object = base ? json{{key, *base}} : json::object();
        HfConfigReader one(object, reader.where(), reader.assumed());
        if (one.read_number({key}, value)) return true;
        reader.error = one.error;
        return false;
    };
    if (!read_base(theta, "rope_theta", model.rope_theta)) return false;
    if (!local) return true;
    model.rope_local_theta = 10000;
    return read_base(local_theta, "rope_local_base_freq", model.rope_local_theta);
}

}  // namespace kvloupe
