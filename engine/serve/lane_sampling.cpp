// SPDX-License-Identifier: GPL-3.0-or-later
//
// The next token of a sequence: sampled, forced or, without a model, known beforehand.
#include "engine/serve/lane.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kvloupe {

// Nobody else looks at the request's logits, and its next token is known or the most probable one.
bool Lane::summary_is_enough(const Request& request, const StepContext& context) const {
    if (!m_device->backend->supports_summaries() || context.logit_tap || context.positions) return false;
    if (context.comparison && context.comparison->compares(context.lane)) return false;
    if (m_inherited && request.width > 1) return false;  // several tokens come from one row, each may be given
    return !request.beam && (given_token(request) >= 0 || request.sampling.temperature <= 0);
}

// With its first token a request of `n` samples becomes n sequences: they share the prompt, and each takes its own token
// from the same logits.
void Lane::spread(Request& request, const LogitRow& logits, const StepContext& context) {
    if (request.beam) return propose(request, logits.values);
    std::vector<Request*> samples = {&request};
    const std::uint32_t width = request.width;
    request.width = 1;
    for (std::uint32_t i = 1; i < width; ++i) {
        Request child = request;
        child.name = request.family + "." + std::to_string(i);
        child.sampling.seed = Sampler::request_seed(m_setup.seed, child.name);
        if (child.generated_from >= 0) child.generated_from += static_cast<TokenId>(i * child.max_new_tokens);
        auto forked = fork(std::move(child), request, request.prompt_tokens, Cause::parallel_sampling);
        if (forked) samples.push_back(*forked);
    }
    for (Request* sample : samples) this->sample(*sample, logits, context);
}

void Lane::sample(Request& request, const LogitRow& logits, const StepContext& context) {
    const std::uint32_t index = request.output_tokens();
    SampledToken sampled;
    const TokenId forced = given_token(request);
    m_chosen = m_chosen || choice_is_next(request);
    if (!logits.present()) {
        sampled.token = forced;
        sampled.probability = std::numeric_limits<float>::quiet_NaN();
    } else if (logits.summary) {
        sampled = Sampler::sample(*logits.summary, forced);
        ++m_summarised;
    } else {
        sampled = m_sampler.sample(logits.values, request.sampling, index, forced);
        const RequestId track = logit_track(request.id, request.child ? request.name : "");
        if (context.comparison) {
            if (const auto difference = context.comparison->add(context.lane, track, index, logits.values, sampled.token))
                m_counters.logit_difference = std::fmax(m_counters.logit_difference, *difference);
        }
        if (context.logit_tap) context.logit_tap(context.lane, track, index, logits.values);
    }
    append_token(request, sampled, forced >= 0);
    end_if_done(request);
}

void Lane::append_token(Request& request, const SampledToken& sampled, bool forced) {
    ++m_sampled;
    TokenRecord token;
    token.sequence = request.sequence;
    token.position = request.size();
    token.token = sampled.token;
    token.source = forced ? TokenRecord::forced : TokenRecord::sampled;
    token.rank = sampled.rank;
    token.probability = sampled.probability;
    m_writer->token(token, sampled.top());
    request.tokens.push_back(sampled.token);
}

bool Lane::is_end(TokenId token) const {
    const Tokenizer* tokenizer = m_device ? m_device->model->tokenizer.get() : nullptr;
    if (!tokenizer) return false;
    const std::span<const TokenId> ends = tokenizer->end_tokens();
    return std::find(ends.begin(), ends.end(), token) != ends.end();
}

void Lane::end_if_done(Request& request) {
    const auto ends = [&](Cause cause) { m_endings.push_back({&request, cause, {}}); };
    const bool all = request.output_tokens() == request.new_tokens();
    if (!request.forced.empty()) {
        if (all) ends(Cause::forced_tokens_used_up);
    } else if (is_end(request.tokens.back()) && request.generated_from < 0) {
        ends(Cause::end_of_sequence);
    } else if (all) {
        ends(Cause::length_reached);
    }
}

}  // namespace kvloupe
