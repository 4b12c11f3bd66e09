// SPDX-License-Identifier: GPL-3.0-or-later
//
// A scenario without what people wrote into it.
#pragma once

#include <string>

namespace kvloupe {

// Without prompts, prompt tokens, forced tokens, salts and comments ("_"), of requests and actions alike; what it says of lanes
// stays. "" where the text is no JSON object.
std::string stripped_scenario(const std::string& scenario);

}  // namespace kvloupe
