// SPDX-License-Identifier: GPL-3.0-or-later
//
// What the tokenizers share on the way back to text.
#pragma once

#include "engine/model/tokenizer.h"

#include <string>
#include <string_view>
#include <vector>

namespace kvloupe {

// Valid UTF-8 for a label: bytes that are no character as "<0xE4>".
std::string label_of(std::string_view bytes);

// The pieces joined, made valid UTF-8; strips_space: one space at the very front is taken away.
std::string joined_text(const Tokenizer& tokenizer, std::span<const TokenId> tokens, bool with_special,
                        bool strips_space);

// Names that llama.cpp takes for the end of a turn, whatever the file says: "<|im_end|>", "<|eot_id|>" and others.
bool is_end_of_turn_name(std::string_view name);

}  // namespace kvloupe
