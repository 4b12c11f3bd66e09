// SPDX-License-Identifier: GPL-3.0-or-later
//
// SentencePiece-style tokenizer of GGUF files ("llama"): characters are merged while their concatenation is a token,
// highest score first, leftmost on ties; what is no token goes out as bytes. Rules: FORMATS 2.5, llama.cpp.
#pragma once

#include "engine/model/added_tokens.h"
#include "engine/model/tokenizer.h"

#include <array>
#include <unordered_map>

namespace kvloupe {

// `tokenizer.ggml.token_type`.
enum class GgufTokenType : std::uint8_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

struct SpmParts {
    std::vector<std::string> tokens;     // "▁the"
    std::vector<float> scores;
    std::vector<GgufTokenType> types;
    std::vector<AddedToken> added_tokens;  // control, unknown and user-defined tokens
    bool add_space_prefix = true;
    std::optional<TokenId> unknown;
    std::optional<TokenId> bos;
    bool adds_bos = true;
    std::vector<TokenId> end_tokens;
};

class SpmTokenizer final : public Tokenizer {
public:
    // Sizes of tokens, scores and types agree; every id in the parts is inside the vocabulary.
    explicit SpmTokenizer(SpmParts parts);

    std::vector<TokenId> encode(std::string_view text, bool parse_special) const override;
    std::string piece(TokenId token) const override;
    std::string shown(TokenId token) const override;
    std::string decode(std::span<const TokenId> tokens, bool with_special) const override;
    std::size_t size() const override { return m_parts.tokens.size(); }
    bool is_control(TokenId token) const override;
    std::string kind() const override { return "SentencePiece (llama)"; }

private:
    void encode_words(std::string_view text, std::vector<TokenId>& out) const;
    void encode_stretch(std::string_view text, std::vector<TokenId>& out) const;
    void append_bytes(std::string_view bytes, std::vector<TokenId>& out) const;
    // -1 for what merging may not make: no token, or one that stands for no text.
    TokenId mergeable(std::string_view text) const;
    bool contains(TokenId token) const { return token >= 0 && static_cast<std::size_t>(token) < size(); }

    SpmParts m_parts;
    std::unordered_map<std::string_view, TokenId> m_ids;  // normal, user-defined and unused tokens; views of m_parts
    std::size_t m_longest = 0;                            // bytes of the longest of them
    bool m_merges_stay_in_words = true;                   // no token has a space mark after something else
    std::array<TokenId, 256> m_byte_tokens;               // <0xNN>, or -1
    AddedTokenSearch m_search;
};

}  // namespace kvloupe
