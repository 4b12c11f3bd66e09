// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/hf_weights.h"

#include "engine/model/json_document.h"
#include "engine/model/message.h"
#include "engine/model/safetensors.h"

#include <filesystem>
#include <map>
#include <set>

namespace kvloupe {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* index_name = "model.safetensors.index.json";
constexpr const char* fix_index = "Use the index that came with the model.";

// A part's name must not lead out of the folder.
bool is_plain_name(const std::string& name) {
    return !name.empty() && name != "." && name != ".." && name.find_first_of("/\\") == std::string::npos &&
           name.find('\0') == std::string::npos;
}

// File names of the parts, ascending, each with a tensor that lies in it.
Result<std::map<std::string, std::string>> parts_of(const std::string& path) {
    const auto mapped = MappedFile::open(path);
    if (!mapped) return mapped.error();
    const Result<json> index = parse_json((*mapped)->bytes(), path);
    if (!index) return index.error();
    const auto map = index->is_object() ? index->find("weight_map") : index->end();
    if (!index->is_object() || map == index->end() || !map->is_object() || map->empty())
        return Error{path + ": has no 'weight_map' of tensors to files", fix_index};
    std::map<std::string, std::string> parts;
    for (const auto& [tensor, file] : map->items()) {
        if (!file.is_string() || !is_plain_name(file.get_ref<const std::string&>()))
            return Error{path + ": tensor " + in_quotes(tensor) + " lies in " + describe(file) + ", which is no file's name",
                         fix_index};
        parts.emplace(file.get<std::string>(), tensor);
    }
    return parts;
}

// "language_model.model.layers…" and "model.language_model.layers…" (files of different age) to "model.layers…"; false: a
// tensor of the image part.
bool to_language_model(std::string& name) {
    for (const char* image : {"vision_tower.", "multi_modal_projector.", "model.vision_tower.", "model.multi_modal_projector."})
        if (name.rfind(image, 0) == 0) return false;
    const std::string outer = "language_model.", inner = "model.language_model.";
    if (name.rfind(outer, 0) == 0)
        name.erase(0, outer.size());
    else if (name.rfind(inner, 0) == 0)
        name.replace(0, inner.size(), "model.");
    return true;
}

Result<void> add_part(HfWeights& weights, const std::string& path, std::set<std::string>& names) {
    const auto mapped = MappedFile::open(path);
    if (!mapped) return mapped.error();
    const std::span<const std::byte> bytes = (*mapped)->bytes();
    const Result<SafetensorsFile> file = parse_safetensors(bytes, path);
    if (!file) return file.error();
    weights.files.push_back(*mapped);
    for (const SafetensorsTensor& tensor : file->tensors) {
        std::string name = tensor.name;
        if (!to_language_model(name)) continue;
        if (!names.insert(name).second)
            return Error{path + ": tensor " + in_quotes(tensor.name) + " is in another file of the model as well", fix_index};
        weights.tensors.push_back({std::move(name), tensor.shape, dtype_from_safetensors(tensor.dtype), tensor.dtype,
                                   bytes.data() + tensor.offset, tensor.offset});
    }
    return {};
}

}  // namespace

Result<HfWeights> open_hf_weights(const std::string& folder) {
    std::error_code ignored;
    const fs::path base(folder);
    HfWeights weights;
    std::set<std::string> names;
    weights.path = (base / "model.safetensors").string();
    if (fs::exists(weights.path, ignored)) {
        if (const Result<void> added = add_part(weights, weights.path, names); !added) return added.error();
        return weights;
    }
    const std::string index = (base / index_name).string();
    if (!fs::exists(index, ignored)) {
        const std::string sentence = folder + " has no model.safetensors";
        if (fs::exists(base / "pytorch_model.bin", ignored))
            return Error{sentence + "; pytorch_model.bin is a pickle and is not read",
                         "Save the model again with safe_serialization."};
        return Error{sentence, "A Hugging Face folder holds config.json, tokenizer.json and model.safetensors."};
    }
    weights.path = index;
    const Result<std::map<std::string, std::string>> parts = parts_of(index);
    if (!parts) return parts.error();
    for (const auto& [file, tensor] : *parts) {
        const std::string path = (base / file).string();
        if (!fs::exists(path, ignored))
            return Error{folder + " has no " + in_quotes(file) + ", in which " + in_quotes(tensor) + " lies as " + index_name +
                             " says",
                         "Fetch all files of the model."};
        if (const Result<void> added = add_part(weights, path, names); !added) return added.error();
    }
    return weights;
}

}  // namespace kvloupe
