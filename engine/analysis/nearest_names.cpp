// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/analysis/nearest_names.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace kvloupe {

namespace {

// Insertions, deletions and replacements that make `typed` into a beginning of `name` (the fewest), then into all of it.
std::pair<std::size_t, std::size_t> edit_distances(std::string_view typed, std::string_view name) {
    std::vector<std::size_t> row(name.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 0; i < typed.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i + 1;
        for (std::size_t j = 0; j < name.size(); ++j) {
            const std::size_t replaced = diagonal + (typed[i] == name[j] ? 0 : 1);
            diagonal = row[j + 1];
            row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
        }
    }
    return {*std::min_element(row.begin(), row.end()), row[name.size()]};
}

}  // namespace

std::string plain_name(std::string_view name) {
    std::string plain;
    for (const char c : name) {
        if (c == '-' || c == '_' || c == ' ') continue;
        plain += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
    return plain;
}

std::vector<std::string> nearest_names(std::string_view typed, const std::vector<std::string>& names, std::size_t count) {
    constexpr std::size_t longest = 200;  // what is compared of a name that was typed
    const std::string wanted = plain_name(typed.substr(0, longest));
    std::vector<std::pair<std::pair<std::size_t, std::size_t>, std::string>> ranked;
    for (const std::string& name : names) ranked.emplace_back(edit_distances(wanted, plain_name(name)), name);
    std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<std::string> nearest;
    for (std::size_t i = 0; i < std::min(count, ranked.size()); ++i) nearest.push_back(ranked[i].second);
    return nearest;
}

std::string listed(const std::vector<std::string>& names) {
    std::string text;
    for (std::size_t i = 0; i < names.size(); ++i)
        text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
    return text;
}

}  // namespace kvloupe
