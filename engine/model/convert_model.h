// SPDX-License-Identifier: GPL-3.0-or-later
//
// convert_model(): another attention for a loaded model, without training.
//
// GQA and MQA: every new KV head is the mean of the heads that it stands for (arXiv 2305.13245, section 2.1), biases as well.
//
// MLA: what a layer's keys and values are projected with, one upon the other, becomes a product of low rank (low_rank.h). The
// cache keeps the narrow part, a latent, in place of all keys and values. Llama's keys are turned by their positions behind
// their projection, and that does not commute with taking queries down to the latent; so keys and values are made from the
// latents in every step, and keys turned then: a latent cache with late rotation. Rejected: splitting off a decoupled rotary
// key, which changes what the model computes and so asks for training; turning before the projection, which the latent of one
// position cannot do for all heads at once.
#pragma once

#include "engine/model/convert_options.h"
#include "engine/model/model.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace kvloupe {

// What was measured of the model on a text, for conversions by sensitivity.
struct ConvertCalibration {
    std::vector<std::vector<double>> covariances;  // (layers)(hidden * hidden): mean of x x^T over what the K/V projections take
    // Mean loss (nats per token) of a model on the same text. Errors: the device's, cancelled.
    std::function<Result<double>(std::shared_ptr<const Model>)> loss;
};

// The configuration that a model of this one would have after the conversion, but for its parameters; widths that share a budget
// are as even as can be. Errors: heads that do not divide, a width beyond the projection, a budget out of range, what is a
// latent already.
Result<ModelConfig> converted_config(const ModelConfig& config, const ConvertOptions& options);

// calibration: needed by sensitivity, where the factorisation's error is weighed with the covariances. A budget is then shared
// by what layers cost: the loss is measured with one layer at the mean width and at half of it, all others at full width, and a
// layer's weight is what the loss grew by, divided by the share of its squared singular values that was cut off; its singular
// values count by that weight, as by energy they count alike.
// The model is not changed; the result keeps it alive and shares what is not converted. Matrices stay in their float type, or
// become f16 where they were quantised. weights_id is equal for equal sources and options.
// Errors: those of converted_config(), a sensitivity without a calibration, the calibration's, cancelled.
Result<std::shared_ptr<const Model>> convert_model(std::shared_ptr<const Model> model, const ConvertOptions& options,
                                                   const LoadOptions& run = {}, const ConvertCalibration* calibration = nullptr);

// The same model with its layers' inputs as latents: what it caches is what its K/V projections take. For measuring covariances.
Result<std::shared_ptr<const Model>> expose_inputs(std::shared_ptr<const Model> model);

}  // namespace kvloupe
