// SPDX-License-Identifier: GPL-3.0-or-later
//
// The parts of a Hugging Face configuration, each read by a function of its own. All return false with the reader's error set.
// For .cpp files only: the reader brings nlohmann's header.
#pragma once

#include "engine/model/hf_config_reader.h"
#include "engine/model/hf_families.h"

namespace kvloupe {

// model_type and class of a model that KVLoupe converted to latents; the key of the same name says what it was.
inline constexpr const char* late_latent_type = "kvloupe_latent";
inline constexpr const char* late_latent_class = "KvloupeLatentForCausalLM";

// hf_sizes.cpp: widths, head counts (one or one per layer), norms, activation, biases, Gemma's scales and caps.
bool read_hf_sizes(HfConfigReader& reader, const HfFamily& family, ModelConfig& model);

// hf_latent.cpp: multi-head latent attention of the DeepSeek families; sets head_dim and rotary_dim.
bool read_hf_latent(HfConfigReader& reader, const HfFamily& family, ModelConfig& model);

// hf_latent.cpp: latents with late rotation, as KVLoupe saves what it converted (save_model.h); behind sizes and windows.
bool read_late_latents(HfConfigReader& reader, const HfFamily& family, ModelConfig& model);

// hf_experts.cpp: which layers have experts, how many, and how they are chosen.
bool read_hf_experts(HfConfigReader& reader, const HfFamily& family, ModelConfig& model);

// hf_windows.cpp: the windows of the layers, and which turn by the local base.
bool read_hf_windows(HfConfigReader& reader, const HfFamily& family, ModelConfig& model);

// hf_rotary.cpp: base and scaling. Behind the others: DeepSeek's scaling changes the scale of the scores.
bool read_hf_rotary(HfConfigReader& reader, const HfFamily& family, ModelConfig& model);

}  // namespace kvloupe
