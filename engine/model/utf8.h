// SPDX-License-Identifier: GPL-3.0-or-later
//
// UTF-8 over bytes that may be anything: what is no character is seen as single bytes, never skipped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace kvloupe {

struct Utf8Char {
    char32_t code = 0;         // 0xFFFD where !valid
    std::size_t length = 0;    // bytes; 0 only at the end of the text
    bool valid = false;        // a whole character (no surrogate, not overlong, <= U+10FFFF)
    bool incomplete = false;   // not valid, but the text ends where more bytes could still make a character
};

// The character at `at`. Not valid: `length` bytes are a maximal subpart (Unicode 3.9, U+FFFD substitution), >= 1.
Utf8Char utf8_at(std::string_view text, std::size_t at);

void append_utf8(std::string& out, char32_t code);

// Maximal subparts become U+FFFD.
std::string to_valid_utf8(std::string_view bytes);

// White_Space of the Unicode character database.
bool is_unicode_space(char32_t code);

// Characters (bytes where there is none) of white space at the end or the front of a text, in bytes.
std::size_t trailing_space_bytes(std::string_view text);
std::size_t leading_space_bytes(std::string_view text);

// "<0xE4>": the name of a byte in vocabularies with byte fallback and in labels.
std::string byte_name(unsigned char byte);
// The byte that "<0xE4>" names, or -1.
int byte_of_name(std::string_view name);

}  // namespace kvloupe
