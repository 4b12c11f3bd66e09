// SPDX-License-Identifier: GPL-3.0-or-later
//
// Branch: another future beside the old one: a lane that takes the tokens of an earlier lane up to a step and is free from there on.
// Where only rules of scheduling and eviction differ it runs under its parent's until then and switches (its blocks lie as its
// parent's do); where the pool or its precision differs it has its own from the start, filled with its parent's tokens.
// Rejected: copying the parent's pool at the step. It would say what a running engine could do, but a pool of another geometry or
// precision cannot be copied, and both kinds of branch would mean something else.
#pragma once

#include "engine/record/recording.h"
#include "engine/serve/scenario.h"

#include <string>
#include <utility>
#include <vector>

namespace kvloupe {

// True where the branch can run as its parent until its step: the pool, its precision, the model and its attention are the same.
bool switches_rules(const LaneOptions& parent, const LaneOptions& branch);

// A lane's rules from a step on.
struct LaneRules {
    std::uint32_t from_step = 0;
    SchedulerOptions scheduler;
    double watermark = 0;
    FreeOrder free_order = FreeOrder::vllm;
    RadixEviction radix_eviction = RadixEviction::lru;
};
// Of a lane of the scenario, ascending steps, the first from step 0; one entry unless it is a branch that switches.
std::vector<LaneRules> rules_of(const Scenario& scenario, const LaneOptions& lane);

// What a user asks for.
struct BranchWish {
    BranchOptions from;
    std::string name;                                          // "": chosen
    std::vector<std::pair<std::string, std::string>> settings; // "cache.dtype" -> "int8", values as JSON or plain words
};

// The scenario with that lane behind the others, checked as a scenario file is. With another block size and no `cache.blocks` the branch
// has as many blocks as hold the slots of its parent's. Errors: what load_scenario refuses, by the key's name; a name that is taken.
Result<Scenario> add_branch(const Scenario& scenario, const BranchWish& wish);

// Whether what is recorded allows the branch: its lane and step are there, the sequence whose token is chosen lives in that step, and
// the vocabulary has the token.
Result<void> check_branch(const Recording& recording, const BranchOptions& branch);

}  // namespace kvloupe
