// SPDX-License-Identifier: GPL-3.0-or-later
//
// Beam search over the sequences of one request: every live beam proposes its most probable continuations; when all have,
// the best are kept. Knows log-probabilities, not blocks: the lane forks, continues and drops sequences as the choice says.
//
// The score of a sequence is the sum of the log-probabilities of its output tokens (no length penalty). A candidate that
// is an end token becomes a finished hypothesis; the search ends once there are as many as beams (early stopping).
#pragma once

#include "engine/record/step.h"
#include "engine/serve/request.h"
#include "engine/serve/sampler.h"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace kvloupe {

struct BeamCandidate {
    Request* beam = nullptr;
    SampledToken sampled;      // the token that is appended
    double score = 0;          // of the sequence with it
};

struct Beam {
    Request* sequence = nullptr;
    double score = 0;
    bool proposed = false;                  // in this round
    std::vector<BeamCandidate> candidates;  // at most 2 * width, best first
};

struct BeamGroup {
    std::uint32_t width = 0;
    std::uint32_t finished = 0;   // hypotheses
    std::uint32_t named = 0;      // sequences so far, for their names
    std::vector<Beam> live;

    bool all_proposed() const;
};

// What becomes of the beams. Of a beam's continuations the first is its own, the others fork from it; a beam without one
// is dropped.
struct BeamChoice {
    std::vector<BeamCandidate> kept;       // go on, best first; at most `width`
    std::vector<BeamCandidate> finished;   // end with an end token
};

// The width * 2 most probable tokens after the logits (vocabulary), best first, with the scores of the sequence.
std::vector<BeamCandidate> beam_candidates(std::span<const float> logits, Request& beam, double score, std::uint32_t width);

// Ties go to the beam that stands first, then to the lower token.
BeamChoice choose_beams(const BeamGroup& group, const std::function<bool(TokenId)>& is_end);

}  // namespace kvloupe
