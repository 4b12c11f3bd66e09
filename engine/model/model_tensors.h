// SPDX-License-Identifier: GPL-3.0-or-later
//
// From the tensors of a file, whatever its format, to the weights of a model: every tensor that the configuration asks for must
// be there with exactly its shape, and no tensor may be left over, because one that is ignored would make the results silently
// wrong.
#pragma once

#include "engine/model/model.h"
#include "engine/model/tensor_names.h"
#include "engine/model/tensor_taker.h"

#include <string>
#include <vector>

namespace kvloupe {

// Fills embedding, output_norm, output and layers of the model by its config, makes the derived tensors, and counts parameters
// and weight_bytes. ignored: names begin with one of these where a file holds more than the model. path is used in messages.
// Errors: a tensor is missing, too many, of another shape, of an unbuilt type or misaligned.
Result<void> assign_tensors(Model& model, const std::vector<StoredTensor>& tensors, const TensorNames& names,
                            const std::vector<std::string>& ignored, const std::string& path);

}  // namespace kvloupe
