// SPDX-License-Identifier: GPL-3.0-or-later
//
// The statistics behind a quality report: what one distribution is worth against a token and against another one, and
// intervals of 95 %. Pure functions; the same input gives the same numbers to the bit.
//
// Bootstrap: the predictions of a unit (a text, or a stretch of one) are correlated, so units are drawn and not predictions:
// `bootstrap_samples` times as many as there are, with replacement, and the interval lies between the 2.5th and the 97.5th
// percentile of what the samples come to (Efron 1979). Units are drawn by one fixed generator, so two lanes are drawn the same
// units, and what a pair of lanes differs in is judged by pairs. Rejected: the delta method, which is as good for a mean and needs
// a derivation of its own for every ratio; Student's interval of the single predictions, which is too narrow.
#pragma once

#include "engine/record/ids.h"
#include "engine/record/quality.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kvloupe {

inline constexpr std::uint32_t bootstrap_samples = 1000;

// Of one row of logits (vocabulary).
struct LogitFacts {
    bool finite = true;      // false: nothing below means anything
    double log_sum = 0;      // ln of the sum of exp(logit)
    TokenId top = 0;         // the most probable token; the lowest id among equals

    double log_probability(std::span<const float> logits, TokenId token) const {
        return double(logits[std::size_t(token)]) - log_sum;
    }
};
LogitFacts logit_facts(std::span<const float> logits);

// sum p ln(p / q), in nats, at least 0; rows of the same vocabulary.
double divergence(std::span<const float> p, const LogitFacts& p_facts, std::span<const float> q, const LogitFacts& q_facts);

// What one unit adds to a mean.
struct UnitSum {
    double sum = 0;
    std::uint64_t count = 0;
};

enum class MeanScale : std::uint8_t { plain, exponential /* exp(mean) */ };

// Mean over all units with its interval; not measured without any count.
QualityFigure bootstrap(std::span<const UnitSum> units, MeanScale scale);

// The value that `share` of the values do not exceed (nearest rank); 0 without values. Reorders them.
double percentile(std::vector<float>& values, double share);

}  // namespace kvloupe
