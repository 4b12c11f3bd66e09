// SPDX-License-Identifier: GPL-3.0-or-later
//
// Text there and back, for every tokenizer that is at hand.
#include "engine/model/tokenizer.h"
#include "engine/model/utf8.h"
#include "tests/support/claims.h"
#include "tests/tokenizer/tokenizer_files.h"

#include <array>
#include <random>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

std::string random_text(std::mt19937& random, bool valid) {
    static const std::vector<std::string> parts = {
        "a", "the", " the", "  ", "\n", "7", "'s", "!", "\xC3\xA9", "\xE4\xBD\xA0\xE5\xA5\xBD", "\xF0\x9F\x9A\x80", "e\xCC\x81",
        "<s>", "</s>", std::string("\0", 1), "\xE2\x80\x8D", "\xF0\x9F\x98\xB6\xE2\x80\x8D\xF0\x9F\x8C\xAB\xEF\xB8\x8F"};
    std::string text;
    for (unsigned n = random() % 20; n > 0; --n) {
        if (!valid && random() % 3 == 0) {
            text += static_cast<char>(random() % 256);
        } else {
            text += parts[random() % parts.size()];
        }
    }
    return text;
}

// Some vocabularies have no token for bytes that no text of theirs had (StarCoder: 0xFC); these are left out.
std::string encodable(const std::string& text, const Tokenizer& tokenizer) {
    std::array<bool, 256> known{};
    for (std::size_t id = 0; id < tokenizer.size(); ++id) {
        const std::string piece = tokenizer.piece(static_cast<TokenId>(id));
        if (piece.size() == 1) known[static_cast<unsigned char>(piece[0])] = true;
    }
    std::string out;
    for (const char c : text) {
        if (known[static_cast<unsigned char>(c)]) out += c;
    }
    return out;
}

Cases<std::string> tokenizers() {
    Cases<std::string> cases;
    for (const char* const name : {"fixtures/tiny-bpe.json", "fixtures/tiny-spm.gguf"}) cases.add(name, tokenizer_files::own(name));
    cases.add("bundled", std::string(KVLOUPE_SOURCE_DIR "/resources/models/gqa"));
    for (const char* const name : {"ggml-vocab-llama-spm.gguf", "ggml-vocab-starcoder.gguf", "smollm_hf_tokenizer.json"}) {
        cases.add(name, tokenizer_files::shared(name));
    }
    return cases;
}

void bytesComeBackAsTheyWere(Check& check, const std::string& path) {
    if (!file_exists(path)) SKIP_ROW("The file is not here.");
    const auto tokenizer = tokenizer_files::loaded(check, path);
    CHECK_THAT(tokenizer);
    const bool puts_a_space = tokenizer->vocabulary_text()->strips_leading_space;
    std::mt19937 random(11);
    for (int round = 0; round < 200; ++round) {
        const std::string text = random_text(random, round % 2 == 0);
        const std::vector<TokenId> ids = tokenizer->encode(text, false);
        std::string bytes;
        for (const TokenId id : ids) {
            CHECK_THAT(!tokenizer->is_control(id));
            bytes += tokenizer->piece(id);
        }
        // The space that the tokenizer put in front; byte-level ones do so only where there is none.
        if (puts_a_space && bytes != text && !bytes.empty()) {
            CHECK_EQUAL(bytes.front(), ' ');
            bytes.erase(0, 1);
        }
        if (bytes != text) CHECK_EQUAL(bytes, encodable(text, *tokenizer));
    }
}

void streamShowsWhatDecodeShows(Check& check, const std::string& path) {
    if (!file_exists(path)) SKIP_ROW("The file is not here.");
    const auto tokenizer = tokenizer_files::loaded(check, path);
    CHECK_THAT(tokenizer);
    std::mt19937 random(13);
    for (int round = 0; round < 300; ++round) {
        std::vector<TokenId> ids(random() % 20);
        for (TokenId& id : ids) id = static_cast<TokenId>(random() % tokenizer->size());
        Utf8Stream stream;
        std::string streamed;
        for (const TokenId id : ids) {
            const std::string part = stream.feed(tokenizer->piece(id));
            CHECK_EQUAL(to_valid_utf8(part), part);
            streamed += part;
        }
        streamed += stream.finish();
        std::string decoded = tokenizer->decode(ids);
        if (streamed != decoded) decoded.insert(0, " ");
        CHECK_EQUAL(streamed, decoded);
    }
}

void labelsAreValidAndNeverEmpty(Check& check, const std::string& path) {
    if (!file_exists(path)) SKIP_ROW("The file is not here.");
    const auto tokenizer = tokenizer_files::loaded(check, path);
    CHECK_THAT(tokenizer);
    const auto text = tokenizer->vocabulary_text();
    CHECK_EQUAL(text->shown.size(), tokenizer->size());
    CHECK_EQUAL(text->pieces.size(), tokenizer->size());
    for (std::size_t id = 0; id < text->shown.size(); ++id) {
        CHECK_THAT(!text->shown[id].empty());
        CHECK_EQUAL(to_valid_utf8(text->shown[id]), text->shown[id]);
        CHECK_EQUAL(text->pieces[id].empty(), tokenizer->is_control(static_cast<TokenId>(id)));
    }
}

void aLongRunOfAnythingIsEncoded(Check& check, const std::string& path) {
    if (!file_exists(path)) SKIP_ROW("The file is not here.");
    const auto tokenizer = tokenizer_files::loaded(check, path);
    CHECK_THAT(tokenizer);
    for (const std::string unit : {"a", " ", "\n", "=", "\xE4\xBD\xA0", "\xFF"}) {
        std::string text;
        while (text.size() < 300000) text += unit;
        const std::vector<TokenId> ids = tokenizer->encode(text, false);
        std::size_t bytes = 0;
        for (const TokenId id : ids) bytes += tokenizer->piece(id).size();
        const std::size_t expected = encodable(unit, *tokenizer) == unit ? text.size() : 0;
        CHECK_THAT(bytes == expected || bytes == expected + 1);
    }
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(bytesComeBackAsTheyWere), tokenizers());
    claims.add(CLAIM(streamShowsWhatDecodeShows), tokenizers());
    claims.add(CLAIM(labelsAreValidAndNeverEmpty), tokenizers());
    claims.add(CLAIM(aLongRunOfAnythingIsEncoded), tokenizers());
    return claims.rows();
}
