// SPDX-License-Identifier: GPL-3.0-or-later
//
// The counting model of FlashAttention gives the numbers of FORMATS 3.7.
#include "engine/record/attention_traffic.h"
#include "tests/support/claims.h"

#include <cmath>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

// GPT-2 medium, figure 2 of the paper: 1024 tokens, heads of 64, 16 heads times a batch of 64, two bytes each.
constexpr AttentionTraffic gpt2{1024, 64, false};
constexpr double bytes_of_all = 2.0 * 16 * 64;

void standardAttentionOfTheFigureMovesNineGigabytes(Check& check) {
    CHECK_EQUAL(standard_elements(gpt2), std::uint64_t(4) * 1024 * 1024 + 4 * 1024 * 64);
    const double gigabytes = bytes_of_all * static_cast<double>(standard_elements(gpt2)) / 1e9;
    CHECK_BELOW(std::abs(gigabytes - 9.13), 0.005);
}

void theLeastThatCanBeMovedIsHalfAGigabyte(Check& check) {
    const double gigabytes = bytes_of_all * static_cast<double>(least_elements(gpt2)) / 1e9;
    CHECK_BELOW(std::abs(gigabytes - 0.54), 0.005);
}

void tilesAreCutAsTheAlgorithmSays(Check& check) {
    CHECK_EQUAL(flash_columns(98304, 64), std::uint64_t(384));  // 192 KiB of two-byte elements
    CHECK_EQUAL(flash_rows(98304, 64), std::uint64_t(64));      // never more than the head is wide
    CHECK_EQUAL(flash_columns(98305, 64), std::uint64_t(385));
    CHECK_EQUAL(flash_rows(256, 64), std::uint64_t(1));
}

void tiledAttentionReadsQueriesOncePerPass(Check& check) {
    // ceil(1024 / 384) = 3 passes.
    CHECK_EQUAL(flash_elements(gpt2, 384), std::uint64_t(2) * 1024 * 64 + 3 * (3 * 1024 * 64 + 4 * 1024));
    // All keys at once: one pass, and the model comes to 5 N d + 4 N.
    CHECK_EQUAL(flash_elements(gpt2, 1024), std::uint64_t(5) * 1024 * 64 + 4 * 1024);
    CHECK_EQUAL(flash_elements(gpt2, 4096), flash_elements(gpt2, 1024));
    CHECK_THAT(flash_elements(gpt2, 384) < standard_elements(gpt2) / 6);
}

void aCausalMaskHalvesTheSquare(Check& check) {
    AttentionTraffic causal = gpt2;
    causal.causal = true;
    CHECK_EQUAL(standard_elements(gpt2) - standard_elements(causal), std::uint64_t(2) * 1024 * 1024);
    CHECK_EQUAL(2 * flash_elements(causal, 384) - 2 * 2 * 1024 * 64, std::uint64_t(3) * (3 * 1024 * 64 + 4 * 1024));
}

void twiceTheTokensMoveFourTimesAsMuchWhereScoresAreKept(Check& check) {
    const AttentionTraffic longer{2048, 64, false};
    const std::uint64_t linear = 4 * 1024 * 64;
    CHECK_EQUAL(standard_elements(longer) - 2 * linear, 4 * (standard_elements(gpt2) - linear));
}

// One query over a cache: its scores are one row, and no key is read twice.
void aQueryOfACachedContextCountsItsRowAlone(Check& check) {
    const AttentionTraffic decode{1024, 64, false, 1};
    CHECK_EQUAL(standard_elements(decode), std::uint64_t(4) * 1024 + 2 * 1025 * 64);
    CHECK_EQUAL(flash_elements(decode, 384), std::uint64_t(2) * 1024 * 64 + 3 * (3 * 64 + 4));
    CHECK_EQUAL(least_elements(decode), std::uint64_t(2) * 1025 * 64);
    AttentionTraffic all = gpt2;
    all.queries = 1024;
    all.value_dim = 64;
    CHECK_EQUAL(standard_elements(all), standard_elements(gpt2));
    CHECK_EQUAL(flash_elements(all, 384), flash_elements(gpt2, 384));
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(standardAttentionOfTheFigureMovesNineGigabytes));
    claims.add(CLAIM(theLeastThatCanBeMovedIsHalfAGigabyte));
    claims.add(CLAIM(tilesAreCutAsTheAlgorithmSays));
    claims.add(CLAIM(tiledAttentionReadsQueriesOncePerPass));
    claims.add(CLAIM(aCausalMaskHalvesTheSquare));
    claims.add(CLAIM(twiceTheTokensMoveFourTimesAsMuchWhereScoresAreKept));
    claims.add(CLAIM(aQueryOfACachedContextCountsItsRowAlone));
    return claims.rows();
}
