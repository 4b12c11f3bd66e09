// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/serve/device_model.h"

#include <cmath>

namespace kvloupe {

AttentionShape DeviceModel::attention_shape(const KeySpan& span) const {
    const ModelConfig& config = model->config;
    AttentionShape shape;
    shape.query_heads = config.query_heads;
    shape.kv_heads = config.kv_heads;
    shape.head_dim = config.head_dim;
    shape.scale = 1.0f / std::sqrt(static_cast<float>(config.head_dim));
    shape.span = span;
    shape.rotary = rotary_shape();
    return shape;
}

RotaryShape DeviceModel::rotary_shape() const {
    const ModelConfig& config = model->config;
    return {config.rope_theta, config.rotary_dim, config.rotary_layout};
}

Result<std::shared_ptr<DeviceModel>> DeviceModel::create(std::shared_ptr<const Model> model, std::shared_ptr<Backend> backend) {
    auto device = std::make_shared<DeviceModel>();
    device->model = model;
    device->backend = backend;
    std::optional<Error> failure;
    const auto take = [&](const Tensor& tensor, std::unique_ptr<Weight>& target) {
        if (failure) return;
        auto weight = backend->weight(tensor);
        if (weight) target = std::move(*weight);
        else failure = weight.error();
    };
    take(model->embedding, device->embedding);
    take(model->output_norm, device->output_norm);
    if (model->output.present() && model->output.data != model->embedding.data) take(model->output, device->output);
    device->layers.resize(model->layers.size());
    for (std::size_t i = 0; i < model->layers.size(); ++i) {
        const LayerWeights& from = model->layers[i];
        DeviceLayer& to = device->layers[i];
        take(from.attention_norm, to.attention_norm);
        take(from.query, to.query);
        take(from.key, to.key);
        take(from.value, to.value);
        take(from.attention_out, to.attention_out);
        take(from.ffn_norm, to.ffn_norm);
        take(from.gate, to.gate);
        take(from.up, to.up);
        take(from.down, to.down);
    }
    if (failure) return *failure;
    return device;
}

}  // namespace kvloupe
