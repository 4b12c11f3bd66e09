// SPDX-License-Identifier: GPL-3.0-or-later
//
// What a damaged or foreign tokenizer is told: one sentence with the file, the key and the value.
#include "engine/model/gguf.h"
#include "engine/model/tokenizer.h"
#include "tests/support/claims.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/texts.h"
#include "tests/tokenizer/tokenizer_files.h"

#include <nlohmann/json.hpp>

#include <functional>
#include <limits>

using namespace kvloupe;
using namespace kvloupe::test;
using nlohmann::json;

namespace {

using Change = std::function<void(json&)>;
using GgufChange = std::function<void(GgufFile&)>;

GgufArray strings(std::vector<std::string_view> list) {
    GgufArray array;
    array.element_type = 8;
    array.strings = std::move(list);
    return array;
}

GgufArray numbers(std::vector<double> list) {
    GgufArray array;
    array.element_type = 6;
    array.numbers = std::move(list);
    return array;
}

GgufFile bpe_file() {
    GgufFile file;
    file.path = "bpe.gguf";
    file.metadata["tokenizer.ggml.model"] = std::string("gpt2");
    file.metadata["tokenizer.ggml.pre"] = std::string("gpt-2");
    file.metadata["tokenizer.ggml.tokens"] = strings({"a", "b", "ab", "</s>"});
    file.metadata["tokenizer.ggml.token_type"] = numbers({1, 1, 1, 3});
    file.metadata["tokenizer.ggml.merges"] = strings({"a b"});
    file.metadata["tokenizer.ggml.eos_token_id"] = std::uint64_t{3};
    return file;
}

GgufFile spm_file() {
    GgufFile file;
    file.path = "spm.gguf";
    file.metadata["tokenizer.ggml.model"] = std::string("llama");
    file.metadata["tokenizer.ggml.tokens"] = strings({"<unk>", "<s>", "</s>", "a"});
    file.metadata["tokenizer.ggml.token_type"] = numbers({2, 3, 3, 1});
    file.metadata["tokenizer.ggml.scores"] = numbers({0, 0, 0, -1});
    return file;
}

void names(Check& check, const Error& error, const std::string& file, const std::string& named) {
    const std::string sentence = error.sentence;
    CHECK_OR_SAY(sentence.starts_with(file), sentence);
    CHECK_OR_SAY(contains(sentence, named), sentence);
    CHECK_OR_SAY(!contains(sentence, "\n") && sentence.size() < 400, sentence);
}

void refused(Check& check, const std::string& text, const std::string& named) {
    const auto tokenizer = tokenizer_from_json(std::as_bytes(std::span(text)), "tiny.json", std::nullopt, {});
    CHECK_THAT(!tokenizer);
    names(check, tokenizer.error(), "tiny.json", named);
}

json tiny() { return json::parse(read_file(tokenizer_files::own("fixtures/tiny-bpe.json"))); }

struct TokenizerJsonIsRefusedByNameCase {
    Change change;
    std::string named;
};
Cases<TokenizerJsonIsRefusedByNameCase> tokenizerJsonIsRefusedByName_cases() {
    Cases<TokenizerJsonIsRefusedByNameCase> cases;
    const auto row = [&](const char* name, const Change& change, const char* named) {
        cases.add(name, {change, named});
    };
    row("no model", [](json& d) { d.erase("model"); }, "'model'");
    row("no vocabulary", [](json& d) { d["model"].erase("vocab"); }, "'model.vocab'");
    row("empty vocabulary", [](json& d) { d["model"]["vocab"] = json::object(); }, "'model.vocab'");
    row("no merges", [](json& d) { d["model"].erase("merges"); }, "'model.merges'");
    row("no type, no merges", [](json& d) { d["model"].erase("merges"), d["model"].erase("type"); }, "'model.type'");
    row("another kind", [](json& d) { d["model"]["type"] = "Unigram"; }, "'Unigram'");
    row("type is a number", [](json& d) { d["model"]["type"] = 3; }, "the number 3");
    row("negative id", [](json& d) { d["model"]["vocab"]["a"] = -1; }, "the number -1");
    row("id is a string", [](json& d) { d["model"]["vocab"]["a"] = "1"; }, "'a'");
    row("gap", [](json& d) { d["model"]["vocab"].erase("a"); }, "no token has the id");
    row("far gap", [](json& d) { d["model"]["vocab"]["a"] = 4000000000u; }, "4000000000");
    row("one id twice", [](json& d) { d["model"]["vocab"]["a"] = d["model"]["vocab"]["b"]; }, "the id");
    row("added token with another id", [](json& d) { d["added_tokens"][1]["id"] = 2; }, "added_tokens[1]");
    row("added token without id", [](json& d) { d["added_tokens"][1].erase("id"); }, "added_tokens[1] has no 'id'");
    row("added token without text", [](json& d) { d["added_tokens"][1].erase("content"); }, "added_tokens[1]: 'content'");
    row("added token that is a list", [](json& d) { d["added_tokens"][0] = json::array(); }, "added_tokens[0] is an array");
    row("added tokens in an object", [](json& d) { d["added_tokens"] = json::object(); }, "'added_tokens'");
    row("a flag that is a number", [](json& d) { d["added_tokens"][0]["lstrip"] = 1; }, "'lstrip' is the number 1");
    row("a merge of an absent token", [](json& d) { d["model"]["merges"][3] = "qz t"; }, "'qz'");
    row("a merge without a result", [](json& d) { d["model"]["merges"][3] = "a z"; }, "'az'");
    row("a merge of three", [](json& d) { d["model"]["merges"][3] = "a b c"; }, "model.merges[3]");
    row("a merge that is a number", [](json& d) { d["model"]["merges"][3] = 5; }, "model.merges[3] is the number 5");
    row("a merge twice", [](json& d) { d["model"]["merges"].push_back(d["model"]["merges"][0]); }, "twice");
    row("an unknown token that is none", [](json& d) { d["model"]["unk_token"] = "<unk>"; }, "'<unk>'");
    row("a prefix inside words", [](json& d) { d["model"]["continuing_subword_prefix"] = "##"; }, "'##'");
    row("dropout", [](json& d) { d["model"]["dropout"] = 0.1; }, "'model.dropout'");
    row("normalizer", [](json& d) { d["normalizer"] = {{"type", "NFC"}}; }, "the normalizer 'NFC'");
    row("normalizer inside", [](json& d) { d["normalizer"] = {{"type", "Sequence"}, {"normalizers", {{{"type", "Lowercase"}}}}}; }, "'Lowercase'");
    row("normalizer by expression", [](json& d) { d["normalizer"] = {{"type", "Replace"}, {"pattern", {{"Regex", "a"}}}, {"content", ""}}; }, "'Replace'");
    row("pre-tokenizer", [](json& d) { d["pre_tokenizer"] = {{"type", "BertPreTokenizer"}}; }, "'BertPreTokenizer'");
    row("pre-tokenizer is a string", [](json& d) { d["pre_tokenizer"] = "ByteLevel"; }, "the string 'ByteLevel'");
    row("bad expression", [](json& d) { d["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"Regex", "(a"}}}, {"behavior", "Isolated"}, {"invert", false}}; }, "'(a'");
    row("unknown behaviour", [](json& d) { d["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"String", "a"}}}, {"behavior", "Glued"}}; }, "'Glued'");
    row("post-processor", [](json& d) { d["post_processor"] = {{"type", "BertProcessing"}}; }, "'BertProcessing'");
    row("template of an unknown token", [](json& d) { d["post_processor"] = {{"type", "TemplateProcessing"}, {"single", {{{"SpecialToken", {{"id", "<b>"}}}}}}, {"special_tokens", json::object()}}; }, "'<b>'");
    row("template beyond the vocabulary", [](json& d) { d["post_processor"] = {{"type", "TemplateProcessing"}, {"single", {{{"SpecialToken", {{"id", "<b>"}}}}}}, {"special_tokens", {{"<b>", {{"ids", {9999}}}}}}}; }, "9999");
    row("decoder", [](json& d) { d["decoder"] = {{"type", "CTC"}}; }, "'CTC'");
    return cases;
}
void tokenizerJsonIsRefusedByName(Check& check, const TokenizerJsonIsRefusedByNameCase& row) {
    json data = tiny();
    row.change(data);
    refused(check, data.dump(), row.named);
}

void textThatIsNoTokenizerIsRefused(Check& check) {
    refused(check, "", "JSON");
    refused(check, "[1, 2]", "an array of 2");
    refused(check, "{\"model\": ", "JSON at byte");
    refused(check, "{\"model\": \"\xFF\"}", "JSON at byte");
    refused(check, "{\"model\": 1, \"model\": 2}", "twice");
    refused(check, std::string(100000, '['), "deeper than 64");
    std::string deep = "{\"model\":";
    for (int i = 0; i < 200; ++i) deep += "{\"a\":";
    refused(check, deep, "deeper than 64");
}

void idsOfTheConfigAreChecked(Check& check) {
    const std::string text = tiny().dump();
    const auto bos = tokenizer_from_json(std::as_bytes(std::span(text)), "tiny.json", TokenId{70000}, {});
    CHECK_THAT(!bos);
    names(check, bos.error(), "tiny.json", "bos_token_id is 70000");
    const auto end = tokenizer_from_json(std::as_bytes(std::span(text)), "tiny.json", std::nullopt, {-1});
    CHECK_THAT(!end);
    names(check, end.error(), "tiny.json", "eos_token_id is -1");
}

struct GgufIsRefusedByNameCase {
    GgufChange change;
    std::string named;
};
Cases<GgufIsRefusedByNameCase> ggufIsRefusedByName_cases() {
    Cases<GgufIsRefusedByNameCase> cases;
    const auto row = [&](const char* name, const GgufChange& change, const char* named) {
        cases.add(name, {change, named});
    };
    const auto set = [&](const char* key, const GgufValue& value) {
        return [key = std::string(key), value](GgufFile& f) { f.metadata["tokenizer.ggml." + key] = value; };
    };
    const auto drop = [&](const char* key) {
        return [key = std::string(key)](GgufFile& f) { f.metadata.erase("tokenizer.ggml." + key); };
    };
    row("no kind", drop("model"), "'tokenizer.ggml.model'");
    row("kind is a number", set("model", std::uint64_t{3}), "'tokenizer.ggml.model'");
    row("another kind", set("model", std::string("bert")), "'bert'");
    row("another pre-tokenizer", set("pre", std::string("tekken")), "'tekken'");
    row("pre-tokenizer is a number", set("pre", std::uint64_t{1}), "'tokenizer.ggml.pre'");
    row("no tokens", drop("tokens"), "'tokenizer.ggml.tokens'");
    row("tokens are numbers", set("tokens", numbers({1})), "'tokenizer.ggml.tokens'");
    row("a token twice", set("tokens", strings({"a", "b", "ab", "a"})), "tokens 0 and 3 are both 'a'");
    row("too few types", set("token_type", numbers({1})), "'tokenizer.ggml.token_type'");
    row("an unknown type", set("token_type", numbers({1, 1, 1, 9})), "for token 3");
    row("no merges", drop("merges"), "'tokenizer.ggml.merges'");
    row("a merge of an absent token", set("merges", strings({"a q"})), "'q'");
    row("a merge without a space", set("merges", strings({"ab"})), "merge 0 ('ab')");
    row("a merge twice", set("merges", strings({"a b", "a b"})), "twice");
    row("end token beyond the vocabulary", set("eos_token_id", std::uint64_t{4}), "'tokenizer.ggml.eos_token_id' is 4");
    row("negative token", set("bos_token_id", std::int64_t{-5}), "'tokenizer.ggml.bos_token_id'");
    row("a switch that is none", set("add_bos_token", std::string("yes")), "'tokenizer.ggml.add_bos_token'");
    row("SentencePiece without scores", [](GgufFile& f) { f = spm_file(); f.metadata.erase("tokenizer.ggml.scores"); }, "'tokenizer.ggml.scores'");
    row("a score that is no number", [](GgufFile& f) { f = spm_file(); f.metadata["tokenizer.ggml.scores"] = numbers({0, 0, std::numeric_limits<double>::quiet_NaN(), 0}); }, "for token 2");
    row("a prefix switch that is none", [](GgufFile& f) { f = spm_file(); f.metadata["tokenizer.ggml.add_space_prefix"] = 1.5; }, "add_space_prefix");
    return cases;
}
void ggufIsRefusedByName(Check& check, const GgufIsRefusedByNameCase& row) {
    GgufFile file = bpe_file();
    CHECK_THAT(bool(tokenizer_from_gguf(file)));
    CHECK_THAT(bool(tokenizer_from_gguf(spm_file())));
    row.change(file);
    const auto tokenizer = tokenizer_from_gguf(file);
    CHECK_THAT(!tokenizer);
    names(check, tokenizer.error(), file.path, row.named);
}

void pathsAreRefusedByName(Check& check) {
    const TemporaryFolder folder;
    const std::string path = folder.path();
    const auto none = load_tokenizer(path);
    CHECK_THAT(!none);
    names(check, none.error(), path, "tokenizer.json");
    const auto absent = load_tokenizer(path + "/absent.gguf");
    CHECK_THAT(!absent);
    names(check, absent.error(), path, "absent.gguf");
    CHECK_THAT(write_bytes(folder.file("tokenizer.json"), tiny().dump()));
    CHECK_THAT(write_bytes(folder.file("config.json"), "{\"eos_token_id\": \"x\"}"));
    const auto config = load_tokenizer(path);
    CHECK_THAT(!config);
    names(check, config.error(), path, "eos_token_id");
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(tokenizerJsonIsRefusedByName), tokenizerJsonIsRefusedByName_cases());
    claims.add(CLAIM(textThatIsNoTokenizerIsRefused));
    claims.add(CLAIM(idsOfTheConfigAreChecked));
    claims.add(CLAIM(ggufIsRefusedByName), ggufIsRefusedByName_cases());
    claims.add(CLAIM(pathsAreRefusedByName));
    return claims.rows();
}
