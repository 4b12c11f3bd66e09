// SPDX-License-Identifier: GPL-3.0-or-later
//
// Request: one sequence in one lane, from arrival to end: a request's own, a fork, a parallel sample or a beam.
#pragma once

#include "engine/cache/cache_manager.h"
#include "engine/record/event.h"
#include "engine/record/ids.h"

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace kvloupe {

struct SamplingOptions {
    float temperature = 0;     // 0: greedy
    std::uint32_t top_k = 0;   // 0: off
    float top_p = 1;
    std::uint64_t seed = 0;    // of this sequence: results do not depend on what else runs
};

enum class RequestStatus : std::uint8_t {
    coming,
    waiting,    // never ran
    running,
    preempted,  // waits, its tokens are computed again
    swapped,    // waits, its blocks lie in host memory
    ended,
};

struct Request {
    RequestId id;                        // in the recording: the request it stems from
    std::string name;                    // as in the scenario; "a.0" for children, a fork's own name
    std::string family;                  // the request's id for it and its children; a fork's own name
    SequenceId sequence;                 // in the lane, from its arrival or fork on
    std::vector<TokenId> tokens;         // prompt, then output tokens
    std::uint32_t prompt_tokens = 0;
    std::uint32_t max_new_tokens = 0;
    std::vector<TokenId> forced;         // output tokens to take instead of sampling; empty: sample or generate
    TokenId generated_from = -1;         // accounting lanes without forced tokens: output token i is this + i; -1: none
    std::uint32_t arrival_step = 0;
    bool submitted = false;              // while running
    SamplingOptions sampling;
    std::int32_t priority = 0;           // lower is more important
    std::string salt, adapter;
    std::uint32_t width = 1;             // sequences it will need room for in the batch: `n` or beams until they are there
    bool beam = false;
    bool child = false;                  // not the request's only sequence: a fork, a sample, a beam
    static constexpr std::uint32_t not_alone = 0xFFFFFFFFu;
    std::uint32_t alone_at = not_alone;  // computed tokens when it last gave way to itself with nobody else running
    bool parked = false;                 // a beam that has proposed its continuations and waits for the other beams

    RequestStatus status = RequestStatus::coming;
    std::uint64_t order = 0;             // of arrival in the lane; forks: their parent's
    // Tokens whose K/V lies in the cache; without a cache: tokens that were pushed through the model in the last step.
    std::uint32_t computed = 0;
    bool ran_before = false;             // it was preempted: its next look-up counts apart
    bool in_batch = false;               // static batching: member of the batch that runs
    bool ending = false;                 // ends with this step
    // Causes of refusals that were recorded since it last ran, one bit each: waiting is recorded once and not per step.
    std::uint64_t refusals = 0;

    std::uint32_t size() const { return static_cast<std::uint32_t>(tokens.size()); }
    std::uint32_t output_tokens() const { return size() - prompt_tokens; }
    std::uint32_t to_compute() const { return size() - computed; }
    bool is_forced() const { return !forced.empty() || generated_from >= 0; }
    TokenId forced_token(std::uint32_t output) const {
        return forced.empty() ? generated_from + static_cast<TokenId>(output) : forced[output];
    }
    // Output tokens that it ends with at the latest.
    std::uint32_t new_tokens() const {
        return forced.empty() ? max_new_tokens : static_cast<std::uint32_t>(forced.size());
    }
    // K/V slots that it needs before it ends: the last output token is never written (contract, section 3).
    std::uint64_t slots_needed() const { return std::uint64_t{prompt_tokens} + new_tokens() - 1; }

    // What the cache manager is told; valid as long as nothing is appended.
    CacheSequence view() const {
        return {sequence, tokens, prompt_tokens, slots_needed(), {adapter, salt}, priority};
    }
};

// Requests and their copies; null is its own.
using RequestCopies = std::unordered_map<const Request*, Request*>;

}  // namespace kvloupe
