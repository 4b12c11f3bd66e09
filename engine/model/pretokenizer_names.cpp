// SPDX-License-Identifier: GPL-3.0-or-later
//
// The regular expressions behind `tokenizer.ggml.pre`, as llama.cpp applies them: each to the pieces of the one before,
// what lies between matches is a piece too. Names for which nothing here was checked are refused.
#include "engine/model/message.h"
#include "engine/model/pretokenizer.h"

#include <algorithm>
#include <array>

namespace kvloupe {

const std::string_view gpt2_pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

namespace {

// Llama 3 takes numbers in threes, Qwen 2 one by one.
constexpr std::string_view llama3_pattern =
    R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view qwen2_pattern =
    R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

enum class Family { standard, gpt2, llama3, qwen2, digits, falcon, deepseek3 };

struct Known {
    std::string_view name;
    Family family;
};

constexpr std::array known_names = {
    Known{"default", Family::standard},    Known{"gpt-2", Family::gpt2},       Known{"phi-2", Family::gpt2},
    Known{"olmo", Family::gpt2},           Known{"mpt", Family::gpt2},         Known{"llama-bpe", Family::llama3},
    Known{"llama3", Family::llama3},       Known{"llama-v3", Family::llama3},  Known{"qwen2", Family::qwen2},
    Known{"starcoder", Family::digits},    Known{"smollm", Family::digits},    Known{"refact", Family::digits},
    Known{"command-r", Family::digits},    Known{"falcon", Family::falcon},    Known{"deepseek-v3", Family::deepseek3},
};

std::vector<std::string_view> patterns_of(Family family) {
    switch (family) {
    case Family::standard: return {R"([\p{P}\$\+<=>\^~\|]+)", gpt2_pattern, R"(\p{N}+)", R"([0-9][0-9][0-9])"};
    case Family::gpt2: return {gpt2_pattern};
    case Family::llama3: return {llama3_pattern};
    case Family::qwen2: return {qwen2_pattern};
    case Family::digits: return {R"(\p{N})", gpt2_pattern};
    case Family::falcon: return {R"([\p{P}\$\+<=>\^~\|`]+)", gpt2_pattern, R"([0-9][0-9][0-9])"};
    case Family::deepseek3:
        return {R"(\p{N}{1,3})", R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)",
                R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
                R"( ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
    }
    return {};
}

}  // namespace

Result<NamedPretokenizer> pretokenizer_named(std::string_view name) {
    const auto it = std::find_if(known_names.begin(), known_names.end(),
                                 [name](const Known& known) { return known.name == name; });
    if (it == known_names.end()) {
        std::string list;
        for (const Known& known : known_names) list += (list.empty() ? "" : ", ") + std::string(known.name);
        return Error{"the pre-tokenizer " + in_quotes(name) + " is not known",
                     "Known are " + list + "; a guess would cut texts into the wrong tokens."};
    }
    std::vector<PretokenizerStep> steps;
    for (const std::string_view pattern : patterns_of(it->family)) {
        Result<TextRegex> regex = TextRegex::compile(pattern);
        if (!regex) return regex.error();
        PretokenizerStep step;
        step.regex = std::move(*regex);
        steps.push_back(std::move(step));
    }
    const bool llama3 = it->family == Family::llama3;
    return NamedPretokenizer{std::string(name), Pretokenizer(std::move(steps)), llama3, llama3};
}

}  // namespace kvloupe
