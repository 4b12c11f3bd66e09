// SPDX-License-Identifier: GPL-3.0-or-later
//
// Pieces of error sentences about files. What a file says is hostile until shown otherwise: names are cut and escaped
// before they reach a person's screen.
#pragma once

#include "engine/record/grouped.h"

#include <algorithm>
#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>

namespace kvloupe {

// 'name' in quotes (std::quoted would escape, not clean), at most `limit` bytes of it; bytes that are not printable ASCII become \xNN.
inline std::string in_quotes(std::string_view name, std::size_t limit = 64) {
    static constexpr char hex[] = "0123456789ABCDEF";
    std::string out = "'";
    for (const char c : name.substr(0, std::min(limit, name.size()))) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte >= 0x20 && byte < 0x7F) {
            out += c;
        } else {
            out += "\\x";
            out += hex[byte >> 4];
            out += hex[byte & 15];
        }
    }
    if (name.size() > limit) out += "...";
    out += '\'';
    return out;
}

// 1e-06 and 10000, as a person writes them.
inline std::string shortest(double number) {
    std::ostringstream text;
    text << number;
    return text.str();
}

// a * b, or false when it does not fit in 64 bits.
inline bool multiply(std::uint64_t a, std::uint64_t b, std::uint64_t& product) {
    return !__builtin_mul_overflow(a, b, &product);
}

}  // namespace kvloupe
