// SPDX-License-Identifier: GPL-3.0-or-later
//
// tokenizer.json. Oracle: the ids that Hugging Face's tokenizers and transformers give (expected.json, written by
// make_expected.py), for variants of a tiny tokenizer, the bundled models and two public vocabularies.
#include "engine/model/tokenizer.h"
#include "tests/support/claims.h"
#include "tests/tokenizer/tokenizer_files.h"

#include <nlohmann/json.hpp>

using namespace kvloupe;
using namespace kvloupe::test;
using nlohmann::json;
using Ids = std::vector<TokenId>;

namespace {

// What the oracle says, and the tokenizer that its variants patch.
struct Oracle {
    json expected = json::parse(read_file(tokenizer_files::own("expected.json")));
    json tiny = json::parse(read_file(tokenizer_files::own("fixtures/tiny-bpe.json")));
};

std::shared_ptr<const Tokenizer> read(Check& check, const std::string& text, std::optional<TokenId> bos = std::nullopt,
                                      std::vector<TokenId> end_tokens = {}) {
    auto tokenizer = tokenizer_from_json(std::as_bytes(std::span(text)), "tiny", bos, std::move(end_tokens));
    if (!tokenizer) {
        check.fail(tokenizer.error().message(), __FILE__, __LINE__);
        return nullptr;
    }
    return *tokenizer;
}

void compare(Check& check, const Tokenizer& tokenizer, const Oracle& oracle, const json& expected) {
    const auto texts = oracle.expected.at("texts").get<std::vector<std::string>>();
    CHECK_THAT(texts.size() > 20);
    for (std::size_t i = 0; i < texts.size(); ++i) {
        CHECK_EQUAL(tokenizer.encode(texts[i], false), expected["plain"][i].get<Ids>());
        CHECK_EQUAL(tokenizer.encode(texts[i], true), expected["special"][i].get<Ids>());
        // tokenizers puts a second BOS in front of a text that brings one; a prompt here has it once.
        Ids prompt = expected["prompt"][i].get<Ids>();
        if (tokenizer.adds_bos() && prompt.size() > 1 && prompt[1] == *tokenizer.bos()) prompt.erase(prompt.begin());
        CHECK_EQUAL(tokenizer.encode_prompt(texts[i], true), prompt);
    }
}

Cases<int> everyStageEqualsTokenizers_cases() {
    const Oracle oracle;
    Cases<int> cases;
    for (std::size_t i = 0; i < oracle.expected["tiny"].size(); ++i) {
        cases.add(oracle.expected["tiny"][i]["name"].get<std::string>(), static_cast<int>(i));
    }
    return cases;
}
void everyStageEqualsTokenizers(Check& check, int index) {
    const Oracle oracle;
    const json& variant = oracle.expected["tiny"][static_cast<std::size_t>(index)];
    json data = oracle.tiny;
    for (const auto& [key, value] : variant["patch"].items()) {
        if (key == "model") {
            data["model"].update(value);
        } else {
            data[key] = value;
        }
    }
    const auto tokenizer = read(check, data.dump());
    CHECK_THAT(tokenizer);
    compare(check, *tokenizer, oracle, variant);
}

void aModelWithoutTypeIsByItsMergesBpe(Check& check) {
    const Oracle oracle;
    json data = oracle.tiny;
    data["model"].erase("type");
    const auto tokenizer = read(check, data.dump());
    CHECK_THAT(tokenizer);
    compare(check, *tokenizer, oracle, oracle.expected["tiny"][0]);
}

struct BundledModelsEqualTokenizersCase {
    std::string name, folder;
};
Cases<BundledModelsEqualTokenizersCase> bundledModelsEqualTokenizers_cases() {
    const Oracle oracle;
    Cases<BundledModelsEqualTokenizersCase> cases;
    for (const auto& [name, ids] : oracle.expected["bundled"].items()) {
        cases.add(name, {name, std::string(KVLOUPE_SOURCE_DIR "/resources/models/") + name});
    }
    return cases;
}
void bundledModelsEqualTokenizers(Check& check, const BundledModelsEqualTokenizersCase& row) {
    const Oracle oracle;
    const auto tokenizer = tokenizer_files::loaded(check, row.folder);
    CHECK_THAT(tokenizer);
    compare(check, *tokenizer, oracle, oracle.expected["bundled"][row.name]);
    CHECK_THAT(tokenizer->adds_bos());
    CHECK_THAT(!tokenizer->end_tokens().empty());
    CHECK_EQUAL(tokenizer->decode(tokenizer->encode_prompt("Anna has a red ball.")), "Anna has a red ball.");
}

Cases<std::string> publicVocabulariesEqualTransformers_cases() {
    const Oracle oracle;
    Cases<std::string> cases;
    for (const auto& [name, ids] : oracle.expected["shared"].items()) cases.add(name, name);
    return cases;
}
void publicVocabulariesEqualTransformers(Check& check, const std::string& file) {
    const Oracle oracle;
    if (!file_exists(tokenizer_files::shared(file))) SKIP_ROW("The vocabularies beside the project are not here.");
    const auto texts = tokenizer_files::shared_texts("ggml-vocab-gpt-2.gguf.inp");
    const json& expected = oracle.expected["shared"][file];
    CHECK_EQUAL(texts.size(), std::size_t{46});
    CHECK_EQUAL(expected.size(), texts.size());
    const auto tokenizer = tokenizer_files::loaded(check, tokenizer_files::shared(file));
    CHECK_THAT(tokenizer);
    for (std::size_t i = 0; i < texts.size(); ++i) {
        const Ids ids = tokenizer->encode(texts[i], false);
        CHECK_EQUAL(ids, expected[i].get<Ids>());
        CHECK_EQUAL(tokenizer->decode(ids), texts[i]);
    }
}

void configGivesBosAndEndTokens(Check& check) {
    const Oracle oracle;
    const auto tokenizer = read(check, oracle.tiny.dump(), TokenId{1}, {2, 0});
    CHECK_THAT(tokenizer);
    CHECK_EQUAL(*tokenizer->bos(), 1);
    CHECK_THAT(!tokenizer->adds_bos());  // only a template puts it in front
    CHECK_EQUAL(tokenizer->encode_prompt("the"), tokenizer->encode("the", false));
    CHECK_EQUAL(Ids(tokenizer->end_tokens().begin(), tokenizer->end_tokens().end()), (Ids{2, 0}));
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(everyStageEqualsTokenizers), everyStageEqualsTokenizers_cases());
    claims.add(CLAIM(aModelWithoutTypeIsByItsMergesBpe));
    claims.add(CLAIM(bundledModelsEqualTokenizers), bundledModelsEqualTokenizers_cases());
    claims.add(CLAIM(publicVocabulariesEqualTransformers), publicVocabulariesEqualTransformers_cases());
    claims.add(CLAIM(configGivesBosAndEndTokens));
    return claims.rows();
}
