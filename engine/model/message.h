// SPDX-License-Identifier: GPL-3.0-or-later
//
// Pieces of error sentences about files. What a file says is hostile until shown otherwise: names are cut and escaped
// before they reach a person's screen.
#pragma once

#include <algorithm>
#include <cstdint>
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

// 1234567 -> "1,234,567".
inline std::string grouped(std::uint64_t number) {
    std::string digits = std::to_string(number);
    for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
    return digits;
}

// a * b, or false when it does not fit in 64 bits.
inline bool multiply(std::uint64_t a, std::uint64_t b, std::uint64_t& product) {
    return !__builtin_mul_overflow(a, b, &product);
}

}  // namespace kvloupe
