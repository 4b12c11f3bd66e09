// SPDX-License-Identifier: GPL-3.0-or-later
//
// MODEL of `kvloupe tokenize`: which kind of file it is, and what stands beside a tokenizer.json.
#include "engine/model/gguf.h"
#include "engine/model/json_document.h"
#include "engine/model/mapped_file.h"
#include "engine/model/message.h"
#include "engine/model/tokenizer.h"

#include <cstring>
#include <filesystem>
#include <limits>

namespace kvloupe {

namespace {

namespace fs = std::filesystem;

struct ConfigIds {
    std::optional<TokenId> bos;
    std::vector<TokenId> end_tokens;
};

bool as_token_id(const nlohmann::json& value, TokenId& id) {
    if (!value.is_number_unsigned()) return false;
    const auto number = value.get<std::uint64_t>();
    if (number > static_cast<std::uint64_t>(std::numeric_limits<TokenId>::max())) return false;
    id = static_cast<TokenId>(number);
    return true;
}

// bos_token_id, and eos_token_id: an integer or a list of them. Nothing where the file or key is absent.
Result<ConfigIds> ids_of_config(const fs::path& path) {
    std::error_code ignored;
    if (!fs::exists(path, ignored)) return ConfigIds{};
    Result<std::shared_ptr<const MappedFile>> file = MappedFile::open(path.string());
    if (!file) return file.error();
    Result<nlohmann::json> config = parse_json((*file)->bytes(), path.string());
    if (!config) return config.error();
    if (!config->is_object()) return Error{path.string() + ": it is no JSON object", ""};
    ConfigIds ids;
    TokenId id = 0;
    if (const auto bos = config->find("bos_token_id"); bos != config->end() && as_token_id(*bos, id)) ids.bos = id;
    const auto eos = config->find("eos_token_id");
    if (eos == config->end() || eos->is_null()) return ids;
    const nlohmann::json list = eos->is_array() ? *eos : nlohmann::json::array({*eos});
    for (const nlohmann::json& entry : list) {
        if (!as_token_id(entry, id)) {
            return Error{path.string() + ": eos_token_id " + in_quotes(entry.dump()) + " is no token id",
                         "It is a whole number, or a list of them."};
        }
        ids.end_tokens.push_back(id);
    }
    return ids;
}

Result<std::shared_ptr<const Tokenizer>> from_folder(const fs::path& folder) {
    const fs::path file_name = folder / "tokenizer.json";
    std::error_code ignored;
    if (!fs::exists(file_name, ignored)) {
        return Error{folder.string() + ": the folder has no tokenizer.json",
                     "Name a GGUF file, a tokenizer.json, or a folder that has one."};
    }
    Result<ConfigIds> ids = ids_of_config(folder / "config.json");
    if (!ids) return ids.error();
    Result<std::shared_ptr<const MappedFile>> file = MappedFile::open(file_name.string());
    if (!file) return file.error();
    return tokenizer_from_json((*file)->bytes(), file_name.string(), ids->bos, ids->end_tokens);
}

}  // namespace

Result<std::shared_ptr<const Tokenizer>> load_tokenizer(const std::string& path) {
    try {
        std::error_code ignored;
        if (fs::is_directory(path, ignored)) return from_folder(path);
        Result<std::shared_ptr<const MappedFile>> file = MappedFile::open(path);
        if (!file) return file.error();
        const std::span<const std::byte> bytes = (*file)->bytes();
        if (bytes.size() >= 4 && std::memcmp(bytes.data(), "GGUF", 4) == 0) {
            Result<GgufFile> gguf = parse_gguf(bytes, path);
            if (!gguf) return gguf.error();
            return tokenizer_from_gguf(*gguf);
        }
        return tokenizer_from_json(bytes, path, std::nullopt, {});
    } catch (const std::exception& e) {
        return Error{path + ": the tokenizer cannot be read: " + e.what(), ""};
    }
}

}  // namespace kvloupe
