// SPDX-License-Identifier: GPL-3.0-or-later
//
// A lane's key "branch": what it continues from, and the settings that it takes from there.
#include "engine/serve/scenario_parts.h"

#include "engine/model/json_document.h"
#include "engine/serve/branch.h"

#include <algorithm>

namespace kvloupe {

LaneOptions read_branch(const nlohmann::json& value, const std::string& where, const std::vector<LaneOptions>& before, ReadFailure& failure) {
    constexpr std::uint32_t latest = 1'000'000;  // as an action's at_step
    BranchOptions branch;
    KeyReader reader(value, where, failure);
    for (const char* key : {"of", "at_step"})
        if (!reader.failed() && !reader.value(key)) reader.fail(key, "is missing", "A branch has of, a lane's name, and at_step.");
    reader.text("of", branch.of);
    reader.whole("at_step", 0, latest, branch.at_step);
    std::optional<std::uint32_t> token;
    reader.whole("token", 0, 0x7FFFFFFF, token);
    if (token) branch.token = static_cast<TokenId>(*token);
    reader.text("request", branch.request);
    if (!reader.failed() && token.has_value() != !branch.request.empty())
        reader.fail(token ? "request" : "token", "is missing: a chosen token is the next one of a sequence",
                    "Give both request and token, or neither.");
    reader.finish();
    LaneOptions lane;
    if (reader.failed()) return lane;
    const auto parent = std::find_if(before.begin(), before.end(), [&](const LaneOptions& each) { return each.name == branch.of; });
    if (parent == before.end()) {
        std::vector<std::string> names;
        for (const LaneOptions& each : before) names.push_back(each.name);
        const std::string near = nearest_word(branch.of, names);
        reader.fail("of", "there is no lane '" + branch.of + "' before this one",
                    near.empty() ? "Name a lane that stands before the branch." : "Did you mean '" + near + "'?");
        return lane;
    }
    lane = *parent;
    lane.name = branch.of + "@" + std::to_string(branch.at_step);
    lane.branch = std::move(branch);
    return lane;
}

void check_branch_names(const Scenario& scenario, const std::vector<std::string>& names, ReadFailure& failure) {
    const auto find = [&](const std::string& name) {
        return std::find_if(scenario.lanes.begin(), scenario.lanes.end(), [&](const LaneOptions& each) { return each.name == name; });
    };
    for (std::size_t i = 0; i < scenario.lanes.size(); ++i) {
        const LaneOptions& lane = scenario.lanes[i];
        if (!lane.branch) continue;
        const std::string where = "lanes[" + std::to_string(i) + "]";
        const auto parent = find(lane.branch->of);
        if (parent != scenario.lanes.end() && is_accounting(scenario, lane) != is_accounting(scenario, *parent))
            return failure.set(where + ".model", "a branch and the lane that it continues both have a model or both have none",
                               "Remove the key, or branch from another lane.");
        const std::string& request = lane.branch->request;
        const bool switches = parent == scenario.lanes.end() || switches_rules(*parent, lane);
        for (const RequestOptions& each : scenario.requests) {
            if (each.beam_width == 0) continue;
            if (!switches)
                return failure.set(where + ".branch",
                                   "request '" + each.id + "' is searched by beams, whose tokens cannot be given to another pool",
                                   "Change only rules of scheduling and eviction, or remove beam_width.");
            if (request == each.id || request.rfind(each.id + ".", 0) == 0)
                return failure.set(where + ".branch.token", "'" + request + "' is a beam: the search chooses its tokens", "Remove token and request.");
        }
        if (request.empty() || std::find(names.begin(), names.end(), request) != names.end()) continue;
        const std::string near = nearest_word(request, names);
        return failure.set(where + ".branch.request", "there is no request '" + request + "'",
                           near.empty() ? "" : "Did you mean '" + near + "'?");
    }
}

}  // namespace kvloupe
