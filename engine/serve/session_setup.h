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

// First token id that an accounting lane generates; no real vocabulary reaches it.
inline constexpr std::uint64_t first_generated_token = 1u << 30;

struct PreparedSession {
    std::vector<LaneSetup> lanes;
    std::vector<std::shared_ptr<const VocabularyText>> vocabularies;  // (lanes)
    std::vector<std::vector<Request>> requests;                       // (lanes, requests)
    std::vector<AttentionWatch> watch;
    std::uint64_t generated = first_generated_token;                  // next id for an accounting lane's tokens
};

// Errors name the lane or request, the value and what to do.
Result<PreparedSession> prepare_session(const Scenario& scenario, const SessionOptions& options);

// The request in a lane that runs this model (null: an accounting lane): the prompt's tokens, the forced tokens, its
// seed. Tokens that nobody gave are taken from `generated` on, which is
// moved behind them.
// Errors: a token outside the vocabulary, a prompt without tokens, a text where there is no tokenizer.
Result<Request> make_request(const RequestOptions& options, const Model* model, std::uint64_t seed, std::uint64_t& generated);

// What the recording says about a request whose tokens are known.
RequestInfo request_info(const RequestOptions& options, const Request& request);

// An action's texts and tokens against a lane's model. where: "actions[0]".
Result<void> check_action(const ScenarioAction& action, const LaneSetup& lane, const std::string& where);

// What of `watch` a model has: layers and heads that exist.
std::vector<AttentionWatch> watch_of(const std::vector<AttentionWatch>& watch, const ModelConfig& config);

}  // namespace kvloupe
