// SPDX-License-Identifier: GPL-3.0-or-later
//
// From the tensors of a file, whatever its format, to the weights of a Llama model: every tensor that the configuration
// asks for must be there with exactly its shape, and no tensor may be left over, because one that is ignored would make
// the results silently wrong.
#pragma once

#include "engine/model/model.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvloupe {

// A tensor as it lies in a file.
struct StoredTensor {
    std::string name;
    std::vector<std::uint64_t> shape;  // outermost first
    std::optional<DType> dtype;        // nothing: a type this program does not compute with
    std::string type_name;             // as the file calls it
    const std::byte* data = nullptr;
    std::uint64_t offset = 0;          // in the file, for messages
};

// How a format spells the names. A layer's tensor is layer_prefix + number + "." + name.
struct TensorNames {
    std::string_view embedding, output_norm, output, layer_prefix;
    std::string_view attention_norm, query, key, value, attention_out, ffn_norm, gate, up, down;
};
extern const TensorNames gguf_names;
extern const TensorNames huggingface_names;

// Fills embedding, output_norm, output and layers of the model by its config, and counts parameters and weight_bytes.
// path is used in messages. Errors: a tensor is missing, too many, of another shape, of an unbuilt type or misaligned.
Result<void> assign_tensors(Model& model, const std::vector<StoredTensor>& tensors, const TensorNames& names,
                            const std::string& path);

}  // namespace kvloupe
