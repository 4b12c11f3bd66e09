// SPDX-License-Identifier: GPL-3.0-or-later
//
// load_model(): a GGUF file or a Hugging Face folder becomes a Model.
//
// Goals: the file is mapped and never copied; nothing of the session at hand changes when a load fails; a load can be
// cancelled at any moment. Non-goals: GGUF files in parts, other formats. Rejected: leaving the pages to be read by the
// first step, because that step would then seem slow and the load would have no progress to show.
#include "engine/model/gguf.h"
#include "engine/model/gguf_config.h"
#include "engine/model/hf_config.h"
#include "engine/model/hf_weights.h"
#include "engine/model/message.h"
#include "engine/model/model.h"
#include "engine/model/model_tensors.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <filesystem>
#include <system_error>

namespace kvloupe {

namespace {

namespace fs = std::filesystem;

class Loader {
public:
    explicit Loader(const LoadOptions& options) : m_options(options), m_model(std::make_shared<Model>()) {}

    Result<std::shared_ptr<const Model>> load(const std::string& path) {
        std::error_code ignored;
        const bool folder = fs::is_directory(path, ignored);
        const Result<void> loaded = folder ? load_folder(path) : load_gguf(path);
        if (!loaded) return loaded.error();
        if (const Result<void> checked = check_tokenizer(path); !checked) return checked.error();
        if (const Result<void> touched = touch_pages(); !touched) return touched.error();
        report(1.0, "Loaded");
        return std::shared_ptr<const Model>(std::move(m_model));
    }

private:
    // Fractions at which the parts of a load begin; the weights are the longest.
    static constexpr double at_header = 0.0, at_tokenizer = 0.05, at_tensors = 0.25, at_weights = 0.3;

    void report(double fraction, const std::string& what) const {
        if (m_options.progress) m_options.progress(fraction, what);
    }

    // Reports the part that begins, unless the load was cancelled.
    Result<void> begin(double fraction, const std::string& what) const {
        if (m_options.stop.stop_requested()) return Error{"Loading was cancelled", ""};
        report(fraction, what);
        return {};
    }

    Result<void> load_gguf(const std::string& path) {
        if (const Result<void> begun = begin(at_header, "Reading the header"); !begun) return begun.error();
        Result<std::shared_ptr<const MappedFile>> mapped = MappedFile::open(path);
        if (!mapped) return mapped.error();
        const std::span<const std::byte> bytes = (*mapped)->bytes();
        const std::string_view magic(reinterpret_cast<const char*>(bytes.data()), std::min<std::size_t>(4, bytes.size()));
        if (magic != "GGUF")
            return Error{path + " is neither a GGUF file nor a Hugging Face folder: it begins with " + in_quotes(magic),
                         "Give a GGUF file, or the folder with config.json, tokenizer.json and model.safetensors."};
        const Result<GgufFile> file = parse_gguf(bytes, path);
        if (!file) return file.error();
        Result<ModelConfig> config = config_from_gguf(*file);
        if (!config) return config.error();
        if (file->tensors.empty())
            return Error{path + ": holds no tensors, only a vocabulary", "Use a file with the weights of the model."};
        m_model->config = std::move(*config);
        keep(*mapped);

        if (const Result<void> begun = begin(at_tokenizer, "Reading the tokenizer"); !begun) return begun.error();
        Result<std::shared_ptr<const Tokenizer>> tokenizer = tokenizer_from_gguf(*file);
        if (!tokenizer) return tokenizer.error();
        m_model->tokenizer = std::move(*tokenizer);

        if (const Result<void> begun = begin(at_tensors, "Placing the tensors"); !begun) return begun.error();
        std::vector<StoredTensor> tensors;
        tensors.reserve(file->tensors.size());
        for (const GgufTensor& tensor : file->tensors)
            tensors.push_back({tensor.name, {tensor.dims.rbegin(), tensor.dims.rend()}, dtype_from_ggml(tensor.type),
                               ggml_type_name(tensor.type), bytes.data() + tensor.offset, tensor.offset});
        std::vector<std::string> ignored;
        // Llama 3's frequency factors: the configuration knows the rule that they follow.
        if (m_model->config.rotary_scaling.kind == RotaryScaling::Kind::llama3) ignored.emplace_back("rope_freqs.weight");
        return assign_tensors(*m_model, tensors, gguf_names(), ignored, path);
    }

    // Opens a part of a folder, or says which one is missing.
    static Result<std::shared_ptr<const MappedFile>> open_part(const fs::path& folder, const char* part) {
        std::error_code ignored;
        const fs::path path = folder / part;
        if (fs::exists(path, ignored)) return MappedFile::open(path.string());
        return Error{folder.string() + " has no " + part,
                     "A Hugging Face folder holds config.json, tokenizer.json and model.safetensors."};
    }

    Result<void> load_folder(const std::string& path) {
        if (const Result<void> begun = begin(at_header, "Reading config.json"); !begun) return begun.error();
        const fs::path folder(path);
        const Result<std::shared_ptr<const MappedFile>> config_file = open_part(folder, "config.json");
        if (!config_file) return config_file.error();
        const Result<std::shared_ptr<const MappedFile>> tokenizer_file = open_part(folder, "tokenizer.json");
        if (!tokenizer_file) return tokenizer_file.error();
        Result<HfWeights> weights = open_hf_weights(path);
        if (!weights) return weights.error();
        Result<HfConfig> config = parse_hf_config((*config_file)->bytes(), (*config_file)->path());
        if (!config) return config.error();
        if (!config->packed_by.empty())
            return Error{(*config_file)->path() + ": 'quantization_config' says that the weights are packed by " +
                             in_quotes(config->packed_by) + ", which is not built yet",
                         "Use the model's plain weights, or a GGUF file of it."};
        m_model->config = std::move(config->model);
        std::error_code failed;
        const fs::path absolute = fs::canonical(folder, failed);
        m_model->config.name = failed ? path : absolute.filename().string();
        for (const std::shared_ptr<const MappedFile>& file : weights->files) keep(file);

        if (const Result<void> begun = begin(at_tokenizer, "Reading tokenizer.json"); !begun) return begun.error();
        Result<std::shared_ptr<const Tokenizer>> tokenizer = tokenizer_from_json(
            (*tokenizer_file)->bytes(), (*tokenizer_file)->path(), config->bos, std::move(config->end_tokens));
        if (!tokenizer) return tokenizer.error();
        m_model->tokenizer = std::move(*tokenizer);

        if (const Result<void> begun = begin(at_tensors, "Placing the tensors"); !begun) return begun.error();
        std::vector<std::string> ignored;
        for (std::uint32_t i = 0; i < config->extra_layers; ++i)
            ignored.push_back("model.layers." + std::to_string(m_model->config.layers + i) + ".");
        return assign_tensors(*m_model, weights->tensors, huggingface_names(m_model->config), ignored, weights->path);
    }

    void keep(const std::shared_ptr<const MappedFile>& file) {
        m_model->weights_id = m_model->weights_id * 0x100000001B3ull ^ identity(*file);
        m_model->files.push_back(file);
    }

    // FNV-1a over path, size and time of change.
    static std::uint64_t identity(const MappedFile& file) {
        std::error_code failed;
        const fs::path absolute = fs::canonical(file.path(), failed);
        const auto changed = fs::last_write_time(file.path(), failed).time_since_epoch().count();
        const std::string text =
            absolute.string() + '\n' + std::to_string(file.bytes().size()) + '\n' + std::to_string(changed);
        std::uint64_t hash = 0xCBF29CE484222325ull;
        for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ull;
        return hash;
    }

    Result<void> check_tokenizer(const std::string& path) const {
        if (m_model->tokenizer->size() <= m_model->config.vocabulary) return {};
        return Error{path + ": the tokenizer has " + grouped(m_model->tokenizer->size()) +
                         " tokens, but the embedding only " + grouped(m_model->config.vocabulary) + " rows",
                     "The tokenizer and the weights belong to different models."};
    }

    // Brings the mapped pages into memory by reading one byte of each, with progress.
    Result<void> touch_pages() const {
        constexpr std::size_t page = 4096;
        constexpr std::size_t chunk = std::size_t{32} << 20;
        for (const std::shared_ptr<const MappedFile>& file : m_model->files) {
            const std::span<const std::byte> bytes = file->bytes();
            volatile std::byte sink{};
            for (std::size_t begun = 0; begun < bytes.size(); begun += chunk) {
                const double share = static_cast<double>(begun) / static_cast<double>(bytes.size());
                const Result<void> going =
                    begin(at_weights + (1 - at_weights) * share, "Reading the weights, " + grouped(begun >> 20) + " of " +
                                                                     grouped(bytes.size() >> 20) + " MB");
                if (!going) return going.error();
                const std::size_t end = std::min(bytes.size(), begun + chunk);
                for (std::size_t at = begun; at < end; at += page) sink = bytes[at];
            }
            (void)sink;
        }
        return {};
    }

    const LoadOptions& m_options;
    std::shared_ptr<Model> m_model;
};

}  // namespace

Result<std::shared_ptr<const Model>> load_model(const std::string& path, const LoadOptions& options) {
    try {
        return Loader(options).load(path);
    } catch (const std::exception& failure) {
        return Error{path + ": cannot be loaded (" + failure.what() + ")", "Close other programs and try again."};
    }
}

}  // namespace kvloupe
