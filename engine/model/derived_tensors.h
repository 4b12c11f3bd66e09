// SPDX-License-Identifier: GPL-3.0-or-later
//
// Tensors that no file holds in the form the engine computes with, made once at load. Their bytes live in Model::owned; they
// count neither as parameters nor as weight bytes.
#pragma once

#include "engine/model/model.h"

namespace kvloupe {

// w + 1, in f32: what a Gemma norm of a Hugging Face file multiplies by.
void add_one(Model& model, Tensor& norm);

// Multi-head latent attention: from key_value_up the two tensors of absorbed attention, or from these that one, whichever the
// file holds. The numbers are the same: plain types stay as they are; key_up_transposed of a packed key_value_up (and
// key_value_up of packed halves) is f32, because packs run along the rows that are turned.
void complete_latent(Model& model, std::uint32_t heads, LatentWeights& weights);

}  // namespace kvloupe
