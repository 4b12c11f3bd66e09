// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/model/model.h"
#include "engine/record/layer_info.h"

#include <cstdint>
#include <vector>

namespace kvloupe {

// A model's parameters counted from its tensors.
struct ParameterCount {
    ParameterParts parts;
    std::vector<StoredParameters> stored;  // by precision, in the order of DType
    std::uint64_t derived_bytes = 0;       // tensors that hold numbers of others a second time: a latent's projections, cut otherwise

    static ParameterCount of(const Model& model);
};

}  // namespace kvloupe
