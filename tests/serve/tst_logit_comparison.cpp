// SPDX-License-Identifier: GPL-3.0-or-later
#include <QRegularExpression>
#include <QTest>

#include "engine/serve/logit_comparison.h"

using namespace kvloupe;

namespace {

const LaneId lane0{0}, lane1{1}, lane2{2};
const RequestId a{0}, b{1};

}  // namespace

class TestLogitComparison : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() { QTest::failOnWarning(QRegularExpression(".*")); }

    void onlyLanesWithEqualWeightsAreCompared() {
        const std::vector<std::uint64_t> ids{7, 8, 7, 0, 0};
        LogitComparison comparison(ids);
        QVERIFY(!comparison.reference_of(lane0).valid());
        QVERIFY(!comparison.reference_of(lane1).valid());
        QCOMPARE(comparison.reference_of(lane2), lane0);
        QVERIFY(!comparison.reference_of(LaneId{4}).valid());  // 0 is equal to nothing
        const std::vector<float> logits{1, 2};
        QVERIFY(!comparison.add(lane0, a, 0, logits, 1));
        QVERIFY(!comparison.add(lane1, a, 0, logits, 1));
        QCOMPARE(*comparison.add(lane2, a, 0, logits, 1), 0.0f);
    }

    void theLargestAbsoluteDifferenceCounts() {
        const std::vector<std::uint64_t> ids{7, 7};
        LogitComparison comparison(ids);
        comparison.add(lane0, a, 0, std::vector<float>{1, 2, 3}, 2);
        QCOMPARE(*comparison.add(lane1, a, 0, std::vector<float>{1.5f, 0, 3.25f}, 2), 2.0f);
    }

    void comparingEndsWhereTheTokensFirstDiffer() {
        const std::vector<std::uint64_t> ids{7, 7};
        LogitComparison comparison(ids);
        const std::vector<float> one{1, 2}, two{1, 3};
        for (std::uint32_t i = 0; i < 4; ++i) {
            comparison.add(lane0, a, i, one, 1);
            comparison.add(lane0, b, i, one, 1);
            // Token 0 instead of 1 at index 1 of request a: the logits there still answer the same text.
            const auto difference = comparison.add(lane1, a, i, two, i == 1 ? 0 : 1);
            QCOMPARE(difference.has_value(), i <= 1);
            QVERIFY(comparison.add(lane1, b, i, two, 1).has_value());  // other requests are not affected
        }
    }

    void aLaneMayLagBehindItsReference() {
        const std::vector<std::uint64_t> ids{7, 7, 7};
        LogitComparison comparison(ids);
        for (std::uint32_t i = 0; i < 10; ++i) comparison.add(lane0, a, i, std::vector<float>{float(i)}, 0);
        for (std::uint32_t i = 0; i < 10; ++i) QCOMPARE(*comparison.add(lane1, a, i, std::vector<float>{float(i)}, 0), 0.0f);
        for (std::uint32_t i = 0; i < 10; ++i) QCOMPARE(*comparison.add(lane2, a, i, std::vector<float>{0.0f}, 0), float(i));
    }

    void aLaneAheadOfItsReferenceHasNoDifference() {
        const std::vector<std::uint64_t> ids{7, 7};
        LogitComparison comparison(ids);
        const std::vector<float> logits{1};
        QVERIFY(!comparison.add(lane1, a, 0, logits, 0));
        comparison.add(lane0, a, 0, logits, 0);
        comparison.add(lane0, a, 1, logits, 0);
        QVERIFY(comparison.add(lane1, a, 1, logits, 0).has_value());
    }

    void memoryIsBounded() {
        const std::vector<std::uint64_t> ids{7, 7};
        LogitComparison comparison(ids, 4 * 100 * sizeof(float));
        const std::vector<float> logits(100, 1);
        for (std::uint32_t i = 0; i < 10; ++i) comparison.add(lane0, a, i, logits, 0);
        for (std::uint32_t i = 0; i < 10; ++i) QCOMPARE(comparison.add(lane1, a, i, logits, 0).has_value(), i >= 6);
    }
};

QTEST_GUILESS_MAIN(TestLogitComparison)
#include "tst_logit_comparison.moc"
