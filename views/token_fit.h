// SPDX-License-Identifier: GPL-3.0-or-later
//
// TokenFit: the time of a decode step as a line over its context: what does not grow (weights, launches, sampling) and what
// each token of context adds (its keys and values are read once per step). Robust, because a step that the system
// interrupted must not tilt it: medians over ranges of context, then the line of Theil (1950) and Sen (1968): the slope is
// the median of the slopes between all pairs of medians, the height the median of what is left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace kvloupe {

// A decode step: one token for each of its sequences, no prompt token.
struct DecodePoint {
    int step = 0;
    std::uint32_t sequences = 0;
    std::uint32_t context = 0;         // tokens held by the sequences after the step, summed
    double ns = 0;                     // measured
};

// Steps whose contexts are alike.
struct ContextBin {
    double context = 0;                // mean
    double ns = 0;                     // median
    std::size_t steps = 0;
};

// At most `most` ranges of equal width, ascending, none empty; every context its own range where there are no more than that.
std::vector<ContextBin> contextBins(std::span<const DecodePoint> points, std::size_t most);

struct TokenFit {
    double fixedNs = 0;                // at no context
    double nsPerToken = 0;
    double r2 = 0;                     // 1 - residual / total sum of squares, over the medians, each weighed by its steps
    double residualNs = 0;             // median of the absolute differences to the medians
    double least = 0, most = 0;        // contexts: of the first and the last range
    std::size_t steps = 0;

    double at(double context) const { return fixedNs + nsPerToken * context; }
};

inline constexpr std::size_t fewest_decode_steps = 8;
inline constexpr double least_context_span = 8;  // tokens

// bins: of contextBins(), at most context_ranges, so that their pairs stay few (19,900). Empty where there are fewer steps,
// or contexts closer together, than a line needs.
inline constexpr std::size_t context_ranges = 200;
std::optional<TokenFit> fitDecode(std::span<const ContextBin> bins);

// Why no slope is claimed. Anything that drifts while the context grows (a clock that throttles, another program's load)
// tilts the line too; it is told apart from keys and values by what they can do. The rule, in this order:
//   scattered       R² is below 0.5: the times do not follow the context
//   falling         the slope is negative: reading more keys and values cannot save time
//   belowZero       the fixed part is negative: weights and launches cannot take less than no time
//   aboveAttention  where stages are measured: slope * span of contexts > 2 * growth of the attention stage over that span
enum class FitDoubt : std::uint8_t { none, scattered, falling, belowZero, aboveAttention };

inline constexpr double least_r2 = 0.5;
inline constexpr double most_of_attention = 2;

// attentionGrowth: nanoseconds that the attention stage takes more at fit.most than at fit.least; empty where no stages tell.
FitDoubt doubtOf(const TokenFit& fit, std::optional<double> attentionGrowth);

// The growth of attention from its own points (ns: its time in a decode step), by a line of the same kind; empty where they
// are too few for one.
std::optional<double> attentionGrowthOf(const TokenFit& fit, std::span<const DecodePoint> attention);

// What bytes alone ask for: (weights + context * bytes per token) / bandwidth + fixed. `fixed` is what the fit takes more
// than that at the shortest measured context, at least 0: so the prediction starts where the measurement does, and their
// difference at the longest context is one between slopes.
struct TokenPrediction {
    double bytesPerSecond = 0;         // measured read bandwidth
    double weightBytes = 0, bytesPerToken = 0;
    double fixedNs = 0;

    double at(double context) const { return (weightBytes + context * bytesPerToken) / bytesPerSecond * 1e9 + fixedNs; }
};
std::optional<TokenPrediction> predictDecode(const TokenFit& fit, double weightBytes, double bytesPerToken,
                                             double bytesPerSecond);

}  // namespace kvloupe
