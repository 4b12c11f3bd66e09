// SPDX-License-Identifier: GPL-3.0-or-later
//
// A quality report as JSON: what `kvloupe quality --json` prints and what is kept. For .cpp files only: it brings nlohmann's header.
#pragma once

#include "engine/record/quality.h"

#include <nlohmann/json.hpp>

#include <optional>

namespace kvloupe {

// Figures that were not measured are null.
nlohmann::json json_of(const QualityReport& report);
nlohmann::json json_of(const LaneQuality& lane);

// What json_of wrote; nothing where it is something else.
std::optional<LaneQuality> lane_quality_of(const nlohmann::json& json);

}  // namespace kvloupe
