// SPDX-License-Identifier: GPL-3.0-or-later
//
// What tests do with texts and bytes.
#pragma once

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace kvloupe::test {

inline bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }
inline bool contains(std::string_view text, char letter) { return text.find(letter) != std::string_view::npos; }
// One of several lines.
inline bool contains(const std::vector<std::string>& lines, std::string_view line) {
    return std::find(lines.begin(), lines.end(), line) != lines.end();
}

inline std::string trimmed(std::string_view text) {
    constexpr std::string_view spaces = " \t\n\v\f\r";
    const std::size_t begin = text.find_first_not_of(spaces);
    if (begin == std::string_view::npos) return {};
    return std::string(text.substr(begin, text.find_last_not_of(spaces) + 1 - begin));
}

// Of the letters a to z.
inline std::string lower_case(std::string text) {
    for (char& letter : text)
        if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter | 0x20);
    return text;
}

// As printf.
__attribute__((format(printf, 1, 2))) inline std::string printed(const char* format, ...) {
    std::va_list values, again;
    va_start(values, format);
    va_copy(again, values);
    std::string text(static_cast<std::size_t>(std::vsnprintf(nullptr, 0, format, values)), '\0');
    va_end(values);
    std::vsnprintf(text.data(), text.size() + 1, format, again);
    va_end(again);
    return text;
}

// Two digits per byte, in lower case.
inline std::string to_hex(std::string_view bytes) {
    std::string digits;
    for (const char byte : bytes) digits += printed("%02x", unsigned{static_cast<unsigned char>(byte)});
    return digits;
}

// The bytes of an even number of digits.
inline std::string from_hex(std::string_view digits) {
    const auto value = [](char digit) { return digit <= '9' ? digit - '0' : (digit | 0x20) - 'a' + 10; };
    std::string bytes;
    for (std::size_t at = 0; at + 1 < digits.size(); at += 2)
        bytes += static_cast<char>(value(digits[at]) * 16 + value(digits[at + 1]));
    return bytes;
}

}  // namespace kvloupe::test
