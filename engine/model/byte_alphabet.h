// SPDX-License-Identifier: GPL-3.0-or-later
//
// The printable characters that stand for bytes in byte-level BPE vocabularies (FORMATS 2.5): 0x21-0x7E, 0xA1-0xAC and
// 0xAE-0xFF are themselves, the other 68 bytes are U+0100 onwards in byte order (space is U+0120).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kvloupe {

char32_t char_of_byte(unsigned char byte);
// -1 for a character that stands for no byte.
int byte_of_char(char32_t code);

std::string bytes_to_alphabet(std::string_view bytes);
// Nothing if a character of the text stands for no byte.
std::optional<std::string> alphabet_to_bytes(std::string_view text);

}  // namespace kvloupe
