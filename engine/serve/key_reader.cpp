// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/serve/key_reader.h"

#include "engine/model/json_document.h"

#include <algorithm>
#include <cmath>

namespace kvloupe {

using nlohmann::json;

namespace {

std::string in_short_quotes(std::string_view text) {
    const std::size_t shown = std::min<std::size_t>(text.size(), 60);
    return "'" + std::string(text.substr(0, shown)) + (shown < text.size() ? "…'" : "'");
}

// Levenshtein distance, words cut at 64 characters.
std::size_t distance(std::string_view a, std::string_view b) {
    a = a.substr(0, 64);
    b = b.substr(0, 64);
    std::vector<std::size_t> row(b.size() + 1);
    for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t above = row[j];
            row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0u : 1u)});
            diagonal = above;
        }
    }
    return row[b.size()];
}

bool is_bool(const json& v) { return v.is_boolean(); }
bool is_number(const json& v) { return v.is_number(); }
bool is_text(const json& v) { return v.is_string(); }
bool is_list(const json& v) { return v.is_array(); }
// 16.0 is a whole number too: some writers know no integers.
bool is_whole(const json& v) {
    return v.is_number_integer() || (v.is_number_float() && std::floor(v.get<double>()) == v.get<double>() &&
                                     std::fabs(v.get<double>()) < 9e15);
}

// The value as an unsigned number if it lies between least and most.
std::optional<std::uint64_t> within(const json& v, std::uint64_t least, std::uint64_t most) {
    std::uint64_t number = 0;
    if (v.is_number_unsigned()) {
        number = v.get<std::uint64_t>();
    } else if (v.is_number_integer()) {
        if (v.get<std::int64_t>() < 0) return std::nullopt;
        number = static_cast<std::uint64_t>(v.get<std::int64_t>());
    } else {
        if (v.get<double>() < 0) return std::nullopt;
        number = static_cast<std::uint64_t>(v.get<double>());
    }
    if (number < least || number > most) return std::nullopt;
    return number;
}

std::string range(std::uint64_t least, std::uint64_t most) {
    return "Give a whole number from " + std::to_string(least) + " to " + std::to_string(most) + ".";
}

}  // namespace

std::string nearest_word(const std::string& word, const std::vector<std::string>& words) {
    std::string best;
    std::size_t best_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
    for (const std::string& candidate : words) {
        const std::size_t d = distance(word, candidate);
        if (d < best_distance) {
            best_distance = d;
            best = candidate;
        }
    }
    return best;
}

void ReadFailure::set(const std::string& where, const std::string& what, const std::string& hint) {
    if (!error) error = Error{file + ": " + (where.empty() ? "" : where + ": ") + what, hint};
}

KeyReader::KeyReader(const json& object, std::string where, ReadFailure& failure)
    : m_object(object), m_where(std::move(where)), m_failure(failure) {
    if (!m_object.is_object())
        m_failure.set(m_where, "is " + describe(m_object) + ", not an object", "Write it as { \"key\": value, … }.");
}

std::string KeyReader::path(std::string_view key) const {
    return m_where.empty() ? std::string(key) : m_where + "." + std::string(key);
}

void KeyReader::fail(std::string_view key, const std::string& what, const std::string& hint) {
    m_failure.set(path(key), what, hint);
}

const json* KeyReader::value(const char* key) {
    m_known.insert(key);
    if (failed()) return nullptr;
    const auto found = m_object.find(key);
    return found == m_object.end() ? nullptr : &*found;
}

const json* KeyReader::typed(const char* key, bool right_type(const json&), const char* wanted) {
    const json* found = value(key);
    if (!found || right_type(*found)) return found;
    fail(key, "is " + describe(*found) + ", not " + wanted);
    return nullptr;
}

void KeyReader::boolean(const char* key, bool& target) {
    if (const json* v = typed(key, is_bool, "true or false")) target = v->get<bool>();
}

void KeyReader::whole(const char* key, std::uint64_t least, std::uint64_t most, std::uint64_t& target) {
    const json* v = typed(key, is_whole, "a whole number");
    if (!v) return;
    if (const auto number = within(*v, least, most)) target = *number;
    else fail(key, v->dump() + " is out of range", range(least, most));
}

void KeyReader::whole(const char* key, std::uint32_t least, std::uint32_t most, std::uint32_t& target) {
    std::uint64_t number = target;
    whole(key, std::uint64_t{least}, std::uint64_t{most}, number);
    target = static_cast<std::uint32_t>(number);
}

void KeyReader::whole(const char* key, std::uint32_t least, std::uint32_t most, std::optional<std::uint32_t>& target) {
    std::uint32_t number = 0;
    if (!value(key)) return;
    whole(key, least, most, number);
    if (!failed()) target = number;
}

void KeyReader::number(const char* key, double least, double most, float& target) {
    double given = static_cast<double>(target);
    number(key, least, most, given);
    target = static_cast<float>(given);
}

void KeyReader::number(const char* key, double least, double most, double& target) {
    const json* v = typed(key, is_number, "a number");
    if (!v) return;
    const double given = v->get<double>();
    if (given >= least && given <= most) target = given;
    else fail(key, v->dump() + " is out of range", "Give a number from " + json(least).dump() + " to " + json(most).dump() + ".");
}

void KeyReader::whole_signed(const char* key, std::int32_t least, std::int32_t most, std::int32_t& target) {
    const json* v = typed(key, is_whole, "a whole number");
    if (!v) return;
    const double given = v->get<double>();  // exact: 32 bits fit
    if (given >= least && given <= most) target = static_cast<std::int32_t>(given);
    else fail(key, v->dump() + " is out of range", "Give a whole number from " + std::to_string(least) + " to " + std::to_string(most) + ".");
}

std::optional<std::size_t> KeyReader::choice(const char* key, std::initializer_list<std::string_view> words) {
    const json* v = value(key);
    if (!v) return std::nullopt;
    std::vector<std::string> known;
    for (const std::string_view word : words) {
        if (v->is_string() && v->get_ref<const std::string&>() == word) return known.size();
        known.emplace_back(word);
    }
    std::string hint;
    for (const std::string& word : known)
        hint += (hint.empty() ? "Give " : word == known.back() ? " or " : ", ") + word;
    const std::string near = v->is_string() ? nearest_word(v->get<std::string>(), known) : "";
    fail(key, "is " + describe(*v) + ", which is none of its values", near.empty() ? hint + "." : "Did you mean '" + near + "'?");
    return std::nullopt;
}

void KeyReader::text(const char* key, std::string& target) {
    if (const json* v = typed(key, is_text, "a text")) target = v->get<std::string>();
}

void KeyReader::text(const char* key, std::optional<std::string>& target) {
    if (const json* v = typed(key, is_text, "a text")) target = v->get<std::string>();
}

void KeyReader::tokens(const char* key, std::optional<std::vector<std::int32_t>>& target) {
    const json* v = typed(key, is_list, "a list of token ids");
    if (!v) return;
    std::vector<std::int32_t> ids;
    ids.reserve(v->size());
    for (std::size_t i = 0; i < v->size(); ++i) {
        const json& item = (*v)[i];
        const auto id = is_whole(item) ? within(item, 0, 0x7FFFFFFF) : std::nullopt;
        if (!id) {
            fail(key, "entry " + std::to_string(i) + " is " + describe(item) + ", not a token id",
                 "Token ids are whole numbers from 0.");
            return;
        }
        ids.push_back(static_cast<std::int32_t>(*id));
    }
    target = std::move(ids);
}

void KeyReader::whole_list(const char* key, std::uint32_t most, std::vector<std::uint32_t>& target) {
    const json* v = typed(key, is_list, "a list of whole numbers");
    if (!v) return;
    target.clear();
    for (const json& item : *v) {
        const auto number = is_whole(item) ? within(item, 0, most) : std::nullopt;
        if (!number) return fail(key, "holds " + describe(item), range(0, most));
        target.push_back(static_cast<std::uint32_t>(*number));
    }
}

void KeyReader::finish() {
    if (failed()) return;
    for (const auto& item : m_object.items()) {
        const std::string& key = item.key();
        if (key == "_" || m_known.count(key)) continue;
        const std::string near = nearest_word(key, {m_known.begin(), m_known.end()});
        m_failure.set(m_where, "unknown key " + in_short_quotes(key),
                      near.empty() ? "Remove it; a comment is written under the key \"_\"." : "Did you mean '" + near + "'?");
        return;
    }
}

}  // namespace kvloupe
