// SPDX-License-Identifier: GPL-3.0-or-later
//
// Where two JSON documents differ: each value that only one has, or that is another one, by its path as in json_leaves.h. What is
// equal costs a comparison and nothing else.
#pragma once

#include "engine/record/json_leaves.h"

#include <string>
#include <unordered_map>

namespace kvloupe {

namespace json_difference {

using Ordered = nlohmann::ordered_json;

inline std::string below(const std::string& path, const std::string& key) { return path.empty() ? key : path + "." + key; }

inline bool is_list_of_objects(const Ordered& json) { return json.is_array() && !json.empty() && json.front().is_object(); }

// By its "id", else by its number.
inline std::string key_of(const Ordered& list, std::size_t i) {
    const auto id = list[i].find("id");
    return id != list[i].end() && id->is_string() ? id->get<std::string>() : std::to_string(i);
}

// Every value of a document that has no counterpart.
template <typename Found>
void alone(const Ordered& json, const std::string& path, const Found& found) {
    if (json.is_object()) {
        for (const auto& item : json.items()) alone(item.value(), below(path, item.key()), found);
    } else if (is_list_of_objects(json)) {
        for (std::size_t i = 0; i < json.size(); ++i) alone(json[i], below(path, key_of(json, i)), found);
    } else {
        found(path, json);
    }
}

}  // namespace json_difference

// Calls found(path, a, b) for each; a or b is null where the value does not exist.
template <typename Found>
void compare_json(const nlohmann::ordered_json& a, const nlohmann::ordered_json& b, const std::string& path, const Found& found) {
    using namespace json_difference;
    static const Ordered none;
    const auto only_a = [&](const std::string& at, const Ordered& value) { found(at, value, none); };
    const auto only_b = [&](const std::string& at, const Ordered& value) { found(at, none, value); };
    if (a.is_object() && b.is_object()) {
        for (const auto& item : a.items()) {
            const auto other = b.find(item.key());
            if (other == b.end()) alone(item.value(), below(path, item.key()), only_a);
            else compare_json(item.value(), *other, below(path, item.key()), found);
        }
        for (const auto& item : b.items())
            if (!a.contains(item.key())) alone(item.value(), below(path, item.key()), only_b);
    } else if ((is_list_of_objects(a) && b.is_array()) || (is_list_of_objects(b) && a.is_array())) {
        std::unordered_map<std::string, std::size_t> places;
        for (std::size_t i = 0; i < b.size(); ++i) places.emplace(key_of(b, i), i);
        for (std::size_t i = 0; i < a.size(); ++i) {
            const std::string key = key_of(a, i);
            const auto other = places.find(key);
            if (other == places.end()) {
                alone(a[i], below(path, key), only_a);
                continue;
            }
            compare_json(a[i], b[other->second], below(path, key), found);
            places.erase(other);
        }
        for (std::size_t i = 0; i < b.size() && !places.empty(); ++i)
            if (const std::string key = key_of(b, i); places.count(key)) alone(b[i], below(path, key), only_b);
    } else if (a.is_structured() == b.is_structured() || (a.is_array() || b.is_array())) {
        if (a != b) found(path, a, b);
    } else {
        alone(a, path, only_a);
        alone(b, path, only_b);
    }
}

}  // namespace kvloupe
