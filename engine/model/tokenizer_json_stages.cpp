// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/json_document.h"
#include "engine/model/message.h"
#include "engine/model/tokenizer_json.h"

#include <array>
#include <utility>

namespace kvloupe {

using nlohmann::json;

void refuse(std::string sentence, std::string hint) { throw Refused{Error{std::move(sentence), std::move(hint)}}; }

const json* member(const json& object, const char* key) {
    const auto it = object.find(key);
    return it == object.end() || it->is_null() ? nullptr : &*it;
}

bool flag_of(const json& object, const char* key, bool otherwise, const std::string& where) {
    const json* const value = member(object, key);
    if (value == nullptr) return otherwise;
    if (!value->is_boolean()) refuse(where + ": '" + key + "' is " + describe(*value) + ", not true or false");
    return value->get<bool>();
}

std::string string_of(const json& object, const char* key, const std::string& where) {
    const json* const value = member(object, key);
    if (value == nullptr) refuse(where + ": '" + key + "' is missing");
    if (!value->is_string()) refuse(where + ": '" + key + "' is " + describe(*value) + ", not a string");
    return value->get<std::string>();
}

namespace {

std::string type_of(const json& stage, const std::string& where) {
    if (!stage.is_object()) refuse(where + " is " + describe(stage) + ", not an object");
    return string_of(stage, "type", where);
}

[[noreturn]] void refuse_kind(const std::string& where, const std::string& type, const std::string& known) {
    refuse("the " + where + " " + in_quotes(type) + " is not supported", "Supported are " + known + ".");
}

// The stages of a Sequence, or the one stage.
std::vector<const json*> flattened(const json& stage, const char* list_key, const std::string& where) {
    if (type_of(stage, where) != "Sequence") return {&stage};
    const json* const list = member(stage, list_key);
    if (list == nullptr || !list->is_array()) refuse(where + ": '" + list_key + "' is missing or no list");
    std::vector<const json*> out;
    for (const json& inner : *list) {
        const std::vector<const json*> parts = flattened(inner, list_key, where);
        out.insert(out.end(), parts.begin(), parts.end());
    }
    return out;
}

// {"String": "…"}; `regex` may also be asked for.
const json& pattern_of(const json& stage, const std::string& where) {
    const json* const pattern = member(stage, "pattern");
    if (pattern == nullptr || !pattern->is_object() || pattern->size() != 1) {
        refuse(where + ": 'pattern' is missing or not one of {\"String\": …} and {\"Regex\": …}");
    }
    return *pattern;
}

std::string literal_of(const json& stage, const std::string& where) {
    const json& pattern = pattern_of(stage, where);
    if (member(pattern, "String") == nullptr) refuse(where + ": only a 'pattern' of kind 'String' is supported");
    const std::string text = string_of(pattern, "String", where);
    if (text.empty()) refuse(where + ": 'pattern' is empty");
    return text;
}

void read_normalizer(const json& root, BpeParts& parts) {
    const json* const normalizer = member(root, "normalizer");
    if (normalizer == nullptr) return;
    for (const json* const stage : flattened(*normalizer, "normalizers", "normalizer")) {
        const std::string type = type_of(*stage, "normalizer");
        NormalizerStep step;
        if (type == "Prepend") {
            step.prepend = true;
            step.content = string_of(*stage, "prepend", "normalizer 'Prepend'");
        } else if (type == "Replace") {
            step.pattern = literal_of(*stage, "normalizer 'Replace'");
            step.content = string_of(*stage, "content", "normalizer 'Replace'");
        } else {
            refuse_kind("normalizer", type, "'Prepend', 'Replace' and 'Sequence'");
        }
        parts.normalizer.push_back(std::move(step));
    }
}

TextRegex regex_of(std::string_view pattern, const std::string& where) {
    Result<TextRegex> regex = TextRegex::compile(pattern);
    if (!regex) refuse(where + ": " + regex.error().sentence);
    return std::move(*regex);
}

SplitBehaviour behaviour_of(const std::string& name) {
    static constexpr std::array<std::pair<std::string_view, SplitBehaviour>, 5> known = {{
        {"Isolated", SplitBehaviour::isolated},
        {"Removed", SplitBehaviour::removed},
        {"MergedWithPrevious", SplitBehaviour::merged_with_previous},
        {"MergedWithNext", SplitBehaviour::merged_with_next},
        {"Contiguous", SplitBehaviour::contiguous},
    }};
    for (const auto& [text, behaviour] : known) {
        if (text == name) return behaviour;
    }
    refuse("pre_tokenizer 'Split': 'behavior' is " + in_quotes(name) + ", which is not known");
}

PretokenizerStep split_step(const json& stage) {
    const std::string where = "pre_tokenizer 'Split'";
    PretokenizerStep step;
    const json& pattern = pattern_of(stage, where);
    if (member(pattern, "Regex") != nullptr) {
        step.regex = regex_of(string_of(pattern, "Regex", where), where);
    } else {
        step.literal = literal_of(stage, where);
    }
    step.behaviour = behaviour_of(string_of(stage, "behavior", where));
    step.invert = flag_of(stage, "invert", false, where);
    return step;
}

void read_pretokenizer(const json& root, BpeParts& parts) {
    parts.byte_level = false;
    const json* const pretokenizer = member(root, "pre_tokenizer");
    if (pretokenizer == nullptr) return;
    std::vector<PretokenizerStep> steps;
    for (const json* const stage : flattened(*pretokenizer, "pretokenizers", "pre_tokenizer")) {
        const std::string type = type_of(*stage, "pre_tokenizer");
        if (parts.byte_level) refuse("the pre_tokenizer " + in_quotes(type) + " stands after 'ByteLevel', which is not supported");
        PretokenizerStep step;
        if (type == "ByteLevel") {
            parts.byte_level = true;
            step.prefix_space = flag_of(*stage, "add_prefix_space", true, "pre_tokenizer 'ByteLevel'");
            if (flag_of(*stage, "use_regex", true, "pre_tokenizer 'ByteLevel'")) step.regex = regex_of(gpt2_pattern, "ByteLevel");
        } else if (type == "Split") {
            step = split_step(*stage);
        } else if (type == "Digits") {
            const bool individual = flag_of(*stage, "individual_digits", false, "pre_tokenizer 'Digits'");
            step.regex = regex_of(individual ? "\\p{N}" : "\\p{N}+", "Digits");
        } else {
            refuse_kind("pre_tokenizer", type, "'ByteLevel', 'Split', 'Digits' and 'Sequence'");
        }
        steps.push_back(std::move(step));
    }
    parts.pretokenizer = Pretokenizer(std::move(steps));
}

// The token that a special token's name in a template stands for.
TokenId template_token(const json& processor, const std::string& name, const BpeParts& parts) {
    const std::string where = "post_processor 'TemplateProcessing'";
    const json* const tokens = member(processor, "special_tokens");
    if (tokens == nullptr || !tokens->is_object()) refuse(where + ": 'special_tokens' is missing or no object");
    const json* const token = member(*tokens, name.c_str());
    const json* const ids = token != nullptr && token->is_object() ? member(*token, "ids") : nullptr;
    if (ids == nullptr || !ids->is_array() || ids->size() != 1 || !(*ids)[0].is_number_unsigned()) {
        refuse(where + ": 'special_tokens' has not one id for " + in_quotes(name));
    }
    const auto id = (*ids)[0].get<std::uint64_t>();
    if (id >= parts.tokens.size()) {
        refuse(where + ": the id " + std::to_string(id) + " of " + in_quotes(name) + " is beyond the " +
               grouped(parts.tokens.size()) + " tokens");
    }
    return static_cast<TokenId>(id);
}

// What stands before the text ("A") is put in front of a prompt. What stands after it ends a text: a prompt goes on.
void read_template(const json& processor, BpeParts& parts) {
    const std::string where = "post_processor 'TemplateProcessing'";
    const json* const single = member(processor, "single");
    if (single == nullptr || !single->is_array()) refuse(where + ": 'single' is missing or no list");
    for (const json& piece : *single) {
        if (!piece.is_object()) refuse(where + ": 'single' has " + describe(piece) + " in it, not an object");
        if (member(piece, "Sequence") != nullptr) return;
        const json* const special = member(piece, "SpecialToken");
        if (special == nullptr || !special->is_object()) refuse(where + ": 'single' has an entry that is no 'SpecialToken'");
        if (parts.adds_bos) refuse(where + ": two tokens in front of a text are not supported");
        parts.bos = template_token(processor, string_of(*special, "id", where), parts);
        parts.adds_bos = true;
    }
    refuse(where + ": 'single' has no 'Sequence'");
}

void read_post_processor(const json& root, BpeParts& parts) {
    const json* const processor = member(root, "post_processor");
    if (processor == nullptr) return;
    for (const json* const stage : flattened(*processor, "processors", "post_processor")) {
        const std::string type = type_of(*stage, "post_processor");
        if (type == "TemplateProcessing") {
            read_template(*stage, parts);
        } else if (type != "ByteLevel") {  // ByteLevel changes offsets, not ids
            refuse_kind("post_processor", type, "'TemplateProcessing', 'ByteLevel' and 'Sequence'");
        }
    }
}

void read_decoder(const json& root, BpeParts& parts) {
    const json* const decoder = member(root, "decoder");
    if (parts.byte_level) parts.strips_leading_space = parts.pretokenizer.adds_prefix_space();
    if (decoder == nullptr) return;
    for (const json* const stage : flattened(*decoder, "decoders", "decoder")) {
        const std::string type = type_of(*stage, "decoder");
        if (type == "ByteLevel") {
            if (!parts.byte_level) refuse("the decoder 'ByteLevel' without the pre_tokenizer 'ByteLevel' is not supported");
        } else if (type == "Replace") {
            parts.piece_replacements.emplace_back(literal_of(*stage, "decoder 'Replace'"),
                                                  string_of(*stage, "content", "decoder 'Replace'"));
        } else if (type == "Strip") {
            const json* const start = member(*stage, "start");
            const bool one = start != nullptr && start->is_number_unsigned() && start->get<std::uint64_t>() == 1;
            if (!one || string_of(*stage, "content", "decoder 'Strip'") != " ") {
                refuse("the decoder 'Strip' is supported only for one space at the start");
            }
            parts.strips_leading_space = true;
        } else if (type != "ByteFallback" && type != "Fuse") {  // both: what joining bytes does anyway
            refuse_kind("decoder", type, "'ByteLevel', 'ByteFallback', 'Replace', 'Fuse', 'Strip' and 'Sequence'");
        }
    }
}

}  // namespace

void read_stages(const json& root, BpeParts& parts) {
    read_normalizer(root, parts);
    read_pretokenizer(root, parts);
    read_post_processor(root, parts);
    read_decoder(root, parts);
}

}  // namespace kvloupe
