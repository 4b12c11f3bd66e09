// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/analysis/size_source.h"

#include "engine/analysis/nearest_names.h"
#include "engine/model/gguf.h"
#include "engine/model/gguf_config.h"
#include "engine/model/hf_config.h"
#include "engine/model/json_document.h"
#include "engine/model/mapped_file.h"
#include "engine/model/message.h"
#include "engine/model/safetensors.h"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>

namespace kvloupe {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

Result<void> add_tensors(SizedModel& model, const fs::path& path) {
    const Result<std::shared_ptr<const MappedFile>> file = MappedFile::open(path.string());
    if (!file) return file.error();
    const Result<SafetensorsFile> tensors = parse_safetensors((*file)->bytes(), path.string());
    if (!tensors) return tensors.error();
    for (const SafetensorsTensor& tensor : tensors->tensors) {
        std::uint64_t count = 1;
        for (const std::uint64_t length : tensor.shape) count *= length;  // checked against the bytes by the parser
        model.stored_parameters += count;
        model.stored_bytes += tensor.bytes;
    }
    return {};
}

// The files that an index lists, sorted.
Result<std::set<std::string>> files_of_index(const fs::path& path) {
    const Result<std::shared_ptr<const MappedFile>> file = MappedFile::open(path.string());
    if (!file) return file.error();
    const Result<json> index = parse_json((*file)->bytes(), path.string());
    if (!index) return index.error();
    std::set<std::string> names;
    const auto map = index->is_object() ? index->find("weight_map") : index->end();
    if (index->is_object() && map != index->end() && map->is_object())
        for (const json& name : *map)
            if (name.is_string() && fs::path(name.get<std::string>()).filename() == name.get<std::string>())
                names.insert(name.get<std::string>());
    return names;
}

// All files of the folder's weights, or none where one is missing: half of the tensors are no size.
Result<void> add_folder_tensors(SizedModel& model, const fs::path& folder) {
    std::error_code ignored;
    std::set<std::string> names;
    if (fs::exists(folder / "model.safetensors.index.json", ignored)) {
        Result<std::set<std::string>> listed = files_of_index(folder / "model.safetensors.index.json");
        if (!listed) return listed.error();
        names = std::move(*listed);
    } else if (fs::exists(folder / "model.safetensors", ignored)) {
        names.insert("model.safetensors");
    }
    for (const std::string& name : names) {
        if (fs::exists(folder / name, ignored)) continue;
        model.notes.push_back(name + " is not in the folder, so the weights are counted from config.json.");
        return {};
    }
    for (const std::string& name : names)
        if (const Result<void> added = add_tensors(model, folder / name); !added) return added.error();
    return {};
}

Result<SizedModel> from_folder(const fs::path& folder) {
    std::error_code failed;
    const fs::path path = folder / "config.json";
    if (!fs::exists(path, failed))
        return Error{folder.string() + " has no config.json",
                     "Give a Hugging Face folder, a GGUF file, a config.json or a known model."};
    const Result<std::shared_ptr<const MappedFile>> file = MappedFile::open(path.string());
    if (!file) return file.error();
    Result<SizedModel> model = sized_model_from_config((*file)->bytes(), path.string());
    if (!model) return model.error();
    model->source = "Hugging Face folder";
    const fs::path absolute = fs::canonical(folder, failed);
    model->config.name = failed ? folder.string() : absolute.filename().string();
    if (const Result<void> added = add_folder_tensors(*model, folder); !added) return added.error();
    return model;
}

Result<SizedModel> from_gguf(std::span<const std::byte> bytes, const std::string& path) {
    const Result<GgufFile> file = parse_gguf(bytes, path);
    if (!file) return file.error();
    Result<ModelConfig> config = config_from_gguf(*file);
    if (!config) return config.error();
    SizedModel model;
    model.config = std::move(*config);
    if (model.config.name.empty()) model.config.name = fs::path(path).filename().string();
    if (model.config.layer_shapes.empty()) model.config.make_uniform();
    model.source = "GGUF file";
    for (const GgufTensor& tensor : file->tensors) {
        std::uint64_t count = 1;
        for (const std::uint64_t length : tensor.dims) count *= length;  // checked against the bytes by the parser
        model.stored_parameters += count;
        model.stored_bytes += tensor.bytes;
    }
    return model;
}

Result<SizedModel> from_file(const std::string& path) {
    const Result<std::shared_ptr<const MappedFile>> file = MappedFile::open(path);
    if (!file) return file.error();
    const std::span<const std::byte> bytes = (*file)->bytes();
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (text.substr(0, 4) == "GGUF") return from_gguf(bytes, path);
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    if (first != std::string_view::npos && text[first] == '{') return sized_model_from_config(bytes, path);
    return Error{path + " is neither a GGUF file nor a config.json: it begins with " + in_quotes(text.substr(0, 4)),
                 "Give a GGUF file, a Hugging Face folder, a config.json or a known model."};
}

bool looks_like_a_path(const std::string& model) {
    const auto ends = [&model](std::string_view end) {
        return model.size() >= end.size() && model.compare(model.size() - end.size(), end.size(), end) == 0;
    };
    return model.front() == '/' || model.front() == '.' || model.front() == '~' || ends("/") || ends(".json") ||
           ends(".gguf") || ends(".safetensors");
}

}  // namespace

Result<SizedModel> sized_model_from_config(std::span<const std::byte> bytes, const std::string& path) {
    const Result<json> document = parse_json(bytes, path);
    if (!document) return document.error();
    if (document->is_object() && document->contains("requests"))
        return Error{path + " is a scenario, not the configuration of a model", "Give the model that it names."};
    SizedModel model;
    Result<HfConfig> parsed = parse_hf_config(bytes, path);
    if (!parsed) return parsed.error();
    model.packed_by = parsed->packed_by;
    if (parsed->extra_layers > 0)
        model.notes.push_back(
            "Without the layers behind the model's that predict several tokens at once (num_nextn_predict_layers " +
            std::to_string(parsed->extra_layers) + ").");
    model.config = std::move(parsed->model);
    if (model.config.layer_shapes.empty()) model.config.make_uniform();
    model.config.name = fs::path(path).filename().string();
    model.source = "config.json";
    model.weight_dtype = parsed->dtype == "float32" ? DType::f32 : parsed->dtype == "bfloat16" ? DType::bf16 : DType::f16;
    if (parsed->dtype.empty()) model.config.assumed.push_back("dtype = float16 (not in config.json)");
    return model;
}

Result<SizedModel> find_sized_model(const std::string& model, const KnownModels& known) {
    if (model.empty())
        return Error{"The model's name is empty", "Give a known model, a config.json, a GGUF file or a folder."};
    std::error_code ignored;
    try {
        if (fs::is_directory(model, ignored)) return from_folder(model);
        if (fs::exists(model, ignored)) return from_file(model);
    } catch (const std::exception& failure) {
        return Error{model + ": cannot be read (" + failure.what() + ")", ""};
    }
    if (const KnownModel* found = known.find(model)) return found->model;
    if (looks_like_a_path(model)) return Error{"There is no file or folder " + in_quotes(model, 200), "Check the path."};
    const bool with_owner = model.find('/') != std::string::npos;
    return Error{"There is no file, folder or known model " + in_quotes(model),
                 "The nearest known ones are " +
                     listed(nearest_names(model, with_owner ? known.all_names() : known.names())) + "."};
}

Result<const GpuEntry*> gpu_named(const std::string& name) {
    std::vector<std::string> names;
    std::vector<const GpuEntry*> begin_so;
    const std::string wanted = plain_name(name);
    for (const GpuEntry& entry : gpu_table()) {
        names.emplace_back(entry.name);
        const std::string plain = plain_name(entry.name);
        if (plain == wanted) return &entry;
        if (!wanted.empty() && plain.compare(0, wanted.size(), wanted) == 0) begin_so.push_back(&entry);
    }
    if (begin_so.size() == 1) return begin_so.front();
    return Error{"There is no GPU " + in_quotes(name) + " in the table",
                 "The nearest are " + listed(nearest_names(name, names)) + "."};
}

std::vector<std::string> cache_precision_names() {
    return {"f32",   "f16",   "bf16", "fp8_e4m3", "fp8_e5m2", "int8", "int4",
            "kivi2", "kivi4", "q8_0", "q5_1",     "q5_0",     "q4_1", "q4_0"};
}

Result<KvFormat> cache_precision_named(const std::string& name) {
    const std::vector<std::string> names = cache_precision_names();
    if (std::find(names.begin(), names.end(), name) != names.end()) return KvFormat::of(*dtype_from_name(name));
    return Error{"There is no cache precision " + in_quotes(name), "There are " + listed(names) + "."};
}

}  // namespace kvloupe
