// SPDX-License-Identifier: GPL-3.0-or-later
//
// From what a person names as a model to what its size is computed from: a GGUF file (its headers), a Hugging Face
// folder (its config.json, and the headers of its safetensors where there are any), a config.json whatever it is called,
// or a known name. Weights are never read.
#pragma once

#include "engine/analysis/known_models.h"
#include "engine/record/gpu_table.h"
#include "engine/record/kv_format.h"
#include "engine/record/result.h"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace kvloupe {

// Something that exists as a file or folder is read; everything else is looked up in the table. Errors: what the readers
// of files say; a file that is no model; a name that is not in the table (the nearest ones are named).
Result<SizedModel> find_sized_model(const std::string& model, const KnownModels& known);

// A config.json. Weights that a quantization_config packs are counted in the precision that torch_dtype names.
Result<SizedModel> sized_model_from_config(std::span<const std::byte> bytes, const std::string& path);

// An entry of the GPU table by its name or an unambiguous beginning ("h100"), whatever the case. Error: the nearest are
// named.
Result<const GpuEntry*> gpu_named(const std::string& name);

// A precision of the cache by its name, with the scales that are its default. Error: the names there are.
Result<KvFormat> cache_precision_named(const std::string& name);
// Names of the precisions a cache can be kept in: "f32", "f16", … in the order of the scenario's key.
std::vector<std::string> cache_precision_names();

}  // namespace kvloupe
