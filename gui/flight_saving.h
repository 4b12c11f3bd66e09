// SPDX-License-Identifier: GPL-3.0-or-later
//
// The flight recorder of a command: of a run that met a breakpoint or failed, the last minutes before that are kept.
#pragma once

#include "engine/record/kvt_writer.h"
#include "engine/serve/scenario.h"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe {

// Where a flight recorder's file ends, and why.
struct FlightMoment {
    std::size_t end_step = 0;  // one behind the last step it keeps
    std::string why;           // a sentence
};
// The first step in which a breakpoint held; else the end of a run that failed; else nothing.
std::optional<FlightMoment> flight_moment(const Recording& recording, const std::vector<Breakpoint>& breakpoints);

// Writes the last minutes before that moment and says in a sentence what was written, or that there was no such moment (no file
// then). Errors: write_kvt's.
Result<std::string> save_flight(const std::shared_ptr<const Recording>& recording, const std::vector<Breakpoint>& breakpoints,
                                unsigned minutes, const KvtOptions& options);

}  // namespace kvloupe
