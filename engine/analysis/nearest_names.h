// SPDX-License-Identifier: GPL-3.0-or-later
//
// Names that people type: compared without regard to case, hyphens, underscores and spaces; a wrong one is answered by
// the nearest right ones.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvloupe {

// "Llama 3.1_8B" -> "llama3.18b".
std::string plain_name(std::string_view name);

// At most `count` of the names, nearest first: by the edit distance (Levenshtein 1966) of what was typed to a beginning
// of the plain name, then to all of it. Equally near ones keep their order.
std::vector<std::string> nearest_names(std::string_view typed, const std::vector<std::string>& names,
                                       std::size_t count = 3);

// "a, b and c".
std::string listed(const std::vector<std::string>& names);

}  // namespace kvloupe
