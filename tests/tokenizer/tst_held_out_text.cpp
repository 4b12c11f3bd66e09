// SPDX-License-Identifier: GPL-3.0-or-later
//
// The held-out text of resources/quality says about itself what the bundled tokenizer finds in it.
#include "tests/tokenizer/tokenizer_files.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>

using namespace kvloupe;
using namespace kvloupe::test;
using nlohmann::json;

namespace {

using Ids = std::vector<TokenId>;

std::string models() { return KVLOUPE_SOURCE_DIR "/resources/models/"; }

// The list `key` of a document in resources/quality.
json held_out(const std::string& name, const std::string& key) {
    return json::parse(read_file(KVLOUPE_SOURCE_DIR "/resources/quality/" + name))[key];
}

std::size_t words(const std::string& text) {
    return static_cast<std::size_t>(std::count(text.begin(), text.end(), ' ')) + 1;
}

void storiesHaveTheTokensTheySay(Check& check) {
    const auto tokenizer = tokenizer_files::loaded(check, models() + "gqa");
    CHECK_THAT(tokenizer);
    const json stories = held_out("stories.json", "stories");
    CHECK_EQUAL(stories.size(), std::size_t{512});
    std::set<std::string> texts;
    for (const json& story : stories) {
        const std::string text = story["text"];
        const Ids ids = tokenizer->encode_prompt(text);
        CHECK_EQUAL(ids.size() + 1, story["tokens"].get<std::size_t>());  // `<s>` is in ids, `</s>` is not
        CHECK_EQUAL(tokenizer->decode(ids), text);
        texts.insert(text);
    }
    CHECK_EQUAL(texts.size(), stories.size());
}

// One token for each word, after the text's own tokens: so every answer word can be judged by itself.
void answersFollowTheirTextWordByWord(Check& check) {
    const auto tokenizer = tokenizer_files::loaded(check, models() + "gqa");
    CHECK_THAT(tokenizer);
    for (const json& question : held_out("recall.json", "questions")) {
        const std::string text = question["text"], answer = question["answer"];
        const Ids asked = tokenizer->encode_prompt(text), answered = tokenizer->encode_prompt(text + " " + answer);
        CHECK_EQUAL(asked.size(), question["tokens"].get<std::size_t>());
        CHECK_EQUAL(answered.size(), asked.size() + words(answer));
        CHECK_OR_SAY(std::equal(asked.begin(), asked.end(), answered.begin()), text);
    }
}

// The fact's last word is the answer's last word, and a full stop ends it.
void factsStandAtTheDistanceThatQuestionsSay(Check& check) {
    const auto tokenizer = tokenizer_files::loaded(check, models() + "gqa");
    CHECK_THAT(tokenizer);
    for (const json& question : held_out("recall.json", "questions")) {
        const std::string text = question["text"];
        const Ids ids = tokenizer->encode_prompt(text + " " + question["answer"].get<std::string>());
        const auto exact = question["exact_distance"].get<std::size_t>();
        const auto wanted = question["distance"].get<std::size_t>();
        CHECK_OR_SAY(exact >= wanted && exact <= wanted + 10, text);
        const std::size_t fact = question["tokens"].get<std::size_t>() - exact;
        CHECK_EQUAL(ids[fact], ids.back());
        CHECK_EQUAL(tokenizer->piece(ids[fact + 1]), ".");
    }
}

void anyBeginningOfTheQuestionsIsAFairSample(Check& check) {
    const json questions = held_out("recall.json", "questions");
    std::map<std::tuple<int, int, std::string>, std::size_t> counts;
    std::size_t most = 0;
    for (const json& question : questions) {
        const std::size_t now =
            ++counts[{question["facts"].get<int>(), question["distance"].get<int>(), question["kind"].get<std::string>()}];
        most = std::max(most, now);
        CHECK_EQUAL(now, most);  // never behind another combination
    }
    CHECK_EQUAL(counts.size(), std::size_t{2 * 4 * 6});
    for (const auto& [combination, count] : counts) CHECK_EQUAL(count, std::size_t{12});
}

// Sisters that are compared token by token must cut text alike.
Cases<std::string> sisters() {
    Cases<std::string> cases;
    for (const auto& entry : std::filesystem::directory_iterator(models()))
        if (std::filesystem::exists(entry.path() / "config.json"))
            cases.add(entry.path().filename().string(), entry.path().string());
    return cases;
}

void aSisterHasTheTokenizerOfTheOthers(Check& check, const std::string& folder) {
    CHECK_THAT(read_file(folder + "/tokenizer.json") == read_file(models() + "gqa/tokenizer.json"));
    const auto tokenizer = tokenizer_files::loaded(check, folder);
    CHECK_THAT(tokenizer);
    const auto gqa = tokenizer_files::loaded(check, models() + "gqa");
    CHECK_THAT(gqa);
    CHECK_EQUAL(tokenizer->bos(), gqa->bos());
    CHECK_THAT(tokenizer->adds_bos());
    CHECK_EQUAL(Ids(tokenizer->end_tokens().begin(), tokenizer->end_tokens().end()),
                Ids(gqa->end_tokens().begin(), gqa->end_tokens().end()));
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(storiesHaveTheTokensTheySay));
    claims.add(CLAIM(answersFollowTheirTextWordByWord));
    claims.add(CLAIM(factsStandAtTheDistanceThatQuestionsSay));
    claims.add(CLAIM(anyBeginningOfTheQuestionsIsAFairSample));
    claims.add(CLAIM(aSisterHasTheTokenizerOfTheOthers), sisters());
    return claims.rows();
}
