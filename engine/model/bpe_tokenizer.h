// SPDX-License-Identifier: GPL-3.0-or-later
//
// Byte-pair encoding. Text -> added tokens and stretches -> normalizer -> pieces -> byte or character symbols -> merges.
// Built by tokenizer_from_gguf (gpt2) and tokenizer_from_json, which check what goes in.
#pragma once

#include "engine/model/added_tokens.h"
#include "engine/model/bpe_merges.h"
#include "engine/model/pretokenizer.h"
#include "engine/model/tokenizer.h"

#include <array>
#include <unordered_map>
#include <utility>

namespace kvloupe {

// Hugging Face: Prepend (only to a text that is not empty) and Replace (of a literal), in order.
struct NormalizerStep {
    bool prepend = false;
    std::string pattern;      // replace
    std::string content;      // what is put in front, or in place of the pattern
};

struct BpeParts {
    std::string kind;
    std::vector<std::string> tokens;     // as the file writes them, id = index
    std::vector<bool> added;             // literal text, not made of merges
    std::vector<bool> control;           // never part of running text
    BpeMerges merges;
    std::vector<AddedToken> added_tokens;
    std::vector<NormalizerStep> normalizer;
    Pretokenizer pretokenizer;
    bool byte_level = true;              // tokens are written in the byte alphabet
    bool byte_fallback = false;          // characters that are no token become <0xNN>
    bool fuse_unknown = false;
    bool ignore_merges = false;
    bool strips_leading_space = false;
    std::optional<TokenId> unknown;
    std::optional<TokenId> bos;
    bool adds_bos = false;
    std::vector<TokenId> end_tokens;
    std::vector<std::pair<std::string, std::string>> piece_replacements;  // decoder: "▁" is " "
};

class BpeTokenizer final : public Tokenizer {
public:
    // Sizes of tokens, added and control agree; every id in the parts is inside the vocabulary.
    explicit BpeTokenizer(BpeParts parts);

    std::vector<TokenId> encode(std::string_view text, bool parse_special) const override;
    std::string piece(TokenId token) const override;
    std::string shown(TokenId token) const override;
    std::string decode(std::span<const TokenId> tokens, bool with_special) const override;
    std::size_t size() const override { return m_parts.tokens.size(); }
    bool is_control(TokenId token) const override;
    std::string kind() const override { return m_parts.kind; }

private:
    void encode_stretch(std::string_view text, std::vector<TokenId>& out) const;
    void encode_piece(std::string_view piece, std::vector<TokenId>& out) const;
    void append_byte_symbols(std::string_view piece, std::vector<TokenId>& out) const;
    void append_character_symbols(std::string_view piece, std::vector<TokenId>& out) const;
    // <0xNN> for every byte, or false (nothing appended) where one is missing.
    bool append_fallback(std::string_view bytes, std::vector<TokenId>& out) const;
    std::string normalized(std::string_view text) const;
    bool contains(TokenId token) const { return token >= 0 && static_cast<std::size_t>(token) < size(); }

    BpeParts m_parts;
    std::vector<std::string> m_pieces;                          // id -> raw bytes
    std::unordered_map<std::string_view, TokenId> m_ids;        // raw piece -> id, no added tokens; views of m_pieces
    std::array<TokenId, 256> m_byte_tokens;                     // byte level: the byte's symbol; else <0xNN>; or -1
    AddedTokenSearch m_raw_search;
    AddedTokenSearch m_normalized_search;
};

}  // namespace kvloupe
