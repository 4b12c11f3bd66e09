// SPDX-License-Identifier: GPL-3.0-or-later
//
// DeviceModel: a model's weights on one device; lanes that use the same model on the same device share it.
#pragma once

#include "engine/backend.h"

#include <memory>
#include <vector>

namespace kvloupe {

struct DeviceLayer {
    std::unique_ptr<Weight> attention_norm, query, key, value, attention_out, ffn_norm, gate, up, down;
};

struct DeviceModel {
    std::shared_ptr<const Model> model;
    std::shared_ptr<Backend> backend;  // outlives the weights below
    std::unique_ptr<Weight> embedding, output_norm;
    std::unique_ptr<Weight> output;    // null when it is the embedding
    std::vector<DeviceLayer> layers;

    const Weight& output_weight() const { return output ? *output : *embedding; }
    AttentionShape attention_shape(const KeySpan& span) const;
    RotaryShape rotary_shape() const;

    // Errors: a tensor that the device cannot take, by name.
    static Result<std::shared_ptr<DeviceModel>> create(std::shared_ptr<const Model> model, std::shared_ptr<Backend> backend);
};

}  // namespace kvloupe
