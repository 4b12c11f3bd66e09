// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/serve/quality_text.h"

#include "engine/model/json_document.h"
#include "engine/model/utf8.h"

#include <algorithm>
#include <cstdio>

namespace kvloupe {

namespace {

using nlohmann::json;

// FNV-1a over 64 bits: tells texts apart, guards against nothing.
class TextHash {
public:
    TextHash& add(std::string_view bytes) {
        for (const char c : bytes) m_state = (m_state ^ static_cast<unsigned char>(c)) * 1099511628211u;
        m_state = (m_state ^ 0xFFu) * 1099511628211u;  // no byte of UTF-8: an end
        return *this;
    }
    std::string text() const {
        char digits[17];
        std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(m_state));
        return digits;
    }

private:
    std::uint64_t m_state = 14695981039346656037u;
};

std::string_view view_of(std::span<const std::byte> bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

Error not_the_format(const std::string& file, const std::string& what) {
    return {file + ": " + what, "Its format is described in resources/quality/README.md."};
}

// The list under `key`, each element an object with the text `text`.
Result<json> list_of(std::span<const std::byte> bytes, const std::string& file, const char* key) {
    auto document = parse_json(bytes, file);
    if (!document) return document.error();
    if (!document->is_object() || !document->contains(key) || !document->at(key).is_array() || document->at(key).empty())
        return not_the_format(file, std::string("there is no list '") + key + "' with anything in it");
    for (const json& entry : document->at(key))
        if (!entry.is_object() || !entry.contains("text") || !entry.at("text").is_string())
            return not_the_format(file, std::string("an entry of '") + key + "' has no text");
    return std::move(document->at(key));
}

std::optional<std::uint32_t> small_number(const json& entry, const char* key) {
    const auto found = entry.find(key);
    if (found == entry.end() || !found->is_number_unsigned() || found->get<std::uint64_t>() > 1'000'000) return std::nullopt;
    return found->get<std::uint32_t>();
}

}  // namespace

Result<QualitySource> QualitySource::from_stories(std::span<const std::byte> stories, std::span<const std::byte> questions) {
    QualitySource source;
    auto texts = list_of(stories, "stories.json", "stories");
    if (!texts) return texts.error();
    for (const json& entry : *texts) source.texts.push_back(entry.at("text").get<std::string>());
    auto asked = list_of(questions, "recall.json", "questions");
    if (!asked) return asked.error();
    for (const json& entry : *asked) {
        const auto facts = small_number(entry, "facts"), distance = small_number(entry, "distance");
        const bool answered = entry.contains("answer") && entry.at("answer").is_string() && !entry.at("answer").get<std::string>().empty();
        if (!answered || !facts || !distance)
            return not_the_format("recall.json", "a question lacks its answer, its facts or its distance");
        source.questions.push_back({entry.at("text").get<std::string>(), entry.at("answer").get<std::string>(), *facts, *distance});
    }
    source.name = std::to_string(source.texts.size()) + " stories";
    source.hash = TextHash().add(view_of(stories)).add(view_of(questions)).text();
    return source;
}

Result<QualitySource> QualitySource::from_text(std::span<const std::byte> text, std::string name) {
    const std::string_view view = view_of(text);
    if (to_valid_utf8(view) != view) return Error{name + " is not a text in UTF-8", "Give a plain text file."};
    if (view.find_first_not_of(" \t\r\n") == std::string_view::npos) return Error{name + " holds no text", "Give a plain text file."};
    QualitySource source;
    source.name = std::move(name);
    source.cut = true;
    source.texts.emplace_back(view);
    source.hash = TextHash().add(view).add("pieces of " + std::to_string(piece_tokens)).text();
    return source;
}

QualitySource QualitySource::first(std::uint32_t most_texts, std::uint32_t most_questions) const {
    QualitySource part = *this;
    if (cut || (most_texts == 0 && most_questions == 0)) return part;
    if (most_texts > 0) part.texts.resize(std::min<std::size_t>(most_texts, texts.size()));
    if (most_questions > 0) part.questions.resize(std::min<std::size_t>(most_questions, questions.size()));
    part.name = std::to_string(part.texts.size()) + " stories";
    part.hash = TextHash().add(hash).add(std::to_string(part.texts.size()) + "/" + std::to_string(part.questions.size())).text();
    return part;
}

namespace {

// Pieces of one long text. Every piece begins with BOS where a prompt does, so its tokens are what the model sees of a text.
std::vector<QualityItem> pieces_of(std::vector<TokenId> tokens, const Tokenizer& tokenizer, std::uint32_t piece) {
    std::vector<TokenId> front;
    if (tokenizer.bos() && !tokens.empty() && tokens.front() == *tokenizer.bos()) front = {tokens.front()};
    std::vector<QualityItem> items;
    const std::size_t step = piece - front.size();
    for (std::size_t first = front.size(); first < tokens.size(); first += step) {
        QualityItem item;
        item.tokens = front;
        const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(first);
        item.tokens.insert(item.tokens.end(), begin, begin + static_cast<std::ptrdiff_t>(std::min(step, tokens.size() - first)));
        if (item.tokens.size() > 1) items.push_back(std::move(item));
    }
    return items;
}

Error too_short(const QualitySource& source, std::uint64_t predicted) {
    return {source.name + " is too short to measure: " + std::to_string(predicted) + " of its tokens can be predicted, and " +
                std::to_string(QualitySource::least_tokens) + " are needed",
            "Give a longer text."};
}

}  // namespace

Result<std::vector<QualityItem>> quality_items(const QualitySource& source, const Tokenizer& tokenizer, std::uint32_t context) {
    if (context < 2) return Error{"The model has a context of " + std::to_string(context) + " tokens, so nothing can be predicted", ""};
    std::vector<QualityItem> items;
    for (const std::string& text : source.texts) {
        std::vector<TokenId> tokens = tokenizer.encode_prompt(text);
        if (source.cut) {
            for (QualityItem& item : pieces_of(std::move(tokens), tokenizer, std::min(context, QualitySource::piece_tokens)))
                items.push_back(std::move(item));
        } else if (tokens.size() > 1 && tokens.size() <= context) {
            items.push_back({std::move(tokens), 1, std::nullopt});
        }
    }
    std::uint64_t predicted = 0;
    for (const QualityItem& item : items) predicted += item.predictions();
    if (predicted < QualitySource::least_tokens) return too_short(source, predicted);
    for (std::uint32_t i = 0; i < source.questions.size(); ++i) {
        const QualityQuestion& question = source.questions[i];
        QualityItem item{tokenizer.encode_prompt(question.text + " " + question.answer), 1, i};
        // The answer's tokens are those behind what both texts have in common.
        const std::vector<TokenId> asked = tokenizer.encode_prompt(question.text);
        const auto common = std::mismatch(asked.begin(), asked.end(), item.tokens.begin(), item.tokens.end()).first - asked.begin();
        item.scored = std::max<std::uint32_t>(1, static_cast<std::uint32_t>(common));
        if (item.scored < item.tokens.size() && item.tokens.size() <= context) items.push_back(std::move(item));
    }
    return items;
}

}  // namespace kvloupe
