// SPDX-License-Identifier: GPL-3.0-or-later
//
// Sampler: the next token of a sequence from its logits. Greedy, temperature, top-k, top-p.
// Order (as in transformers): temperature, then the top_k most probable, then the fewest of those whose probabilities
// reach top_p, then one of them by its probability. Ties go to the lower id.
// The random number is a function of the request's seed and the index of the output token alone, so that results do not
// depend on what else is in the batch, nor on how often a step is repeated.
#pragma once

#include "engine/backend.h"
#include "engine/record/step.h"
#include "engine/serve/request.h"

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace kvloupe {

struct SampledToken {
    static constexpr std::size_t max_alternatives = LogitSummary::top_count;

    TokenId token = 0;
    std::uint32_t rank = 0;       // tokens that come before it by logit
    float probability = 0;        // softmax of the raw logits at temperature 1
    std::uint32_t alternative_count = 0;
    std::array<Alternative, max_alternatives> alternatives{};  // most probable first

    std::span<const Alternative> top() const { return {alternatives.data(), alternative_count}; }
};

class Sampler {
public:
    // logits (vocabulary), all finite. forced: the token to take, or negative to choose one.
    SampledToken sample(std::span<const float> logits, const SamplingOptions& options, std::uint32_t output_index,
                        TokenId forced = -1);

    // The same from a summary (finite), which must have been asked for the forced token. Without one the most probable
    // token is taken: whoever wants another needs all logits.
    static SampledToken sample(const LogitSummary& logits, TokenId forced = -1);

    // A request's own seed.
    static std::uint64_t request_seed(std::uint64_t seed, std::string_view request);
    // Uniform in [0, 1).
    static double uniform(std::uint64_t seed, std::uint64_t index);

private:
    TokenId choose(std::span<const float> logits, const SamplingOptions& options, double uniform);

    std::vector<float> m_weights;            // (vocabulary) scratch
    std::vector<std::uint32_t> m_candidates; // scratch
};

// True if no value is infinite or NaN.
bool all_finite(std::span<const float> values);
// Sum of exp(value - maximum).
double sum_of_exponentials(std::span<const float> values, float maximum);

}  // namespace kvloupe
