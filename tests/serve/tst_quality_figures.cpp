// SPDX-License-Identifier: GPL-3.0-or-later
//
// The statistics of a quality report against hand calculations and published values, and figures made of given scores.
#include "engine/serve/quality_figures.h"
#include "engine/serve/quality_scores.h"
#include "tests/support/claims.h"
#include "tests/support/texts.h"

#include <cmath>
#include <random>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

std::vector<float> logits_of(std::initializer_list<double> probabilities) {
    std::vector<float> logits;
    for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p) + 3));  // the sum does not matter
    return logits;
}

void aRowsLogProbabilitiesAreThoseOfItsSoftmax(Check& check) {
    const std::vector<float> row = logits_of({0.2, 0.5, 0.3});
    const LogitFacts facts = logit_facts(row);
    CHECK_THAT(facts.finite);
    CHECK_EQUAL(facts.top, 1);
    CHECK_BELOW(std::fabs(facts.log_probability(row, 2) - std::log(0.3)), 1e-6);
    const std::vector<float> ties(5, 7.f);
    CHECK_EQUAL(logit_facts(ties).top, 0);
    CHECK_BELOW(std::fabs(logit_facts(ties).log_sum - (7 + std::log(5.0))), 1e-12);
    CHECK_THAT(!logit_facts(std::vector<float>{1, NAN, 2}).finite);
    CHECK_THAT(!logit_facts(std::vector<float>{1, INFINITY}).finite);
}

void divergenceIsThatOfTheDefinition(Check& check) {
    const std::vector<float> p = logits_of({0.5, 0.5}), q = logits_of({0.9, 0.1});
    const double by_hand = 0.5 * std::log(0.5 / 0.9) + 0.5 * std::log(0.5 / 0.1);
    CHECK_BELOW(std::fabs(divergence(p, logit_facts(p), q, logit_facts(q)) - by_hand), 1e-6);
    CHECK_EQUAL(divergence(p, logit_facts(p), p, logit_facts(p)), 0.0);
    // Not symmetric: it is the reference that is averaged over.
    const double other = 0.9 * std::log(0.9 / 0.5) + 0.1 * std::log(0.1 / 0.5);
    CHECK_BELOW(std::fabs(divergence(q, logit_facts(q), p, logit_facts(p)) - other), 1e-6);
}

void wilsonsIntervalHasThePublishedValues(Check& check) {
    // Brown, Cai and DasGupta 2001, and R's binom::binom.confint(method = "wilson").
    const QualityFigure none = wilson(0, 10), most = wilson(8, 10), all = wilson(10, 10);
    CHECK_EQUAL(none.low, 0.0);
    CHECK_BELOW(std::fabs(none.high - 0.2775), 5e-5);
    CHECK_BELOW(std::fabs(most.low - 0.4902), 5e-5);
    CHECK_BELOW(std::fabs(most.high - 0.9433), 5e-5);
    CHECK_BELOW(std::fabs(all.low - 0.7225), 5e-5);
    CHECK_BELOW(std::fabs(all.high - 1), 1e-12);
    CHECK_THAT(!wilson(0, 0).measured());
}

std::vector<UnitSum> drawn_units(std::mt19937& generator, std::size_t count, double mean, double deviation) {
    std::normal_distribution<double> normal(mean, deviation);
    std::vector<UnitSum> units;
    for (std::size_t i = 0; i < count; ++i) units.push_back({normal(generator), 1});
    return units;
}

void theBootstrapsIntervalIsAsWideAsTheNormalOne(Check& check) {
    std::mt19937 generator(1);
    const QualityFigure figure = bootstrap(drawn_units(generator, 400, 5, 2), MeanScale::plain);
    const double half = 1.96 * 2 / std::sqrt(400.0);
    check.note(printed("half width %.4f, of the normal distribution %.4f", (figure.high - figure.low) / 2, half));
    CHECK_BELOW(std::fabs((figure.high - figure.low) / 2 - half), 0.15 * half);
    CHECK_THAT(figure.low < figure.value && figure.value < figure.high);
    CHECK_EQUAL(figure.samples, std::uint64_t(400));
}

void theBootstrapsIntervalHoldsTheTruthNineteenTimesInTwenty(Check& check) {
    std::mt19937 generator(2);
    int held = 0;
    constexpr int trials = 300;
    for (int i = 0; i < trials; ++i) {
        const QualityFigure figure = bootstrap(drawn_units(generator, 60, 1, 0.5), MeanScale::exponential);
        held += figure.low <= std::exp(1.0) && std::exp(1.0) <= figure.high;
    }
    check.note(printed("%d of %d", held, trials));
    CHECK_THAT(held >= 0.90 * trials && held <= 0.985 * trials);
}

void theBootstrapIsTheSameEveryTimeAndSharpWithoutSpread(Check& check) {
    std::mt19937 generator(3);
    const std::vector<UnitSum> units = drawn_units(generator, 40, 0, 1);
    CHECK_THAT(bootstrap(units, MeanScale::plain) == bootstrap(units, MeanScale::plain));
    const std::vector<UnitSum> equal_units(30, UnitSum{2, 4});
    const QualityFigure figure = bootstrap(equal_units, MeanScale::exponential);
    CHECK_EQUAL(figure.value, std::exp(0.5));
    CHECK_THAT(figure.low == figure.value && figure.high == figure.value);
    CHECK_THAT(!bootstrap({}, MeanScale::plain).measured());
}

void percentilesAreByNearestRank(Check& check) {
    std::vector<float> values;
    for (int i = 200; i >= 1; --i) values.push_back(float(i));
    CHECK_EQUAL(percentile(values, 0.99), 198.0);
    CHECK_EQUAL(percentile(values, 1), 200.0);
    CHECK_EQUAL(percentile(values, 0.005), 1.0);
    std::vector<float> none;
    CHECK_EQUAL(percentile(none, 0.5), 0.0);
}

// Two texts of 3 predictions and two questions of 2 answer tokens.
struct Given {
    QualitySource source;
    std::vector<QualityItem> items;
    LaneScores lane, reference;

    Given() {
        source.texts = {"a", "b"};
        source.questions = {{"q", "x", 2, 20}, {"r", "y", 4, 20}};
        items = {{{1, 2, 3, 4}, 1, std::nullopt}, {{1, 5, 6, 7}, 1, std::nullopt}, {{1, 2, 8, 9}, 2, 0}, {{1, 3, 8, 9}, 2, 1}};
        reference.items = {{{1, 2, 3}, {2, 3, 4}, {}}, {{1, 1, 1}, {5, 6, 9}, {}}, {{0, 0}, {8, 9}, {}}, {{0, 0}, {8, 9}, {}}};
        lane.items = {{{1, 2, 6}, {2, 3, 9}, {0, 0, 0.5f}}, {{1, 1, 4}, {5, 6, 9}, {0, 0, 0.25f}}, {{0, 0}, {8, 9}, {0, 0}},
                      {{0, 0}, {8, 7}, {0, 0}}};
    }
};

void figuresOfGivenScoresAreThoseCountedByHand(Check& check) {
    const Given given;
    const LaneQuality quality = quality_of(given.items, given.source, given.lane, &given.reference);
    CHECK_EQUAL(quality.perplexity.samples, std::uint64_t(6));
    CHECK_BELOW(std::fabs(quality.perplexity.value - std::exp(15.0 / 6)), 1e-9);
    CHECK_BELOW(std::fabs(quality.perplexity_ratio.value - std::exp(6.0 / 6)), 1e-9);
    CHECK_BELOW(std::fabs(quality.divergence.value - 0.75 / 6), 1e-9);
    CHECK_EQUAL(quality.divergence_max, 0.5);
    CHECK_BELOW(std::fabs(quality.agreement.value - 5.0 / 6), 1e-9);
    CHECK_EQUAL(quality.first_difference.size(), std::size_t(2));
    CHECK_THAT(quality.first_difference[0] == std::optional<std::uint32_t>(3));
    CHECK_THAT(!quality.first_difference[1]);
    CHECK_EQUAL(quality.steps.size(), std::size_t(3));
    const QualityStep last{3, 2, (6.0 + 4.0) / 2, (0.5 + 0.25) / 2, 0.5};  // of two texts one agrees
    CHECK_THAT(quality.steps[2] == last);
    CHECK_EQUAL(quality.steps[0].agreement, 1.0);
    CHECK_EQUAL(quality.blocks.size(), std::size_t(1));
    CHECK_EQUAL(quality.blocks[0].perplexity.value, quality.perplexity.value);
    CHECK_EQUAL(quality.recall.size(), std::size_t(2));
    CHECK_EQUAL(quality.recall[0].facts, std::uint32_t(2));
    CHECK_EQUAL(quality.recall[0].right.value, 1.0);
    CHECK_EQUAL(quality.recall[1].right.value, 0.0);  // its second word is wrong
    CHECK_EQUAL(quality.recall_total.right.value, 0.5);
}

void theReferenceHasFiguresOfItsOwnAndNoneAgainstItself(Check& check) {
    const Given given;
    const LaneQuality quality = quality_of(given.items, given.source, given.reference, nullptr);
    CHECK_THAT(quality.perplexity.measured());
    CHECK_THAT(!quality.divergence.measured() && !quality.agreement.measured() && !quality.perplexity_ratio.measured());
    CHECK_THAT(quality.first_difference.empty());
}

void positionsAreCountedInBlocksOfSixtyFour(Check& check) {
    QualitySource source;
    source.cut = true;
    QualityItem item;
    ItemScores scores;
    for (int i = 0; i < 200; ++i) item.tokens.push_back(1);
    for (std::uint32_t i = 0; i < item.predictions(); ++i) {
        scores.loss.push_back(float((i + 1) / 64));  // position i + 1: the number of its block
        scores.top.push_back(1);
    }
    LaneScores lane;
    lane.items = {scores};
    const std::vector<QualityItem> items = {item};
    const LaneQuality quality = quality_of(items, source, lane, nullptr);
    CHECK_EQUAL(quality.blocks.size(), std::size_t(4));
    for (std::uint32_t b = 0; b < 4; ++b) {
        CHECK_EQUAL(quality.blocks[b].first, b * 64);
        CHECK_BELOW(std::fabs(quality.blocks[b].perplexity.value - std::exp(double(b))), 1e-9);
    }
    CHECK_EQUAL(quality.blocks[0].perplexity.samples, std::uint64_t(63));  // the first token is not predicted
    CHECK_EQUAL(quality.blocks[3].perplexity.samples, std::uint64_t(8));
}

void theMedianDifferenceCountsTextsThatNeverDifferAsLatest(Check& check) {
    const FirstDifference half = summary_of({5u, std::nullopt, 9u, std::nullopt});
    CHECK_EQUAL(half.never, std::uint64_t(2));
    CHECK_THAT(half.median == std::optional<std::uint32_t>(9));
    CHECK_THAT(!summary_of({5u, std::nullopt, std::nullopt}).median);
    CHECK_THAT(summary_of({7u, 5u, std::nullopt}).median == std::optional<std::uint32_t>(7));
    CHECK_THAT(!summary_of({}).median);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(aRowsLogProbabilitiesAreThoseOfItsSoftmax));
    claims.add(CLAIM(divergenceIsThatOfTheDefinition));
    claims.add(CLAIM(wilsonsIntervalHasThePublishedValues));
    claims.add(CLAIM(theBootstrapsIntervalIsAsWideAsTheNormalOne));
    claims.add(CLAIM(theBootstrapsIntervalHoldsTheTruthNineteenTimesInTwenty));
    claims.add(CLAIM(theBootstrapIsTheSameEveryTimeAndSharpWithoutSpread));
    claims.add(CLAIM(percentilesAreByNearestRank));
    claims.add(CLAIM(figuresOfGivenScoresAreThoseCountedByHand));
    claims.add(CLAIM(theReferenceHasFiguresOfItsOwnAndNoneAgainstItself));
    claims.add(CLAIM(positionsAreCountedInBlocksOfSixtyFour));
    claims.add(CLAIM(theMedianDifferenceCountsTextsThatNeverDifferAsLatest));
    return claims.rows();
}
