// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/serve/device_model.h"

#include "engine/model/quants.h"

#include <cmath>
#include <optional>

namespace kvloupe {

LayerShape layer_shape(const ModelConfig& config, std::uint32_t layer) {
    if (layer < config.layer_shapes.size()) return config.layer_shapes[layer];
    return {config.query_heads, config.kv_heads, config.intermediate, 0, 0, false, false};
}

KeySpan layer_span(const ModelConfig& config, const DecoderOptions& options, std::uint32_t layer) {
    if (layer < options.spans.size()) return options.spans[layer];
    const LayerShape shape = layer_shape(config, layer);
    KeySpan own;
    own.window = shape.window;
    own.chunk = shape.chunk;
    return own;
}

std::uint32_t expanded_heads(const ModelConfig& config, std::uint32_t layer) {
    const LayerShape shape = layer_shape(config, layer);
    return config.latent.late_rotation ? shape.kv_heads : shape.query_heads;
}

KvLayerShape cache_layer(const ModelConfig& config, std::uint32_t layer, const KvFormat& keys, const KvFormat& values) {
    const LatentShape& latent = config.latent;
    if (latent.present()) return {1, config.latent_width(layer), latent.rotary_dim, true, keys, values, layer};
    return {layer_shape(config, layer).kv_heads, config.head_dim, config.head_dim, false, keys, values, layer};
}

AttentionShape DeviceModel::attention_shape(std::uint32_t layer, const DecoderOptions& options) const {
    const ModelConfig& config = model->config;
    const LayerShape of_layer = layer_shape(config, layer);
    const LatentShape& latent = config.latent;
    AttentionShape shape;
    shape.query_heads = of_layer.query_heads;
    shape.kv_heads = of_layer.kv_heads;
    shape.head_dim = config.head_dim;
    float scale = 1.0f / std::sqrt(static_cast<float>(config.head_dim));
    if (latent.present()) {
        // The scale is that of the heads, whatever is multiplied (CACHE_SEMANTICS 1.9).
        scale = 1.0f / std::sqrt(static_cast<float>(latent.nope_dim + latent.rotary_dim));
        shape.latent = options.form_of(latent) == MlaForm::absorbed;
        shape.kv_heads = shape.latent ? 1 : expanded_heads(config, layer);
        shape.head_dim = (shape.latent ? latent.kv_rank : latent.nope_dim) + latent.rotary_dim;
        shape.value_dim = shape.latent ? latent.kv_rank : latent.value_dim;
    }
    shape.scale = config.attention_scale > 0 ? config.attention_scale : scale;
    shape.soft_cap = config.attention_soft_cap;
    shape.form = options.attention;
    shape.span = layer_span(config, options, layer);
    shape.group = options.group_of(layer);
    shape.rotary = rotary_shape(layer);
    return shape;
}

RotaryShape DeviceModel::rotary_shape(std::uint32_t layer) const {
    RotaryShape shape = model->config.rotary(layer);
    const LatentShape& latent = model->config.latent;
    if (latent.present() && !latent.late_rotation) shape.rotary_dim = latent.rotary_dim;
    return shape;
}

namespace {

// Takes tensors over to a device until one of them fails.
class Taker {
public:
    explicit Taker(Backend& backend) : m_backend(backend) {}

    void take(const Tensor& tensor, std::unique_ptr<Weight>& target) {
        if (m_failure) return;
        auto weight = m_backend.weight(tensor);
        if (weight) target = std::move(*weight);
        else m_failure = weight.error();
    }
    void take_if_present(const Tensor& tensor, std::unique_ptr<Weight>& target) {
        if (tensor.present()) take(tensor, target);
    }
    void take(const Tensor& gate, const Tensor& up, const Tensor& down, DeviceFeedForward& target) {
        take(gate, target.gate);
        take(up, target.up);
        take(down, target.down);
    }
    void take(const LatentWeights& from, bool late_rotation, DeviceLatent& to) {
        take_if_present(from.query_down, to.query_down);
        take_if_present(from.query_norm, to.query_norm);
        take_if_present(from.query_up, to.query_up);
        take(from.key_value_down, to.key_value_down);
        take(from.key_value_up, to.key_value_up);
        if (late_rotation) return;
        take(from.key_value_norm, to.key_value_norm);
        take(from.key_up_transposed, to.key_up_transposed);
        take(from.value_up, to.value_up);
    }
    void take(const LayerWeights& from, const ModelConfig& config, bool experts, DeviceLayer& to) {
        take(from.attention_norm, to.attention_norm);
        if (config.latent.present()) take(from.latent, config.latent.late_rotation, to.latent);
        if (!config.latent.present() || !from.latent.query_down.present()) take(from.query, to.query);
        if (!config.latent.present()) {
            take(from.key, to.key);
            take(from.value, to.value);
        }
        take_if_present(from.query_bias, to.query_bias);
        take_if_present(from.key_bias, to.key_bias);
        take_if_present(from.value_bias, to.value_bias);
        take_if_present(from.query_norm, to.query_norm);
        take_if_present(from.key_norm, to.key_norm);
        take(from.attention_out, to.attention_out);
        take(from.ffn_norm, to.ffn_norm);
        if (config.post_norms) {
            take(from.post_attention_norm, to.post_attention_norm);
            take(from.post_ffn_norm, to.post_ffn_norm);
        }
        if (!experts || from.gate.present()) take(from.gate, from.up, from.down, to.dense);
        if (!experts) return;
        take(from.router, to.router);
        if (config.experts.corrected && from.router_bias.present()) {
            to.router_bias.resize(from.router_bias.cols);
            dequantise_row(from.router_bias.dtype, from.router_bias.data, to.router_bias);
        }
        to.experts.resize(from.experts.size());
        for (std::size_t i = 0; i < from.experts.size(); ++i)
            take(from.experts[i].gate, from.experts[i].up, from.experts[i].down, to.experts[i]);
    }
    const std::optional<Error>& failure() const { return m_failure; }

private:
    Backend& m_backend;
    std::optional<Error> m_failure;
};

}  // namespace

Result<std::shared_ptr<DeviceModel>> DeviceModel::create(std::shared_ptr<const Model> model, std::shared_ptr<Backend> backend) {
    const ModelConfig& config = model->config;
    if (config.experts.present() && config.post_norms)
        return Error{"'" + config.name + "' has experts and norms behind them, which are not computed together",
                     "Choose another model"};
    auto device = std::make_shared<DeviceModel>();
    device->model = model;
    device->backend = backend;
    Taker taker(*backend);
    taker.take(model->embedding, device->embedding);
    taker.take(model->output_norm, device->output_norm);
    if (model->output.present() && model->output.data != model->embedding.data) taker.take(model->output, device->output);
    device->layers.resize(model->layers.size());
    for (std::uint32_t i = 0; i < model->layers.size(); ++i) {
        const bool alike = layer_shape(config, i).query_heads == config.query_heads && expanded_heads(config, i) == expanded_heads(config, 0);
        if (config.latent.present() && !alike)
            return Error{"'" + config.name + "' has latent attention with different numbers of heads, which is not computed",
                         "Choose another model"};
        const bool experts = config.experts.present() && layer_shape(config, i).experts;
        if (experts && model->layers[i].experts.size() != config.experts.count)
            return Error{"Layer " + std::to_string(i) + " of '" + config.name + "' has " +
                             std::to_string(model->layers[i].experts.size()) + " experts of " + std::to_string(config.experts.count),
                         "The model lacks them; use a complete file"};
        taker.take(model->layers[i], config, experts, device->layers[i]);
    }
    if (taker.failure()) return *taker.failure();
    return device;
}

}  // namespace kvloupe
