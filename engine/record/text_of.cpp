// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/describe.h"

namespace kvloupe {

namespace {

// Length of the well-formed UTF-8 character at `at`, or 0; then `bad` is the length of what U+FFFD stands for: the
// longest start of a character that could have become valid (Unicode 15, section 3.9, "maximal subpart").
std::size_t character_length(std::string_view text, std::size_t at, std::size_t& bad) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char lead = byte(at);
    bad = 1;
    if (lead < 0x80) return 1;
    const std::size_t length = lead >= 0xC2 && lead <= 0xDF ? 2 : (lead & 0xF0) == 0xE0 ? 3
                               : lead >= 0xF0 && lead <= 0xF4 ? 4 : 0;
    if (length == 0) return 0;
    for (std::size_t i = 1; i < length; ++i) {
        unsigned char low = 0x80, high = 0xBF;
        if (i == 1 && lead == 0xE0) low = 0xA0;
        if (i == 1 && lead == 0xED) high = 0x9F;
        if (i == 1 && lead == 0xF0) low = 0x90;
        if (i == 1 && lead == 0xF4) high = 0x8F;
        if (at + i >= text.size() || byte(at + i) < low || byte(at + i) > high) {
            bad = i;
            return 0;
        }
    }
    return length;
}

}  // namespace

std::string text_of(const VocabularyText& vocabulary, std::span<const TokenId> tokens) {
    std::string bytes;
    for (const TokenId token : tokens)
        if (token >= 0 && static_cast<std::size_t>(token) < vocabulary.pieces.size())
            bytes += vocabulary.pieces[static_cast<std::size_t>(token)];
    if (vocabulary.strips_leading_space && !bytes.empty() && bytes.front() == ' ') bytes.erase(0, 1);
    std::string text;
    text.reserve(bytes.size());
    for (std::size_t at = 0; at < bytes.size();) {
        std::size_t bad = 0;
        if (const std::size_t length = character_length(bytes, at, bad)) {
            text.append(bytes, at, length);
            at += length;
        } else {
            text += "\xEF\xBF\xBD";
            at += bad;
        }
    }
    return text;
}

}  // namespace kvloupe
