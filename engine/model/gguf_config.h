// SPDX-License-Identifier: GPL-3.0-or-later
//
// The model configuration in a GGUF file's metadata. Keys: FORMATS 2.2.
#pragma once

#include "engine/model/gguf.h"
#include "engine/model/model.h"

namespace kvloupe {

// Everything but parameters and weight_bytes; the vocabulary is the number of rows of token_embd.weight (0 without it).
// Errors: a key that is missing, has a wrong type or an impossible value; an architecture or feature that is not built.
Result<ModelConfig> config_from_gguf(const GgufFile& file);

}  // namespace kvloupe
