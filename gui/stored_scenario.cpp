// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/stored_scenario.h"

#include "engine/serve/scenario_json.h"

#include <filesystem>
#include <span>
#include <system_error>

namespace kvloupe {

namespace {

void make_absolute(std::string& model) {
    if (model.empty() || model == "none" || model == "bundled" || model.rfind("bundled:", 0) == 0) return;
    std::error_code error;
    const std::filesystem::path path = std::filesystem::absolute(model, error);
    if (!error) model = path.lexically_normal().string();
}

}  // namespace

std::string stored_scenario(Scenario scenario) {
    make_absolute(scenario.model);
    for (LaneOptions& lane : scenario.lanes) make_absolute(lane.model);
    return scenario_json(scenario);
}

Result<Scenario> scenario_of(const StoredRecording& stored) {
    const auto found = stored.meta.find("scenario");
    const auto stripped = stored.meta.find("stripped");
    if (stripped != stored.meta.end() && stripped->second == "1")
        return Error{"The recording was stripped of its prompts, so it cannot be run again", "Open the recording that it was made from."};
    if (found == stored.meta.end() || found->second.empty())
        return Error{"The recording holds no scenario, so it cannot be run again", "Record it with this version (kvloupe run SCENARIO --record FILE.kvt)."};
    for (const auto& lane : stored.recording->lanes())
        if (lane->step_count() > 0 && lane->begins_later())
            return Error{"The recording begins in the middle of a run, so it cannot be run again from its start",
                         "Open the recording that it was cut from."};
    auto scenario = parse_scenario(std::as_bytes(std::span(found->second)), "The recording's scenario");
    if (scenario) scenario->title = stored.recording->title();
    return scenario;
}

}  // namespace kvloupe
