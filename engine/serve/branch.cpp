// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/serve/branch.h"

#include "engine/record/describe.h"
#include "engine/record/lane_state.h"
#include "engine/serve/key_reader.h"
#include "engine/serve/scenario_json.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>

namespace kvloupe {

namespace {

const LaneOptions* lane_named(const Scenario& scenario, const std::string& name) {
    const auto found = std::find_if(scenario.lanes.begin(), scenario.lanes.end(), [&](const LaneOptions& lane) { return lane.name == name; });
    return found == scenario.lanes.end() ? nullptr : &*found;
}

LaneRules rules_at(const LaneOptions& lane, std::uint32_t from_step) {
    return {from_step, lane.scheduler, lane.cache.watermark, lane.cache.free_order, lane.cache.radix_eviction};
}

// JSON where it is JSON, else the words themselves.
nlohmann::json value_of(const std::string& text) {
    nlohmann::json value = nlohmann::json::parse(text, nullptr, false);
    return value.is_discarded() ? nlohmann::json(text) : value;
}

// "cache.dtype" under its object.
Result<void> set_key(nlohmann::json& lane, const std::string& path, const std::string& text) {
    nlohmann::json* at = &lane;
    std::size_t begin = 0;
    for (;;) {
        const std::size_t dot = path.find('.', begin);
        const std::string key = path.substr(begin, dot == std::string::npos ? dot : dot - begin);
        if (key.empty())
            return Error{"'" + path + "' is no key of a lane", "Write for example cache.dtype=int8 or scheduler.policy=priority."};
        if (!at->is_object())
            return Error{"'" + path + "' lies inside '" + path.substr(0, begin - 1) + "', which has a value", "Give one of the two."};
        at = &(*at)[key];
        if (dot == std::string::npos) break;
        if (at->is_null()) *at = nlohmann::json::object();
        begin = dot + 1;
    }
    if (!at->is_null()) return Error{"'" + path + "' is given twice", "Give it once."};
    *at = value_of(text);
    return {};
}

std::string free_lane_name(const Scenario& scenario, const BranchOptions& from) {
    const std::string base = from.of + "@" + std::to_string(from.at_step);
    std::string name = base;
    for (int number = 2; lane_named(scenario, name); ++number) name = base + "-" + std::to_string(number);
    return name;
}

std::optional<SequenceId> sequence_named(const Recording& recording, const LaneRecord& lane, const std::string& name) {
    for (std::uint32_t i = 0; i < lane.sequences().size(); ++i)
        if (sequence_name(recording, lane, SequenceId(i)) == name) return SequenceId(i);
    return std::nullopt;
}

bool lives(const LaneState& state, SequenceId sequence) {
    if (sequence.value >= state.sequences().size()) return false;
    const SequenceStatus status = state.sequences()[sequence.value].status;
    return status == SequenceStatus::arrived || status == SequenceStatus::running || status == SequenceStatus::preempted ||
           status == SequenceStatus::swapped;
}

}  // namespace

bool switches_rules(const LaneOptions& parent, const LaneOptions& branch) {
    LaneOptions same = branch;
    same.name = parent.name;
    same.branch = parent.branch;
    same.uncached_limit = parent.uncached_limit;
    same.scheduler = parent.scheduler;
    same.cache.watermark = parent.cache.watermark;
    same.cache.free_order = parent.cache.free_order;
    same.cache.radix_eviction = parent.cache.radix_eviction;
    same.cache.memory_share = parent.cache.memory_share;
    const auto swapped = [](const LaneOptions& lane) {
        return lane.scheduler.preemption == PreemptionMode::swap ? lane.scheduler.swap_blocks : 0;
    };
    const bool other_host = swapped(parent) > 0 && swapped(branch) > 0 && swapped(parent) != swapped(branch);
    return same == parent && !other_host;
}

std::vector<LaneRules> rules_of(const Scenario& scenario, const LaneOptions& lane) {
    const LaneOptions* parent = lane.branch ? lane_named(scenario, lane.branch->of) : nullptr;
    if (!parent || !switches_rules(*parent, lane)) return {rules_at(lane, 0)};
    std::vector<LaneRules> rules = rules_of(scenario, *parent);
    const std::uint32_t step = lane.branch->at_step;
    std::erase_if(rules, [&](const LaneRules& each) { return each.from_step >= step; });
    rules.push_back(rules_at(lane, step));
    return rules;
}

Result<Scenario> add_branch(const Scenario& scenario, const BranchWish& wish) {
    const LaneOptions* parent = lane_named(scenario, wish.from.of);
    if (!parent) {
        std::vector<std::string> names;
        for (const LaneOptions& lane : scenario.lanes) names.push_back(lane.name);
        const std::string near = nearest_word(wish.from.of, names);
        return Error{"There is no lane '" + wish.from.of + "'",
                     near.empty() ? "The first is '" + names.front() + "'." : "Did you mean '" + near + "'?"};
    }
    try {
        nlohmann::json document = nlohmann::json::parse(scenario_json(scenario));
        nlohmann::json lane = nlohmann::json::object();
        for (const auto& [path, text] : wish.settings)
            if (auto set = set_key(lane, path, text); !set) return set.error();
        for (const char* key : {"name", "branch"})
            if (lane.contains(key))
                return Error{"'" + std::string(key) + "' cannot be set", "What a branch is called and what it continues is said by itself."};
        lane["name"] = wish.name.empty() ? free_lane_name(scenario, wish.from) : wish.name;
        lane["branch"] = {{"of", wish.from.of}, {"at_step", wish.from.at_step}};
        if (wish.from.token) {
            lane["branch"]["token"] = *wish.from.token;
            lane["branch"]["request"] = wish.from.request;
        }
        const auto cache = lane.find("cache");
        if (cache != lane.end() && cache->is_object() && cache->contains("block_size") && !cache->contains("blocks") && parent->cache.blocks) {
            const nlohmann::json& size = (*cache)["block_size"];
            if (size.is_number_unsigned() && size > 0) {
                const std::uint64_t slots = (std::uint64_t{*parent->cache.blocks} - 1) * parent->cache.block_size, block = size;
                (*cache)["blocks"] = (slots + block - 1) / block + 1;
            }
        }
        document["lanes"].push_back(lane);
        const std::string text = document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
        auto made = parse_scenario(std::as_bytes(std::span(text)), "The branch");
        if (!made) return made;
        made->title = scenario.title;
        for (std::size_t i = 0; i < scenario.lanes.size(); ++i) made->lanes[i].uncached_limit = scenario.lanes[i].uncached_limit;
        made->lanes.back().uncached_limit = parent->uncached_limit;
        return made;
    } catch (const std::exception& problem) {
        return Error{std::string("The branch cannot be made: ") + problem.what(), ""};
    }
}

Result<void> check_branch(const Recording& recording, const BranchOptions& branch) {
    const LaneRecord* lane = nullptr;
    for (const auto& each : recording.lanes())
        if (each->info().name == branch.of) lane = each.get();
    if (!lane)
        return Error{"There is no lane '" + branch.of + "' in the recording",
                     recording.lanes().empty() ? "" : "The first is '" + recording.lanes().front()->info().name + "'."};
    const std::size_t steps = lane->step_count();
    if (branch.at_step > steps)
        return Error{"Lane '" + branch.of + "' has no step " + std::to_string(branch.at_step),
                     steps > 0 ? "Give a step from 0 to " + std::to_string(steps) + "." : "It has recorded none yet."};
    if (!branch.token) return {};
    const std::size_t vocabulary = lane->info().vocabulary;
    if (vocabulary > 0 && static_cast<std::size_t>(*branch.token) >= vocabulary)
        return Error{"There is no token " + std::to_string(*branch.token) + ": the vocabulary has " + std::to_string(vocabulary),
                     "Give an id from 0 to " + std::to_string(vocabulary - 1) + "."};
    const auto sequence = sequence_named(recording, *lane, branch.request);
    if (!sequence) return Error{"Lane '" + branch.of + "' has no sequence '" + branch.request + "'", "Name one that runs or waits in that step."};
    const std::uint32_t at = branch.at_step;
    const bool before = at > 0 && lives(lane->state_after(at - 1), *sequence);
    // One that arrives in the step, or ends with the very token that is to be another.
    const bool comes = at < steps && (at == 0 || sequence->value >= lane->state_after(at - 1).sequences().size()) &&
                       sequence->value < lane->state_after(at).sequences().size();
    if (!before && !comes)
        return Error{"Sequence '" + branch.request + "' of lane '" + branch.of + "' is not live in step " + std::to_string(at),
                     "Choose a step in which it waits or runs."};
    return {};
}

}  // namespace kvloupe
