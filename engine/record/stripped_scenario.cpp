// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/stripped_scenario.h"

#include <nlohmann/json.hpp>

namespace kvloupe {

namespace {

void strip_json(nlohmann::ordered_json& json) {
    if (json.is_object())
        for (const char* key : {"prompt", "prompt_tokens", "output_tokens", "salt", "token", "_"}) json.erase(key);
    if (json.is_structured())
        for (auto& item : json) strip_json(item);
}

}  // namespace

std::string stripped_scenario(const std::string& scenario) {
    auto json = nlohmann::ordered_json::parse(scenario, nullptr, false);
    if (!json.is_object()) return {};
    strip_json(json);
    return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace kvloupe
