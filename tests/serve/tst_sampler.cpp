// SPDX-License-Identifier: GPL-3.0-or-later
#include <QRegularExpression>
#include <QTest>

#include "engine/serve/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

using namespace kvloupe;

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

}  // namespace

class TestSampler : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() { QTest::failOnWarning(QRegularExpression(".*")); }

    void greedyTakesTheLowestIdOnATie() {
        Sampler sampler;
        const std::vector<float> logits{1, 5, 2, 5, 5};
        const SampledToken sampled = sampler.sample(logits, {}, 0);
        QCOMPARE(sampled.token, 1);
        QCOMPARE(sampled.rank, 0u);
        QCOMPARE(sampled.alternative_count, 5u);
        QCOMPARE(sampled.alternatives[0].token, 1);
        QCOMPARE(sampled.alternatives[1].token, 3);
        QCOMPARE(sampled.alternatives[2].token, 4);
        QCOMPARE(sampled.alternatives[3].token, 2);
    }

    void alternativesAreTheTenMostProbableOfTheRawLogits() {
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
            QCOMPARE(sampled.alternative_count, 10u);
            for (std::size_t i = 0; i < 10; ++i) {
                QCOMPARE(sampled.alternatives[i].token, TokenId(order[i]));
                QCOMPARE(sampled.alternatives[i].logit, logits[order[i]]);
                QVERIFY(std::fabs(double(sampled.alternatives[i].probability) / p[order[i]] - 1) < 1e-5);
            }
            QCOMPARE(order[sampled.rank], std::uint32_t(sampled.token));
            QVERIFY(std::fabs(double(sampled.probability) / p[std::size_t(sampled.token)] - 1) < 1e-5);
        }
    }

    // Runs without a candidate are skipped as a whole: candidates at every border, and ties, must still be found.
    void theBestAreFoundWhereverTheyStand() {
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
                    QCOMPARE(sampled.alternative_count, std::uint32_t(std::min<std::size_t>(10, count)));
                    for (std::size_t i = 0; i < sampled.alternative_count; ++i)
                        QCOMPARE(sampled.alternatives[i].token, TokenId(order[i]));
                    QCOMPARE(sampled.token, TokenId(order[0]));
                }
    }

    void theSumOfExponentialsEqualsTheLibrarys_data() {
        QTest::addColumn<float>("spread");
        for (const float spread : {0.0f, 0.1f, 4.0f, 30.0f, 1000.0f}) QTest::addRow("spread %g", double(spread)) << spread;
    }
    void theSumOfExponentialsEqualsTheLibrarys() {
        QFETCH(float, spread);
        for (const std::size_t count : {1u, 15u, 16u, 17u, 4096u, 49152u}) {
            const std::vector<float> logits = random_logits(count, unsigned(count), spread);
            const float maximum = *std::max_element(logits.begin(), logits.end());
            double expected = 0;
            for (const float value : logits) expected += std::exp(double(value) - double(maximum));
            QVERIFY(std::fabs(sum_of_exponentials(logits, maximum) / expected - 1) < 1e-6);
        }
    }

    void aForcedTokenIsTakenWithItsRankAndProbability() {
        Sampler sampler;
        const std::vector<float> logits{1, 4, 2, 3};
        const SampledToken sampled = sampler.sample(logits, {}, 0, 2);
        QCOMPARE(sampled.token, 2);
        QCOMPARE(sampled.rank, 2u);
        QVERIFY(std::fabs(double(sampled.probability) - softmax(logits)[2]) < 1e-6);
    }

    void theRandomNumberDependsOnSeedAndIndexAlone() {
        Sampler one, other;
        const std::vector<float> logits = random_logits(300, 5);
        SamplingOptions options;
        options.temperature = 1;
        options.seed = Sampler::request_seed(7, "a");
        std::vector<TokenId> tokens;
        for (std::uint32_t i = 0; i < 50; ++i) tokens.push_back(one.sample(logits, options, i).token);
        for (std::uint32_t i = 50; i-- > 0;) QCOMPARE(other.sample(logits, options, i).token, tokens[i]);
        QVERIFY(Sampler::request_seed(7, "a") != Sampler::request_seed(7, "b"));
        QVERIFY(Sampler::request_seed(7, "a") != Sampler::request_seed(8, "a"));
    }

    // Frequencies over many draws against the probabilities, within five standard deviations.
    void drawsFollowTheDistribution_data() {
        QTest::addColumn<float>("temperature");
        QTest::addColumn<int>("topK");
        QTest::addColumn<float>("topP");
        QTest::newRow("temperature 1") << 1.0f << 0 << 1.0f;
        QTest::newRow("temperature 0.5") << 0.5f << 0 << 1.0f;
        QTest::newRow("hot") << 3.0f << 0 << 1.0f;
        QTest::newRow("top-k 3") << 1.0f << 3 << 1.0f;
        QTest::newRow("top-p 0.7") << 1.0f << 0 << 0.7f;
        QTest::newRow("all three") << 1.5f << 5 << 0.8f;
    }
    void drawsFollowTheDistribution() {
        QFETCH(float, temperature);
        QFETCH(int, topK);
        QFETCH(float, topP);
        const std::vector<float> logits = random_logits(12, 9, 1.2f);
        // The expected distribution, the plain way: sort, cut to top_k, renormalise, cut to top_p, renormalise.
        std::vector<double> p = softmax(logits, double(temperature));
        std::vector<std::size_t> order(p.size());
        for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
        std::sort(order.begin(), order.end(), [&](auto a, auto b) { return p[a] > p[b]; });
        if (topK > 0) order.resize(std::size_t(topK));
        double total = 0;
        for (const auto i : order) total += p[i];
        double reached = 0;
        std::size_t kept = 0;
        while (kept < order.size() && (kept == 0 || reached < double(topP) * total)) reached += p[order[kept++]];
        order.resize(topP < 1 ? kept : order.size());
        total = 0;
        for (const auto i : order) total += p[i];
        std::vector<double> expected(p.size(), 0);
        for (const auto i : order) expected[i] = p[i] / total;

        Sampler sampler;
        const SamplingOptions options{temperature, std::uint32_t(topK), topP, 42};
        const int draws = 20000;
        std::vector<int> counts(p.size(), 0);
        for (int i = 0; i < draws; ++i) ++counts[std::size_t(sampler.sample(logits, options, std::uint32_t(i)).token)];
        for (std::size_t i = 0; i < p.size(); ++i) {
            const double deviation = std::sqrt(draws * expected[i] * (1 - expected[i]));
            QVERIFY2(std::fabs(counts[i] - draws * expected[i]) <= 5 * deviation + 1e-9,
                     qPrintable(QString("token %1: %2 draws, %3 expected").arg(i).arg(counts[i]).arg(draws * expected[i])));
        }
    }

    void extremeTemperaturesStillGiveAToken() {
        Sampler sampler;
        const std::vector<float> logits{-1000, 3, 1000, -5};
        for (const float temperature : {1e-30f, 1e-6f, 1e30f}) {
            const TokenId token = sampler.sample(logits, {temperature, 0, 1, 1}, 0).token;
            QVERIFY(token >= 0 && token < 4);
            if (temperature < 1) QCOMPARE(token, 2);
        }
        QCOMPARE(sampler.sample(std::vector<float>{2}, {1, 5, 0.5f, 1}, 0).token, 0);
    }

    void notFiniteIsSeenWhereverItStands() {
        std::vector<float> values(100, 1);
        QVERIFY(all_finite(values));
        for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                                std::numeric_limits<float>::quiet_NaN()})
            for (const std::size_t place : {0u, 57u, 99u}) {
                std::vector<float> broken = values;
                broken[place] = bad;
                QVERIFY(!all_finite(broken));
            }
        QVERIFY(all_finite(std::vector<float>{std::numeric_limits<float>::max(), 0, -0.0f}));
    }
};

QTEST_GUILESS_MAIN(TestSampler)
#include "tst_sampler.moc"
