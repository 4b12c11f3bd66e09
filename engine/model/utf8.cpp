// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/utf8.h"

namespace kvloupe {

namespace {

// Length and allowed range of the second byte for a lead byte (Unicode table 3-7); length 0: no lead byte.
struct Lead {
    std::size_t length;
    unsigned char low;
    unsigned char high;
};

Lead lead_of(unsigned char byte) {
    if (byte >= 0xC2 && byte <= 0xDF) return {2, 0x80, 0xBF};
    if (byte == 0xE0) return {3, 0xA0, 0xBF};
    if (byte == 0xED) return {3, 0x80, 0x9F};
    if (byte >= 0xE1 && byte <= 0xEF) return {3, 0x80, 0xBF};
    if (byte == 0xF0) return {4, 0x90, 0xBF};
    if (byte >= 0xF1 && byte <= 0xF3) return {4, 0x80, 0xBF};
    if (byte == 0xF4) return {4, 0x80, 0x8F};
    return {0, 0, 0};
}

int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
}

}  // namespace

Utf8Char utf8_at(std::string_view text, std::size_t at) {
    if (at >= text.size()) return {};
    const auto first = static_cast<unsigned char>(text[at]);
    if (first < 0x80) return {first, 1, true, false};
    const Lead lead = lead_of(first);
    if (lead.length == 0) return {0xFFFD, 1, false, false};
    char32_t code = first & (0x7Fu >> lead.length);
    for (std::size_t i = 1; i < lead.length; ++i) {
        if (at + i >= text.size()) return {0xFFFD, i, false, true};
        const auto byte = static_cast<unsigned char>(text[at + i]);
        const bool fits = i == 1 ? byte >= lead.low && byte <= lead.high : (byte & 0xC0) == 0x80;
        if (!fits) return {0xFFFD, i, false, false};
        code = (code << 6) | (byte & 0x3Fu);
    }
    return {code, lead.length, true, false};
}

void append_utf8(std::string& out, char32_t code) {
    const auto put = [&out](char32_t byte) { out += static_cast<char>(static_cast<unsigned char>(byte)); };
    if (code < 0x80) {
        put(code);
    } else if (code < 0x800) {
        put(0xC0 | (code >> 6));
        put(0x80 | (code & 0x3F));
    } else if (code < 0x10000) {
        put(0xE0 | (code >> 12));
        put(0x80 | ((code >> 6) & 0x3F));
        put(0x80 | (code & 0x3F));
    } else {
        put(0xF0 | (code >> 18));
        put(0x80 | ((code >> 12) & 0x3F));
        put(0x80 | ((code >> 6) & 0x3F));
        put(0x80 | (code & 0x3F));
    }
}

std::string to_valid_utf8(std::string_view bytes) {
    std::string out;
    out.reserve(bytes.size());
    for (std::size_t at = 0; at < bytes.size();) {
        const Utf8Char c = utf8_at(bytes, at);
        if (c.valid) {
            out.append(bytes, at, c.length);
        } else {
            append_utf8(out, 0xFFFD);
        }
        at += c.length;
    }
    return out;
}

bool is_unicode_space(char32_t code) {
    return (code >= 0x09 && code <= 0x0D) || code == 0x20 || code == 0x85 || code == 0xA0 || code == 0x1680 ||
           (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F ||
           code == 0x3000;
}

std::size_t leading_space_bytes(std::string_view text) {
    std::size_t at = 0;
    while (at < text.size()) {
        const Utf8Char c = utf8_at(text, at);
        if (!c.valid || !is_unicode_space(c.code)) break;
        at += c.length;
    }
    return at;
}

std::size_t trailing_space_bytes(std::string_view text) {
    std::size_t end = text.size();
    while (end > 0) {
        std::size_t start = end - 1;
        while (start > 0 && end - start < 4 && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) --start;
        const Utf8Char c = utf8_at(text.substr(0, end), start);
        if (!c.valid || start + c.length != end || !is_unicode_space(c.code)) break;
        end = start;
    }
    return text.size() - end;
}

std::string byte_name(unsigned char byte) {
    static constexpr char hex[] = "0123456789ABCDEF";
    return std::string("<0x") + hex[byte >> 4] + hex[byte & 15] + '>';
}

int byte_of_name(std::string_view name) {
    if (name.size() != 6 || name.substr(0, 3) != "<0x" || name[5] != '>') return -1;
    const int high = hex_digit(name[3]);
    const int low = hex_digit(name[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

}  // namespace kvloupe
