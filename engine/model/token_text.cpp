// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/token_text.h"

#include "engine/model/utf8.h"

#include <algorithm>
#include <array>

namespace kvloupe {

std::string label_of(std::string_view bytes) {
    std::string out;
    out.reserve(bytes.size());
    for (std::size_t at = 0; at < bytes.size();) {
        const Utf8Char c = utf8_at(bytes, at);
        if (c.valid) {
            out.append(bytes, at, c.length);
        } else {
            for (std::size_t i = 0; i < c.length; ++i) out += byte_name(static_cast<unsigned char>(bytes[at + i]));
        }
        at += c.length;
    }
    return out;
}

std::string joined_text(const Tokenizer& tokenizer, std::span<const TokenId> tokens, bool with_special,
                        bool strips_space) {
    std::string bytes;
    bool at_front = strips_space;
    for (const TokenId token : tokens) {
        if (tokenizer.is_control(token)) {
            if (with_special) bytes += tokenizer.shown(token);
            continue;
        }
        std::string piece = tokenizer.piece(token);
        if (piece.empty()) continue;
        if (at_front && piece.front() == ' ') piece.erase(0, 1);
        at_front = false;
        bytes += piece;
    }
    return to_valid_utf8(bytes);
}

bool is_end_of_turn_name(std::string_view name) {
    static constexpr std::array<std::string_view, 12> names = {
        "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<end_of_turn>", "<|endoftext|>", "<|eom_id|>",
        "<EOT>", "_<EOT>", "<\xEF\xBD\x9C" "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>", "<end_of_utterance>"};
    return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace kvloupe
