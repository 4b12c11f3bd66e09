// SPDX-License-Identifier: GPL-3.0-or-later
//
// Errors, outliers and scales of a block, on numbers made by hand.
#include "engine/record/block_scales.h"
#include "tests/support/claims.h"

#include <cmath>
#include <limits>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

constexpr float unknown = std::numeric_limits<float>::quiet_NaN();

BlockPart part_of(std::uint32_t heads, std::uint32_t tokens, std::uint32_t width, std::vector<float> stored, std::vector<float> before = {},
                  KvFormat format = KvFormat::of(DType::f32)) {
    BlockPart part;
    part.format = format;
    part.heads = heads;
    part.tokens = tokens;
    part.width = width;
    part.stored = std::move(stored);
    part.before = std::move(before);
    return part;
}

BlockValues values_of(BlockPart keys, BlockPart values) {
    BlockValues all;
    all.tokens = keys.tokens;
    all.keys = std::move(keys);
    all.values = std::move(values);
    return all;
}

// Two heads, two tokens, two channels; errors of head 0: 1, 0, -2, 0; of head 1: 0, 0, 0, 3.
BlockPart by_hand() {
    return part_of(2, 2, 2, {2, 1, 1, 1, 5, 5, 5, 8}, {1, 1, 3, 1, 5, 5, 5, 5});
}

void errorsAreCountedByHeadChannelAndToken(Check& check) {
    const BlockErrors errors = errors_of(by_hand(), 0);
    CHECK_EQUAL(errors.heads.size(), std::size_t(2));
    CHECK_CLOSE(errors.heads[0].rms(), std::sqrt(5.0 / 4));
    CHECK_CLOSE(errors.heads[1].rms(), 1.5);
    CHECK_EQUAL(errors.heads[0].largest, 2.0);
    CHECK_EQUAL(errors.channels[0].squares, 5.0);  // channel 0 of head 0: 1 and -2
    CHECK_EQUAL(errors.channels[1].squares, 0.0);
    CHECK_EQUAL(errors.tokens[0].squares, 1.0);
    CHECK_EQUAL(errors.tokens[1].squares, 4.0);
    CHECK_EQUAL(errors.total.count, std::uint64_t(8));
    CHECK_EQUAL(errors.total.squares, 14.0);
    CHECK_EQUAL(errors.total.largest, 3.0);
    CHECK_CLOSE(errors.heads[0].relative(), std::sqrt(5.0 / 12));  // before: 1, 1, 9, 1
    CHECK_EQUAL(errors_of(by_hand(), 1).channels[1].squares, 9.0);
}

void whatIsNotKnownCountsNowhere(Check& check) {
    BlockPart part = by_hand();
    part.before[0] = part.before[1] = unknown;  // token 0 of head 0
    const BlockErrors errors = errors_of(part, 0);
    CHECK_EQUAL(errors.tokens[0].count, std::uint64_t(0));
    CHECK_THAT(!errors.tokens[0].known());
    CHECK_EQUAL(errors.channels[0].count, std::uint64_t(1));
    CHECK_EQUAL(errors.total.squares, 13.0);
    CHECK_THAT(part.before_known());
    part.before.assign(8, unknown);
    CHECK_THAT(!part.before_known());
    CHECK_THAT(!errors_of(part, 0).total.known());
    part.before.clear();
    CHECK_THAT(!errors_of(part, 1).total.known());
    CHECK_EQUAL(errors_of(part, 1).channels.size(), std::size_t(2));
}

void nothingLostIsNoErrorAndSomethingFromNothingIsInfinite(Check& check) {
    CHECK_EQUAL(errors_of(part_of(1, 1, 2, {0, 0}, {0, 0}), 0).total.relative(), 0.0);
    CHECK_THAT(std::isinf(errors_of(part_of(1, 1, 2, {1, 0}, {0, 0}), 0).total.relative()));
}

// 99 values of 1 and one of 10: the RMS is sqrt(199 / 100), six times that is 8.46.
void anOutlierIsBeyondSixTimesTheRmsOfItsHead(Check& check) {
    std::vector<float> stored(200, 1.0f);
    stored[37] = -10;  // token 3, channel 7 of head 0
    BlockPart part = part_of(2, 10, 10, stored);
    const HeadOutliers outliers = outliers_of(part, 0);
    CHECK_CLOSE(outliers.limit, 6 * std::sqrt(1.99));
    CHECK_EQUAL(outliers.count, 1u);
    CHECK_THAT(outliers.marked[37]);
    CHECK_EQUAL(outliers.channels[7], 1u);
    CHECK_EQUAL(outliers_of(part, 1).count, 0u);
    part.stored[37] = -8;  // 6 x sqrt(163 / 100) = 7.66
    CHECK_EQUAL(outliers_of(part, 0).count, 1u);
    part.stored[37] = -7;  // 6 x sqrt(148 / 100) = 7.30
    CHECK_EQUAL(outliers_of(part, 0).count, 0u);
}

void outliersAreJudgedByWhatWasThereBeforeWhereItIsKnown(Check& check) {
    std::vector<float> before(100, 1.0f);
    before[5] = 20;
    BlockPart part = part_of(1, 10, 10, std::vector<float>(100, 1.0f), before);
    CHECK_EQUAL(outliers_of(part, 0).count, 1u);
    part.before[99] = unknown;
    CHECK_EQUAL(outliers_of(part, 0).count, 0u);
}

KvFormat format_of(DType dtype, KvScale scale) {
    KvFormat format = KvFormat::of(dtype);
    format.scale = scale;
    return format;
}

void aTokensScaleIsItsLargestValueOverTheLargestCode(Check& check) {
    const KvFormat int8 = KvFormat::of(DType::int8);
    const BlockValues values = values_of(part_of(1, 2, 4, {0.5f, -1.27f, 0, 0.01f, 0, 2.54f, -2, 1}, {}, int8),
                                         part_of(1, 2, 4, std::vector<float>(8, 44.8f), {}, format_of(DType::fp8_e4m3, KvScale::token_head)));
    const StoredScales keys = scales_of(values, KvPart::keys, 0);
    CHECK_THAT(keys.axis == StoredScales::Axis::token);
    CHECK_EQUAL(keys.steps.size(), std::size_t(2));
    CHECK_BELOW(std::fabs(keys.steps[0] - 0.01), 1e-8);
    CHECK_BELOW(std::fabs(keys.steps[1] - 0.02), 1e-8);
    CHECK_THAT(keys.minimums.empty());
    CHECK_EQUAL(keys.index(1, 3), std::size_t(1));
    CHECK_BELOW(std::fabs(scales_of(values, KvPart::values, 0).steps[1] - 0.1), 1e-8);
}

void anAsymmetricScaleStepsUpFromAMinimum(Check& check) {
    const KvFormat int4 = KvFormat::of(DType::int4);
    const BlockValues values = values_of(part_of(1, 1, 4, {-1, 0.5f, 2, 0}, {}, int4), part_of(1, 1, 2, {0, 0}));
    const StoredScales scales = scales_of(values, KvPart::keys, 0);
    CHECK_CLOSE(scales.steps.at(0), 3.0 / 15);
    CHECK_CLOSE(scales.minimums.at(0), -1.0);
    CHECK_THAT(scales_of(values, KvPart::values, 0).axis == StoredScales::Axis::none);
    CHECK_THAT(!scales_of(values, KvPart::values, 0).rule.empty());
}

void aJointScaleLooksAtBothRows(Check& check) {
    const KvFormat joint = format_of(DType::int8, KvScale::joint);
    const BlockValues values = values_of(part_of(1, 1, 2, {1, -1}, {}, joint), part_of(1, 1, 2, {0, 127}, {}, joint));
    CHECK_CLOSE(scales_of(values, KvPart::keys, 0).steps.at(0), 1.0);
    CHECK_CLOSE(scales_of(values, KvPart::values, 0).steps.at(0), 1.0);
}

// A rotated row: what is stored is (3, 1) / sqrt(2) turned to (2 sqrt 2 / sqrt 2, …) = (2, 1) in codes' space.
void aRotatedRowIsTurnedBeforeItsScaleIsTaken(Check& check) {
    KvFormat rotated = KvFormat::of(DType::int8);
    rotated.rotate = true;
    const float root = std::sqrt(2.0f);
    const BlockValues values = values_of(part_of(1, 1, 2, {3 / root, 1 / root}, {}, rotated), part_of(1, 1, 2, {0, 0}));
    CHECK_BELOW(std::fabs(scales_of(values, KvPart::keys, 0).steps.at(0) - 2.0 / 127), 1e-7);
}

void packsOfNarrowHeadsGoOverTheirNeighbours(Check& check) {
    // Two heads of 16: one pack of 32 for both. Its extreme lies in head 1 and is positive: code -8 is 4.
    std::vector<float> stored(32, 1.0f);
    stored[20] = 4;
    const BlockValues values = values_of(part_of(2, 1, 16, stored, {}, KvFormat::of(DType::q4_0)), part_of(2, 1, 16, stored, {}, KvFormat::of(DType::q8_0)));
    for (const std::uint32_t head : {0u, 1u}) {
        const StoredScales keys = scales_of(values, KvPart::keys, head);
        CHECK_EQUAL(keys.steps.size(), std::size_t(1));
        CHECK_CLOSE(keys.steps[0], -0.5);
        CHECK_EQUAL(keys.index(0, 15), std::size_t(0));  // the pack's middle, or its end
        CHECK_CLOSE(scales_of(values, KvPart::values, head).steps.at(0), 4.0 / 127);
    }
}

void kivisKeysHaveAScalePerChannelAndItsValuesPerToken(Check& check) {
    KvFormat kivi = KvFormat::of(DType::kivi2);
    kivi.group = 2;
    // Four tokens of two channels: channel 0 is 0 1 2 3, channel 1 is 10 10 16 10.
    BlockValues values = values_of(part_of(1, 4, 2, {0, 10, 1, 10, 2, 16, 3, 10}, {}, kivi), part_of(1, 4, 2, {0, 3, 0, 6, 0, 9, 0, 0}, {}, kivi));
    const StoredScales keys = scales_of(values, KvPart::keys, 0);
    CHECK_THAT(keys.axis == StoredScales::Axis::channel);
    CHECK_EQUAL(keys.per_entry, 2u);
    CHECK_EQUAL(keys.steps.size(), std::size_t(4));
    CHECK_CLOSE(keys.steps[0], 1.0 / 3);    // channel 0, tokens 0 and 1
    CHECK_EQUAL(keys.steps[2], 0.0);        // channel 1, tokens 0 and 1
    CHECK_CLOSE(keys.steps[3], 2.0);        // 10 … 16
    CHECK_CLOSE(keys.minimums[3], 10.0);
    CHECK_EQUAL(keys.index(2, 1), std::size_t(3));
    const StoredScales rows = scales_of(values, KvPart::values, 0);
    CHECK_THAT(rows.axis == StoredScales::Axis::token);
    CHECK_CLOSE(rows.steps[2], 3.0);
    values.in_page = true;
    CHECK_THAT(scales_of(values, KvPart::keys, 0).axis == StoredScales::Axis::none);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(errorsAreCountedByHeadChannelAndToken));
    claims.add(CLAIM(whatIsNotKnownCountsNowhere));
    claims.add(CLAIM(nothingLostIsNoErrorAndSomethingFromNothingIsInfinite));
    claims.add(CLAIM(anOutlierIsBeyondSixTimesTheRmsOfItsHead));
    claims.add(CLAIM(outliersAreJudgedByWhatWasThereBeforeWhereItIsKnown));
    claims.add(CLAIM(aTokensScaleIsItsLargestValueOverTheLargestCode));
    claims.add(CLAIM(anAsymmetricScaleStepsUpFromAMinimum));
    claims.add(CLAIM(aJointScaleLooksAtBothRows));
    claims.add(CLAIM(aRotatedRowIsTurnedBeforeItsScaleIsTaken));
    claims.add(CLAIM(packsOfNarrowHeadsGoOverTheirNeighbours));
    claims.add(CLAIM(kivisKeysHaveAScalePerChannelAndItsValuesPerToken));
    return claims.rows();
}
