// SPDX-License-Identifier: GPL-3.0-or-later
//
// A scenario as JSON, so that parse_scenario() reads back what is equal to it; keys with their default value are left out.
// Not in it, because no key says them: the title (a file's name) and the limit at which a window pauses uncached lanes.
#pragma once

#include "engine/serve/scenario.h"

#include <string>

namespace kvloupe {

// Texts that are not UTF-8 come out with U+FFFD.
std::string scenario_json(const Scenario& scenario);

}  // namespace kvloupe
