// SPDX-License-Identifier: GPL-3.0-or-later
//
// Breakpoints: does a step of a lane hold all that one asks for (contract, section 2)?
#pragma once

#include "engine/record/recording.h"
#include "engine/serve/scenario.h"

#include <optional>
#include <string>

namespace kvloupe {

struct BreakpointHit {
    std::string why;                     // a sentence
    std::optional<std::uint64_t> event;  // the first that it asked for: index into the lane's events
};

// Why it holds in the published step, or nothing. on, request and block must hold for one event of
// the step; token for one token that the step recorded (and of that request, if one is given); used_blocks holds in the
// step in which the count reaches it.
std::optional<BreakpointHit> breakpoint_hit(const Breakpoint& breakpoint, const Recording& recording, LaneId lane,
                                            std::size_t step);

}  // namespace kvloupe
