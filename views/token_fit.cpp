// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/token_fit.h"

#include "views/median.h"

#include <algorithm>
#include <cmath>

namespace kvloupe {

std::vector<ContextBin> contextBins(std::span<const DecodePoint> points, std::size_t most) {
    if (points.empty() || most == 0) return {};
    std::uint32_t least = points.front().context, last = least;
    for (const DecodePoint& point : points) {
        least = std::min(least, point.context);
        last = std::max(last, point.context);
    }
    const std::size_t distinct = std::size_t{last} - least + 1, ranges = std::min(most, distinct);
    const double perRange = static_cast<double>(ranges) / static_cast<double>(distinct);
    // Counting sort: the times of a range lie together.
    std::vector<std::uint32_t> rangeOf(points.size());
    std::vector<std::size_t> begins(ranges + 1);
    std::vector<double> contexts(ranges);
    for (std::size_t i = 0; i < points.size(); ++i) {
        const auto range = std::min(ranges - 1, static_cast<std::size_t>((points[i].context - least + 0.5) * perRange));
        rangeOf[i] = static_cast<std::uint32_t>(range);
        ++begins[range + 1];
        contexts[range] += points[i].context;
    }
    for (std::size_t i = 1; i <= ranges; ++i) begins[i] += begins[i - 1];
    std::vector<double> times(points.size());
    std::vector<std::size_t> next(begins.begin(), begins.end() - 1);
    for (std::size_t i = 0; i < points.size(); ++i) times[next[rangeOf[i]]++] = points[i].ns;
    std::vector<ContextBin> bins;
    std::vector<double> own;
    for (std::size_t i = 0; i < ranges; ++i) {
        const std::size_t count = begins[i + 1] - begins[i];
        if (count == 0) continue;
        own.assign(times.begin() + static_cast<std::ptrdiff_t>(begins[i]),
                   times.begin() + static_cast<std::ptrdiff_t>(begins[i + 1]));
        bins.push_back({contexts[i] / static_cast<double>(count), medianOf(own), count});
    }
    return bins;
}

std::optional<TokenFit> fitDecode(std::span<const ContextBin> bins) {
    if (bins.size() < 3) return std::nullopt;
    TokenFit fit;
    for (const ContextBin& bin : bins) fit.steps += bin.steps;
    fit.least = bins.front().context;
    fit.most = bins.back().context;
    if (fit.steps < fewest_decode_steps || fit.most - fit.least < least_context_span) return std::nullopt;
    std::vector<double> values;
    values.reserve(bins.size() * (bins.size() - 1) / 2);
    for (std::size_t i = 0; i < bins.size(); ++i)
        for (std::size_t k = i + 1; k < bins.size(); ++k)
            values.push_back((bins[k].ns - bins[i].ns) / (bins[k].context - bins[i].context));
    fit.nsPerToken = medianOf(values);
    values.clear();
    for (const ContextBin& bin : bins) values.push_back(bin.ns - fit.nsPerToken * bin.context);
    fit.fixedNs = medianOf(values);
    double weight = 0, mean = 0;
    for (const ContextBin& bin : bins) {
        weight += static_cast<double>(bin.steps);
        mean += static_cast<double>(bin.steps) * bin.ns;
    }
    mean /= weight;
    double residual = 0, total = 0;
    values.clear();
    for (const ContextBin& bin : bins) {
        const double off = bin.ns - fit.at(bin.context), from = bin.ns - mean;
        residual += static_cast<double>(bin.steps) * off * off;
        total += static_cast<double>(bin.steps) * from * from;
        values.push_back(std::abs(off));
    }
    fit.r2 = total > 0 ? 1 - residual / total : 0;
    fit.residualNs = medianOf(values);
    return fit;
}

FitDoubt doubtOf(const TokenFit& fit, std::optional<double> attentionGrowth) {
    if (fit.r2 < least_r2) return FitDoubt::scattered;
    if (fit.nsPerToken < 0) return FitDoubt::falling;
    if (fit.fixedNs < 0) return FitDoubt::belowZero;
    if (attentionGrowth && fit.nsPerToken * (fit.most - fit.least) > most_of_attention * std::max(0.0, *attentionGrowth))
        return FitDoubt::aboveAttention;
    return FitDoubt::none;
}

std::optional<double> attentionGrowthOf(const TokenFit& fit, std::span<const DecodePoint> attention) {
    const auto own = fitDecode(contextBins(attention, context_ranges));
    if (!own) return std::nullopt;
    return own->nsPerToken * (fit.most - fit.least);
}

std::optional<TokenPrediction> predictDecode(const TokenFit& fit, double weightBytes, double bytesPerToken,
                                             double bytesPerSecond) {
    if (bytesPerSecond <= 0) return std::nullopt;
    TokenPrediction prediction{bytesPerSecond, weightBytes, bytesPerToken, 0};
    prediction.fixedNs = std::max(0.0, fit.at(fit.least) - prediction.at(fit.least));
    return prediction;
}

}  // namespace kvloupe
