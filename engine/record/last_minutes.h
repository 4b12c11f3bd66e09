// SPDX-License-Identifier: GPL-3.0-or-later
//
// What a flight recorder keeps: the last minutes before a moment.
#pragma once

#include "engine/record/recording.h"

#include <cstddef>
#include <cstdint>

namespace kvloupe {

// The first step of which any lane's part began no more than `minutes` before the end of its last step below `end_step`; 0 where
// there is none.
std::size_t first_step_of_last_minutes(const Recording& recording, unsigned minutes, std::size_t end_step = SIZE_MAX);

}  // namespace kvloupe
