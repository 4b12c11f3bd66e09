// SPDX-License-Identifier: GPL-3.0-or-later
//
// tokenizer.json of Hugging Face tokenizers (FORMATS 2.5): the vocabulary, its added tokens and the model's settings.
// The stages around the model are read in tokenizer_json_stages.cpp. What would change ids and is not built is refused.
#include "engine/model/bpe_tokenizer.h"
#include "engine/model/json_document.h"
#include "engine/model/message.h"
#include "engine/model/tokenizer_json.h"

#include <new>
#include <unordered_map>

namespace kvloupe {

using nlohmann::json;

namespace {

class StageReader {
public:
    StageReader(const json& root, JsonTokenizerSource source) : m_root(root), m_source(std::move(source)) {}

    BpeParts read() {
        const json* const model = member(m_root, "model");
        if (model == nullptr || !model->is_object()) refuse("the key 'model' is missing or no object");
        read_kind(*model);
        read_vocabulary(*model);
        read_added_tokens();
        check_gaps();
        read_settings(*model);
        read_merges(*model);
        read_stages(m_root, m_parts);
        set_special_ids();
        return std::move(m_parts);
    }

private:
    void read_kind(const json& model) const {
        const json* const type = member(model, "type");
        if (type == nullptr) {
            if (member(model, "merges") == nullptr) refuse("the keys 'model.type' and 'model.merges' are missing");
            return;
        }
        if (!type->is_string()) refuse("the key 'model.type' is " + describe(*type) + ", not a string");
        const std::string& name = type->get_ref<const std::string&>();
        if (name != "BPE") refuse("the tokenizer kind " + in_quotes(name) + " ('model.type') is not supported", "Only 'BPE' is.");
    }

    // Puts a token at its id; `where` names the place in errors.
    void place(const std::string& content, const json& value, const std::string& where, std::size_t limit) {
        if (!value.is_number_unsigned()) {
            refuse(where + ": the id of " + in_quotes(content) + " is " + describe(value) + ", not a whole number from 0");
        }
        const auto id = value.get<std::uint64_t>();
        if (id >= limit) {
            refuse(where + ": the id " + std::to_string(id) + " of " + in_quotes(content) + " leaves a gap: there are only " +
                   grouped(limit) + " tokens");
        }
        const auto index = static_cast<std::size_t>(id);
        if (m_present[index] && m_parts.tokens[index] != content) {
            refuse(where + ": the id " + std::to_string(id) + " is that of " + in_quotes(m_parts.tokens[index]) + " and of " +
                   in_quotes(content));
        }
        const auto [it, inserted] = m_ids.try_emplace(content, static_cast<TokenId>(id));
        if (!inserted && it->second != static_cast<TokenId>(id)) {
            refuse(where + ": " + in_quotes(content) + " has the ids " + std::to_string(it->second) + " and " +
                   std::to_string(id));
        }
        m_present[index] = true;
        m_parts.tokens[index] = content;
    }

    void read_vocabulary(const json& model) {
        const json* const vocabulary = member(model, "vocab");
        if (vocabulary == nullptr || !vocabulary->is_object() || vocabulary->empty()) {
            refuse("the key 'model.vocab' is missing or no object with tokens");
        }
        const json* const added = member(m_root, "added_tokens");
        if (added != nullptr && !added->is_array()) refuse("the key 'added_tokens' is " + describe(*added) + ", not a list");
        const std::size_t limit = vocabulary->size() + (added == nullptr ? 0 : added->size());
        m_parts.tokens.resize(limit);
        m_present.resize(limit);
        m_ids.reserve(limit);
        for (const auto& [content, id] : vocabulary->items()) place(content, id, "model.vocab", limit);
    }

    void read_added_tokens() {
        m_parts.added.resize(m_parts.tokens.size());
        m_parts.control.resize(m_parts.tokens.size());
        const json* const list = member(m_root, "added_tokens");
        if (list == nullptr) return;
        for (std::size_t i = 0; i < list->size(); ++i) {
            const json& entry = (*list)[i];
            const std::string where = "added_tokens[" + std::to_string(i) + "]";
            if (!entry.is_object()) refuse(where + " is " + describe(entry) + ", not an object");
            AddedToken token;
            token.content = string_of(entry, "content", where);
            const json* const id = member(entry, "id");
            if (id == nullptr) refuse(where + " has no 'id'");
            place(token.content, *id, where, m_parts.tokens.size());
            token.id = static_cast<TokenId>(id->get<std::uint64_t>());
            token.single_word = flag_of(entry, "single_word", false, where);
            token.lstrip = flag_of(entry, "lstrip", false, where);
            token.rstrip = flag_of(entry, "rstrip", false, where);
            token.special = flag_of(entry, "special", false, where);
            token.normalized = flag_of(entry, "normalized", !token.special, where);
            const auto index = static_cast<std::size_t>(token.id);
            m_parts.added[index] = true;
            if (token.special) m_parts.control[index] = true;
            if (!token.content.empty()) m_parts.added_tokens.push_back(std::move(token));
        }
    }

    // Added tokens that repeat the vocabulary's leave room at the end, nothing else may be empty.
    void check_gaps() {
        const std::size_t count = m_ids.size();
        for (std::size_t id = 0; id < count; ++id) {
            if (!m_present[id]) refuse("no token has the id " + std::to_string(id) + ", but some have higher ids");
        }
        m_parts.tokens.resize(count);
        m_parts.added.resize(count);
        m_parts.control.resize(count);
    }

    void read_settings(const json& model) {
        for (const char* const key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
            const json* const value = member(model, key);
            if (value == nullptr || (value->is_string() && value->get_ref<const std::string&>().empty())) continue;
            refuse(std::string("'model.") + key + "' is " + describe(*value) + ", which is not supported");
        }
        const json* const dropout = member(model, "dropout");
        if (dropout != nullptr && !(dropout->is_number() && dropout->get<double>() == 0.0)) {
            refuse("'model.dropout' is " + describe(*dropout) + ": tokens would be drawn by chance, which is not supported");
        }
        m_parts.byte_fallback = flag_of(model, "byte_fallback", false, "model");
        m_parts.fuse_unknown = flag_of(model, "fuse_unk", false, "model");
        m_parts.ignore_merges = flag_of(model, "ignore_merges", false, "model");
        if (member(model, "unk_token") != nullptr) {
            const std::string unknown = string_of(model, "unk_token", "model");
            const auto it = m_ids.find(unknown);
            if (it == m_ids.end()) refuse("'model.unk_token' is " + in_quotes(unknown) + ", which is no token");
            m_parts.unknown = it->second;
        }
    }

    // "a b" or ["a", "b"].
    void read_merges(const json& model) {
        const json* const merges = member(model, "merges");
        if (merges == nullptr || !merges->is_array()) refuse("the key 'model.merges' is missing or no list");
        for (std::size_t i = 0; i < merges->size(); ++i) {
            const json& merge = (*merges)[i];
            std::string left;
            std::string right;
            if (merge.is_string()) {
                const std::string& both = merge.get_ref<const std::string&>();
                const std::size_t space = both.find(' ');
                if (space != std::string::npos && both.find(' ', space + 1) == std::string::npos) {
                    left = both.substr(0, space);
                    right = both.substr(space + 1);
                }
            } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
                left = merge[0].get<std::string>();
                right = merge[1].get<std::string>();
            }
            if (left.empty() || right.empty()) {
                refuse("model.merges[" + std::to_string(i) + "] is " + describe(merge) + ", not two tokens");
            }
            add_merge(i, left, right);
        }
    }

    void add_merge(std::size_t i, const std::string& left, const std::string& right) {
        const std::string name = "model.merges[" + std::to_string(i) + "] (" + in_quotes(left + ' ' + right) + ")";
        TokenId ids[3];
        const std::string texts[3] = {left, right, left + right};
        for (int n = 0; n < 3; ++n) {
            const auto it = m_ids.find(texts[n]);
            if (it == m_ids.end()) refuse(name + " names " + in_quotes(texts[n]) + ", which is no token");
            ids[n] = it->second;
        }
        if (!m_parts.merges.add(ids[0], ids[1], ids[2])) refuse(name + " stands twice in the list");
    }

    void set_special_ids() {
        const std::size_t count = m_parts.tokens.size();
        const auto check = [count](TokenId id, const char* key) {
            if (id < 0 || static_cast<std::size_t>(id) >= count) {
                refuse(std::string(key) + " is " + std::to_string(id) + ", but there are only " + grouped(count) + " tokens",
                       "config.json and tokenizer.json belong to different models.");
            }
        };
        if (m_source.bos) check(*m_source.bos, "bos_token_id");
        for (const TokenId id : m_source.end_tokens) check(id, "eos_token_id");
        if (!m_parts.bos) m_parts.bos = m_source.bos;
        m_parts.end_tokens = std::move(m_source.end_tokens);
        m_parts.kind = m_parts.byte_level ? "byte-level BPE (tokenizer.json)" : "BPE (tokenizer.json)";
    }

    const json& m_root;
    JsonTokenizerSource m_source;
    BpeParts m_parts;
    std::vector<bool> m_present;  // ids that have a token
    TokenIds m_ids;
};

}  // namespace

Result<std::shared_ptr<const Tokenizer>> tokenizer_from_json(std::span<const std::byte> bytes,
                                                             const std::string& file_name, std::optional<TokenId> bos,
                                                             std::vector<TokenId> end_tokens) {
    try {
        Result<json> root = parse_json(bytes, file_name);
        if (!root) return root.error();
        if (!root->is_object()) return Error{file_name + ": it is " + describe(*root) + ", not an object", "Name a tokenizer.json."};
        BpeParts parts = StageReader(*root, {bos, std::move(end_tokens)}).read();
        return std::shared_ptr<const Tokenizer>(std::make_shared<BpeTokenizer>(std::move(parts)));
    } catch (const Refused& refused) {
        return Error{file_name + ": " + refused.error.sentence, refused.error.hint};
    } catch (const std::exception& e) {
        return Error{file_name + ": the tokenizer cannot be read: " + e.what(), ""};
    }
}

}  // namespace kvloupe
