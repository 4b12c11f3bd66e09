// SPDX-License-Identifier: GPL-3.0-or-later
//
// Request: one request in one lane, from arrival to end.
#pragma once

#include "engine/record/event.h"
#include "engine/record/ids.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kvloupe {

struct SamplingOptions {
    float temperature = 0;     // 0: greedy
    std::uint32_t top_k = 0;   // 0: off
    float top_p = 1;
    std::uint64_t seed = 0;    // of this request: results do not depend on what else runs
};

enum class RequestStatus : std::uint8_t { coming, waiting, running, ended };

struct Request {
    RequestId id;                        // in the recording
    std::string name;                    // as in the scenario
    SequenceId sequence;                 // in the lane, from its arrival on
    std::vector<TokenId> tokens;         // prompt, then output tokens
    std::uint32_t prompt_tokens = 0;
    std::uint32_t max_new_tokens = 0;
    std::vector<TokenId> forced;         // output tokens to take instead of sampling; empty: sample
    std::uint32_t arrival_step = 0;
    bool submitted = false;              // while running
    SamplingOptions sampling;

    RequestStatus status = RequestStatus::coming;
    // Tokens whose K/V lies in the cache; without a cache: tokens that were pushed through the model in the last step.
    std::uint32_t computed = 0;
    // The refusal that was recorded last, so that waiting is recorded once and not in every step.
    Cause refused_because = Cause::none;
    std::uint32_t refused_available = 0;

    std::uint32_t size() const { return static_cast<std::uint32_t>(tokens.size()); }
    std::uint32_t output_tokens() const { return size() - prompt_tokens; }
    std::uint32_t to_compute() const { return size() - computed; }
    // Output tokens that it ends with at the latest.
    std::uint32_t new_tokens() const {
        return forced.empty() ? max_new_tokens : static_cast<std::uint32_t>(forced.size());
    }
    // K/V slots that it needs before it ends: the last output token is never written (contract, section 3).
    std::uint64_t slots_needed() const { return std::uint64_t{prompt_tokens} + new_tokens() - 1; }
};

}  // namespace kvloupe
