// SPDX-License-Identifier: GPL-3.0-or-later
//
// Oracles V1 to V18 of CACHE_SEMANTICS section 2 that need one full-attention group, and N1.
#include "tests/cache/cache_driver.h"
#include "tests/support/claims.h"
#include "tests/support/texts.h"

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

std::vector<TokenId> first_prompt() { return tokens_from(100, 55); }
std::vector<TokenId> second_prompt() { return joined(tokens_from(100, 48), tokens_from(900, 5)); }

// V1 to V3: both requests, then freed.
CacheDriver served(FreeOrder order) {
    auto options = CacheDriver::paged(11, 16);
    options.free_order = order;
    CacheDriver driver(options);
    driver.add(0, first_prompt());
    driver.add(1, second_prompt());
    if (!driver.admit(0) || !driver.admit(1)) throw std::runtime_error("the prompts do not fit");
    driver.release(0);
    driver.release(1);
    return driver;
}

void V1_aPromptTakesTheFirstBlocksAndItsFullOnesAreHashed(Check& check) {
    CacheDriver driver(CacheDriver::paged(11, 16));
    driver.add(0, first_prompt());
    CHECK_THAT(driver.admit(0));
    CHECK_EQUAL(driver.table(0), "1 2 3 4");
    for (std::uint32_t block = 1; block <= 4; ++block) {
        CHECK_EQUAL(driver.hashed(block), block <= 3);
        CHECK_EQUAL(driver.cache->owners(BlockId{block}), 1u);
    }
    CHECK_EQUAL(driver.available(), 6u);
    CHECK_EQUAL(driver.cache->used_blocks(), 4u);
}

void V2_anEqualPrefixIsShared(Check& check) {
    CacheDriver driver(CacheDriver::paged(11, 16));
    driver.add(0, first_prompt());
    driver.add(1, second_prompt());
    CHECK_THAT(driver.admit(0) && driver.admit(1));
    CHECK_EQUAL(driver.hit_tokens, 48u);
    CHECK_EQUAL(driver.table(1), "1 2 3 5");
    for (std::uint32_t block = 1; block <= 3; ++block) CHECK_EQUAL(driver.cache->owners(BlockId{block}), 2u);
    CHECK_EQUAL(driver.count(EventKind::prefix_hit), std::size_t(3));
    CHECK_EQUAL(driver.count(EventKind::allocate), std::size_t(1));
    CHECK_EQUAL(driver.available(), 5u);
}

void V3_freeOrderIsUnhashedFirst(Check& check) {
    CHECK_EQUAL(served(FreeOrder::vllm).free_order(), "5 4 6 7 8 9 10 3 2 1");
}

void V4_freeOrderBeforeJune2026IsAppendOnly(Check& check) {
    CHECK_EQUAL(served(FreeOrder::append).free_order(), "6 7 8 9 10 4 5 3 2 1");
}

void V5_freedBlocksAreHitUntilTheyAreTaken(Check& check) {
    CacheDriver driver = served(FreeOrder::vllm);
    driver.add(2, joined(tokens_from(100, 48), tokens_from(700, 5)));
    CHECK_THAT(driver.admit(2));
    CHECK_EQUAL(driver.table(2), "1 2 3 5");
    CHECK_EQUAL(driver.available(), 6u);
    driver.release(2);
    driver.add(3, tokens_from(5000, 160));
    CHECK_THAT(driver.admit(3));
    CHECK_EQUAL(driver.table(3), "5 4 6 7 8 9 10 3 2 1");
    CHECK_EQUAL(driver.count(EventKind::evict), std::size_t(3));
    CHECK_EQUAL(driver.available(), 0u);
    driver.release(3);
    driver.add(4, first_prompt());
    CHECK_EQUAL(driver.hit(4), 0u);
}

void V6_aBlockIsTakenWithItsFirstSlotAndHashedWithItsLast(Check& check) {
    CacheDriver driver(CacheDriver::paged(11, 16));
    driver.add(0, first_prompt());
    CHECK_THAT(driver.admit(0));
    CHECK_THAT(driver.append(0, tokens_from(1, 4)));
    CHECK_EQUAL(driver.table(0), "1 2 3 4");
    CHECK_THAT(!driver.hashed(4));
    CHECK_THAT(driver.append(0, tokens_from(10, 19)));
    CHECK_EQUAL(driver.table(0), "1 2 3 4 5");
    CHECK_THAT(driver.hashed(4));
    CHECK_THAT(!driver.hashed(5));
}

void V8_growthStopsAtTheLastBlock(Check& check) {
    CacheDriver driver(CacheDriver::paged(5, 4, false));
    driver.add(0, tokens_from(0, 10));
    CHECK_THAT(driver.admit(0));
    CHECK_EQUAL(driver.table(0), "1 2 3");
    CHECK_THAT(driver.append(0, tokens_from(10, 6)));
    CHECK_EQUAL(driver.table(0), "1 2 3 4");
    CHECK_THAT(!driver.append(0, tokens_from(16, 1)));
    CHECK_EQUAL(driver.refused, Cause::pool_too_full);
    CHECK_EQUAL(driver.plan.needed_blocks, 1u);
    CHECK_EQUAL(driver.plan.free_blocks, 0u);
    CHECK_EQUAL(driver.table(0), "1 2 3 4");
}

void V9_onlyFullBlocksAreRegistered(Check& check) {
    CacheDriver driver(CacheDriver::paged(11, 4));
    driver.add(0, tokens_from(0, 14));
    const auto hashed = [&] {
        int count = 0;
        for (std::uint32_t block = 1; block < 11; ++block) count += driver.hashed(block);
        return count;
    };
    CHECK_THAT(driver.admit(0, 8));
    CHECK_EQUAL(hashed(), 2);
    CHECK_THAT(driver.compute(0, 4));
    CHECK_EQUAL(hashed(), 3);
    CHECK_THAT(driver.compute(0));
    CHECK_EQUAL(hashed(), 3);
}

void V10_theLastTokenIsAlwaysComputedAgain(Check& check) {
    CacheDriver driver(CacheDriver::paged(11, 16));
    driver.add(0, tokens_from(100, 48));
    CHECK_THAT(driver.admit(0));
    driver.add(1, tokens_from(100, 48));
    CHECK_EQUAL(driver.hit(1), 32u);
    driver.add(2, tokens_from(100, 49));
    CHECK_EQUAL(driver.hit(2), 48u);
}

void N1_aPromptOfExactlyTwoBlocksHitsOne(Check& check) {
    CacheDriver driver(CacheDriver::paged(11, 256));
    driver.add(0, tokens_from(0, 512));
    CHECK_THAT(driver.admit(0));
    driver.add(1, tokens_from(0, 512));
    CHECK_THAT(driver.admit(1));
    CHECK_EQUAL(driver.hit_tokens, 256u);
    CHECK_EQUAL(driver.plan.request.new_tokens, 256u);
    driver.add(2, {7});
    CHECK_THAT(driver.admit(2));
    CHECK_EQUAL(driver.plan.request.new_tokens, 1u);
}

void V12_aSaltKeepsEqualPromptsApart(Check& check) {
    CacheDriver driver(CacheDriver::paged(20, 16));
    driver.add(0, first_prompt(), "a");
    CHECK_THAT(driver.admit(0));
    driver.add(1, first_prompt(), "b");
    CHECK_EQUAL(driver.hit(1), 0u);
    driver.add(2, first_prompt());
    CHECK_EQUAL(driver.hit(2), 0u);
    driver.add(3, first_prompt(), "", "a");
    CHECK_EQUAL(driver.hit(3), 0u);
    driver.add(4, first_prompt(), "a");
    CHECK_EQUAL(driver.hit(4), 48u);
}

void untaggedExtraKeysGiveAWrongHit(Check& check) {
    auto options = CacheDriver::paged(20, 16);
    options.tag_extra_keys = false;
    CacheDriver driver(options);
    driver.add(0, first_prompt(), "a");
    CHECK_THAT(driver.admit(0));
    driver.add(1, first_prompt(), "b");
    CHECK_EQUAL(driver.hit(1), 0u);
    driver.add(2, first_prompt(), "", "a");  // an adapter of the salt's name: the first block is taken for its own
    CHECK_EQUAL(driver.hit(2), 16u);
}

void V14_aHitBlockIsNeverHandedOutAsNew(Check& check) {
    CacheDriver driver(CacheDriver::paged(3, 4));
    driver.add(0, tokens_from(0, 4));
    CHECK_THAT(driver.admit(0));
    driver.release(0);
    CHECK_EQUAL(driver.free_order(), "2 1");
    driver.add(1, tokens_from(0, 6));
    CHECK_THAT(driver.admit(1));
    CHECK_EQUAL(driver.table(1), "1 2");
    CHECK_EQUAL(driver.plan.needed_blocks, 2u);  // V18: the hit leaves the free queue, one new
    CHECK_EQUAL(driver.count(EventKind::evict), std::size_t(0));
}

void V15_resetOnlyWhenNothingIsInUse(Check& check) {
    CacheDriver driver(CacheDriver::paged(11, 16));
    driver.add(0, first_prompt());
    CHECK_THAT(driver.admit(0));
    const auto refused = driver.cache->plan_reset();
    CHECK_THAT(!refused);
    CHECK_THAT(contains(refused.error().sentence, "4 blocks are in use"));
    CHECK_THAT(driver.hashed(1));
    driver.release(0);
    auto plan = driver.cache->plan_reset();
    CHECK_THAT(plan && driver.apply(*plan));
    CHECK_EQUAL(driver.count(EventKind::reset), std::size_t(1));
    for (std::uint32_t block = 1; block < 11; ++block) CHECK_THAT(!driver.hashed(block));
    CHECK_EQUAL(driver.cache->cached_blocks(), 0u);
    driver.add(1, first_prompt());
    CHECK_EQUAL(driver.hit(1), 0u);
}

void V16_anEqualBlockIsFoundUntilBothAreGone(Check& check) {
    CacheDriver driver(CacheDriver::paged(11, 4));
    driver.add(0, tokens_from(0, 4));
    driver.add(1, tokens_from(0, 4));
    CHECK_THAT(driver.admit(0) && driver.admit(1));  // neither may hit its only block
    driver.release(0);
    driver.release(1);
    driver.add(2, tokens_from(0, 5));
    CHECK_EQUAL(text(driver.cache->match(driver.view(2)).blocks[0]), "1");
    const auto evict = [&](std::uint32_t block) {
        auto plan = driver.cache->plan_evict(BlockId{block});
        return plan && driver.apply(*plan);
    };
    CHECK_THAT(evict(1));
    CHECK_EQUAL(text(driver.cache->match(driver.view(2)).blocks[0]), "2");
    CHECK_THAT(evict(2));
    CHECK_EQUAL(driver.hit(2), 0u);
    CHECK_THAT(!driver.cache->plan_evict(BlockId{2}));
}

void V17_equalBlocksOfTwoRunningSequencesAreNotMerged(Check& check) {
    CacheDriver driver(CacheDriver::paged(11, 4));
    driver.add(0, tokens_from(0, 3));
    driver.add(1, tokens_from(0, 3));
    CHECK_THAT(driver.admit(0) && driver.admit(1));
    CHECK_THAT(driver.append(0, {3}) && driver.append(1, {3}));
    CHECK_EQUAL(driver.table(0), "1");
    CHECK_EQUAL(driver.table(1), "2");
    CHECK_THAT(driver.hashed(1) && driver.hashed(2));
    CHECK_THAT(driver.cache->hash(BlockId{1}) == driver.cache->hash(BlockId{2}));
}

void V18_freeHitsCountAsNeededBlocks(Check& check) {
    CacheDriver driver(CacheDriver::paged(40, 4));
    driver.add(0, tokens_from(0, 40));
    CHECK_THAT(driver.admit(0));
    driver.release(0);
    driver.add(1, joined(tokens_from(0, 40), tokens_from(900, 40)));
    CHECK_THAT(driver.admit(1));
    CHECK_EQUAL(driver.hit_tokens, 40u);
    CHECK_EQUAL(driver.plan.needed_blocks, 20u);
    CHECK_EQUAL(driver.count(EventKind::allocate), std::size_t(10));
}

void V20_draftSlotsGetNoHash(Check& check) {
    CacheDriver driver(CacheDriver::paged(11, 4));
    driver.add(0, tokens_from(0, 3));
    const CacheSequence sequence = driver.view(0);
    GrowRequest request{&sequence, 0, 3, 2, nullptr, true, false, true};
    CHECK_THAT(driver.grow(0, request));
    CHECK_EQUAL(driver.table(0), "1 2");
    CHECK_THAT(!driver.hashed(1));
    request.lookahead = 4;
    CHECK_THAT(driver.grow(0, request));
    CHECK_EQUAL(driver.table(0), "1 2");
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(V1_aPromptTakesTheFirstBlocksAndItsFullOnesAreHashed));
    claims.add(CLAIM(V2_anEqualPrefixIsShared));
    claims.add(CLAIM(V3_freeOrderIsUnhashedFirst));
    claims.add(CLAIM(V4_freeOrderBeforeJune2026IsAppendOnly));
    claims.add(CLAIM(V5_freedBlocksAreHitUntilTheyAreTaken));
    claims.add(CLAIM(V6_aBlockIsTakenWithItsFirstSlotAndHashedWithItsLast));
    claims.add(CLAIM(V8_growthStopsAtTheLastBlock));
    claims.add(CLAIM(V9_onlyFullBlocksAreRegistered));
    claims.add(CLAIM(V10_theLastTokenIsAlwaysComputedAgain));
    claims.add(CLAIM(N1_aPromptOfExactlyTwoBlocksHitsOne));
    claims.add(CLAIM(V12_aSaltKeepsEqualPromptsApart));
    claims.add(CLAIM(untaggedExtraKeysGiveAWrongHit));
    claims.add(CLAIM(V14_aHitBlockIsNeverHandedOutAsNew));
    claims.add(CLAIM(V15_resetOnlyWhenNothingIsInUse));
    claims.add(CLAIM(V16_anEqualBlockIsFoundUntilBothAreGone));
    claims.add(CLAIM(V17_equalBlocksOfTwoRunningSequencesAreNotMerged));
    claims.add(CLAIM(V18_freeHitsCountAsNeededBlocks));
    claims.add(CLAIM(V20_draftSlotsGetNoHash));
    return claims.rows();
}
