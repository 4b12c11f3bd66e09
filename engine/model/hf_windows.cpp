// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/config_limits.h"
#include "engine/model/hf_parts.h"
#include "engine/model/message.h"

namespace kvloupe {

namespace {

using nlohmann::json;
using FamilyKind = HfFamily::Kind;

// layer_types: "sliding_attention" or "full_attention" per layer. `sliding` keeps the family's rule where the key is absent.
bool read_layer_types(HfConfigReader& reader, std::vector<bool>& sliding) {
    const json* const types = reader.find({"layer_types"});
    if (!types) return true;
    if (!types->is_array() || types->size() != sliding.size())
        return reader.fail("key 'layer_types' is " + describe(*types) + ", not an array of one name for each of the " +
                           grouped(sliding.size()) + " layers");
    for (std::size_t i = 0; i < sliding.size(); ++i) {
        const json& type = (*types)[i];
        if (!type.is_string()) return reader.fail("key 'layer_types' holds " + describe(type) + ", not a name");
        if (type != "sliding_attention" && type != "full_attention")
            return reader.refuse("'layer_types' holds " + in_quotes(type.get<std::string>()) + ", which is not built yet");
        sliding[i] = type == "sliding_attention";
    }
    return true;
}

// The window's width, 0 where the model has none; sets which layers have it.
bool read_rule(HfConfigReader& reader, const HfFamily& family, ModelConfig& model, std::uint32_t& width,
               std::vector<bool>& sliding) {
    if (family.kind == FamilyKind::mistral || family.kind == FamilyKind::mixtral) {
        // Null and absent both mean full attention: files before windows were introduced lack the key.
        sliding.assign(model.layers, true);
        return !reader.find({"sliding_window"}) || reader.read_count({"sliding_window"}, ConfigLimits::context, width);
    }
    if (family.kind == FamilyKind::qwen2 || family.kind == FamilyKind::qwen3) {
        bool used = false;
        if (!reader.read_flag("use_sliding_window", used)) return false;
        if (!used || reader.is_null("sliding_window")) return true;
        width = 4096;
        std::uint32_t full_layers = 28;
        if (!reader.read_count({"sliding_window"}, ConfigLimits::context, width)) return false;
        if (!reader.find({"layer_types"}) && !reader.read_count_or_zero("max_window_layers", ConfigLimits::layers, full_layers))
            return false;
        for (std::uint32_t i = full_layers; i < model.layers; ++i) sliding[i] = true;
        return read_layer_types(reader, sliding);
    }
    if (!family.is_gemma() || reader.is_null("sliding_window")) return true;
    width = 4096;
    if (!reader.read_count({"sliding_window", "sliding_window_attention_size"}, ConfigLimits::context, width)) return false;
    std::uint32_t pattern = family.kind == FamilyKind::gemma2 ? 2 : 6;  // the last of so many layers sees everything
    if (family.kind == FamilyKind::gemma3 && !reader.find({"layer_types"}) &&
        !reader.read_count({"sliding_window_pattern", "_sliding_window_pattern"}, ConfigLimits::layers, pattern))
        return false;
    for (std::uint32_t i = 0; i < model.layers; ++i) sliding[i] = (i + 1) % pattern != 0;
    return read_layer_types(reader, sliding);
}

}  // namespace

bool read_hf_windows(HfConfigReader& reader, const HfFamily& family, ModelConfig& model) {
    std::uint32_t width = 0;
    std::vector<bool> sliding(model.layers, false);
    if (!read_rule(reader, family, model, width, sliding)) return false;
    for (std::uint32_t i = 0; i < model.layers; ++i) {
        if (!sliding[i]) continue;
        model.layer_shapes[i].window = width;
        model.layer_shapes[i].local_rotary = family.kind == FamilyKind::gemma3;
    }
    return true;
}

}  // namespace kvloupe
