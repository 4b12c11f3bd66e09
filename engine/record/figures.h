// SPDX-License-Identifier: GPL-3.0-or-later
//
// Small pure functions over recorded numbers that pictures and exports share, each with its rule.
#pragma once

#include "engine/record/recording.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace kvloupe {

// KV bytes by the formula (predicted): tokens * bytes per token of all layers, each counted as global (CACHE_SEMANTICS 0).
// What the pool measures beyond it is the unfilled rest of blocks.
std::uint64_t predicted_kv_bytes(const LaneInfo& lane, std::uint64_t tokens);

// The same of one sequence of that length where layers see windows (predicted; FORMATS 3.1): sum over the layers of
// min(tokens, window) * bytes per token.
std::uint64_t predicted_sequence_bytes(const LaneInfo& lane, std::uint64_t tokens);

// Bytes of one slot of the pool by its layout (predicted): of all layers, or of one cache group's where several share the pool.
std::uint64_t predicted_slot_bytes(const LaneInfo& lane);

// The formula with its factors: "2 × 4 layers × 2 KV heads × 16 values × 2 B = 512 B per token"; with a latent "27 layers ×
// (512 + 64 values) × 2 B", in other precisions and where layers differ "3 layers × 2 KV heads × (36 B K + 34 B V) + …". Without a
// cache: "no KV cache". Where nothing is known of the factors, the product alone.
std::string kv_formula(const LaneInfo& lane);

// Tokens pushed through the model to decode `outputs` tokens after a prompt of `prompt` tokens (derived).
// Cached: every position once; the last output is never written: prompt + outputs - 1.
// Uncached: the whole prefix again for each output: prompt + (prompt + 1) + …; for prompt 1 and T outputs T(T+1)/2.
std::uint64_t cached_tokens(std::uint64_t prompt, std::uint64_t outputs);
std::uint64_t uncached_tokens(std::uint64_t prompt, std::uint64_t outputs);

// Percentile, p in 0 .. 100, with linear interpolation between the two nearest ranks: the value at rank
// p/100 * (n - 1) of the sorted values. None without values.
std::optional<double> percentile(std::span<const double> values, double p);

// Least squares y = intercept + slope * x. None for fewer than two different x.
struct LinearFit {
    double slope = 0;
    double intercept = 0;
    double r_squared = 0;  // 1 where y is constant and met exactly
};
std::optional<LinearFit> linear_fit(std::span<const double> x, std::span<const double> y);

// Share of held slots that is wasted, 0 .. 1 (contract, section 4): (reserved + internal + external) ÷ (that + token).
// None where nothing is held.
std::optional<double> wasted_share(const SlotCounts& slots);

// Time of a lane's steps 0 .. steps - 1 split into prefill and decode (derived from measured durations).
// Rule: a step's duration is divided in proportion to the tokens it computed for either; a step that computed none
// belongs to neither. Without a cache, what a decoding sequence recomputes (cause no_kv_cache) is time of decoding.
struct TimeSplit {
    double prefill_ms = 0;
    double decode_ms = 0;
    std::uint64_t decode_tokens = 0;
};
TimeSplit time_split(const LaneRecord& lane, std::size_t steps);

}  // namespace kvloupe
