// SPDX-License-Identifier: GPL-3.0-or-later
//
// Tokenizers of GGUF files. Oracles: llama.cpp's 46 texts with ids for four vocabularies (without BOS, special text is
// plain text), transformers' ids for SmolLM2, and ids worked out by hand for a tiny vocabulary (make_fixtures.py).
#include "engine/model/gguf.h"
#include "engine/model/tokenizer.h"
#include "tests/support/claims.h"
#include "tests/tokenizer/tokenizer_files.h"

#include <nlohmann/json.hpp>

using namespace kvloupe;
using namespace kvloupe::test;
using Ids = std::vector<TokenId>;

namespace {

struct VocabulariesGiveAll46IdsCase {
    std::string name, kind;
};
Cases<VocabulariesGiveAll46IdsCase> vocabulariesGiveAll46Ids_cases() {
    Cases<VocabulariesGiveAll46IdsCase> cases;
    cases.add("gpt-2", {"gpt-2", "byte-level BPE (gpt-2)"});
    cases.add("llama-spm", {"llama-spm", "SentencePiece (llama)"});
    cases.add("phi-3", {"phi-3", "SentencePiece (llama)"});
    cases.add("starcoder", {"starcoder", "byte-level BPE (starcoder)"});
    return cases;
}
void vocabulariesGiveAll46Ids(Check& check, const VocabulariesGiveAll46IdsCase& row) {
    const std::string file = "ggml-vocab-" + row.name + ".gguf";
    if (!file_exists(tokenizer_files::shared(file))) SKIP_ROW("The vocabularies beside the project are not here.");
    const auto texts = tokenizer_files::shared_texts(file + ".inp");
    const auto ids = tokenizer_files::shared_ids(file + ".out");
    CHECK_EQUAL(texts.size(), std::size_t{46});
    CHECK_EQUAL(ids.size(), std::size_t{46});
    const auto tokenizer = tokenizer_files::loaded(check, tokenizer_files::shared(file));
    CHECK_THAT(tokenizer);
    CHECK_EQUAL(tokenizer->kind(), row.kind);
    for (std::size_t i = 0; i < texts.size(); ++i) {
        CHECK_EQUAL(tokenizer->encode(texts[i], false), ids[i]);
        CHECK_EQUAL(tokenizer->decode(ids[i]), texts[i]);
    }
}

void smolLm2EqualsTransformers(Check& check) {
    const std::string model = KVLOUPE_FETCHED_MODELS "/SmolLM2-135M-Instruct.Q4_1.gguf";
    const auto texts = tokenizer_files::shared_texts("ggml-vocab-gpt-2.gguf.inp");
    if (!file_exists(model)) SKIP_ROW("SmolLM2 is not here; tests/fetch-models.sh brings it.");
    if (texts.empty()) SKIP_ROW("The texts beside the project are not here.");
    const auto oracle = nlohmann::json::parse(read_file(tokenizer_files::own("expected.json")));
    const auto expected = oracle.at("shared").at("smollm_hf_tokenizer.json").get<std::vector<Ids>>();
    CHECK_EQUAL(expected.size(), texts.size());
    const auto tokenizer = tokenizer_files::loaded(check, model);
    CHECK_THAT(tokenizer);
    for (std::size_t i = 0; i < texts.size(); ++i) CHECK_EQUAL(tokenizer->encode(texts[i], false), expected[i]);
    CHECK_THAT(!tokenizer->adds_bos());
    CHECK_EQUAL(tokenizer->encode("<|im_start|>user", true).front(), 1);
    CHECK_EQUAL(tokenizer->shown(tokenizer->end_tokens().front()), "<|im_end|>");
}

// Ids 3 + byte; "▁h" 259, "el" 260, "▁hel" 261, "lo" 262, "▁hello" 263, "aa" 264, "aaaa" 265, "▁▁" 266, "▁" 267,
// e h l o a é 你 s 268 to 275, "<tool>" 276 (user-defined), "<|im_end|>" 277 (control).
struct TinyVocabularyFollowsTheScoresCase {
    std::string text;
    bool special;
    Ids ids;
};
Cases<TinyVocabularyFollowsTheScoresCase> tinyVocabularyFollowsTheScores_cases() {
    Cases<TinyVocabularyFollowsTheScoresCase> cases;
    const auto row = [&](const char* name, const char* text, bool special, const Ids& ids) {
        cases.add(name, {std::string(text), special, ids});
    };
    row("nothing", "", false, {});
    row("a space is put in front", "hello", false, {263});
    row("also before a space", " ", false, {266});
    row("leftmost on ties", "aaaaa", false, {267, 265, 272});
    row("bytes for what is no token", "hix\xE4\xBD\xA0\xF0\x9F\x9A\x80", false,
        {259, 3 + 'i', 3 + 'x', 274, 3 + 0xF0, 3 + 0x9F, 3 + 0x9A, 3 + 0x80});
    row("bytes for what is no UTF-8", "\xFFlo\xE4", false, {267, 3 + 0xFF, 262, 3 + 0xE4});
    row("special text is plain", "<s>", false, {267, 3 + '<', 275, 3 + '>'});
    row("special text counts", "<s>hello</s>lo", true, {1, 263, 2, 267, 262});
    row("byte names are plain", "<0x41>", false, {267, 3 + '<', 3 + '0', 3 + 'x', 3 + '4', 3 + '1', 3 + '>'});
    row("user-defined always counts", "lo<tool>hello", false, {267, 262, 276, 263});
    return cases;
}
void tinyVocabularyFollowsTheScores(Check& check, const TinyVocabularyFollowsTheScoresCase& row) {
    const auto tokenizer = tokenizer_files::loaded(check, tokenizer_files::own("fixtures/tiny-spm.gguf"));
    CHECK_THAT(tokenizer);
    CHECK_EQUAL(tokenizer->encode(row.text, row.special), row.ids);
}

void promptGetsTheTokenizersBosOnce(Check& check) {
    const auto tokenizer = tokenizer_files::loaded(check, tokenizer_files::own("fixtures/tiny-spm.gguf"));
    CHECK_THAT(tokenizer);
    CHECK_THAT(tokenizer->adds_bos());
    CHECK_EQUAL(tokenizer->encode_prompt("hello"), (Ids{1, 263}));
    CHECK_EQUAL(tokenizer->encode_prompt(""), Ids{1});
    CHECK_EQUAL(tokenizer->encode_prompt("<s>hello", true), (Ids{1, 263}));
    CHECK_EQUAL(tokenizer->encode_prompt("<s>", false), (Ids{1, 267, 3 + '<', 275, 3 + '>'}));
    CHECK_EQUAL(Ids(tokenizer->end_tokens().begin(), tokenizer->end_tokens().end()), (Ids{2, 277}));
}

void tokensAreShownAndJoined(Check& check) {
    const auto tokenizer = tokenizer_files::loaded(check, tokenizer_files::own("fixtures/tiny-spm.gguf"));
    CHECK_THAT(tokenizer);
    CHECK_EQUAL(tokenizer->piece(263), " hello");
    CHECK_EQUAL(tokenizer->piece(3 + 0xE4), "\xE4");
    CHECK_EQUAL(tokenizer->piece(2), std::string());
    CHECK_EQUAL(tokenizer->piece(99999), std::string());
    CHECK_EQUAL(tokenizer->shown(3 + 0xE4), "<0xE4>");
    CHECK_EQUAL(tokenizer->shown(3 + 'x'), "x");
    CHECK_EQUAL(tokenizer->shown(2), "</s>");
    CHECK_EQUAL(tokenizer->decode(Ids{1, 263, 263, 2}), "hello hello");
    CHECK_EQUAL(tokenizer->decode(Ids{1, 263, 2}, true), "<s>hello</s>");
    CHECK_EQUAL(tokenizer->decode(Ids{3 + 0xE4, 3 + 0xBD, 3 + 0xA0, 3 + 0xE4}), "\xE4\xBD\xA0\xEF\xBF\xBD");
    const auto text = tokenizer->vocabulary_text();
    CHECK_EQUAL(text->pieces.size(), tokenizer->size());
    CHECK_EQUAL(text->shown[263], " hello");
    CHECK_THAT(text->strips_leading_space);
}

// Phi-3's end tokens swallow the space behind them (llama.cpp knows it by the model's name).
void phi3TokensTakeTheSpaceAfterThem(Check& check) {
    if (!file_exists(tokenizer_files::shared("ggml-vocab-phi-3.gguf"))) SKIP_ROW("The vocabularies beside the project are not here.");
    const auto tokenizer = tokenizer_files::loaded(check, tokenizer_files::shared("ggml-vocab-phi-3.gguf"));
    CHECK_THAT(tokenizer);
    CHECK_EQUAL(tokenizer->encode("<|user|>\n  hi", true), tokenizer->encode("<|user|>hi", true));
    CHECK_THAT(tokenizer->encode("<s> hi", true) != tokenizer->encode("<s>hi", true));
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(vocabulariesGiveAll46Ids), vocabulariesGiveAll46Ids_cases());
    claims.add(CLAIM(smolLm2EqualsTransformers));
    claims.add(CLAIM(tinyVocabularyFollowsTheScores), tinyVocabularyFollowsTheScores_cases());
    claims.add(CLAIM(promptGetsTheTokenizersBosOnce));
    claims.add(CLAIM(tokensAreShownAndJoined));
    claims.add(CLAIM(phi3TokensTakeTheSpaceAfterThem));
    return claims.rows();
}
