// SPDX-License-Identifier: GPL-3.0-or-later
//
// Saving a model with fewer KV heads as a Hugging Face folder, which transformers loads as well: config.json with the new head
// count, one model.safetensors, tokenizer and what else lies beside them as it came.
//
// The tensors are those of the folder that the model came from, byte for byte, but for keys and values of converted layers; so
// what loading changes (Gemma's norms) or leaves out comes back as it was. Rejected: writing the loaded tensors, which would
// have to undo every such change.
#pragma once

#include "engine/model/model.h"

#include <string>

namespace kvloupe {

// model: of convert_model(). folder: made, or empty; its parent exists. The folder appears whole or not at all.
// Errors: a folder that holds something; a model of a GGUF file or a generated one, which has no folder to take configuration
// and tokenizer from; latents with late rotation, which no other program reads; no room on the disk; cancelled.
Result<void> save_huggingface_folder(const Model& model, const std::string& folder, const LoadOptions& run = {});

}  // namespace kvloupe
