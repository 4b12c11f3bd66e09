// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/save_model.h"

#include "engine/model/hf_parts.h"
#include "engine/model/json_document.h"
#include "engine/model/message.h"
#include "engine/model/safetensors.h"
#include "engine/model/tensor_names.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <system_error>

namespace kvloupe {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const char* dtype_name(DType type) { return type == DType::f32 ? "F32" : type == DType::f16 ? "F16" : "BF16"; }

struct SavedTensor {
    std::string dtype;
    std::vector<std::uint64_t> shape;
    const std::byte* data = nullptr;
    std::uint64_t bytes = 0;
};

class Saver {
public:
    Saver(const Model& model, fs::path folder, const LoadOptions& run)
        : m_model(model), m_folder(std::move(folder)), m_part(m_folder.string() + ".part"), m_run(run) {
        for (m_root = &model; m_root->source;) m_root = m_root->source.get();
    }
    ~Saver() {
        std::error_code ignored;
        if (m_began) fs::remove_all(m_part, ignored);
    }
    Saver(const Saver&) = delete;
    Saver& operator=(const Saver&) = delete;

    Result<void> save() {
        const fs::path from = m_root->files.empty() ? fs::path() : fs::path(m_root->files.front()->path()).parent_path();
        std::error_code failed;
        if (from.empty() || !fs::exists(from / "config.json", failed) || !fs::exists(from / "tokenizer.json", failed))
            return Error{"'" + m_model.config.name +
                             "' does not come from a Hugging Face folder, whose configuration and tokenizer a saved model needs",
                         "Load the model's Hugging Face folder and convert that."};
        if (fs::exists(m_folder, failed) && (!fs::is_directory(m_folder, failed) || !fs::is_empty(m_folder, failed)))
            return Error{m_folder.string() + " is not empty", "Choose a new folder; nothing is overwritten."};
        if (auto taken = take_tensors(); !taken) return taken;
        if (!fs::create_directory(m_part, failed)) return cannot(m_part, failed);
        m_began = true;
        if (auto written = write_config(from); !written) return written;
        for (const char* name : {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "generation_config.json"}) {
            if (!fs::exists(from / name, failed)) continue;
            if (!fs::copy_file(from / name, m_part / name, failed)) return cannot(m_part / name, failed);
        }
        if (auto written = write_tensors(); !written) return written;
        fs::remove(m_folder, failed);  // empty, or not there
        fs::rename(m_part, m_folder, failed);
        if (failed) return cannot(m_folder, failed);
        m_began = false;
        return {};
    }

private:
    static Error cannot(const fs::path& path, const std::error_code& why) {
        return {path.string() + " cannot be written (" + (why ? why.message() : std::string("it is there already")) + ")",
                "Choose another folder, or make room."};
    }

    // The files' tensors by name; converted ones take the place of theirs.
    Result<void> take_tensors() {
        for (const std::shared_ptr<const MappedFile>& file : m_root->files) {
            const auto parsed = parse_safetensors(file->bytes(), file->path());
            if (!parsed) return parsed.error();
            for (const SafetensorsTensor& tensor : parsed->tensors)
                m_tensors[tensor.name] = {tensor.dtype, tensor.shape, file->bytes().data() + tensor.offset, tensor.bytes};
        }
        const TensorNames names = huggingface_names(m_root->config);
        for (std::size_t i = 0; i < m_model.layers.size(); ++i) {
            const LayerWeights &now = m_model.layers[i], &before = m_root->layers[i];
            const std::string prefix = std::string(names.layer_prefix) + std::to_string(i) + ".";
            if (makes_latents()) {
                put_latents(prefix, names, now.latent);
                continue;
            }
            replace(prefix + std::string(names.key), before.key, now.key);
            replace(prefix + std::string(names.value), before.value, now.value);
            replace(prefix + std::string(names.key_bias), before.key_bias, now.key_bias);
            replace(prefix + std::string(names.value_bias), before.value_bias, now.value_bias);
        }
        return {};
    }

    // Latents that the folder did not have.
    bool makes_latents() const { return m_model.config.latent.late_rotation && !m_root->config.latent.late_rotation; }

    // Models of text and images have a longer prefix; exactly one name ends so.
    std::map<std::string, SavedTensor>::iterator stored(const std::string& name) {
        auto found = m_tensors.begin();
        while (found != m_tensors.end() && !found->first.ends_with(name)) ++found;
        return found;
    }

    void put_latents(const std::string& prefix, const TensorNames& before, const LatentWeights& latents) {
        const TensorNames names = huggingface_names(m_model.config);
        const auto key = stored(prefix + std::string(before.key));
        const std::string outer = key->first.substr(0, key->first.size() - prefix.size() - before.key.size());
        m_tensors.erase(key);
        m_tensors.erase(stored(prefix + std::string(before.value)));
        for (const auto& [name, tensor] : {std::pair(names.key_value_down, &latents.key_value_down),
                                           std::pair(names.key_value_up, &latents.key_value_up)})
            m_tensors[outer + prefix + std::string(name)] = {dtype_name(tensor->dtype), {tensor->rows, tensor->cols}, tensor->data,
                                                             tensor->bytes()};
    }

    void replace(const std::string& name, const Tensor& before, const Tensor& now) {
        if (now.data == before.data) return;
        const auto found = stored(name);
        if (found == m_tensors.end()) return;
        SavedTensor& tensor = found->second;
        tensor.dtype = dtype_name(now.dtype);
        if (tensor.shape.size() == 1) tensor.shape = {now.cols};
        else tensor.shape = {now.rows, now.cols};
        tensor.data = now.data;
        tensor.bytes = now.bytes();
    }

    void put_heads(json& text) const {
        bool alike = true;
        json heads = json::array();
        for (const LayerShape& layer : m_model.config.layer_shapes) {
            heads.push_back(layer.kv_heads);
            alike = alike && layer.kv_heads == m_model.config.kv_heads;
        }
        if (alike) text["num_key_value_heads"] = m_model.config.kv_heads;
        else text["num_key_value_heads"] = heads;
    }

    Result<void> write_config(const fs::path& from) const {
        const auto file = MappedFile::open((from / "config.json").string());
        if (!file) return file.error();
        auto config = parse_json((*file)->bytes(), (*file)->path());
        if (!config) return config.error();
        json& text = config->contains("text_config") ? (*config)["text_config"] : *config;
        if (makes_latents()) {
            json widths = json::array();
            for (std::uint32_t i = 0; i < m_model.config.layers; ++i) widths.push_back(m_model.config.latent_width(i));
            json was = config->contains("model_type") ? config->at("model_type") : json(m_root->config.architecture);
            (*config)[late_latent_type] = {{"model_type", std::move(was)}, {"widths", std::move(widths)}};
            (*config)["model_type"] = late_latent_type;
            (*config)["architectures"] = {late_latent_class};
        } else if (!m_model.config.latent.present()) {
            put_heads(text);
        }
        std::ofstream out(m_part / "config.json", std::ios::binary);
        out << config->dump(2) << '\n';
        out.flush();
        return out ? Result<void>{} : Result<void>(cannot(m_part / "config.json", std::make_error_code(std::errc::io_error)));
    }

    Result<void> write_tensors() const {
        json header = {{"__metadata__", {{"format", "pt"}}}};
        std::uint64_t size = 0;
        for (const auto& [name, tensor] : m_tensors) {
            header[name] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {size, size + tensor.bytes}}};
            size += tensor.bytes;
        }
        std::string text = header.dump();
        text.resize((text.size() + 7) / 8 * 8, ' ');  // so that the data is aligned
        const fs::path path = m_part / "model.safetensors";
        std::ofstream out(path, std::ios::binary);
        const std::uint64_t length = text.size();
        for (int byte = 0; byte < 8; ++byte) out.put(static_cast<char>(length >> (8 * byte)));
        out << text;
        std::uint64_t written = 0;
        for (const auto& [name, tensor] : m_tensors) {
            if (m_run.stop.stop_requested()) return Error{"Saving was cancelled", ""};
            if (m_run.progress) m_run.progress(static_cast<double>(written) / static_cast<double>(size), "Writing " + name);
            out.write(reinterpret_cast<const char*>(tensor.data), static_cast<std::streamsize>(tensor.bytes));
            written += tensor.bytes;
        }
        out.flush();
        return out ? Result<void>{} : Result<void>(cannot(path, std::make_error_code(std::errc::no_space_on_device)));
    }

    const Model& m_model;
    const Model* m_root;
    fs::path m_folder, m_part;
    const LoadOptions& m_run;
    bool m_began = false;  // m_part is there and not yet in place
    std::map<std::string, SavedTensor> m_tensors;
};

}  // namespace

Result<void> save_huggingface_folder(const Model& model, const std::string& folder, const LoadOptions& run) {
    try {
        fs::path path(folder);
        if (!path.has_filename()) path = path.parent_path();
        return Saver(model, path, run).save();
    } catch (const std::exception& failure) {
        return Error{folder + ": the model cannot be saved (" + failure.what() + ")", "Choose another folder, or make room."};
    }
}

}  // namespace kvloupe
