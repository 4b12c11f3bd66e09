// SPDX-License-Identifier: GPL-3.0-or-later
//
// SizedModel: what the size of a model is computed from, wherever it was read.
#pragma once

#include "engine/analysis/weight_size.h"
#include "engine/model/config.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kvloupe {

struct SizedModel {
    ModelConfig config;              // name, assumed and layer_shapes included
    WeightForm form;
    std::string source;              // "known model", "config.json", "GGUF file", "Hugging Face folder"
    DType weight_dtype = DType::f16; // what weights are counted in where no tensors are at hand
    std::uint64_t stored_parameters = 0;  // counted from the tensors of a file; 0: there are none at hand
    std::uint64_t stored_bytes = 0;
    std::string packed_by;  // a quantization_config's method: the tensors hold packs, whose elements are no parameters
    std::vector<std::string> notes;  // sentences that belong beside the result
};

}  // namespace kvloupe
