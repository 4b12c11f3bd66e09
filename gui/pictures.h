// SPDX-License-Identifier: GPL-3.0-or-later
//
// Every view of a recording as PNG and SVG under its id, without a display.
#pragma once

#include "engine/record/recording.h"
#include "engine/record/result.h"
#include "engine/serve/scenario.h"

#include <memory>
#include <string>
#include <vector>

namespace kvloupe {

// Attention of all heads of the first layers that fit a picture; what `run --pictures` records by default.
std::vector<AttentionWatch> watch_everything();

Result<void> write_pictures(std::shared_ptr<const Recording> recording, const std::string& folder);

}  // namespace kvloupe
