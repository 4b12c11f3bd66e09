// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/pretokenizer.h"
#include "tests/support/claims.h"

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

std::vector<std::string> pieces(const Pretokenizer& pretokenizer, std::string_view text) {
    std::string store;
    std::vector<std::string> out;
    for (const std::string_view piece : pretokenizer.split(text, store)) out.emplace_back(piece);
    return out;
}

std::vector<std::string> pieces_of(std::string_view name, std::string_view text) {
    const Result<NamedPretokenizer> named = pretokenizer_named(name);
    return named ? pieces(named->pretokenizer, text) : std::vector<std::string>{named.error().sentence};
}

struct NamesCutAsTheirModelsDoCase {
    std::string name;
    std::vector<std::string> expected;
};
Cases<NamesCutAsTheirModelsDoCase> namesCutAsTheirModelsDo_cases() {
    Cases<NamesCutAsTheirModelsDoCase> cases;
    // The text: It's 12345 x  y!?\n\n z
    const auto row = [&](const char* name, const std::vector<std::string>& expected) { cases.add(name, {std::string(name), expected}); };
    row("gpt-2", {"It", "'s", " 12345", " x", " ", " y", "!?", "\n\n", " z"});
    row("llama-bpe", {"It", "'s", " ", "123", "45", " x", " ", " y", "!?\n\n", " z"});
    row("qwen2", {"It", "'s", " ", "1", "2", "3", "4", "5", " x", " ", " y", "!?\n\n", " z"});
    row("smollm", {"It", "'s", " ", "1", "2", "3", "4", "5", " x", " ", " y", "!?", "\n\n", " z"});
    row("default", {"It", "'", "s", " ", "123", "45", " x", " ", " y", "!?", "\n\n", " z"});
    row("falcon", {"It", "'", "s", " ", "123", "45", " x", " ", " y", "!?", "\n\n", " z"});
    row("deepseek-v3", {"It", "'s", " ", "123", "45", " x", " ", " y", "!?\n\n", " z"});
    return cases;
}
void namesCutAsTheirModelsDo(Check& check, const NamesCutAsTheirModelsDoCase& row) {
    CHECK_EQUAL(pieces_of(row.name, "It's 12345 x  y!?\n\n z"), row.expected);
}

void unknownNameIsRefusedByName(Check& check) {
    const Result<NamedPretokenizer> named = pretokenizer_named("megatok-7");
    CHECK_THAT(!named);
    CHECK_THAT(named.error().message().find("'megatok-7'") != std::string::npos);
    CHECK_THAT(named.error().hint.find("smollm") != std::string::npos);
}

void bytesThatAreNoTextArePiecesOfTheirOwn(Check& check) {
    CHECK_EQUAL(pieces_of("gpt-2", "ab\xFF\xFE cd\xE4"), (std::vector<std::string>{"ab", "\xFF\xFE", " cd", "\xE4"}));
    CHECK_EQUAL(pieces_of("gpt-2", ""), std::vector<std::string>());
}

void aSpaceIsPutOnlyBeforeRealPieces(Check& check) {
    PretokenizerStep step;
    step.prefix_space = true;
    CHECK_EQUAL(pieces(Pretokenizer({step}), "a\xFF" "b"), (std::vector<std::string>{" a", "\xFF", "b"}));
    CHECK_EQUAL(pieces(Pretokenizer({step}), " a"), std::vector<std::string>{" a"});
    CHECK_THAT(Pretokenizer({step}).adds_prefix_space());
    CHECK_THAT(!Pretokenizer().adds_prefix_space());
}

struct WhatPcre2ReadsDifferentlyIsTranslatedCase {
    std::string pattern, text;
    int count;
};
Cases<WhatPcre2ReadsDifferentlyIsTranslatedCase> whatPcre2ReadsDifferentlyIsTranslated_cases() {
    Cases<WhatPcre2ReadsDifferentlyIsTranslatedCase> cases;
    cases.add("U+180E is no space", {"\\s", "a\xE1\xA0\x8E" "b", 0});
    cases.add("U+0085 is a space", {"[\\s]", "a\xC2\x85" "b", 1});
    cases.add("marks belong to words", {"\\w+", "e\xCC\x81" "e", 1});
    cases.add("a script without its extensions", {"\\p{Han}", "\xE3\x80\x81\xE4\xBD\xA0", 1});
    cases.add("lines", {"^a", "a\na", 2});
    cases.add("code point", {"\\u4f60", "\xE4\xBD\xA0", 1});
    cases.add("empty matches end", {"b*", "abc", 3});
    return cases;
}
void whatPcre2ReadsDifferentlyIsTranslated(Check& check, const WhatPcre2ReadsDifferentlyIsTranslatedCase& row) {
    const Result<TextRegex> regex = TextRegex::compile(row.pattern);
    CHECK_RESULT(regex);
    CHECK_EQUAL(static_cast<int>(regex->matches(row.text).size()), row.count);
}

struct WhatCannotBeTranslatedIsRefusedByNameCase {
    std::string pattern, named;
};
Cases<WhatCannotBeTranslatedIsRefusedByNameCase> whatCannotBeTranslatedIsRefusedByName_cases() {
    Cases<WhatCannotBeTranslatedIsRefusedByNameCase> cases;
    cases.add("hexadecimal digit", {"\\h", "'\\h'"});
    cases.add("word boundary", {"a\\b", "'\\b'"});
    cases.add("verb", {"(*LIMIT_MATCH=1)a", "'(*'"});
    cases.add("recursion", {"a(?R)?", "'(?R)'"});
    cases.add("repeated repetition", {"a{1,3}+", "'{...}+'"});
    cases.add("class in a class", {"[a[b]]", "a class inside a class"});
    cases.add("intersection", {"[a-z&&b]", "'&&'"});
    cases.add("open class", {"[a", "'['"});
    cases.add("open group", {"(a", "parenthes"});
    cases.add("unknown property", {"\\p{Klingon}", "property"});
    cases.add("end", {"a\\", "at its end"});
    cases.add("nested", {std::string(200, '(') + std::string(200, ')'), "nest"});
    cases.add("long", {std::string(20000, 'a'), "20,000 bytes"});
    return cases;
}
void whatCannotBeTranslatedIsRefusedByName(Check& check, const WhatCannotBeTranslatedIsRefusedByNameCase& row) {
    const Result<TextRegex> regex = TextRegex::compile(row.pattern);
    CHECK_THAT(!regex);
    CHECK_OR_SAY(regex.error().sentence.find(row.named) != std::string::npos, regex.error().sentence);
}

// Without a limit this pattern needs 2^40 steps.
void endlessBacktrackingStops(Check& check) {
    const Result<TextRegex> regex = TextRegex::compile("(a+)+b");
    CHECK_THAT(bool(regex));
    CHECK_THAT(regex->matches(std::string(40, 'a')).empty());
    CHECK_EQUAL(regex->matches("aab").size(), std::size_t{1});
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(namesCutAsTheirModelsDo), namesCutAsTheirModelsDo_cases());
    claims.add(CLAIM(unknownNameIsRefusedByName));
    claims.add(CLAIM(bytesThatAreNoTextArePiecesOfTheirOwn));
    claims.add(CLAIM(aSpaceIsPutOnlyBeforeRealPieces));
    claims.add(CLAIM(whatPcre2ReadsDifferentlyIsTranslated), whatPcre2ReadsDifferentlyIsTranslated_cases());
    claims.add(CLAIM(whatCannotBeTranslatedIsRefusedByName), whatCannotBeTranslatedIsRefusedByName_cases());
    claims.add(CLAIM(endlessBacktrackingStops));
    return claims.rows();
}
