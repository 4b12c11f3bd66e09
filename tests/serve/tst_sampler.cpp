// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/serve/sampler.h"
#include "tests/support/claims.h"
#include "tests/support/texts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

std::vector<float> random_logits(std::size_t count, unsigned seed, float spread = 4) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, spread);
    std::vector<float> logits(count);
    for (float& value : logits) value = normal(random);
    return logits;
}

std::vector<double> softmax(const std::vector<float>& logits, double temperature = 1) {
    std::vector<double> p(logits.size());
    const double maximum = *std::max_element(logits.begin(), logits.end());
    double total = 0;
    for (std::size_t i = 0; i < p.size(); ++i) total += p[i] = std::exp((double(logits[i]) - maximum) / temperature);
    for (double& value : p) value /= total;
    return p;
}

void greedyTakesTheLowestIdOnATie(Check& check) {
    Sampler sampler;
    const std::vector<float> logits{1, 5, 2, 5, 5};
    const SampledToken sampled = sampler.sample(logits, {}, 0);
    CHECK_EQUAL(sampled.token, 1);
    CHECK_EQUAL(sampled.rank, 0u);
    CHECK_EQUAL(sampled.alternative_count, 5u);
    CHECK_EQUAL(sampled.alternatives[0].token, 1);
    CHECK_EQUAL(sampled.alternatives[1].token, 3);
    CHECK_EQUAL(sampled.alternatives[2].token, 4);
    CHECK_EQUAL(sampled.alternatives[3].token, 2);
}

void alternativesAreTheTenMostProbableOfTheRawLogits(Check& check) {
    Sampler sampler;
    for (unsigned seed = 0; seed < 20; ++seed) {
        const std::vector<float> logits = random_logits(5000 + seed, seed);
        const std::vector<double> p = softmax(logits);
        std::vector<std::uint32_t> order(logits.size());
        for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
        std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return logits[a] > logits[b]; });
        SamplingOptions options;
        options.temperature = 3;
        options.seed = seed;
        const SampledToken sampled = sampler.sample(logits, options, seed);
        CHECK_EQUAL(sampled.alternative_count, 10u);
        for (std::size_t i = 0; i < 10; ++i) {
            CHECK_EQUAL(sampled.alternatives[i].token, TokenId(order[i]));
            CHECK_EQUAL(sampled.alternatives[i].logit, logits[order[i]]);
            CHECK_THAT(std::fabs(double(sampled.alternatives[i].probability) / p[order[i]] - 1) < 1e-5);
        }
        CHECK_EQUAL(order[sampled.rank], std::uint32_t(sampled.token));
        CHECK_THAT(std::fabs(double(sampled.probability) / p[std::size_t(sampled.token)] - 1) < 1e-5);
    }
}

// Runs without a candidate are skipped as a whole: candidates at every border, and ties, must still be found.
void theBestAreFoundWhereverTheyStand(Check& check) {
    Sampler sampler;
    for (const std::size_t count : {9u, 10u, 11u, 63u, 64u, 65u, 640u, 49152u})
        for (const std::size_t first : {std::size_t(0), std::size_t(1), std::size_t(62), std::size_t(63), std::size_t(64), count - 1})
            for (const float high : {3.0f, 0.0f, -0.5f}) {
                std::vector<float> logits(count, 0.0f);
                for (std::size_t i = first % count; i < count; i += 67) logits[i] = high + float(i % 3);
                std::vector<std::uint32_t> order(count);
                for (std::uint32_t i = 0; i < count; ++i) order[i] = i;
                std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return logits[a] > logits[b]; });
                const SampledToken sampled = sampler.sample(logits, {}, 0);
                CHECK_EQUAL(sampled.alternative_count, std::uint32_t(std::min<std::size_t>(10, count)));
                for (std::size_t i = 0; i < sampled.alternative_count; ++i)
                    CHECK_EQUAL(sampled.alternatives[i].token, TokenId(order[i]));
                CHECK_EQUAL(sampled.token, TokenId(order[0]));
            }
}

Cases<float> theSumOfExponentialsEqualsTheLibrarys_cases() {
    Cases<float> cases;
    for (const float spread : {0.0f, 0.1f, 4.0f, 30.0f, 1000.0f}) cases.add(printed("spread %g", double(spread)), spread);
    return cases;
}
void theSumOfExponentialsEqualsTheLibrarys(Check& check, float spread) {
    for (const std::size_t count : {1u, 15u, 16u, 17u, 4096u, 49152u}) {
        const std::vector<float> logits = random_logits(count, unsigned(count), spread);
        const float maximum = *std::max_element(logits.begin(), logits.end());
        double expected = 0;
        for (const float value : logits) expected += std::exp(double(value) - double(maximum));
        CHECK_THAT(std::fabs(sum_of_exponentials(logits, maximum) / expected - 1) < 1e-6);
    }
}

void aForcedTokenIsTakenWithItsRankAndProbability(Check& check) {
    Sampler sampler;
    const std::vector<float> logits{1, 4, 2, 3};
    const SampledToken sampled = sampler.sample(logits, {}, 0, 2);
    CHECK_EQUAL(sampled.token, 2);
    CHECK_EQUAL(sampled.rank, 2u);
    CHECK_THAT(std::fabs(double(sampled.probability) - softmax(logits)[2]) < 1e-6);
}

void theRandomNumberDependsOnSeedAndIndexAlone(Check& check) {
    Sampler one, other;
    const std::vector<float> logits = random_logits(300, 5);
    SamplingOptions options;
    options.temperature = 1;
    options.seed = Sampler::request_seed(7, "a");
    std::vector<TokenId> tokens;
    for (std::uint32_t i = 0; i < 50; ++i) tokens.push_back(one.sample(logits, options, i).token);
    for (std::uint32_t i = 50; i-- > 0;) CHECK_EQUAL(other.sample(logits, options, i).token, tokens[i]);
    CHECK_THAT(Sampler::request_seed(7, "a") != Sampler::request_seed(7, "b"));
    CHECK_THAT(Sampler::request_seed(7, "a") != Sampler::request_seed(8, "a"));
}

// Frequencies over many draws against the probabilities, within five standard deviations.
struct DrawsFollowTheDistributionCase {
    float temperature;
    int topK;
    float topP;
};
Cases<DrawsFollowTheDistributionCase> drawsFollowTheDistribution_cases() {
    Cases<DrawsFollowTheDistributionCase> cases;
    cases.add("temperature 1", {1.0f, 0, 1.0f});
    cases.add("temperature 0.5", {0.5f, 0, 1.0f});
    cases.add("hot", {3.0f, 0, 1.0f});
    cases.add("top-k 3", {1.0f, 3, 1.0f});
    cases.add("top-p 0.7", {1.0f, 0, 0.7f});
    cases.add("all three", {1.5f, 5, 0.8f});
    return cases;
}
void drawsFollowTheDistribution(Check& check, const DrawsFollowTheDistributionCase& row) {
    const std::vector<float> logits = random_logits(12, 9, 1.2f);
    // The expected distribution, the plain way: sort, cut to top_k, renormalise, cut to top_p, renormalise.
    std::vector<double> p = softmax(logits, double(row.temperature));
    std::vector<std::size_t> order(p.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](auto a, auto b) { return p[a] > p[b]; });
    if (row.topK > 0) order.resize(std::size_t(row.topK));
    double total = 0;
    for (const auto i : order) total += p[i];
    double reached = 0;
    std::size_t kept = 0;
    while (kept < order.size() && (kept == 0 || reached < double(row.topP) * total)) reached += p[order[kept++]];
    order.resize(row.topP < 1 ? kept : order.size());
    total = 0;
    for (const auto i : order) total += p[i];
    std::vector<double> expected(p.size(), 0);
    for (const auto i : order) expected[i] = p[i] / total;

    Sampler sampler;
    const SamplingOptions options{row.temperature, std::uint32_t(row.topK), row.topP, 42};
    const int draws = 20000;
    std::vector<int> counts(p.size(), 0);
    for (int i = 0; i < draws; ++i) ++counts[std::size_t(sampler.sample(logits, options, std::uint32_t(i)).token)];
    for (std::size_t i = 0; i < p.size(); ++i) {
        const double deviation = std::sqrt(draws * expected[i] * (1 - expected[i]));
        CHECK_OR_SAY(std::fabs(counts[i] - draws * expected[i]) <= 5 * deviation + 1e-9, "token " + std::to_string(i) + ": " + std::to_string(counts[i]) + " draws, " + std::to_string(draws * expected[i]) + " expected");
    }
}

void extremeTemperaturesStillGiveAToken(Check& check) {
    Sampler sampler;
    const std::vector<float> logits{-1000, 3, 1000, -5};
    for (const float temperature : {1e-30f, 1e-6f, 1e30f}) {
        const TokenId token = sampler.sample(logits, {temperature, 0, 1, 1}, 0).token;
        CHECK_THAT(token >= 0 && token < 4);
        if (temperature < 1) CHECK_EQUAL(token, 2);
    }
    CHECK_EQUAL(sampler.sample(std::vector<float>{2}, {1, 5, 0.5f, 1}, 0).token, 0);
}

void notFiniteIsSeenWhereverItStands(Check& check) {
    std::vector<float> values(100, 1);
    CHECK_THAT(all_finite(values));
    for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()})
        for (const std::size_t place : {0u, 57u, 99u}) {
            std::vector<float> broken = values;
            broken[place] = bad;
            CHECK_THAT(!all_finite(broken));
        }
    CHECK_THAT(all_finite(std::vector<float>{std::numeric_limits<float>::max(), 0, -0.0f}));
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(greedyTakesTheLowestIdOnATie));
    claims.add(CLAIM(alternativesAreTheTenMostProbableOfTheRawLogits));
    claims.add(CLAIM(theBestAreFoundWhereverTheyStand));
    claims.add(CLAIM(theSumOfExponentialsEqualsTheLibrarys), theSumOfExponentialsEqualsTheLibrarys_cases());
    claims.add(CLAIM(aForcedTokenIsTakenWithItsRankAndProbability));
    claims.add(CLAIM(theRandomNumberDependsOnSeedAndIndexAlone));
    claims.add(CLAIM(drawsFollowTheDistribution), drawsFollowTheDistribution_cases());
    claims.add(CLAIM(extremeTemperaturesStillGiveAToken));
    claims.add(CLAIM(notFiniteIsSeenWhereverItStands));
    return claims.rows();
}
