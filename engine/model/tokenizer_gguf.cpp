// SPDX-License-Identifier: GPL-3.0-or-later
//
// Tokenizers from the metadata of GGUF files: keys tokenizer.ggml.* (FORMATS 2.5; defaults are llama.cpp's).
#include "engine/model/bpe_tokenizer.h"
#include "engine/model/gguf.h"
#include "engine/model/message.h"
#include "engine/model/spm_tokenizer.h"
#include "engine/model/token_text.h"
#include "engine/model/utf8.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <unordered_map>

namespace kvloupe {

namespace {

constexpr std::size_t largest_vocabulary = std::size_t{1} << 24;
constexpr std::uint64_t no_token = 0xFFFFFFFFu;  // how files write "there is none"

// What both kinds read.
struct GgufVocabulary {
    std::vector<std::string> tokens;
    std::vector<GgufTokenType> types;
    std::unordered_map<std::string_view, TokenId> ids;  // views of tokens
    std::optional<TokenId> bos, unknown;
    std::optional<bool> adds_bos;
    std::vector<TokenId> end_tokens;
    std::vector<AddedToken> added;
};

class VocabularyReader {
public:
    explicit VocabularyReader(const GgufFile& file) : m_file(file) {}

    Result<std::shared_ptr<const Tokenizer>> read() {
        const std::string* const model = m_file.string("tokenizer.ggml.model");
        if (model == nullptr) {
            return refuse("it has no tokenizer: the key 'tokenizer.ggml.model' is missing or no string",
                          "Use a file that was converted together with its vocabulary.");
        }
        if (*model != "llama" && *model != "gpt2") {
            return refuse("the tokenizer kind " + in_quotes(*model) + " ('tokenizer.ggml.model') is not supported",
                          "Supported are 'llama' (SentencePiece) and 'gpt2' (byte-level BPE).");
        }
        if (Result<void> r = read_vocabulary(*model == "llama"); !r) return r.error();
        return *model == "llama" ? spm() : bpe();
    }

private:
    Error refuse(const std::string& what, std::string hint = "The file is damaged; get it again from where it came from.") const {
        return Error{m_file.path + ": " + what, std::move(hint)};
    }

    Result<void> read_vocabulary(bool is_spm) {
        if (Result<void> r = read_tokens(); !r) return r;
        if (Result<void> r = read_types(is_spm); !r) return r;
        if (Result<void> r = read_special_ids(is_spm); !r) return r;
        if (m_file.metadata.count("tokenizer.ggml.add_bos_token") != 0) {
            m_vocabulary.adds_bos = m_file.boolean("tokenizer.ggml.add_bos_token");
            if (!m_vocabulary.adds_bos) return refuse("the key 'tokenizer.ggml.add_bos_token' is no truth value");
        }
        read_added_tokens();
        return {};
    }

    Result<void> read_tokens() {
        const GgufArray* const tokens = m_file.array("tokenizer.ggml.tokens");
        if (tokens == nullptr || tokens->strings.empty()) {
            return refuse("the key 'tokenizer.ggml.tokens' is missing or no list of strings");
        }
        if (tokens->strings.size() > largest_vocabulary) {
            return refuse("the key 'tokenizer.ggml.tokens' has " + grouped(tokens->strings.size()) + " entries, more than " +
                          grouped(largest_vocabulary));
        }
        auto& list = m_vocabulary.tokens;
        list.assign(tokens->strings.begin(), tokens->strings.end());
        m_vocabulary.ids.reserve(list.size());
        for (std::size_t id = 0; id < list.size(); ++id) {
            const auto [it, inserted] = m_vocabulary.ids.try_emplace(list[id], static_cast<TokenId>(id));
            if (!inserted && !list[id].empty()) {
                return refuse("the tokens " + std::to_string(it->second) + " and " + std::to_string(id) + " are both " +
                              in_quotes(list[id]));
            }
        }
        return {};
    }

    Result<void> read_types(bool is_spm) {
        const std::size_t count = m_vocabulary.tokens.size();
        m_vocabulary.types.assign(count, GgufTokenType::normal);
        if (m_file.metadata.count("tokenizer.ggml.token_type") == 0) {
            for (std::size_t id = 0; is_spm && id < count; ++id) {
                if (byte_of_name(m_vocabulary.tokens[id]) >= 0) m_vocabulary.types[id] = GgufTokenType::byte;
            }
            return {};
        }
        const GgufArray* const types = m_file.array("tokenizer.ggml.token_type");
        if (types == nullptr || types->numbers.size() != count) {
            return refuse("the key 'tokenizer.ggml.token_type' is not one number for each of the " + grouped(count) + " tokens");
        }
        m_has_types = true;
        for (std::size_t id = 0; id < count; ++id) {
            const double type = types->numbers[id];
            if (!(type >= 1 && type <= 6) || type != std::floor(type)) {
                return refuse("the key 'tokenizer.ggml.token_type' has the value " + std::to_string(type) + " for token " +
                                  std::to_string(id), "Known are 1 to 6.");
            }
            m_vocabulary.types[id] = static_cast<GgufTokenType>(static_cast<int>(type));
        }
        return {};
    }

    // The id under a key, nothing where the key is absent or says that there is none.
    Result<std::optional<TokenId>> token_id(const std::string& key) const {
        if (m_file.metadata.count(key) == 0) return std::optional<TokenId>();
        const std::optional<std::uint64_t> id = m_file.unsigned_integer(key);
        if (id && *id == no_token) return std::optional<TokenId>();
        if (!id || *id >= m_vocabulary.tokens.size()) {
            return refuse("the key " + in_quotes(key) + (id ? " is " + std::to_string(*id) : " is no token id") +
                          ", but the vocabulary has " + grouped(m_vocabulary.tokens.size()) + " tokens");
        }
        return std::optional<TokenId>(static_cast<TokenId>(*id));
    }

    // Where the key is absent, SentencePiece vocabularies have <unk> 0, <s> 1, </s> 2.
    std::optional<TokenId> spm_default(TokenId id, bool is_spm, const std::string& key) const {
        const auto index = static_cast<std::size_t>(id);
        if (!is_spm || m_file.metadata.count(key) != 0 || index >= m_vocabulary.tokens.size()) return std::nullopt;
        const GgufTokenType type = m_vocabulary.types[index];
        const bool fits = type == GgufTokenType::control || type == GgufTokenType::unknown;
        return fits ? std::optional<TokenId>(id) : std::nullopt;
    }

    Result<void> read_special_ids(bool is_spm) {
        const auto read_id = [&](const std::string& name, TokenId otherwise,
                                 std::optional<TokenId>& id) -> Result<void> {
            const std::string key = "tokenizer.ggml." + name;
            Result<std::optional<TokenId>> value = token_id(key);
            if (!value) return value.error();
            id = *value ? *value : otherwise < 0 ? std::nullopt : spm_default(otherwise, is_spm, key);
            return {};
        };
        std::optional<TokenId> eos, eot;
        if (Result<void> r = read_id("bos_token_id", 1, m_vocabulary.bos); !r) return r;
        if (Result<void> r = read_id("eos_token_id", 2, eos); !r) return r;
        if (Result<void> r = read_id("eot_token_id", -1, eot); !r) return r;
        if (Result<void> r = read_id("unknown_token_id", 0, m_vocabulary.unknown); !r) return r;
        auto& types = m_vocabulary.types;
        if (!m_has_types) {
            if (m_vocabulary.unknown) types[static_cast<std::size_t>(*m_vocabulary.unknown)] = GgufTokenType::unknown;
            for (const std::optional<TokenId>& id : {m_vocabulary.bos, eos, eot}) {
                if (id) types[static_cast<std::size_t>(*id)] = GgufTokenType::control;
            }
        }
        for (const std::optional<TokenId>& id : {eos, eot}) {
            if (id) add_end_token(*id);
        }
        for (std::size_t id = 0; id < types.size(); ++id) {
            const bool named = types[id] == GgufTokenType::control || types[id] == GgufTokenType::user_defined;
            if (named && is_end_of_turn_name(m_vocabulary.tokens[id])) add_end_token(static_cast<TokenId>(id));
        }
        return {};
    }

    void add_end_token(TokenId id) {
        auto& list = m_vocabulary.end_tokens;
        if (std::find(list.begin(), list.end(), id) == list.end()) list.push_back(id);
    }

    // Files do not say which tokens swallow the white space after them; llama.cpp knows it of Phi-3 by its name.
    bool is_phi3() const {
        const std::string* const name = m_file.string("general.name");
        if (name == nullptr) return false;
        std::string lower = *name;
        std::transform(lower.begin(), lower.end(), lower.begin(),
                       [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
        return lower.find("phi-3") != std::string::npos || lower.find("phi3") != std::string::npos;
    }

    void read_added_tokens() {
        const bool phi3 = is_phi3();
        for (std::size_t id = 0; id < m_vocabulary.tokens.size(); ++id) {
            const GgufTokenType type = m_vocabulary.types[id];
            const bool special = type == GgufTokenType::control || type == GgufTokenType::unknown;
            if (!special && type != GgufTokenType::user_defined) continue;
            AddedToken token;
            token.id = static_cast<TokenId>(id);
            token.content = m_vocabulary.tokens[id];
            token.special = special;
            token.rstrip = phi3 && token.content != "<unk>" && token.content != "<s>" && token.content != "<|endoftext|>";
            m_vocabulary.added.push_back(std::move(token));
        }
    }

    Result<std::shared_ptr<const Tokenizer>> spm() {
        SpmParts parts;
        const GgufArray* const scores = m_file.array("tokenizer.ggml.scores");
        if (scores == nullptr || scores->numbers.size() != m_vocabulary.tokens.size()) {
            return refuse("the key 'tokenizer.ggml.scores' is missing or not one number for each of the " +
                          grouped(m_vocabulary.tokens.size()) + " tokens");
        }
        parts.scores.reserve(scores->numbers.size());
        for (std::size_t id = 0; id < scores->numbers.size(); ++id) {
            if (!std::isfinite(scores->numbers[id])) {
                return refuse("the key 'tokenizer.ggml.scores' has no finite value for token " + std::to_string(id));
            }
            parts.scores.push_back(static_cast<float>(scores->numbers[id]));
        }
        if (m_file.metadata.count("tokenizer.ggml.add_space_prefix") != 0) {
            const std::optional<bool> prefix = m_file.boolean("tokenizer.ggml.add_space_prefix");
            if (!prefix) return refuse("the key 'tokenizer.ggml.add_space_prefix' is no truth value");
            parts.add_space_prefix = *prefix;
        }
        parts.types = std::move(m_vocabulary.types);
        parts.added_tokens = std::move(m_vocabulary.added);
        parts.unknown = m_vocabulary.unknown;
        parts.bos = m_vocabulary.bos;
        parts.adds_bos = m_vocabulary.adds_bos.value_or(true);
        parts.end_tokens = std::move(m_vocabulary.end_tokens);
        m_vocabulary.ids.clear();
        parts.tokens = std::move(m_vocabulary.tokens);
        return std::shared_ptr<const Tokenizer>(std::make_shared<SpmTokenizer>(std::move(parts)));
    }

    Result<void> read_merges(BpeMerges& out) const {
        const GgufArray* const merges = m_file.array("tokenizer.ggml.merges");
        if (merges == nullptr || merges->element_type != 8) {
            return refuse("the key 'tokenizer.ggml.merges' is missing or no list of strings");
        }
        for (std::size_t i = 0; i < merges->strings.size(); ++i) {
            const std::string_view merge = merges->strings[i];
            const std::size_t space = merge.find(' ', 1);
            if (space == std::string_view::npos) {
                return refuse("merge " + std::to_string(i) + " (" + in_quotes(merge) + ") is not two tokens with a space between");
            }
            const std::string_view left = merge.substr(0, space);
            const std::string_view right = merge.substr(space + 1);
            std::string whole(left);
            whole += right;
            TokenId ids[3];
            const std::string_view names[3] = {left, right, whole};
            for (int n = 0; n < 3; ++n) {
                const auto it = m_vocabulary.ids.find(names[n]);
                if (it == m_vocabulary.ids.end() || names[n].empty()) {
                    return refuse("merge " + std::to_string(i) + " (" + in_quotes(merge) + ") names " + in_quotes(names[n]) +
                                  ", which is no token");
                }
                ids[n] = it->second;
            }
            if (!out.add(ids[0], ids[1], ids[2])) {
                return refuse("merge " + std::to_string(i) + " (" + in_quotes(merge) + ") stands twice in 'tokenizer.ggml.merges'");
            }
        }
        return {};
    }

    Result<std::shared_ptr<const Tokenizer>> bpe() {
        const std::string* const name = m_file.string("tokenizer.ggml.pre");
        if (name == nullptr && m_file.metadata.count("tokenizer.ggml.pre") != 0) {
            return refuse("the key 'tokenizer.ggml.pre' is no string");
        }
        Result<NamedPretokenizer> pre = pretokenizer_named(name == nullptr ? "default" : *name);
        if (!pre) return refuse(pre.error().sentence + " ('tokenizer.ggml.pre')", pre.error().hint);
        BpeParts parts;
        if (Result<void> r = read_merges(parts.merges); !r) return r.error();
        parts.kind = "byte-level BPE (" + pre->name + ")";
        parts.pretokenizer = std::move(pre->pretokenizer);
        parts.ignore_merges = pre->ignore_merges;
        parts.added.resize(m_vocabulary.tokens.size());
        parts.control.resize(m_vocabulary.tokens.size());
        for (const AddedToken& token : m_vocabulary.added) {
            parts.added[static_cast<std::size_t>(token.id)] = true;
            parts.control[static_cast<std::size_t>(token.id)] = token.special;
        }
        parts.added_tokens = std::move(m_vocabulary.added);
        parts.bos = m_vocabulary.bos;
        parts.adds_bos = m_vocabulary.adds_bos.value_or(pre->adds_bos);
        parts.end_tokens = std::move(m_vocabulary.end_tokens);
        m_vocabulary.ids.clear();
        parts.tokens = std::move(m_vocabulary.tokens);
        return std::shared_ptr<const Tokenizer>(std::make_shared<BpeTokenizer>(std::move(parts)));
    }

    const GgufFile& m_file;
    GgufVocabulary m_vocabulary;
    bool m_has_types = false;
};

}  // namespace

Result<std::shared_ptr<const Tokenizer>> tokenizer_from_gguf(const GgufFile& file) {
    try {
        return VocabularyReader(file).read();
    } catch (const std::bad_alloc&) {
        return Error{file.path + ": there is not enough memory for its tokenizer", ""};
    }
}

}  // namespace kvloupe
