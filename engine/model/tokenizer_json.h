// SPDX-License-Identifier: GPL-3.0-or-later
//
// Inside of tokenizer_from_json, shared by its two files. For .cpp files only: it brings nlohmann's header.
// Reading refuses by an exception that never leaves tokenizer_from_json: a reader of thirty keys stays readable.
#pragma once

#include "engine/model/bpe_tokenizer.h"

#include <nlohmann/json.hpp>

#include <string>
#include <unordered_map>
#include <vector>

namespace kvloupe {

struct Refused {
    Error error;  // the sentence without the file's name
};

[[noreturn]] void refuse(std::string sentence, std::string hint = "Use the tokenizer.json that belongs to the model.");

// What the model's config says beside the file.
struct JsonTokenizerSource {
    std::optional<TokenId> bos;
    std::vector<TokenId> end_tokens;
};

using TokenIds = std::unordered_map<std::string, TokenId>;

// nullptr where the key is absent or null. `object` is an object.
const nlohmann::json* member(const nlohmann::json& object, const char* key);
bool flag_of(const nlohmann::json& object, const char* key, bool otherwise, const std::string& where);
std::string string_of(const nlohmann::json& object, const char* key, const std::string& where);

// normalizer, pre_tokenizer, post_processor and decoder (parts.tokens is read); what is not built is refused by name.
void read_stages(const nlohmann::json& root, BpeParts& parts);

}  // namespace kvloupe
