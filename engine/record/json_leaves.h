// SPDX-License-Identifier: GPL-3.0-or-later
//
// A JSON document as its values by path: "cache.copies", "requests.a.ttft_ms". Elements of arrays of objects go by their "id", else by
// their number; arrays of plain values are values.
#pragma once

#include <nlohmann/json.hpp>

#include <map>
#include <string>

namespace kvloupe {

using JsonLeaves = std::map<std::string, nlohmann::json>;

inline void flatten_json(const nlohmann::json& json, const std::string& path, JsonLeaves& leaves) {
    const auto below = [&path](const std::string& key) { return path.empty() ? key : path + "." + key; };
    if (json.is_object()) {
        for (const auto& item : json.items()) flatten_json(item.value(), below(item.key()), leaves);
    } else if (json.is_array() && !json.empty() && json.front().is_object()) {
        for (std::size_t i = 0; i < json.size(); ++i) {
            const bool named = json[i].contains("id") && json[i]["id"].is_string();
            flatten_json(json[i], below(named ? json[i]["id"].get<std::string>() : std::to_string(i)), leaves);
        }
    } else {
        leaves[path] = json;
    }
}

}  // namespace kvloupe
