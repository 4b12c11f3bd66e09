// SPDX-License-Identifier: GPL-3.0-or-later
//
// JSON from a file: nesting is bounded, a key that stands twice in one object is an error (nlohmann's own parser keeps
// the last silently), and no exception escapes. For .cpp files only: it brings nlohmann's header.
#pragma once

#include "engine/record/result.h"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <span>
#include <string>

namespace kvloupe {

inline constexpr int max_json_depth = 64;

// path is used in messages only. Errors: bad UTF-8 or syntax (with the byte), deeper than max_json_depth, duplicate key.
Result<nlohmann::json> parse_json(std::span<const std::byte> bytes, const std::string& path);

// What a value is, for messages: "the string 'abc'", "an array of 3", "null".
std::string describe(const nlohmann::json& value);

}  // namespace kvloupe
