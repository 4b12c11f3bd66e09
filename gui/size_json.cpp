// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/size_json.h"

#include "engine/analysis/size_text.h"

#include <algorithm>

namespace kvloupe {

namespace {

using nlohmann::json;

template <class T>
json number_or_null(const std::optional<T>& value) {
    return value ? json(*value) : json(nullptr);
}

json plane_json(const KvPlane& plane) {
    return {{"dtype", std::string(name_of(plane.format.dtype))},
            {"scale", std::string(name_of(plane.format.scale))},
            {"rows", plane.rows()},
            {"values", plane.width()},
            {"code_bytes", plane.code_bytes},
            {"scale_bytes", (plane.row_block_bytes - plane.block_size * plane.code_bytes) / plane.block_size}};
}

json factors_json(const SizeReport& report) {
    json factors = json::array();
    for (const SizeFactor& factor : size_factors(report.layers)) {
        json entry = {{"formula", factor.formula},
                      {"layers", factor.layers},
                      {"bytes_per_token", factor.bytes_per_token},
                      {"tokens", factor.each.tokens_kept(report.request.context)},
                      {"bytes", factor.layers * factor.each.bytes(report.request.context)}};
        entry["window"] = factor.each.window > 0 ? json(factor.each.window) : json(nullptr);
        entry[factor.each.latent ? "latent" : "keys"] = plane_json(factor.each.keys);
        entry[factor.each.latent ? "rotary_key" : "values"] = plane_json(factor.each.values);
        factors.push_back(std::move(entry));
    }
    return factors;
}

json stages_json(const SizeReport& report) {
    json stages = json::array();
    for (const StageSize& stage : report.stages)
        stages.push_back({{"first_layer", stage.first_layer},
                          {"layers", stage.layers},
                          {"gpus", report.request.parallel.tensor},
                          {"kv_bytes_per_token", stage.kv_bytes_per_token},
                          {"kv_bytes", stage.kv_bytes},
                          {"parameters", stage.parameters},
                          {"weight_bytes", stage.weight_bytes},
                          {"activation_bytes", stage.activation.bytes()},
                          {"activation", activation_formula(stage.activation)},
                          {"sequences_that_fit", number_or_null(stage.sequences)}});
    return stages;
}

// Of a model whose layers differ; null where they are all alike.
json layers_json(const SizeReport& report) {
    const bool alike = std::all_of(report.layers.begin(), report.layers.end(),
                                   [&](const KvLayerSize& layer) { return layer.alike(report.layers.front()); });
    if (alike) return nullptr;
    json layers = json::array();
    for (std::size_t i = 0; i < report.layers.size(); ++i) {
        const KvLayerSize& layer = report.layers[i];
        layers.push_back({{"layer", i},
                          {"kv_heads", layer.keys.heads},
                          {"window", layer.window > 0 ? json(layer.window) : json(nullptr)},
                          {"bytes_per_token", layer.bytes_per_token()},
                          {"bytes", layer.bytes(report.request.context)}});
    }
    return layers;
}

}  // namespace

json size_json(const SizeReport& report) {
    const ModelConfig& config = report.model.config;
    const SizeRequest& request = report.request;
    std::uint64_t activation = 0;
    for (const StageSize& stage : report.stages) activation = std::max(activation, stage.activation.bytes());
    json document = {
        {"model", config.name},
        {"source", report.model.source},
        {"architecture", config.architecture},
        {"attention", config.attention_variant()},
        {"layers", config.layers},
        {"query_heads", config.query_heads},
        {"kv_heads", config.kv_heads},
        {"head_dim", config.head_dim},
        {"context", request.context},
        {"batch", request.batch},
        {"dtype_k", std::string(name_of(request.precision.keys.dtype))},
        {"dtype_v", std::string(name_of(request.precision.values.dtype))},
        {"tp", request.parallel.tensor},
        {"pp", request.parallel.pipeline},
        {"kv_bytes_per_token", report.kv_bytes_per_token},
        {"kv_bytes_per_sequence", report.sequence_bytes},
        {"kv_bytes", report.kv_bytes},
        {"scale_bytes_per_pool", report.fixed_bytes},
        {"kv_bytes_per_gpu", report.kv_bytes_per_gpu()},
        {"parameters", report.parameters},
        {"parameters_counted", report.parameters_counted},
        {"weight_dtype", report.weights_stored ? json("as stored") : json(std::string(name_of(report.weight_dtype)))},
        {"weight_bytes", report.weight_bytes},
        {"weight_bytes_per_gpu", report.weight_bytes_per_gpu()},
        {"activation_bytes", activation},
        {"gpu", request.gpu ? json(std::string(request.gpu->name)) : json(nullptr)},
        {"gpu_memory_bytes", request.gpu ? json(request.gpu->memory_bytes) : json(nullptr)},
        {"utilization", request.utilization},
        {"usable_bytes", request.gpu ? json(report.usable_bytes) : json(nullptr)},
        {"sequences_that_fit", number_or_null(report.sequences_that_fit)},
        {"origin", "predicted"},
        {"assumed", config.assumed},
        {"notes", report.notes},
        {"factors", factors_json(report)},
        {"stages", stages_json(report)},
        {"per_layer", layers_json(report)}};
    return document;
}

}  // namespace kvloupe
