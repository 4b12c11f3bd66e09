// SPDX-License-Identifier: GPL-3.0-or-later
//
// What a conversion by sensitivity needs to know of a model (convert_model.h), measured on a text: the covariances of what the
// K/V projections of every layer take, and the loss of any model that was made from it. Every text is a sequence of its own, its
// cache is in f32, and nothing is sampled; so the same model, text and device come to the same numbers.
//
// The inputs are read back from the cache of a model whose latents they are (expose_inputs). Rejected: a backend operation that
// hands out activations, which every backend would have to have for this alone.
#pragma once

#include "engine/backend.h"
#include "engine/model/convert_model.h"

#include <memory>
#include <span>
#include <vector>

namespace kvloupe {

// texts: of at least two tokens each. backend: one that hands out what blocks hold (the CPU's); the loss runs there as well.
// Progress tells of the covariances only. Errors: a model with latents, the backend's, logits that are not finite, cancelled.
Result<ConvertCalibration> calibrate(std::shared_ptr<const Model> model, std::shared_ptr<Backend> backend,
                                     std::vector<std::vector<TokenId>> texts, const LoadOptions& run = {});

}  // namespace kvloupe
