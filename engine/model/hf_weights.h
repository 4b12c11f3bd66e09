// SPDX-License-Identifier: GPL-3.0-or-later
//
// The weights of a Hugging Face folder: one model.safetensors, or several files that model.safetensors.index.json names.
#pragma once

#include "engine/model/mapped_file.h"
#include "engine/model/tensor_taker.h"

#include <memory>
#include <string>
#include <vector>

namespace kvloupe {

struct HfWeights {
    std::string path;  // of the file, or of the index; for messages
    std::vector<std::shared_ptr<const MappedFile>> files;
    // Views into the files. Names are those of a language model by itself: what wraps it in a model of text and images
    // ("language_model.") is taken off, and the tensors of the image part are left out.
    std::vector<StoredTensor> tensors;
};

// Errors, one sentence each: no weights, a part that the index names and that is not there, a tensor that two parts hold.
Result<HfWeights> open_hf_weights(const std::string& folder);

}  // namespace kvloupe
