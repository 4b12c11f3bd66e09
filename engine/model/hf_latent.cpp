// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/config_limits.h"
#include "engine/model/hf_parts.h"
#include "engine/model/message.h"

#include <algorithm>

namespace kvloupe {

// The widths of the parts have no usable default: a file that leaves one out is broken, or of another architecture.
bool read_hf_latent(HfConfigReader& reader, const HfFamily& family, ModelConfig& model) {
    if (!family.is_deepseek()) return true;
    LatentShape& latent = model.latent;
    const char* const what = "multi-head latent attention";
    if (!reader.need_count("kv_lora_rank", ConfigLimits::width, latent.kv_rank, what) ||
        !reader.need_count("qk_nope_head_dim", ConfigLimits::width, latent.nope_dim, what) ||
        !reader.need_count("qk_rope_head_dim", ConfigLimits::width, latent.rotary_dim, what) ||
        !reader.need_count("v_head_dim", ConfigLimits::width, latent.value_dim, what))
        return false;
    if (reader.find({"q_lora_rank"})) {  // 0 means none as null does (DeepSeek's own configurations)
        if (!reader.read_count_or_zero("q_lora_rank", ConfigLimits::width, latent.query_rank)) return false;
    } else if (!reader.is_null("q_lora_rank")) {
        return reader.fail("has no 'q_lora_rank', which multi-head latent attention needs: a rank, or null for none");
    }
    // num_key_value_heads says nothing here: every query head has a key and a value head of its own once they are expanded.
    for (LayerShape& layer : model.layer_shapes) layer.kv_heads = layer.query_heads;
    model.kv_heads = model.query_heads;
    model.head_dim = latent.nope_dim + latent.rotary_dim;
    model.rotary_dim = latent.rotary_dim;
    // The files keep the rotary values as adjacent pairs (transformers permutes them on the fly).
    bool adjacent = true;
    if (!reader.read_flag("rope_interleave", adjacent)) return false;
    model.rotary_layout = adjacent ? RotaryLayout::adjacent : RotaryLayout::half_split;
    return true;
}

bool read_late_latents(HfConfigReader& reader, const HfFamily& family, ModelConfig& model) {
    if (family.is_deepseek()) return reader.fail("a " + std::string(family.architecture) + " model keeps latents of its own");
    const LayerShape& first = model.layer_shapes.front();
    for (const LayerShape& layer : model.layer_shapes)
        if (layer.kv_heads != first.kv_heads || layer.query_heads != first.query_heads)
            return reader.fail("its layers have different numbers of heads, for which latents are not made");
    const std::uint64_t rank = std::min<std::uint64_t>(2 * std::uint64_t{first.kv_heads} * model.head_dim, model.hidden);
    if (!reader.find({"widths"})) return reader.fail("has no 'widths' of its latents");
    std::vector<std::uint32_t> widths;
    if (!reader.read_counts({"widths"}, rank, model.layers, 0, widths)) return false;
    model.make_latents(widths);
    return true;
}

}  // namespace kvloupe
