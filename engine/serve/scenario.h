// SPDX-License-Identifier: GPL-3.0-or-later
//
// Scenario: what to run, as the contract (section 2) fixes it. Keys that are not built yet are refused by name.
#pragma once

#include "engine/record/dtype.h"
#include "engine/record/event.h"
#include "engine/record/result.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kvloupe {

struct CacheOptions {
    std::uint32_t block_size = 16;
    std::optional<std::uint32_t> blocks;  // absent: auto
    DType dtype_k = DType::f16;
    DType dtype_v = DType::f16;
};

struct SchedulerOptions {
    std::uint32_t max_num_seqs = 256;
    std::uint32_t max_num_batched_tokens = 2048;
    bool chunked_prefill = true;
    std::uint32_t long_prefill_token_threshold = 0;
};

struct LaneOptions {
    std::string name = "cached";
    bool kv_cache = true;
    CacheOptions cache;
    SchedulerOptions scheduler;
    std::string model;    // empty: the scenario's
    std::string device;   // empty: the scenario's
    std::uint32_t uncached_limit = 0;  // window: an uncached lane pauses at this many tokens; 0: no limit
};

struct RequestOptions {
    std::string id;
    std::optional<std::string> prompt;                 // exactly one of the two
    std::optional<std::vector<TokenId>> prompt_tokens;
    std::uint32_t max_new_tokens = 64;
    std::optional<std::vector<TokenId>> output_tokens; // forced; the request ends when they are used up
    std::uint32_t arrival_step = 0;
    float temperature = 0;                             // 0: greedy
    std::uint32_t top_k = 0;                           // 0: off
    float top_p = 1;
};

struct ScenarioAction {
    std::uint32_t at_step = 0;
    std::string what;      // "cancel" in this version
    std::string request;
};

struct Breakpoint {
    std::optional<EventKind> on;
    std::optional<std::string> request;
    std::optional<std::uint32_t> block;
    std::optional<TokenId> token;
    std::optional<std::uint32_t> step;
    std::optional<std::uint32_t> used_blocks;
    std::optional<std::string> lane;
};

struct AttentionWatch {
    std::uint32_t layer = 0;
    std::vector<std::uint32_t> heads;  // empty: all
};

struct RecordOptions {
    std::optional<std::vector<AttentionWatch>> attention;  // absent: the program's default (run: none)
    bool blocks = false;
    std::uint32_t stages_every = 1;
    std::uint32_t memory_mib = 256;
};

struct Scenario {
    std::string title;                 // file name without folder and suffix
    std::string model = "bundled";     // bundled | bundled:NAME | path
    std::string device = "auto";
    std::uint64_t seed = 0;
    std::vector<LaneOptions> lanes;    // at least one after parsing
    std::vector<RequestOptions> requests;
    std::vector<ScenarioAction> actions;
    std::vector<Breakpoint> breakpoints;
    RecordOptions record;
};

// Strict: an unknown key, a wrong type, a duplicate key or id, a value out of range is an error that names it; a key of
// the contract that this version does not build is refused by name with that reason.
Result<Scenario> parse_scenario(std::span<const std::byte> json, const std::string& file_name);
Result<Scenario> load_scenario(const std::string& path);

}  // namespace kvloupe
