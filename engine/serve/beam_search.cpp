// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/serve/beam_search.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kvloupe {

bool BeamGroup::all_proposed() const {
    return !live.empty() && std::all_of(live.begin(), live.end(), [](const Beam& beam) { return beam.proposed; });
}

std::vector<BeamCandidate> beam_candidates(std::span<const float> logits, Request& beam, double score, std::uint32_t width) {
    std::vector<std::uint32_t> order(logits.size());
    std::iota(order.begin(), order.end(), 0u);
    const auto count = static_cast<std::ptrdiff_t>(std::min<std::size_t>(std::size_t{width} * 2, order.size()));
    std::partial_sort(order.begin(), order.begin() + count, order.end(), [&](std::uint32_t a, std::uint32_t b) {
        return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
    });
    const float maximum = logits[order.front()];
    const double log_sum = std::log(sum_of_exponentials(logits, maximum));
    std::vector<BeamCandidate> candidates;
    for (std::ptrdiff_t rank = 0; rank < count; ++rank) {
        const std::uint32_t token = order[static_cast<std::size_t>(rank)];
        const double log_probability = static_cast<double>(logits[token]) - static_cast<double>(maximum) - log_sum;
        BeamCandidate& added = candidates.emplace_back();
        added.beam = &beam;
        added.score = score + log_probability;
        added.sampled.token = static_cast<TokenId>(token);
        added.sampled.rank = static_cast<std::uint32_t>(rank);
        added.sampled.probability = static_cast<float>(std::exp(log_probability));
    }
    // What the others were, for display; the same for each.
    const auto shown = std::min<std::size_t>(candidates.size(), SampledToken::max_alternatives);
    for (BeamCandidate& candidate : candidates) {
        candidate.sampled.alternative_count = static_cast<std::uint32_t>(shown);
        for (std::size_t i = 0; i < shown; ++i) {
            const auto token = candidates[i].sampled.token;
            candidate.sampled.alternatives[i] = {token, candidates[i].sampled.probability, logits[static_cast<std::size_t>(token)]};
        }
    }
    return candidates;
}

BeamChoice choose_beams(const BeamGroup& group, const std::function<bool(TokenId)>& is_end) {
    std::vector<BeamCandidate> all;
    for (const Beam& beam : group.live) all.insert(all.end(), beam.candidates.begin(), beam.candidates.end());
    std::stable_sort(all.begin(), all.end(), [](const BeamCandidate& a, const BeamCandidate& b) { return a.score > b.score; });
    BeamChoice choice;
    std::uint32_t finished = group.finished;
    for (BeamCandidate& candidate : all) {
        if (choice.kept.size() == group.width || finished == group.width) break;
        if (is_end(candidate.sampled.token)) {
            choice.finished.push_back(std::move(candidate));
            ++finished;
        } else {
            choice.kept.push_back(std::move(candidate));
        }
    }
    if (finished == group.width) choice.kept.clear();  // the search has ended
    return choice;
}

}  // namespace kvloupe
