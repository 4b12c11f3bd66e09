// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/serve/scenario.h"

#include "engine/model/json_document.h"
#include "engine/serve/scenario_parts.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

namespace kvloupe {

using nlohmann::json;

namespace {

constexpr std::uint64_t max_file_bytes = 256ull << 20;
constexpr std::size_t max_lanes = 64;
constexpr std::size_t max_requests = 100000;
constexpr std::size_t max_entries = 100000;  // actions, breakpoints

std::string file_title(const std::string& file_name) {
    std::string title = file_name.substr(file_name.find_last_of("/\\") + 1);
    const std::size_t dot = title.find_last_of('.');
    return dot == std::string::npos || dot == 0 ? title : title.substr(0, dot);
}

// The entries of a list as "name[i]".
template <class Entry, class Read>
void read_list(KeyReader& top, const char* name, std::size_t most, std::vector<Entry>& target, Read read) {
    const json* list = top.value(name);
    if (!list) return;
    if (!list->is_array()) return top.fail(name, "is " + describe(*list) + ", not a list");
    if (list->size() > most)
        return top.fail(name, "holds " + std::to_string(list->size()) + " entries",
                        "At most " + std::to_string(most) + " are allowed.");
    for (std::size_t i = 0; i < list->size() && !top.failed(); ++i)
        target.push_back(read((*list)[i], std::string(name) + "[" + std::to_string(i) + "]"));
}

// Requests without an id are called a, b, … and r26, r27, …, skipping what is taken.
void name_requests(Scenario& scenario, ReadFailure& failure) {
    std::set<std::string> taken;
    for (std::size_t i = 0; i < scenario.requests.size(); ++i) {
        const std::string& id = scenario.requests[i].id;
        if (!id.empty() && !taken.insert(id).second)
            return failure.set("requests[" + std::to_string(i) + "].id", "'" + id + "' is used twice",
                               "Give every request an id of its own.");
    }
    std::size_t next = 0;
    for (RequestOptions& request : scenario.requests) {
        while (request.id.empty()) {
            const std::string id = next < 26 ? std::string(1, static_cast<char>('a' + next)) : "r" + std::to_string(next);
            ++next;
            if (taken.insert(id).second) request.id = id;
        }
    }
}

void check_lanes(Scenario& scenario, ReadFailure& failure) {
    if (scenario.lanes.empty()) scenario.lanes.emplace_back();
    std::set<std::string> names;
    for (std::size_t i = 0; i < scenario.lanes.size(); ++i)
        if (!names.insert(scenario.lanes[i].name).second)
            return failure.set("lanes[" + std::to_string(i) + "].name", "'" + scenario.lanes[i].name + "' is used twice",
                               "Give every lane a name of its own.");
}

void check_accounting(const Scenario& scenario, ReadFailure& failure) {
    for (std::size_t i = 0; i < scenario.lanes.size(); ++i) {
        const LaneOptions& lane = scenario.lanes[i];
        const std::string where = "lanes[" + std::to_string(i) + "]";
        if (!is_accounting(scenario, lane)) {
            if (lane.cache.bytes_per_token > 0)
                return failure.set(where + ".cache.bytes_per_token", "is for lanes with \"model\": \"none\"; here the model says it",
                                   "Remove the key.");
            continue;
        }
        if (lane.convert) return failure.set(where + ".convert", "needs a model to convert", "Remove the key, or give the lane a model.");
        if (!lane.kv_cache)
            return failure.set(where + ".kv_cache", "is false, but a lane without a model has nothing but its cache", "Remove one of the two keys.");
        if (lane.cache.kind == CacheKind::contiguous && lane.cache.reserve == Reserve::max && lane.cache.max_model_len == 0)
            return failure.set(where + ".cache.max_model_len", "is missing: a lane without a model has no context to reserve",
                               "Give max_model_len, or another 'reserve'.");
        for (std::size_t r = 0; r < scenario.requests.size(); ++r)
            if (scenario.requests[r].beam_width > 0)
                return failure.set("requests[" + std::to_string(r) + "].beam_width", "beam search needs a model, but lane '" + lane.name + "' has none",
                                   "Remove the key, or give the lane a model.");
    }
    for (std::size_t i = 0; i < scenario.lanes.size(); ++i)
        for (std::size_t r = 0; r < scenario.requests.size() && scenario.lanes[i].cache.kind == CacheKind::contiguous; ++r)
            if (scenario.requests[r].beam_width > 0)
                return failure.set("requests[" + std::to_string(r) + "].beam_width", "beams share blocks, but lane '" + scenario.lanes[i].name + "' is contiguous",
                                   "Remove the key, or give \"kind\": \"paged\".");
}

// Every name a sequence can have: requests, their children "a.0", …, and forks. Names the forks that have none.
std::set<std::string> sequence_names(Scenario& scenario, ReadFailure& failure) {
    std::set<std::string> names;
    for (const RequestOptions& request : scenario.requests) names.insert(request.id);
    for (std::size_t i = 0; i < scenario.requests.size(); ++i) {
        const RequestOptions& request = scenario.requests[i];
        // More beams than beam_width may come and go; the first of them can be spoken of.
        const std::uint32_t children = std::max(request.n > 1 ? request.n : 0u, request.beam_width);
        for (std::uint32_t c = 0; c < children; ++c)
            if (!names.insert(request.id + "." + std::to_string(c)).second)
                failure.set("requests[" + std::to_string(i) + "].id", "its child '" + request.id + "." + std::to_string(c) + "' has the name of another request",
                            "Give one of the two another id.");
    }
    for (std::size_t i = 0; i < scenario.actions.size(); ++i) {
        ScenarioAction& action = scenario.actions[i];
        if (action.kind != ActionKind::fork || action.as.empty()) continue;
        if (!names.insert(action.as).second)
            failure.set("actions[" + std::to_string(i) + "].as", "'" + action.as + "' is used twice", "Give the fork a name of its own.");
    }
    for (ScenarioAction& action : scenario.actions) {
        if (action.kind != ActionKind::fork) continue;
        for (std::uint32_t number = 2; action.as.empty(); ++number)
            if (const std::string name = action.request + "-" + std::to_string(number); names.insert(name).second) action.as = name;
    }
    return names;
}

// Requests and lanes that actions and breakpoints speak of.
void check_references(Scenario& scenario, ReadFailure& failure) {
    const std::set<std::string> ids = sequence_names(scenario, failure);
    const std::vector<std::string> known(ids.begin(), ids.end());
    check_branch_names(scenario, known, failure);
    const auto missing = [&](const std::string& where, const std::string& id) {
        if (ids.count(id)) return false;
        const std::string near = nearest_word(id, known);
        failure.set(where, "there is no request '" + id + "'", near.empty() ? "" : "Did you mean '" + near + "'?");
        return true;
    };
    for (std::size_t i = 0; i < scenario.actions.size(); ++i) {
        const ScenarioAction& action = scenario.actions[i];
        const std::string where = "actions[" + std::to_string(i) + "]";
        if (!action.request.empty() && missing(where + ".request", action.request)) return;
        const auto too_small = [&](const LaneOptions& lane) { return action.block && lane.cache.blocks && *action.block >= *lane.cache.blocks; };
        for (const LaneOptions& lane : scenario.lanes)
            if (too_small(lane))
                return failure.set(where + ".block", std::to_string(*action.block) + " is no block of lane '" + lane.name + "', which has " +
                                                         std::to_string(*lane.cache.blocks), "Give a block below that number.");
    }
    for (std::size_t i = 0; i < scenario.breakpoints.size(); ++i) {
        const Breakpoint& breakpoint = scenario.breakpoints[i];
        const std::string where = "breakpoints[" + std::to_string(i) + "]";
        if (breakpoint.request && missing(where + ".request", *breakpoint.request)) return;
        if (!breakpoint.lane) continue;
        bool found = false;
        for (const LaneOptions& lane : scenario.lanes) found = found || lane.name == *breakpoint.lane;
        if (!found) return failure.set(where + ".lane", "there is no lane '" + *breakpoint.lane + "'", "");
    }
}

void read_scenario(const json& document, Scenario& scenario, ReadFailure& failure) {
    KeyReader top(document, "", failure);
    std::uint32_t version = 0;
    if (const json* given = top.value("version"); given && *given != 1)
        top.fail("version", given->is_number() ? given->dump() + " is not known" : "is " + describe(*given),
                 "This version of KVLoupe reads scenarios of version 1.");
    top.whole("version", 1, 1, version);
    if (document.is_object() && document.contains("_") && document["_"].is_string()) scenario.comment = document["_"];
    top.text("model", scenario.model);
    if (scenario.model.empty()) top.fail("model", "is empty", "Name a model: bundled, bundled:NAME, a path or none.");
    read_device(top, scenario.device);
    top.whole("seed", 0, UINT64_MAX, scenario.seed);
    read_list(top, "lanes", max_lanes, scenario.lanes,
              [&](const json& value, const std::string& where) { return read_lane(value, where, scenario.lanes, failure); });
    read_list(top, "requests", max_requests, scenario.requests,
              [&](const json& value, const std::string& where) { return read_request(value, where, failure); });
    read_list(top, "actions", max_entries, scenario.actions,
              [&](const json& value, const std::string& where) { return read_action(value, where, failure); });
    read_list(top, "breakpoints", max_entries, scenario.breakpoints,
              [&](const json& value, const std::string& where) { return read_breakpoint(value, where, failure); });
    if (const json* record = top.value("record")) scenario.record = read_record(*record, "record", failure);
    top.finish();  // before what is missing: a key that is there under a wrong name is the better hint
    if (!top.failed() && !top.value("version"))
        failure.set("", "the key 'version' is missing", "Add \"version\": 1.");
    if (!top.failed() && !top.value("requests"))
        failure.set("", "the key 'requests' is missing", "Add \"requests\": [{ \"prompt\": \"…\" }].");
}

}  // namespace

bool is_accounting(const Scenario& scenario, const LaneOptions& lane) {
    return (lane.model.empty() ? scenario.model : lane.model) == "none";
}

Result<Scenario> parse_scenario(std::span<const std::byte> bytes, const std::string& file_name) {
    try {
        if (bytes.size() > max_file_bytes)
            return Error{file_name + ": the scenario takes " + std::to_string(bytes.size()) + " bytes",
                         "A scenario may take at most " + std::to_string(max_file_bytes) + " bytes."};
        auto document = parse_json(bytes, file_name);
        if (!document) return Error{document.error().sentence, "Correct the scenario at that place."};
        Scenario scenario;
        scenario.title = file_title(file_name);
        ReadFailure failure{file_name, {}};
        read_scenario(*document, scenario, failure);
        if (!failure.error) name_requests(scenario, failure);
        if (!failure.error) check_lanes(scenario, failure);
        if (!failure.error) check_accounting(scenario, failure);
        if (!failure.error) check_references(scenario, failure);
        if (failure.error) return *failure.error;
        return scenario;
    } catch (const std::exception& problem) {
        return Error{file_name + ": cannot be read as a scenario (" + problem.what() + ")", ""};
    }
}

Result<Scenario> load_scenario(const std::string& path) {
    try {
        std::error_code error;
        if (std::filesystem::is_directory(path, error))
            return Error{path + ": this is a folder, not a scenario", "Give a scenario file (.json); a model's folder stands in its key \"model\"."};
        std::ifstream file(path, std::ios::binary | std::ios::ate);
        const std::streamoff size = file ? static_cast<std::streamoff>(file.tellg()) : -1;
        if (size < 0)
            return Error{path + ": the scenario cannot be opened", "Check that the file exists and may be read."};
        if (static_cast<std::uint64_t>(size) > max_file_bytes)
            return Error{path + ": the scenario takes " + std::to_string(size) + " bytes",
                         "A scenario may take at most " + std::to_string(max_file_bytes) + " bytes."};
        std::vector<std::byte> bytes(static_cast<std::size_t>(size));
        file.seekg(0);
        file.read(reinterpret_cast<char*>(bytes.data()), size);
        if (!file) return Error{path + ": the scenario cannot be read to its end", "Check the disk, or copy the file again."};
        return parse_scenario(bytes, path);
    } catch (const std::exception& problem) {
        return Error{path + ": the scenario cannot be read (" + problem.what() + ")", ""};
    }
}

}  // namespace kvloupe
