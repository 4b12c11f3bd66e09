// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/byte_alphabet.h"
#include "engine/model/tokenizer.h"
#include "engine/model/utf8.h"
#include "tests/support/claims.h"
#include "tests/support/texts.h"

#include <algorithm>
#include <random>
#include <utility>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

// The Unicode Standard, table 3-6: the bits of a code point from the last byte to the first, six in each but the first.
std::string utf8_by_definition(char32_t code) {
    if (code < 0x80) return std::string(1, static_cast<char>(code));
    const int length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    std::string bytes;
    for (int left = length - 1; left > 0; --left, code >>= 6) bytes.insert(0, 1, static_cast<char>(0x80 | (code & 0x3F)));
    return static_cast<char>((0xF00 >> length & 0xFF) | static_cast<int>(code)) + bytes;
}

// The property White_Space of Unicode (PropList.txt), all of it below U+10000.
bool white_space(char32_t code) {
    constexpr std::pair<char32_t, char32_t> ranges[] = {{0x09, 0x0D},     {0x20, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},
                                                        {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F},
                                                        {0x205F, 0x205F}, {0x3000, 0x3000}};
    return std::any_of(std::begin(ranges), std::end(ranges),
                       [code](const auto& range) { return code >= range.first && code <= range.second; });
}

void everyCodePointIsReadBack(Check& check) {
    for (char32_t code = 0; code <= 0x10FFFF; ++code) {
        if (code >= 0xD800 && code <= 0xDFFF) continue;
        std::string text;
        append_utf8(text, code);
        const Utf8Char c = utf8_at(text, 0);
        if (!c.valid || c.code != code || c.length != text.size()) FAIL_ROW("a code point is not read back");
        if (text != utf8_by_definition(code)) FAIL_ROW("the bytes differ from the definition");
    }
}

struct InvalidBytesBecomeReplacementsPerMaximalSubpartCase {
    std::string bytes;
    int replacements;
};
Cases<InvalidBytesBecomeReplacementsPerMaximalSubpartCase> invalidBytesBecomeReplacementsPerMaximalSubpart_cases() {
    Cases<InvalidBytesBecomeReplacementsPerMaximalSubpartCase> cases;
    cases.add("surrogate", {"\xED\xA0\x80", 3});
    cases.add("overlong", {"\xC0\xAF", 2});
    cases.add("beyond the last code point", {"\xF4\x90\x80\x80", 4});
    cases.add("cut short", {"\xE4\xBD", 1});
    cases.add("cut short, then a letter", {"\xF0\x9F\x9A" "a", 1});
    cases.add("Unicode table 3-8", {"\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64", 6});
    return cases;
}
void invalidBytesBecomeReplacementsPerMaximalSubpart(Check& check, const InvalidBytesBecomeReplacementsPerMaximalSubpartCase& row) {
    const std::string text = to_valid_utf8(row.bytes);
    int found = 0;
    for (std::size_t at = text.find("\xEF\xBF\xBD"); at != std::string::npos; at = text.find("\xEF\xBF\xBD", at + 3)) ++found;
    CHECK_EQUAL(found, row.replacements);
}

void streamShowsOnlyWholeCharactersAndLosesNothing(Check& check) {
    std::mt19937 random(7);
    const std::string alphabet[] = {"a", "\xC3\xA9", "\xE4\xBD\xA0", "\xF0\x9F\x9A\x80", "\xFF", "\xE4", "\xF0\x9F", "\x80"};
    for (int round = 0; round < 2000; ++round) {
        std::string bytes;
        for (unsigned n = random() % 12; n > 0; --n) bytes += alphabet[random() % 8];
        Utf8Stream stream;
        std::string shown;
        for (std::size_t at = 0; at < bytes.size();) {
            const std::size_t length = 1 + random() % 3;
            const std::string part = stream.feed(std::string_view(bytes).substr(at, length));
            CHECK_EQUAL(to_valid_utf8(part), part);
            shown += part;
            at += length;
        }
        shown += stream.finish();
        CHECK_EQUAL(shown, to_valid_utf8(bytes));
    }
}

void streamHoldsBackHalfACharacter(Check& check) {
    Utf8Stream stream;
    CHECK_EQUAL(stream.feed("x\xE4\xBD"), "x");
    CHECK_EQUAL(stream.feed("\xA0y"), "\xE4\xBD\xA0y");
    CHECK_EQUAL(stream.feed("\xF0\x9F"), std::string());
    CHECK_EQUAL(stream.finish(), "\xEF\xBF\xBD");
    CHECK_EQUAL(stream.finish(), std::string());
}

void spacesAreThoseOfUnicode(Check& check) {
    for (char32_t code = 0; code <= 0xFFFF; ++code) {
        if (is_unicode_space(code) != white_space(code)) FAIL_ROW(printed("U+%04X", static_cast<unsigned>(code)));
    }
    CHECK_EQUAL(leading_space_bytes("\xE3\x80\x80 \tx "), std::size_t{5});
    CHECK_EQUAL(trailing_space_bytes(" x\xC2\xA0 "), std::size_t{3});
    CHECK_EQUAL(trailing_space_bytes("\x80\x80"), std::size_t{0});
}

void byteAlphabetIsThatOfGpt2(Check& check) {
    CHECK_EQUAL(char_of_byte(' '), char32_t{0x120});
    CHECK_EQUAL(char_of_byte('\n'), char32_t{0x10A});
    CHECK_EQUAL(char_of_byte(0x7F), char32_t{0x121});
    CHECK_EQUAL(char_of_byte(0xAD), char32_t{0x143});
    std::string all;
    for (int byte = 0; byte < 256; ++byte) {
        CHECK_EQUAL(byte_of_char(char_of_byte(static_cast<unsigned char>(byte))), byte);
        all += static_cast<char>(byte);
    }
    CHECK_THAT(alphabet_to_bytes(bytes_to_alphabet(all)) == all);
    CHECK_THAT(!alphabet_to_bytes("a b"));
}

void byteNamesAreRead(Check& check) {
    CHECK_EQUAL(byte_name(0xE4), "<0xE4>");
    CHECK_EQUAL(byte_of_name("<0xe4>"), 0xE4);
    for (const char* const other : {"<0xG4>", "<0x4>", "0xE4", "<0xE4> "}) CHECK_EQUAL(byte_of_name(other), -1);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(everyCodePointIsReadBack));
    claims.add(CLAIM(invalidBytesBecomeReplacementsPerMaximalSubpart), invalidBytesBecomeReplacementsPerMaximalSubpart_cases());
    claims.add(CLAIM(streamShowsOnlyWholeCharactersAndLosesNothing));
    claims.add(CLAIM(streamHoldsBackHalfACharacter));
    claims.add(CLAIM(spacesAreThoseOfUnicode));
    claims.add(CLAIM(byteAlphabetIsThatOfGpt2));
    claims.add(CLAIM(byteNamesAreRead));
    return claims.rows();
}
