// SPDX-License-Identifier: GPL-3.0-or-later
//
// config.json of a Hugging Face folder, of every architecture that hf_families.h lists. The weights are not needed, so the same
// function serves a size prediction. Keys and defaults: FORMATS 2.4 and the configuration classes of transformers.
#pragma once

#include "engine/model/model.h"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kvloupe {

struct HfConfig {
    ModelConfig model;                // name, parameters and weight_bytes are left to the loader
    std::string dtype;                // torch_dtype or dtype; "" where absent. The tensors' own types count
    std::string packed_by;            // quantization_config's method ("fp8", "awq"); "": the weights are plain
    std::uint32_t extra_layers = 0;   // stored behind the model's, for predicting several tokens at once; not computed
    std::optional<TokenId> bos;
    std::vector<TokenId> end_tokens;  // eos_token_id, one or a list
};

// path is used in messages only. A key that is absent or null takes the architecture's default and is listed in
// model.assumed. Errors: not JSON, a wrong type or an impossible value (by key and value), an architecture or a feature
// that is not built (by name).
Result<HfConfig> parse_hf_config(std::span<const std::byte> bytes, const std::string& path);

}  // namespace kvloupe
