// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/flight_saving.h"

#include "engine/record/last_minutes.h"
#include "engine/serve/breakpoints.h"

#include <algorithm>

namespace kvloupe {

std::optional<FlightMoment> flight_moment(const Recording& recording, const std::vector<Breakpoint>& breakpoints) {
    std::size_t steps = 0;
    for (const auto& lane : recording.lanes()) steps = std::max(steps, lane->step_count());
    for (std::size_t step = 0; step < steps && !breakpoints.empty(); ++step)
        for (std::uint32_t lane = 0; lane < recording.lanes().size(); ++lane) {
            if (step >= recording.lanes()[lane]->step_count()) continue;
            for (const Breakpoint& each : breakpoints)
                if (const auto hit = breakpoint_hit(each, recording, LaneId(lane), step)) return FlightMoment{step + 1, hit->why};
        }
    if (recording.phase() == Phase::failed) return FlightMoment{steps, "The run failed: " + recording.reason()};
    for (const auto& lane : recording.lanes())
        if (!lane->failure().empty()) return FlightMoment{steps, "Lane '" + lane->info().name + "' failed: " + lane->failure()};
    return std::nullopt;
}

Result<std::string> save_flight(const std::shared_ptr<const Recording>& recording, const std::vector<Breakpoint>& breakpoints,
                                unsigned minutes, const KvtOptions& options) {
    const auto moment = flight_moment(*recording, breakpoints);
    if (!moment) return std::string("flight recorder: no breakpoint held and nothing failed, so no file was written.");
    const std::size_t first = first_step_of_last_minutes(*recording, minutes, moment->end_step);
    if (const auto written = write_kvt(recording, options, first, moment->end_step); !written) return written.error();
    return "flight recorder: steps " + std::to_string(first) + " to " + std::to_string(moment->end_step - 1) + " are in '" + options.path +
           "'. " + moment->why;
}

}  // namespace kvloupe
