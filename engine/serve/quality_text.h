// SPDX-License-Identifier: GPL-3.0-or-later
//
// Held-out text to measure quality on: whole stories with questions (the bundled models' own kind), or any text, which is cut into
// pieces. Formats of the two JSON files: resources/quality/README.md.
#pragma once

#include "engine/model/tokenizer.h"
#include "engine/record/result.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kvloupe {

// A text that ends where an answer begins: text + " " + answer is the text with its answer.
struct QualityQuestion {
    std::string text, answer;
    std::uint32_t facts = 0;     // told in the text
    std::uint32_t distance = 0;  // tokens between fact and answer, at least
};

struct QualitySource {
    static constexpr std::uint32_t piece_tokens = 512;     // of a text that is cut; less where a model's context is shorter
    static constexpr std::uint32_t least_tokens = 256;     // predicted: below that, intervals say nothing

    std::string name;                  // "512 stories", "prose.txt"
    std::string hash;                  // of the bytes and of how they are cut, 16 hexadecimal digits
    bool cut = false;                  // texts are cut into pieces; else they are whole and each stands for itself
    std::vector<std::string> texts;
    std::vector<QualityQuestion> questions;

    // Errors: not the format, no story or no question. name: of the file, for messages.
    static Result<QualitySource> from_stories(std::span<const std::byte> stories, std::span<const std::byte> questions);
    // Any UTF-8 text. Errors: not UTF-8, empty.
    static Result<QualitySource> from_text(std::span<const std::byte> text, std::string name);

    // The first so many of each; 0: all of them. The hash then says so too.
    QualitySource first(std::uint32_t most_texts, std::uint32_t most_questions) const;
};

// What a lane is given: tokens, of which those from `scored` on are predicted.
struct QualityItem {
    std::vector<TokenId> tokens;
    std::uint32_t scored = 1;                  // position, at least 1
    std::optional<std::uint32_t> question;     // index; else a text

    std::uint32_t predictions() const { return static_cast<std::uint32_t>(tokens.size()) - scored; }
};

// Texts first, then questions, in their order; what is longer than `context` is left out. Errors: too short a text, with the
// number of tokens it needs.
Result<std::vector<QualityItem>> quality_items(const QualitySource& source, const Tokenizer& tokenizer, std::uint32_t context);

}  // namespace kvloupe
