// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/byte_alphabet.h"

#include "engine/model/utf8.h"

namespace kvloupe {

// The bytes that are not themselves: 0x00-0x20 (33), 0x7F-0xA0 (34), 0xAD.
char32_t char_of_byte(unsigned char byte) {
    if (byte <= 0x20) return 0x100u + byte;
    if (byte >= 0x7F && byte <= 0xA0) return 0x100u + 33u + (byte - 0x7Fu);
    if (byte == 0xAD) return 0x100u + 67u;
    return byte;
}

int byte_of_char(char32_t code) {
    if (code < 0x100) return char_of_byte(static_cast<unsigned char>(code)) == code ? static_cast<int>(code) : -1;
    const char32_t n = code - 0x100;
    if (n <= 32) return static_cast<int>(n);
    if (n <= 66) return static_cast<int>(0x7F + (n - 33));
    return n == 67 ? 0xAD : -1;
}

std::string bytes_to_alphabet(std::string_view bytes) {
    std::string out;
    out.reserve(bytes.size() + bytes.size() / 4);
    for (const char c : bytes) append_utf8(out, char_of_byte(static_cast<unsigned char>(c)));
    return out;
}

std::optional<std::string> alphabet_to_bytes(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (std::size_t at = 0; at < text.size();) {
        const Utf8Char c = utf8_at(text, at);
        const int byte = c.valid ? byte_of_char(c.code) : -1;
        if (byte < 0) return std::nullopt;
        out += static_cast<char>(static_cast<unsigned char>(byte));
        at += c.length;
    }
    return out;
}

}  // namespace kvloupe
