// SPDX-License-Identifier: GPL-3.0-or-later
//
// Pre-tokenization: cuts a text into pieces inside which byte-pair merges stay. Rules: Hugging Face tokenizers
// (pre_tokenizers), llama.cpp (a list of regular expressions per `tokenizer.ggml.pre`).
#pragma once

#include "engine/model/text_regex.h"
#include "engine/record/result.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvloupe {

enum class SplitBehaviour : unsigned char { isolated, removed, merged_with_previous, merged_with_next, contiguous };

// One cut. Each step cuts every piece of the step before it, on its own.
struct PretokenizerStep {
    std::optional<TextRegex> regex;   // either this
    std::string literal;              // or this text
    SplitBehaviour behaviour = SplitBehaviour::isolated;
    bool invert = false;              // cut at what does not match
    bool prefix_space = false;        // before cutting: a piece that does not begin with a space gets one
};

class Pretokenizer {
public:
    Pretokenizer() = default;
    explicit Pretokenizer(std::vector<PretokenizerStep> steps) : m_steps(std::move(steps)) {}

    // Pieces that are not empty, in order; `store` keeps the bytes when spaces were put in (else they lie in `text`).
    // Bytes that are no valid UTF-8 are pieces of their own, a run of them one piece.
    std::vector<std::string_view> split(std::string_view text, std::string& store) const;

    bool adds_prefix_space() const;

private:
    std::vector<PretokenizerStep> m_steps;
};

// The cuts that a GGUF file's `tokenizer.ggml.pre` names, and what else the name implies in llama.cpp.
struct NamedPretokenizer {
    std::string name;
    Pretokenizer pretokenizer;
    bool ignore_merges = false;  // a piece that is a token as a whole is that token
    bool adds_bos = false;       // unless the file says otherwise
};
// Error: an unknown name, with the known ones.
Result<NamedPretokenizer> pretokenizer_named(std::string_view name);

// GPT-2's pattern, also that of ByteLevel with use_regex.
extern const std::string_view gpt2_pattern;

}  // namespace kvloupe
