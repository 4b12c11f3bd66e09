// SPDX-License-Identifier: GPL-3.0-or-later
//
// How a lane's cache is stored, how its attention is computed, and what its model becomes first.
#include "engine/model/json_document.h"
#include "engine/serve/scenario_parts.h"

#include <algorithm>

namespace kvloupe {

using nlohmann::json;

namespace {

constexpr std::uint32_t most_layers = 65'536;
constexpr std::uint32_t most_tokens = 1u << 20;
constexpr std::uint32_t widest = 1u << 20;

const char* const names_hint = "Give f32, f16, bf16, fp8_e4m3, fp8_e5m2, int8, int4, kivi2, kivi4, q8_0, q5_1, q5_0, q4_1 or q4_0.";

// Of a cache: every precision but the packs of 256, which only weights have.
std::optional<DType> cache_dtype(const std::string& name) {
    const auto type = dtype_from_name(name);
    return type && elements_per_pack(*type) <= 32 ? type : std::nullopt;
}

std::optional<DType> read_name(KeyReader& reader, const char* key, const json& value, const std::string& entry) {
    std::string near;
    if (value.is_string()) {
        const std::string name = value.get<std::string>();
        if (const auto type = cache_dtype(name)) return type;
        std::vector<std::string> known;
        for (const DTypeFacts& facts : dtype_facts)
            if (cache_dtype(std::string(facts.name))) known.emplace_back(facts.name);
        near = nearest_word(name, known);
    }
    reader.fail(key, entry + "is " + describe(value) + ", which is no precision of a cache",
                near.empty() ? names_hint : "Did you mean '" + near + "'?");
    return std::nullopt;
}

// One name, or a list with one for every layer.
void read_dtypes(KeyReader& reader, const char* key, std::vector<DType>& target) {
    const json* value = reader.value(key);
    if (!value) return;
    if (!value->is_array()) {
        if (const auto type = read_name(reader, key, *value, "")) target = {*type};
        return;
    }
    if (value->empty() || value->size() > most_layers)
        return reader.fail(key, "is a list of " + std::to_string(value->size()) + " precisions", "Give one for every layer of the model.");
    std::vector<DType> types;
    for (std::size_t i = 0; i < value->size(); ++i) {
        const auto type = read_name(reader, key, (*value)[i], "entry " + std::to_string(i) + " ");
        if (!type) return;
        types.push_back(*type);
    }
    target = std::move(types);
}

bool any_kivi(const CacheOptions& cache) {
    const auto kivi = [](DType type) { return type == DType::kivi2 || type == DType::kivi4; };
    return std::any_of(cache.key_dtypes.begin(), cache.key_dtypes.end(), kivi) ||
           std::any_of(cache.value_dtypes.begin(), cache.value_dtypes.end(), kivi);
}

}  // namespace

void read_precision(KeyReader& reader, CacheOptions& cache) {
    bool given = false;
    for (const char* key : {"dtype", "dtype_k", "dtype_v"}) given = reader.value(key) != nullptr || given;
    if (given) {  // a branch's own precision keeps nothing of its parent's
        cache.scale.reset();
        cache.group.reset();
        cache.residual.reset();
    }
    read_dtypes(reader, "dtype", cache.key_dtypes);
    if (reader.value("dtype")) cache.value_dtypes = cache.key_dtypes;
    read_dtypes(reader, "dtype_k", cache.key_dtypes);
    read_dtypes(reader, "dtype_v", cache.value_dtypes);
    if (const auto scale = reader.choice("scale", {"tensor", "head", "token_head", "joint"})) {
        static constexpr KvScale scales[] = {KvScale::tensor, KvScale::head, KvScale::token_head, KvScale::joint};
        cache.scale = scales[*scale];
    }
    reader.whole("group", 1, most_tokens, cache.group);
    reader.whole("residual", 0, most_tokens, cache.residual);
    reader.boolean("rotate", cache.rotate);
    for (const auto& [key, has] : {std::pair{"group", cache.group.has_value()}, std::pair{"residual", cache.residual.has_value()}})
        if (has && !any_kivi(cache))
            reader.fail(key, "means nothing without a precision kivi2 or kivi4", "Remove the key, or give one of them as \"dtype\".");
}

std::optional<ConvertOptions> read_convert(const json& value, const std::string& where, ReadFailure& failure) {
    using Target = ConvertOptions::Target;
    KeyReader reader(value, where, failure);
    if (value.is_object() && value.empty()) return std::nullopt;
    ConvertOptions convert;
    const bool has_target = reader.value("to") != nullptr;
    reader.choice("to", {"gqa", "mqa", "mla"}, convert.to);
    const bool by = reader.value("by") != nullptr;
    reader.choice("by", {"energy", "sensitivity"}, convert.by);
    reader.whole("kv_heads", 1, most_layers, convert.kv_heads);
    reader.whole("width", 1, widest, convert.width);
    reader.whole("budget", 1, UINT32_MAX, convert.budget);
    const bool latent = convert.to == Target::mla;
    reader.finish();
    if (!has_target) reader.fail("to", "is missing", "Give gqa, mqa or mla.");
    if (latent && convert.kv_heads > 0) reader.fail("kv_heads", "means nothing for a latent, which all heads share", "Give width or budget.");
    if (latent && convert.width > 0 && convert.budget > 0)
        reader.fail("budget", "stands beside a width: one width for all layers, or widths that share a budget", "Give one of the two.");
    if (latent && convert.width == 0 && convert.budget == 0)
        reader.fail("width", "is missing", "Give the width of every layer's latent, or a budget for all of them.");
    for (const auto& [key, given] : {std::pair{"width", convert.width > 0}, std::pair{"budget", convert.budget > 0}, std::pair{"by", by}})
        if (given && !latent) reader.fail(key, "means nothing without a latent", "Remove the key, or give \"to\": \"mla\".");
    if (convert.to == Target::gqa && convert.kv_heads == 0) reader.fail("kv_heads", "is missing", "Give the number of KV heads that are left.");
    if (convert.to == Target::mqa && convert.kv_heads > 1)
        reader.fail("kv_heads", std::to_string(convert.kv_heads) + " is not 1, but MQA keeps one KV head", "Remove the key, or give \"to\": \"gqa\".");
    if (convert.to == Target::mqa) convert.kv_heads = 1;
    return convert;
}

void read_attention(KeyReader& reader, LaneOptions& lane) {
    reader.choice("attention", {"tiled", "materialised"}, lane.attention);
    if (const auto form = reader.choice("mla", {"absorbed", "expanded"})) {
        lane.latent_expanded = *form == 1;
        lane.latent_absorbed = *form == 0;
    }
}

}  // namespace kvloupe
