// SPDX-License-Identifier: GPL-3.0-or-later
//
// Quality of lanes on held-out text, measured by the engine itself: every lane is given the same tokens (teacher forcing), and
// what it thought of each before it saw it is compared with the text and with a reference lane. Data only: what measures is
// engine/serve/quality_run.h, what keeps it gui/quality_store.h.
//
// Perplexity is exp(mean of -ln p(token)); the first token of a text is not predicted. KL divergence at a position is
// sum p ln(p / q) over the vocabulary, in nats, p the reference's and q the lane's distribution. Intervals are of 95 %:
// perplexity, KL and agreement by a bootstrap over `unit` (percentiles of 1,000 samples drawn with a fixed seed; the same samples
// for all lanes, so a ratio is paired), recall by Wilson's formula (1927), which stays within 0 and 1 and is honest at 0 of n.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe {

struct QualityFigure {
    double value = 0;
    double low = 0, high = 0;    // 95 %; both equal to the value where the sample has no spread
    std::uint64_t samples = 0;   // predictions, or questions; 0: not measured, and the numbers mean nothing

    bool measured() const { return samples > 0; }
    bool operator==(const QualityFigure&) const = default;
};

// Predictions of the tokens at positions first … last of their texts.
struct QualityBlock {
    static constexpr std::uint32_t tokens = 64;

    std::uint32_t first = 0, last = 0;
    QualityFigure perplexity;
    QualityFigure divergence;      // mean KL to the reference
    bool operator==(const QualityBlock&) const = default;
};

// Questions about a fact told earlier. Right: every answer token is the most probable one after the text and the answer so far.
struct RecallFigure {
    std::uint32_t facts = 0;       // told in the text, the one asked for among them; 0: of any number
    std::uint32_t distance = 0;    // tokens between fact and answer; 0: of any distance
    QualityFigure right;           // share, 0 … 1
    bool operator==(const RecallFigure&) const = default;
};

// Step by step: predictions of the token at one position, means over the texts that reach it.
struct QualityStep {
    std::uint32_t position = 0;
    std::uint32_t texts = 0;
    double loss = 0;               // -ln p(token)
    double divergence = 0;         // KL to the reference; 0 in the reference itself
    double agreement = 1;          // share with the reference's most probable token
    bool operator==(const QualityStep&) const = default;
};

struct LaneQuality {
    std::string lane;              // its name
    std::string model;             // as the scenario names it
    std::uint64_t weights_id = 0;  // equal ids: same weights
    std::string key;               // what its numbers depend on: weights, cache, kind of device (quality_key())
    std::string cache;             // "int8, a scale per token and head", "none"
    std::string failure;           // why the lane was not measured to its end, or ""; its figures are then of what came before
    QualityFigure perplexity;
    std::vector<QualityBlock> blocks;        // ascending; the last ones may hold few predictions
    std::vector<RecallFigure> recall;        // by facts and distance, ascending; empty: no questions
    RecallFigure recall_total;
    // Against the reference lane; not measured in the reference itself, and where the vocabularies differ.
    QualityFigure perplexity_ratio;          // of the lane's perplexity to the reference's
    QualityFigure divergence;                // mean KL
    double divergence_p99 = 0;               // of the positions
    double divergence_max = 0;
    QualityFigure agreement;                 // share of positions with the same most probable token
    // First position of each text whose most probable token is not the reference's; empty where there is none.
    std::vector<std::optional<std::uint32_t>> first_difference;  // (texts)
    std::vector<QualityStep> steps;          // ascending positions
    double seconds = 0;                      // measured, of this lane's passes
    bool operator==(const LaneQuality&) const = default;
};

// Of the texts; those that never differ count as later than all others.
struct FirstDifference {
    std::uint64_t texts = 0, never = 0;
    std::optional<std::uint32_t> median;     // position; empty: half of the texts or more never differ
};
FirstDifference summary_of(const std::vector<std::optional<std::uint32_t>>& first_difference);

// Share of `right` among `of` answers.
QualityFigure wilson(std::uint64_t right, std::uint64_t of);
// Answers of all numbers of facts together, by ascending distance; only what was measured.
std::vector<RecallFigure> recall_by_distance(const LaneQuality& lane);

struct LaneInfo;

// How the lane keeps its cache, for people: "int8, a scale per token and head", "K kivi2 …, V f16", "none"; window and sinks too.
std::string quality_cache_text(const LaneInfo& lane);
// Equal keys: the same weights, cache and kind of device, so the same numbers on the same text up to rounding.
std::string quality_key(const LaneInfo& lane);

struct QualityReport {
    enum class State : std::uint8_t { running, complete, cancelled, failed };

    State state = State::complete;
    std::string reason;            // of failed, one sentence
    std::string text;              // name of what was read: "512 stories", "prose.txt"
    std::string text_hash;         // of its bytes and how they were cut, hexadecimal
    std::uint64_t texts = 0;       // that figures are of
    std::uint64_t tokens = 0;      // predicted per lane
    std::uint64_t questions = 0;   // 0: no recall
    std::string unit;              // what the bootstrap draws: "texts", "stretches of 64 tokens"
    std::string reference;         // name of the lane that the others are compared with
    std::string measured_on;       // day, ISO 8601
    std::string device;            // "CPU, 2 threads"
    std::vector<LaneQuality> lanes;

    bool complete() const { return state == State::complete; }
    const LaneQuality* find(const std::string& lane) const {
        for (const LaneQuality& each : lanes)
            if (each.lane == lane) return &each;
        return nullptr;
    }
    bool operator==(const QualityReport&) const = default;
};

}  // namespace kvloupe
