// SPDX-License-Identifier: GPL-3.0-or-later
//
// KeyReader: reads the keys of one JSON object strictly. Every key that is asked for is known; finish() refuses the rest.
// The first error wins and stays.
#pragma once

#include "engine/record/result.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace kvloupe {

// The error of a whole document and where it is, shared by all readers of it.
struct ReadFailure {
    std::string file;
    std::optional<Error> error;
    void set(const std::string& where, const std::string& what, const std::string& hint);
};

class KeyReader {
public:
    // where: "requests[0]", empty at the top level. A value that is no object is an error.
    KeyReader(const nlohmann::json& value, std::string where, ReadFailure& failure);

    // Null if absent. Marks the key as known.
    const nlohmann::json* value(const char* key);

    // Each leaves `target` alone where the key is absent.
    void boolean(const char* key, bool& target);
    void whole(const char* key, std::uint64_t least, std::uint64_t most, std::uint64_t& target);
    void whole(const char* key, std::uint32_t least, std::uint32_t most, std::uint32_t& target);
    void whole(const char* key, std::uint32_t least, std::uint32_t most, std::optional<std::uint32_t>& target);
    void number(const char* key, double least, double most, double& target);
    void number(const char* key, double least, double most, float& target);
    void whole_signed(const char* key, std::int32_t least, std::int32_t most, std::int32_t& target);
    void text(const char* key, std::string& target);
    void text(const char* key, std::optional<std::string>& target);
    // Non-negative ids; whether the vocabulary has them is checked with the model.
    void tokens(const char* key, std::optional<std::vector<std::int32_t>>& target);
    void whole_list(const char* key, std::uint32_t most, std::vector<std::uint32_t>& target);

    // The place in `words` of the text under the key; "Did you mean" where it is none of them.
    std::optional<std::size_t> choice(const char* key, std::initializer_list<std::string_view> words);
    // The values of `Choice` in the order of `words`.
    template <class Choice>
    void choice(const char* key, std::initializer_list<std::string_view> words, Choice& target) {
        if (const auto place = choice(key, words)) target = static_cast<Choice>(*place);
    }

    // Refuses keys that nobody asked for; "_" is a comment. The hint names the nearest known key.
    void finish();

    std::string path(std::string_view key) const;
    void fail(std::string_view key, const std::string& what, const std::string& hint = {});
    bool failed() const { return m_failure.error.has_value(); }

private:
    const nlohmann::json* typed(const char* key, bool right_type(const nlohmann::json&), const char* wanted);

    const nlohmann::json& m_object;
    std::string m_where;
    ReadFailure& m_failure;
    std::set<std::string> m_known;
};

// The one of `words` that `word` was most likely meant to be, or "".
std::string nearest_word(const std::string& word, const std::vector<std::string>& words);

}  // namespace kvloupe
