// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/serve/logit_comparison.h"
#include "tests/support/claims.h"

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

const LaneId lane0{0}, lane1{1}, lane2{2};
const RequestId a{0}, b{1};

void onlyLanesWithEqualWeightsAreCompared(Check& check) {
    const std::vector<std::uint64_t> ids{7, 8, 7, 0, 0};
    LogitComparison comparison(ids);
    CHECK_THAT(!comparison.reference_of(lane0).valid());
    CHECK_THAT(!comparison.reference_of(lane1).valid());
    CHECK_EQUAL(comparison.reference_of(lane2), lane0);
    CHECK_THAT(!comparison.reference_of(LaneId{4}).valid());  // 0 is equal to nothing
    const std::vector<float> logits{1, 2};
    CHECK_THAT(!comparison.add(lane0, a, 0, logits, 1));
    CHECK_THAT(!comparison.add(lane1, a, 0, logits, 1));
    CHECK_EQUAL(*comparison.add(lane2, a, 0, logits, 1), 0.0f);
}

void theLargestAbsoluteDifferenceCounts(Check& check) {
    const std::vector<std::uint64_t> ids{7, 7};
    LogitComparison comparison(ids);
    comparison.add(lane0, a, 0, std::vector<float>{1, 2, 3}, 2);
    CHECK_EQUAL(*comparison.add(lane1, a, 0, std::vector<float>{1.5f, 0, 3.25f}, 2), 2.0f);
}

void comparingEndsWhereTheTokensFirstDiffer(Check& check) {
    const std::vector<std::uint64_t> ids{7, 7};
    LogitComparison comparison(ids);
    const std::vector<float> one{1, 2}, two{1, 3};
    for (std::uint32_t i = 0; i < 4; ++i) {
        comparison.add(lane0, a, i, one, 1);
        comparison.add(lane0, b, i, one, 1);
        // Token 0 instead of 1 at index 1 of request a: the logits there still answer the same text.
        const auto difference = comparison.add(lane1, a, i, two, i == 1 ? 0 : 1);
        CHECK_EQUAL(difference.has_value(), i <= 1);
        CHECK_THAT(comparison.add(lane1, b, i, two, 1).has_value());  // other requests are not affected
    }
}

void aLaneMayLagBehindItsReference(Check& check) {
    const std::vector<std::uint64_t> ids{7, 7, 7};
    LogitComparison comparison(ids);
    for (std::uint32_t i = 0; i < 10; ++i) comparison.add(lane0, a, i, std::vector<float>{float(i)}, 0);
    for (std::uint32_t i = 0; i < 10; ++i) CHECK_EQUAL(*comparison.add(lane1, a, i, std::vector<float>{float(i)}, 0), 0.0f);
    for (std::uint32_t i = 0; i < 10; ++i) CHECK_EQUAL(*comparison.add(lane2, a, i, std::vector<float>{0.0f}, 0), float(i));
}

void aLaneAheadOfItsReferenceHasNoDifference(Check& check) {
    const std::vector<std::uint64_t> ids{7, 7};
    LogitComparison comparison(ids);
    const std::vector<float> logits{1};
    CHECK_THAT(!comparison.add(lane1, a, 0, logits, 0));
    comparison.add(lane0, a, 0, logits, 0);
    comparison.add(lane0, a, 1, logits, 0);
    CHECK_THAT(comparison.add(lane1, a, 1, logits, 0).has_value());
}

void memoryIsBounded(Check& check) {
    const std::vector<std::uint64_t> ids{7, 7};
    LogitComparison comparison(ids, 4 * 100 * sizeof(float));
    const std::vector<float> logits(100, 1);
    for (std::uint32_t i = 0; i < 10; ++i) comparison.add(lane0, a, i, logits, 0);
    for (std::uint32_t i = 0; i < 10; ++i) CHECK_EQUAL(comparison.add(lane1, a, i, logits, 0).has_value(), i >= 6);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(onlyLanesWithEqualWeightsAreCompared));
    claims.add(CLAIM(theLargestAbsoluteDifferenceCounts));
    claims.add(CLAIM(comparingEndsWhereTheTokensFirstDiffer));
    claims.add(CLAIM(aLaneMayLagBehindItsReference));
    claims.add(CLAIM(aLaneAheadOfItsReferenceHasNoDifference));
    claims.add(CLAIM(memoryIsBounded));
    return claims.rows();
}
