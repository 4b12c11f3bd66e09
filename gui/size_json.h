// SPDX-License-Identifier: GPL-3.0-or-later
//
// `kvloupe size --json` (contract, section 1). For .cpp files only: it brings nlohmann's header.
#pragma once

#include "engine/analysis/size_report.h"

#include <nlohmann/json.hpp>

namespace kvloupe {

nlohmann::json size_json(const SizeReport& report);

}  // namespace kvloupe
