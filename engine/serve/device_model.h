// SPDX-License-Identifier: GPL-3.0-or-later
//
// DeviceModel: a model's weights on one device; lanes that use the same model on the same device share it.
#pragma once

#include "engine/backend.h"
#include "engine/serve/decoder_options.h"

#include <memory>
#include <vector>

namespace kvloupe {

struct DeviceFeedForward {
    std::unique_ptr<Weight> gate, up, down;
    bool present() const { return gate != nullptr; }
};

struct DeviceLatent {
    std::unique_ptr<Weight> query_down, query_norm, query_up;  // null without a rank
    std::unique_ptr<Weight> key_value_down, key_value_norm, key_value_up, key_up_transposed, value_up;
};

// Null: what the model has no use for.
struct DeviceLayer {
    std::unique_ptr<Weight> attention_norm, query, key, value, attention_out, ffn_norm;
    std::unique_ptr<Weight> query_bias, key_bias, value_bias, query_norm, key_norm, post_attention_norm, post_ffn_norm;
    DeviceLatent latent;
    DeviceFeedForward dense;                 // with experts: the shared ones
    std::unique_ptr<Weight> router;
    std::vector<float> router_bias;          // (experts) on the host, where experts are chosen
    std::vector<DeviceFeedForward> experts;
};

// What differs from layer to layer, also of a configuration that says it for all layers at once.
LayerShape layer_shape(const ModelConfig& config, std::uint32_t layer);
// Which keys a query of a layer sees: what the options say, or the model.
KeySpan layer_span(const ModelConfig& config, const DecoderOptions& options, std::uint32_t layer);
// Keys and values that are made from latents: of one head each without decoupled positions (late rotation), else as queries.
std::uint32_t expanded_heads(const ModelConfig& config, std::uint32_t layer);
// A layer of a cache that holds what the model's attention reads; at a place of its own.
KvLayerShape cache_layer(const ModelConfig& config, std::uint32_t layer, const KvFormat& keys, const KvFormat& values);

struct DeviceModel {
    std::shared_ptr<const Model> model;
    std::shared_ptr<Backend> backend;  // outlives the weights below
    std::unique_ptr<Weight> embedding, output_norm;
    std::unique_ptr<Weight> output;    // null when it is the embedding
    std::vector<DeviceLayer> layers;

    const Weight& output_weight() const { return output ? *output : *embedding; }
    // Of attention over the cache of `layer` in the forms that the options ask for.
    AttentionShape attention_shape(std::uint32_t layer, const DecoderOptions& options) const;
    RotaryShape rotary_shape(std::uint32_t layer) const;

    // Errors: a tensor that the device cannot take, by name; parts that are not computed together.
    static Result<std::shared_ptr<DeviceModel>> create(std::shared_ptr<const Model> model, std::shared_ptr<Backend> backend);
};

}  // namespace kvloupe
