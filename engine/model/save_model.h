// SPDX-License-Identifier: GPL-3.0-or-later
//
// Saving a converted model as a Hugging Face folder: config.json, one model.safetensors, tokenizer and what else lies beside them
// as it came. Fewer KV heads are the family's own model with another head count, which transformers loads as well.
//
// Latents with late rotation are no family's. Only KVLoupe reads them back, so config.json says so before anybody computes
// something else with it: "model_type": "kvloupe_latent", "architectures": ["KvloupeLatentForCausalLM"], and
//   "kvloupe_latent": {"model_type": what it was, "widths": [of every layer's latent]}
// while all other keys stay. A layer has self_attn.kv_latent_down.weight (width, hidden) and self_attn.kv_latent_up.weight (KV heads
// * 2 * head size, width; of every head its key rows, then its value rows) in place of k_proj and v_proj; biases and norms stay.
// Rejected: DeepSeek's keys, whose rotary key is decoupled; another model type under an old name, which transformers
// would fill with random numbers.
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
// and tokenizer from; no room on the disk; cancelled.
Result<void> save_huggingface_folder(const Model& model, const std::string& folder, const LoadOptions& run = {});

}  // namespace kvloupe
