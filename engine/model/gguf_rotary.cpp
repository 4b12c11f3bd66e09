// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/config_limits.h"
#include "engine/model/gguf_parts.h"
#include "engine/model/message.h"
#include "engine/model/rotary.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace kvloupe {

namespace {

using Kind = RotaryScaling::Kind;

// rope_freqs.weight divides the frequencies. Converters write it for Llama 3's rule, whose parameters the file does not hold:
// those of the published models are tried, with the largest divisor as the factor, and another table is refused.
bool read_frequency_factors(GgufConfigReader& reader, ModelConfig& config) {
    const GgufTensor* const tensor = reader.file().tensor("rope_freqs.weight");
    if (!tensor) return true;
    const std::size_t pairs = config.rotary_dim / 2;
    constexpr std::uint32_t f32 = 0;  // ggml_type
    if (tensor->type != f32 || tensor->dims != std::vector<std::uint64_t>{pairs} || config.rotary_scaling.kind != Kind::none)
        return reader.refuse("tensor 'rope_freqs.weight' is not one F32 number per rotary pair, or there is another scaling");
    std::vector<float> divisors(pairs);
    std::memcpy(divisors.data(), reader.file().bytes.data() + tensor->offset, pairs * sizeof(float));
    config.rotary_scaling.kind = Kind::llama3;
    config.rotary_scaling.factor = *std::max_element(divisors.begin(), divisors.end());
    config.rotary_scaling.original_context = 8192;
    const RotaryShape plain{config.rope_theta, config.rotary_dim, config.rotary_layout, {}};
    const RotaryShape scaled{config.rope_theta, config.rotary_dim, config.rotary_layout, config.rotary_scaling};
    if (!(config.rope_theta > 0) || !(config.rotary_scaling.factor > 0)) return true;  // refused with the other numbers
    const std::vector<double> before = rotary_frequencies(plain), after = rotary_frequencies(scaled);
    for (std::size_t i = 0; i < pairs; ++i)
        if (!(std::abs(before[i] / after[i] - double{divisors[i]}) <= 1e-4 * double{divisors[i]}))
            return reader.refuse("tensor 'rope_freqs.weight' follows another rule than Llama 3's, which is not built yet");
    reader.assume("rope.scaling", "llama3 (read off rope_freqs.weight)");
    return true;
}

bool read_yarn(GgufConfigReader& reader, const GgufFamily& family, ModelConfig& config) {
    RotaryScaling& scaling = config.rotary_scaling;
    float weight = 0, factor_of_attention = 1;
    if (!reader.need_count("rope.scaling.original_context_length", ConfigLimits::context, scaling.original_context) ||
        !reader.read_optional_number("rope.scaling.yarn_log_multiplier", weight) ||
        !reader.read_optional_number("rope.scaling.attn_factor", factor_of_attention) ||
        !reader.read_optional_number("rope.scaling.yarn_beta_fast", scaling.beta_fast) ||
        !reader.read_optional_number("rope.scaling.yarn_beta_slow", scaling.beta_slow))
        return false;
    const float logarithm = scaling.factor > 1 ? std::log(scaling.factor) : 0.0f;
    if (!family.is("deepseek2")) {
        scaling.magnitude = factor_of_attention * (1 + 0.1f * logarithm);
        return true;
    }
    // DeepSeek: the whole score is scaled instead of its rotary part; the multiplier is 0.1 * mscale_all_dim.
    const float magnitude = 1 + weight * logarithm;
    config.attention_scale = magnitude * magnitude / std::sqrt(static_cast<float>(config.head_dim));
    return true;
}

bool read_scaling(GgufConfigReader& reader, const GgufFamily& family, ModelConfig& config) {
    RotaryScaling& scaling = config.rotary_scaling;
    const std::string* const type = reader.file().string(reader.full("rope.scaling.type"));
    float factor = 0, linear = 0;
    if (!reader.read_optional_number("rope.scaling.factor", factor) || !reader.read_optional_number("rope.scale_linear", linear))
        return false;
    if (factor == 0) factor = linear;
    const std::string name = type ? *type : factor != 0 && factor != 1 ? "linear" : "none";
    if (name == "none") return true;
    if (name != "linear" && name != "yarn")
        return reader.refuse(in_quotes(reader.full("rope.scaling.type")) + " is " + in_quotes(name) + ", which is not built yet");
    if (factor == 0 || (name == "linear" && factor == 1)) return true;
    scaling.kind = name == "linear" ? Kind::linear : Kind::yarn;
    scaling.factor = factor;
    return scaling.kind == Kind::linear || read_yarn(reader, family, config);
}

}  // namespace

bool read_gguf_rotary(GgufConfigReader& reader, const GgufFamily& family, ModelConfig& config) {
    config.rotary_layout = family.rotary_layout;
    config.rotary_dim = config.head_dim;
    if (!reader.read_optional_count("rope.dimension_count", ConfigLimits::width, config.rotary_dim)) return false;
    config.rope_theta = 10000;
    return reader.read_number("rope.freq_base", config.rope_theta) && read_scaling(reader, family, config) &&
           read_frequency_factors(reader, config);
}

}  // namespace kvloupe
