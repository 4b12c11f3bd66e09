// SPDX-License-Identifier: GPL-3.0-or-later
//
// Tokens that are found in a text before anything else: special tokens and those added to a vocabulary. The longest at
// the leftmost place wins. Rules: Hugging Face tokenizers, AddedVocabulary; GGUF files use the same search.
#pragma once

#include "engine/model/text_regex.h"
#include "engine/record/ids.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace kvloupe {

struct AddedToken {
    TokenId id = 0;
    std::string content;
    bool single_word = false;  // only where no letter, digit or '_' touches it
    bool lstrip = false;       // takes the white space before it
    bool rstrip = false;       // takes the white space after it
    bool special = false;      // found only when special text counts
    bool normalized = false;   // looked for in the normalized text
};

// A stretch of text, or one added token.
struct TextFragment {
    std::string_view text;   // empty for a token
    TokenId token = -1;      // -1 for text
};

class AddedTokenSearch {
public:
    AddedTokenSearch() = default;
    explicit AddedTokenSearch(std::vector<AddedToken> tokens);

    bool empty() const { return m_tokens.empty(); }

    // The text in order; empty stretches are left out. parse_special = false: special tokens stay text.
    void split(std::string_view text, bool parse_special, std::vector<TextFragment>& out) const;

private:
    // The longest token that stands at `at`, or nullptr.
    const AddedToken* longest_at(std::string_view text, std::size_t at) const;

    std::vector<AddedToken> m_tokens;
    std::array<bool, 256> m_starts{};                          // bytes that a token begins with
    std::unordered_map<std::uint64_t, std::uint32_t> m_edges;  // node * 256 + byte -> node; node 0 is the root
    std::vector<std::int32_t> m_ends;                          // node -> index into m_tokens, or -1
    std::optional<TextRegex> m_word;                           // \w, if a token is single_word
};

}  // namespace kvloupe
