// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/describe.h"
#include "tests/support/claims.h"

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

struct TextReplacesInvalidBytesCase {
    std::string bytes, text;
};
Cases<TextReplacesInvalidBytesCase> textReplacesInvalidBytes_cases() {
    Cases<TextReplacesInvalidBytesCase> cases;
    const std::string bad = "\xEF\xBF\xBD";
    cases.add("plain", {"caf\xC3\xA9", "caf\xC3\xA9"});
    cases.add("chinese", {"\xE4\xBD\xA0\xE5\xA5\xBD", "\xE4\xBD\xA0\xE5\xA5\xBD"});
    cases.add("emoji", {"\xF0\x9F\x98\x80", "\xF0\x9F\x98\x80"});
    cases.add("lone continuation", {"a\x80z", std::string("a" + bad + "z")});
    cases.add("cut character at the end", {"a\xE4\xBD", std::string("a" + bad)});
    cases.add("cut character, then text", {"\xF0\x9Fx", std::string(bad + "x")});
    cases.add("overlong", {"\xC0\xAF", std::string(bad + bad)});
    cases.add("surrogate", {"\xED\xA0\x80", std::string(bad + bad + bad)});
    cases.add("beyond Unicode", {"\xF4\x90\x80\x80", std::string(bad + bad + bad + bad)});
    cases.add("never a lead byte", {"\xFF", bad});
    return cases;
}
void textReplacesInvalidBytes(Check& check, const TextReplacesInvalidBytesCase& row) {
    VocabularyText vocabulary;
    std::vector<TokenId> tokens;
    for (const char byte : row.bytes) {  // one token a byte: characters cross token borders
        tokens.push_back(static_cast<TokenId>(vocabulary.pieces.size()));
        vocabulary.pieces.emplace_back(1, byte);
    }
    CHECK_EQUAL(text_of(vocabulary, tokens), row.text);
}

void textLeavesControlTokensAndTheAddedSpaceOut(Check& check) {
    VocabularyText vocabulary;
    vocabulary.pieces = {"", " one", " two"};
    CHECK_EQUAL(text_of(vocabulary, std::vector<TokenId>{0, 1, 2}), " one two");
    vocabulary.strips_leading_space = true;
    CHECK_EQUAL(text_of(vocabulary, std::vector<TokenId>{0, 1, 2}), "one two");
    CHECK_EQUAL(text_of(vocabulary, std::vector<TokenId>{-1, 7, 2}), "two");
    CHECK_EQUAL(text_of(vocabulary, {}), std::string());
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(textReplacesInvalidBytes), textReplacesInvalidBytes_cases());
    claims.add(CLAIM(textLeavesControlTokensAndTheAddedSpaceOut));
    return claims.rows();
}
