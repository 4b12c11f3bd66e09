// SPDX-License-Identifier: GPL-3.0-or-later
//
// How held-out text is read and cut: whole stories, questions whose answers are what is predicted, pieces of a long text.
#include "engine/serve/quality_text.h"
#include "engine/model/mapped_file.h"
#include "tests/support/claims.h"
#include "tests/support/texts.h"

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

const std::string resources = KVLOUPE_SOURCE_DIR "/resources/";

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

// Throws where a file is missing: they come with the program.
std::shared_ptr<const MappedFile> mapped(const std::string& name) {
    auto file = MappedFile::open(resources + name);
    if (!file) throw std::runtime_error(file.error().message());
    return *file;
}

QualitySource bundled() {
    auto source = QualitySource::from_stories(mapped("quality/stories.json")->bytes(), mapped("quality/recall.json")->bytes());
    if (!source) throw std::runtime_error(source.error().message());
    return *source;
}

std::shared_ptr<const Tokenizer> tokenizer() {
    auto loaded = load_tokenizer(resources + "models/gqa");
    if (!loaded) throw std::runtime_error(loaded.error().message());
    return *loaded;
}

void storiesAreWholeAndQuestionsArePredictedWhereTheirAnswerBegins(Check& check) {
    const QualitySource source = bundled();
    CHECK_EQUAL(source.texts.size(), std::size_t(512));
    CHECK_EQUAL(source.questions.size(), std::size_t(576));
    const auto items = quality_items(source, *tokenizer(), 512);
    CHECK_RESULT(items);
    CHECK_EQUAL(items->size(), std::size_t(512 + 576));
    for (const QualityItem& item : *items) {
        CHECK_THAT(item.predictions() > 0);
        if (!item.question) {
            CHECK_EQUAL(item.scored, std::uint32_t(1));
            continue;
        }
        // As the file's README says: the answer's first word is predicted at position tokens - 1, one token a word.
        const QualityQuestion& question = source.questions[*item.question];
        const auto words = std::uint32_t(1 + std::count(question.answer.begin(), question.answer.end(), ' '));
        CHECK_EQUAL(item.predictions(), words);
        const std::vector<TokenId> asked = tokenizer()->encode_prompt(question.text);
        CHECK_EQUAL(item.scored, std::uint32_t(asked.size()));
    }
}

void aPartSaysSoInItsHash(Check& check) {
    const QualitySource source = bundled(), part = source.first(16, 48), other = source.first(32, 48);
    CHECK_EQUAL(part.texts.size(), std::size_t(16));
    CHECK_EQUAL(part.questions.size(), std::size_t(48));
    CHECK_THAT(part.hash != source.hash && part.hash != other.hash);
    CHECK_EQUAL(source.first(0, 0).hash, source.hash);
    CHECK_EQUAL(bundled().hash, source.hash);
}

void whatIsLongerThanTheContextIsLeftOut(Check& check) {
    const auto items = quality_items(bundled(), *tokenizer(), 100);
    CHECK_RESULT(items);
    CHECK_THAT(!items->empty() && items->size() < 600);
    for (const QualityItem& item : *items) CHECK_THAT(item.tokens.size() <= 100);
}

void aLongTextIsCutIntoPiecesThatBeginAsAPromptDoes(Check& check) {
    std::string text;
    for (int i = 0; i < 400; ++i) text += "The red kite is in the green tin. ";
    const auto source = QualitySource::from_text(bytes_of(text), "kites.txt");
    CHECK_RESULT(source);
    const auto reader = tokenizer();
    const auto items = quality_items(*source, *reader, 512);
    CHECK_RESULT(items);
    const std::vector<TokenId> whole = reader->encode_prompt(text);
    std::vector<TokenId> joined = {whole.front()};
    for (std::size_t i = 0; i < items->size(); ++i) {
        const std::vector<TokenId>& tokens = (*items)[i].tokens;
        CHECK_EQUAL(tokens.front(), whole.front());
        CHECK_THAT(i + 1 == items->size() ? tokens.size() <= 512 : tokens.size() == 512);
        joined.insert(joined.end(), tokens.begin() + 1, tokens.end());
    }
    CHECK_THAT(joined == whole);
    const auto shorter = quality_items(*source, *reader, 64);
    CHECK_RESULT(shorter);
    CHECK_EQUAL((*shorter)[0].tokens.size(), std::size_t(64));
}

void whatIsNoTextIsRefusedInOneSentence(Check& check) {
    const auto binary = QualitySource::from_text(bytes_of("ab\xFF\xFE"), "a.bin");
    CHECK_THAT(!binary && contains(binary.error().message(), "a.bin is not a text in UTF-8"));
    const auto blank = QualitySource::from_text(bytes_of(" \n\t "), "b.txt");
    CHECK_THAT(!blank && contains(blank.error().message(), "b.txt holds no text"));
    const auto few = QualitySource::from_text(bytes_of("One sunny day."), "c.txt");
    CHECK_RESULT(few);
    const auto cut = quality_items(*few, *tokenizer(), 512);
    CHECK_THAT(!cut && contains(cut.error().message(), "c.txt is too short to measure") && contains(cut.error().message(), "256 are needed"));
}

Cases<std::pair<std::string, std::string>> damagedFiles() {
    const std::string stories = R"({"stories": [{"text": "a"}]})";
    Cases<std::pair<std::string, std::string>> cases;
    cases.add("no JSON", {"{", R"({"questions": []})"});
    cases.add("no list", {R"({"stories": {}})", ""});
    cases.add("an empty list", {R"({"stories": []})", ""});
    cases.add("a story without text", {R"({"stories": [{"tokens": 5}]})", ""});
    cases.add("a question without answer", {stories, R"({"questions": [{"text": "a", "facts": 2, "distance": 20}]})"});
    cases.add("a negative distance", {stories, R"({"questions": [{"text": "a", "answer": "b", "facts": 2, "distance": -1}]})"});
    cases.add("an answer that is a number", {stories, R"({"questions": [{"text": "a", "answer": 5, "facts": 2, "distance": 20}]})"});
    return cases;
}
void aDamagedFileIsRefusedInOneSentence(Check& check, const std::pair<std::string, std::string>& files) {
    const auto source = QualitySource::from_stories(bytes_of(files.first), bytes_of(files.second));
    CHECK_THAT(!source && !source.error().sentence.empty());
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(storiesAreWholeAndQuestionsArePredictedWhereTheirAnswerBegins));
    claims.add(CLAIM(aPartSaysSoInItsHash));
    claims.add(CLAIM(whatIsLongerThanTheContextIsLeftOut));
    claims.add(CLAIM(aLongTextIsCutIntoPiecesThatBeginAsAPromptDoes));
    claims.add(CLAIM(whatIsNoTextIsRefusedInOneSentence));
    claims.add(CLAIM(aDamagedFileIsRefusedInOneSentence), damagedFiles());
    return claims.rows();
}
