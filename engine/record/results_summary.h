// SPDX-License-Identifier: GPL-3.0-or-later
//
// Parts of summary.json as documents, for those who compare them and need no text.
#pragma once

#include "engine/record/recording.h"

#include <nlohmann/json.hpp>

#include <cstddef>

namespace kvloupe {

// An entry of "lanes", for comparing: without the requests' prompts, and with other lists of tokens as the text of the list.
nlohmann::ordered_json lane_summary(const Recording& recording, std::size_t lane);

// "origins" of the lanes' numbers.
nlohmann::ordered_json summary_origins();

}  // namespace kvloupe
