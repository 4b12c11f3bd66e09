// SPDX-License-Identifier: GPL-3.0-or-later
//
// Regular expressions of tokenizers. They are written for Oniguruma (Hugging Face tokenizers) or in the subset that
// llama.cpp uses; both mean the same here, on PCRE2 with Unicode properties.
// Non-goal: all of Oniguruma. What PCRE2 reads differently is translated or refused by name, never guessed.
#pragma once

#include "engine/record/result.h"

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kvloupe {

struct TextRange {
    std::size_t begin = 0;  // bytes
    std::size_t end = 0;
    bool empty() const { return begin == end; }
    friend bool operator==(const TextRange&, const TextRange&) = default;
};

class TextRegex {
public:
    // Errors name the construct that is not supported, or the compiler's complaint and its place.
    static Result<TextRegex> compile(std::string_view pattern);

    // Matches from left to right, not overlapping; an empty match right after a match is skipped (as Oniguruma's
    // iterator does). `text` must be valid UTF-8. A pattern that backtracks without end stops at a limit proportional
    // to the text: the matches found until then count. Any thread.
    std::vector<TextRange> matches(std::string_view text) const;

private:
    TextRegex() = default;
    std::shared_ptr<const void> m_code;  // pcre2_code
};

// The pattern as PCRE2 takes it. Separate for its tests.
Result<std::string> translate_oniguruma(std::string_view pattern);

}  // namespace kvloupe
