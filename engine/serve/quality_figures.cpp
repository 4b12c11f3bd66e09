// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/serve/quality_figures.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace kvloupe {

namespace {

// SplitMix64 (Steele, Lea and Flood 2014): a fixed sequence, the same on every machine.
class Draws {
public:
    // Below `bound`, which is far smaller than 2^32, so that the bias of the product does not show.
    std::size_t below(std::size_t bound) {
        m_state += 0x9E3779B97F4A7C15ull;
        std::uint64_t z = m_state;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
        z ^= z >> 31;
        return static_cast<std::size_t>(((z >> 32) * bound) >> 32);
    }

private:
    std::uint64_t m_state = 20260101;
};

double scaled(double sum, std::uint64_t count, MeanScale scale) {
    const double mean = sum / static_cast<double>(count);
    return scale == MeanScale::exponential ? std::exp(mean) : mean;
}

}  // namespace

LogitFacts logit_facts(std::span<const float> logits) {
    LogitFacts facts;
    // Lanes of partial sums, so that the additions do not wait for each other.
    std::array<double, 4> sums{};
    float maximum = -INFINITY;
    for (std::size_t i = 0; i < logits.size(); ++i) {
        if (!std::isfinite(logits[i])) facts.finite = false;
        if (logits[i] > maximum) {
            maximum = logits[i];
            facts.top = static_cast<TokenId>(i);
        }
    }
    if (!facts.finite || logits.empty()) return facts.finite = false, facts;
    for (std::size_t i = 0; i < logits.size(); ++i) sums[i % 4] += std::exp(double(logits[i]) - double(maximum));
    facts.log_sum = double(maximum) + std::log((sums[0] + sums[1]) + (sums[2] + sums[3]));
    return facts;
}

double divergence(std::span<const float> p, const LogitFacts& p_facts, std::span<const float> q, const LogitFacts& q_facts) {
    std::array<double, 4> sums{};
    for (std::size_t i = 0; i < p.size(); ++i) {
        const double log_p = double(p[i]) - p_facts.log_sum;
        if (log_p < -80) continue;  // adds less than 1e-33
        sums[i % 4] += std::exp(log_p) * (log_p - (double(q[i]) - q_facts.log_sum));
    }
    return std::max(0.0, (sums[0] + sums[1]) + (sums[2] + sums[3]));
}

QualityFigure bootstrap(std::span<const UnitSum> units, MeanScale scale) {
    UnitSum all;
    for (const UnitSum& unit : units) {
        all.sum += unit.sum;
        all.count += unit.count;
    }
    if (all.count == 0) return {};
    QualityFigure figure;
    figure.samples = all.count;
    figure.value = figure.low = figure.high = scaled(all.sum, all.count, scale);
    Draws draws;
    std::vector<double> values;
    values.reserve(bootstrap_samples);
    for (std::uint32_t sample = 0; sample < bootstrap_samples; ++sample) {
        UnitSum drawn;
        for (std::size_t i = 0; i < units.size(); ++i) {
            const UnitSum& unit = units[draws.below(units.size())];
            drawn.sum += unit.sum;
            drawn.count += unit.count;
        }
        if (drawn.count > 0) values.push_back(scaled(drawn.sum, drawn.count, scale));
    }
    if (values.empty()) return figure;
    std::sort(values.begin(), values.end());
    const auto rank = [&](double share) { return values[static_cast<std::size_t>(share * double(values.size() - 1) + 0.5)]; };
    figure.low = rank(0.025);
    figure.high = rank(0.975);
    return figure;
}

double percentile(std::vector<float>& values, double share) {
    if (values.empty()) return 0;
    const auto rank = static_cast<std::ptrdiff_t>(std::ceil(share * double(values.size()))) - 1;
    const auto at = values.begin() + std::clamp<std::ptrdiff_t>(rank, 0, std::ptrdiff_t(values.size()) - 1);
    std::nth_element(values.begin(), at, values.end());
    return double(*at);
}

}  // namespace kvloupe
