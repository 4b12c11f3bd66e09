// SPDX-License-Identifier: GPL-3.0-or-later
//
// A scenario that is written as JSON is read back as it was, whatever keys it has; and what a lane's key "branch" takes and refuses.
#include "engine/serve/branch.h"
#include "engine/serve/scenario_json.h"
#include "tests/support/claims.h"
#include "tests/support/files.h"
#include "tests/support/texts.h"

#include <nlohmann/json.hpp>

#include <set>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

Result<Scenario> parse_back(const std::string& json) { return parse_scenario(std::as_bytes(std::span(json)), "again.json"); }

// Written and read again, the title aside: it is the file's name.
void comes_back(Check& check, const Scenario& scenario) {
    const std::string json = scenario_json(scenario);
    auto again = parse_back(json);
    if (!again) return void(check.fail(again.error().message() + "\n" + json, __FILE__, __LINE__));
    again->title = scenario.title;
    if (!(*again == scenario)) check.fail("another scenario came back from " + json, __FILE__, __LINE__);
}

void sampleScenariosComeBack(Check& check) {
    int seen = 0;
    for (const char* folder : {"resources/scenarios/", "resources/scenarios/faults/"})
        for (const std::string& name : names_in(KVLOUPE_SOURCE_DIR "/" + std::string(folder), "", ".json")) {
            const auto scenario = load_scenario(KVLOUPE_SOURCE_DIR "/" + std::string(folder) + name);
            CHECK_RESULT(scenario);
            comes_back(check, *scenario);
            ++seen;
        }
    CHECK_THAT(seen > 20);
}

// Every key with a value that is not its default.
const char* const every_key = R"({
 "_": "look here", "version": 1, "model": "a folder/model.gguf", "device": "cuda:3", "seed": 18446744073709551615,
 "lanes": [
  {"name": "paged", "cache": {"block_size": 7, "blocks": 30, "dtype": "int8", "scale": "joint", "prefix_caching": true, "free_order": "append",
   "watermark": 0.25, "window": 64, "sinks": 4, "positions": "rank", "hash_bits": 12, "compare_tokens": false, "tag_extra_keys": false,
   "max_model_len": 99, "memory_share": 0.5, "rotate": true},
   "scheduler": {"max_num_seqs": 3, "max_num_batched_tokens": 1024, "chunked_prefill": false, "long_prefill_token_threshold": 5,
   "batching": "static", "policy": "priority", "preemption": "swap", "swap_blocks": 9, "reserve_full_prompt": false, "victim": "sglang"},
   "model": "bundled:mla", "device": "cpu", "attention": "materialised", "mla": "expanded", "convert": {"to": "mla", "budget": 70, "by": "sensitivity"}},
  {"name": "chunks", "cache": {"attention_chunk": 32, "dtype_k": ["f32", "f16"], "dtype_v": ["kivi2", "f16"], "group": 8, "residual": 64}, "mla": "absorbed",
   "convert": {"to": "gqa", "kv_heads": 2}},
  {"name": "tree", "cache": {"prefix_index": "radix", "radix_eviction": "lfu"}, "convert": {"to": "mqa"}},
  {"name": "regions", "cache": {"kind": "contiguous", "reserve": "pow2", "max_model_len": 77}, "convert": {"to": "mla", "width": 16}},
  {"name": "bare", "kv_cache": false},
  {"name": "sums", "model": "none", "cache": {"bytes_per_token": 512, "prefix_caching": false}},
  {"name": "other future", "branch": {"of": "paged", "at_step": 12, "token": 44, "request": "x"}, "scheduler": {"policy": "fcfs"}},
  {"name": "of a branch", "branch": {"of": "other future", "at_step": 40}, "cache": {"dtype": "kivi4", "group": 8, "residual": 32, "blocks": "auto"}},
  {"name": "regions now", "branch": {"of": "tree", "at_step": 3}, "cache": {"kind": "contiguous", "reserve": "grow", "max_model_len": 40}, "convert": {}}
 ],
 "requests": [
  {"id": "x", "prompt_tokens": [1, 2], "max_new_tokens": 9, "arrival_step": 4, "temperature": 0.7, "top_k": 40, "top_p": 0.95, "priority": -3,
   "salt": "s", "adapter": "ad", "n": 3, "submitted": true},
  {"id": "y", "prompt": "Grüße \"\n", "output_tokens": [5, 6]},
  {"id": "z", "prompt": "", "max_new_tokens": 3}
 ],
 "actions": [
  {"at_step": 2, "do": "fork", "request": "y", "as": "w", "position": 3, "prompt": "more", "max_new_tokens": 2},
  {"at_step": 3, "do": "fork", "request": "w", "prompt_tokens": [7], "output_tokens": [8]},
  {"at_step": 4, "do": "cancel", "request": "x.1"}, {"at_step": 4, "do": "preempt", "request": "y"},
  {"at_step": 5, "do": "evict", "block": 6}, {"at_step": 6, "do": "reset_prefix_cache"}
 ],
 "breakpoints": [{"on": "copy_on_write", "request": "x", "block": 3, "token": 9, "step": 17, "used_blocks": 20, "lane": "paged"}, {"step": 0}],
 "record": {"attention": [{"layer": 0, "heads": [0, 2]}, {"layer": 3}], "blocks": true, "stages_every": 10, "memory_mib": 64}
})";

void everyKeyComesBack(Check& check) {
    const auto scenario = parse_back(every_key);
    CHECK_RESULT(scenario);
    comes_back(check, *scenario);
    // Nothing of the schema is missing above, nor in what was written.
    const std::string written = scenario_json(*scenario);
    const auto schema = nlohmann::json::parse(read_file(KVLOUPE_SOURCE_DIR "/resources/scenario.schema.json"));
    std::set<std::string> keys;
    const auto add = [&](const nlohmann::json& properties) {
        for (const auto& [key, value] : properties.items()) keys.insert(key);
    };
    add(schema["properties"]);
    for (const auto& [name, part] : schema["$defs"].items())
        if (part.contains("properties")) add(part["properties"]);
    CHECK_THAT(keys.count("branch") && keys.count("submitted"));
    for (const std::string& key : keys)
        if (key != "beam_width") CHECK_EQUAL(contains(written, "\"" + key + "\":") ? key : "", key);
}

void beamsComeBack(Check& check) {
    const auto scenario = parse_back(R"({"version": 1, "requests": [{"prompt": "a", "beam_width": 4, "max_new_tokens": 2}]})");
    CHECK_RESULT(scenario);
    CHECK_THAT(contains(scenario_json(*scenario), "\"beam_width\":4"));
    comes_back(check, *scenario);
}

const char* const one_lane = R"({"version": 1, "model": "none", "lanes": [{"name": "old", "cache": {"block_size": 8, "blocks": 21,
 "watermark": 0.1}, "scheduler": {"max_num_seqs": 4}}], "requests": [{"id": "a", "prompt_tokens": [1, 2, 3]}]})";

void aBranchHasItsParentsSettingsAndItsOwn(Check& check) {
    const auto scenario = parse_back(one_lane);
    CHECK_RESULT(scenario);
    const auto made = add_branch(*scenario, {{"old", 5, std::nullopt, ""}, "", {{"scheduler.policy", "priority"}, {"cache.free_order", "append"}}});
    CHECK_RESULT(made);
    const LaneOptions& lane = made->lanes.back();
    CHECK_EQUAL(lane.name, "old@5");
    CHECK_EQUAL(lane.scheduler.max_num_seqs, 4u);
    CHECK_EQUAL(int(lane.scheduler.policy), int(SchedulingPolicy::priority));
    CHECK_EQUAL(lane.cache.block_size, 8u);
    CHECK_EQUAL(lane.cache.watermark, 0.1);
    CHECK_THAT(switches_rules(made->lanes.front(), lane));
    comes_back(check, *made);
    const std::vector<LaneRules> rules = rules_of(*made, lane);
    CHECK_EQUAL(rules.size(), std::size_t(2));
    CHECK_EQUAL(int(rules[0].scheduler.policy), int(SchedulingPolicy::fcfs));
    CHECK_EQUAL(rules[1].from_step, 5u);
    CHECK_EQUAL(int(rules[1].free_order), int(FreeOrder::append));
    const auto second = add_branch(*made, {{"old", 5, std::nullopt, ""}, "", {}});
    CHECK_RESULT(second);
    CHECK_EQUAL(second->lanes.back().name, "old@5-2");
}

void anotherPoolIsNoSwitchAndKeepsItsSlots(Check& check) {
    const auto scenario = parse_back(one_lane);
    CHECK_RESULT(scenario);
    const auto made = add_branch(*scenario, {{"old", 5, std::nullopt, ""}, "small", {{"cache.block_size", "4"}}});
    CHECK_RESULT(made);
    CHECK_EQUAL(*made->lanes.back().cache.blocks, 41u);  // (21 - 1) * 8 slots in blocks of 4, and the null block
    CHECK_THAT(!switches_rules(made->lanes.front(), made->lanes.back()));
    CHECK_EQUAL(rules_of(*made, made->lanes.back()).size(), std::size_t(1));
    for (const auto& [key, value] : {std::pair("cache.blocks", "30"), std::pair("cache.prefix_caching", "false"), std::pair("cache.prefix_index", "radix"),
                                     std::pair("cache.window", "16"), std::pair("cache.bytes_per_token", "64")}) {
        const auto other = add_branch(*scenario, {{"old", 5, std::nullopt, ""}, "b", {{key, value}}});
        CHECK_RESULT(other);
        CHECK_THAT(!switches_rules(other->lanes.front(), other->lanes.back()));
        comes_back(check, *other);
    }
}

void whatIsNoBranchIsRefusedByName(Check& check) {
    const auto scenario = parse_back(one_lane);
    CHECK_RESULT(scenario);
    const auto refused = [&](const BranchWish& wish, const char* part) {
        const auto made = add_branch(*scenario, wish);
        if (made) return void(check.fail(std::string("taken, but should name ") + part, __FILE__, __LINE__));
        if (!contains(made.error().message(), part)) check.fail(made.error().message() + " does not name " + part, __FILE__, __LINE__);
    };
    const BranchOptions from{"old", 5, std::nullopt, ""};
    refused({{"oldd", 5, std::nullopt, ""}, "", {}}, "Did you mean 'old'");
    refused({from, "old", {}}, "'old' is used twice");
    refused({from, "", {{"cache.dtyp", "int8"}}}, "unknown key 'dtyp'");
    refused({from, "", {{"cache.dtype", "int9"}}}, "int8");
    refused({from, "", {{"policy", "priority"}}}, "policy");
    refused({from, "", {{"scheduler.policy", "lifo"}}}, "policy");
    refused({from, "", {{"cache", "3"}}}, "cache");
    refused({from, "", {{"cache", "{}"}, {"cache.blocks", "9"}, {"cache.blocks", "9"}}}, "twice");
    refused({from, "", {{"", "1"}}}, "is no key");
    refused({from, "", {{"name", "x"}}}, "'name' cannot be set");
    refused({from, "", {{"branch.at_step", "1"}}}, "'branch' cannot be set");
    refused({from, "", {{"model", "bundled"}}}, "model");
    refused({{"old", 5, 7, "nobody"}, "", {}}, "nobody");
    refused({{"old", 5, -7, "a"}, "", {}}, "token");
    refused({{"old", 2'000'000, std::nullopt, ""}, "", {}}, "at_step");
    for (const auto& [branch, part] : {std::pair(R"({"of": "old"})", "at_step"), std::pair(R"({"at_step": 3})", "branch.of"),
                                       std::pair(R"({"of": "old", "at_step": 3, "token": 4})", "branch.request"),
                                       std::pair(R"({"of": "old", "at_step": 3, "request": "a"})", "branch.token"),
                                       std::pair(R"({"of": "old", "at_step": 3, "when": 4})", "unknown key 'when'"),
                                       std::pair(R"({"of": "new", "at_step": 3})", "before this one"), std::pair("7", "branch")}) {
        std::string text = one_lane;
        text.replace(text.find("}], \"requests\""), 1, std::string("}, {\"name\": \"new\", \"branch\": ") + branch + "}");
        const auto made = parse_back(text);
        CHECK_THAT(!made);
        CHECK_EQUAL(contains(made.error().message(), part) ? part : made.error().message().data(), part);
    }
    const auto beams = parse_back(R"({"version": 1, "lanes": [{"name": "old"}], "requests": [{"id": "a", "prompt": "x", "beam_width": 2}]})");
    CHECK_RESULT(beams);
    const auto pool = add_branch(*beams, {from, "", {{"cache.dtype", "int8"}}});
    CHECK_THAT(!pool && contains(pool.error().message(), "beams"));
    const auto chosen = add_branch(*beams, {{"old", 5, 4, "a.1"}, "", {}});
    CHECK_THAT(!chosen && contains(chosen.error().message(), "beam"));
    CHECK_RESULT(add_branch(*beams, {from, "", {{"scheduler.max_num_seqs", "8"}}}));
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    return {{"sample scenarios come back", sampleScenariosComeBack},
            {"every key comes back", everyKeyComesBack},
            {"beams come back", beamsComeBack},
            {"a branch has its parent's settings and its own", aBranchHasItsParentsSettingsAndItsOwn},
            {"another pool is no switch and keeps its slots", anotherPoolIsNoSwitchAndKeepsItsSlots},
            {"what is no branch is refused by name", whatIsNoBranchIsRefusedByName}};
}
