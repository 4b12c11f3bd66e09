// SPDX-License-Identifier: GPL-3.0-or-later
//
// Everything that is checked before a session starts: models, devices, memory, prompts, names of layers and heads.
#pragma once

#include "engine/record/recording.h"
#include "engine/serve/lane.h"
#include "engine/serve/session.h"

#include <memory>
#include <string>
#include <vector>

namespace kvloupe {

struct PreparedSession {
    std::vector<LaneSetup> lanes;
    std::vector<std::shared_ptr<const VocabularyText>> vocabularies;  // (lanes)
    std::vector<std::vector<Request>> requests;                       // (lanes, requests)
    std::vector<AttentionWatch> watch;
};

// Errors name the lane or request, the value and what to do.
Result<PreparedSession> prepare_session(const Scenario& scenario, const SessionOptions& options);

// The request in a lane that runs this model: the prompt's tokens, the forced tokens, its seed.
// Errors: a token outside the vocabulary, a prompt without tokens.
Result<Request> make_request(const RequestOptions& options, const Model& model, std::uint64_t seed);

// What of `watch` a model has: layers and heads that exist.
std::vector<AttentionWatch> watch_of(const std::vector<AttentionWatch>& watch, const ModelConfig& config);

// Physical blocks (null block included) for a lane whose scenario says auto: what the requests at hand can use at once,
// at most a quarter of the device's free memory; with no request at hand one sequence of the whole context.
std::uint32_t automatic_blocks(const LaneOptions& lane, const ModelConfig& config, std::span<const Request> requests,
                               std::uint64_t free_bytes);

}  // namespace kvloupe
