// SPDX-License-Identifier: GPL-3.0-or-later
//
// Oracles W1 to W4, W8, W9 and W11 of CACHE_SEMANTICS section 2: windows, chunks and several groups over one pool.
#include "tests/cache/cache_driver.h"
#include "tests/support/claims.h"

#include <set>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

CacheManagerOptions grouped(std::uint32_t blocks, std::uint32_t size, std::vector<AttentionSpan> spans) {
    auto options = CacheDriver::paged(blocks, size);
    options.groups.clear();
    for (const AttentionSpan& span : spans) options.groups.push_back({span, {}});
    return options;
}

int nulls(const CacheDriver& driver, std::uint32_t id, std::uint32_t group = 0) {
    int count = 0;
    for (const BlockId block : driver.cache->table(SequenceId{id}, group)) count += block == null_block_id;
    return count;
}

CacheDriver hybrid() {
    CacheDriver driver(grouped(21, 16, {{}, {32, 0, 0}, {32, 0, 0}}));
    driver.add(0, tokens_from(100, 55));
    if (!driver.admit(0)) throw std::runtime_error("the prompt does not fit");
    return driver;
}

void W1_blocksBeforeTheWindowAreFreedInDescendingOrder(Check& check) {
    CacheDriver driver(grouped(11, 2, {{4, 0, 0}}));
    driver.add(0, tokens_from(0, 12));
    CHECK_THAT(driver.admit(0, 4));
    const auto step = [&](std::uint32_t count, int expected) {
        CHECK_THAT(driver.compute(0, count));
        CHECK_EQUAL(nulls(driver, 0), expected);
    };
    step(1, 0);  // computed 4
    step(1, 1);  // 5
    step(1, 1);  // 6
    step(4, 2);  // 7
    CHECK_EQUAL(driver.table(0), "0 0 3 4 5 6");
    step(1, 4);  // 11
    std::vector<BlockId> freed;
    for (const Event& event : driver.events)
        if (event.kind == EventKind::free) freed.push_back(event.block);
    CHECK_EQUAL(text(freed), "4 3");
    CHECK_EQUAL(driver.table(0), "0 0 0 0 5 6");
}

void W2_blocksBeforeTheChunkAreFreed(Check& check) {
    CacheDriver driver(grouped(11, 2, {{0, 0, 4}}));
    driver.add(0, tokens_from(0, 13));
    CHECK_THAT(driver.admit(0, 4));
    CHECK_EQUAL(nulls(driver, 0), 0);
    CHECK_THAT(driver.compute(0, 2));
    CHECK_EQUAL(nulls(driver, 0), 2);
    CHECK_EQUAL(driver.events.front().cause, Cause::out_of_chunk);
    CHECK_THAT(driver.compute(0, 6));
    CHECK_EQUAL(nulls(driver, 0), 2);
    CHECK_THAT(driver.compute(0, 1));
    CHECK_EQUAL(nulls(driver, 0), 6);
}

void W3_sinksAreKept(Check& check) {
    CacheDriver driver(grouped(21, 4, {{8, 16, 0}}));
    driver.add(0, tokens_from(0, 37));
    CHECK_THAT(driver.admit(0, 28));
    CHECK_THAT(driver.compute(0, 8));
    CHECK_EQUAL(driver.table(0), "1 2 3 4 0 6 7 8 9");
    CHECK_THAT(driver.compute(0, 1));
    CHECK_EQUAL(driver.table(0), "1 2 3 4 0 0 0 8 9 10");
}

struct W4_aHitNeedsTheWholeWindowCase {
    std::string cached;
    int blocks;
};
Cases<W4_aHitNeedsTheWholeWindowCase> W4_aHitNeedsTheWholeWindow_cases() {
    Cases<W4_aHitNeedsTheWholeWindowCase> cases;
    cases.add("nothing", {"FFFFFFFFFF", 0});
    cases.add("T", {"T", 1});
    cases.add("TF", {"TF", 1});
    cases.add("TT", {"TT", 2});
    cases.add("TTF", {"TTF", 2});
    cases.add("a run in the middle", {"FFTTFT", 4});
    cases.add("one lost block: a cliff", {"FTFTFTFT", 0});
    return cases;
}
void W4_aHitNeedsTheWholeWindow(Check& check, const W4_aHitNeedsTheWholeWindowCase& row) {
    CacheDriver driver(grouped(21, 2, {{4, 0, 0}}));
    const auto tokens = tokens_from(0, std::size_t(row.cached.size()) * 2 + 1);
    driver.add(0, tokens);
    CHECK_THAT(driver.admit(0));
    driver.release(0);
    for (std::uint32_t i = 0; i < row.cached.size(); ++i)
        if (row.cached[i] == 'F') {
            auto plan = driver.cache->plan_evict(BlockId{i + 1});
            CHECK_THAT(plan && driver.apply(*plan));
        }
    driver.add(1, tokens);
    CHECK_EQUAL(int(driver.hit(1)), row.blocks * 2);
    CHECK_THAT(driver.admit(1));
    CHECK_EQUAL(nulls(driver, 1), std::max(0, row.blocks - 2));
}

void aHitNeedsTheSinksToo(Check& check) {
    CacheDriver driver(grouped(21, 2, {{4, 3, 0}}));
    driver.add(0, tokens_from(0, 17));
    CHECK_THAT(driver.admit(0));
    driver.release(0);
    driver.add(1, tokens_from(0, 17));
    CHECK_THAT(driver.admit(1));
    CHECK_EQUAL(driver.hit_tokens, 16u);
    CHECK_EQUAL(driver.table(1).substr(0, 19), "1 2 0 0 0 0 7 8 9");
    driver.release(1);
    auto plan = driver.cache->plan_evict(BlockId{2});
    CHECK_THAT(plan && driver.apply(*plan));
    driver.add(2, tokens_from(0, 17));
    CHECK_EQUAL(driver.hit(2), 2u);
}

void aPromptInNewChunksOnlyIsNoHit(Check& check) {
    CacheDriver driver(grouped(21, 2, {{0, 0, 4}}));
    driver.add(0, tokens_from(0, 9));
    CHECK_EQUAL(driver.hit(0), 0u);
    CHECK_THAT(driver.admit(0));
    driver.release(0);
    driver.add(1, tokens_from(0, 11));
    CHECK_THAT(driver.admit(1));
    CHECK_EQUAL(driver.hit_tokens, 8u);
    CHECK_EQUAL(nulls(driver, 1), 4);
}

void W8_threeGroupsHitTogether(Check& check) {
    CacheDriver driver = hybrid();
    CHECK_EQUAL(driver.table(0, 0), "1 2 3 4");
    CHECK_EQUAL(driver.table(0, 1), "5 6 7 8");
    CHECK_EQUAL(driver.table(0, 2), "9 10 11 12");
    driver.add(1, joined(tokens_from(100, 48), tokens_from(900, 5)));
    CHECK_THAT(driver.admit(1));
    CHECK_EQUAL(driver.hit_tokens, 48u);
    CHECK_EQUAL(driver.table(1, 0), "1 2 3 13");
    CHECK_EQUAL(driver.table(1, 1), "0 6 7 14");
    CHECK_EQUAL(driver.table(1, 2), "0 10 11 15");
}

struct W9_whichLostBlockCostsWhatCase {
    int block, hit;
};
Cases<W9_whichLostBlockCostsWhatCase> W9_whichLostBlockCostsWhat_cases() {
    Cases<W9_whichLostBlockCostsWhatCase> cases;
    cases.add("outside the window", {5, 48});
    cases.add("first of full attention", {1, 0});
    cases.add("last of full attention", {3, 32});
    return cases;
}
void W9_whichLostBlockCostsWhat(Check& check, const W9_whichLostBlockCostsWhatCase& row) {
    CacheDriver driver = hybrid();
    driver.release(0);
    auto plan = driver.cache->plan_evict(BlockId{std::uint32_t(row.block)});
    CHECK_THAT(plan && driver.apply(*plan));
    driver.add(1, joined(tokens_from(100, 48), tokens_from(900, 5)));
    CHECK_EQUAL(int(driver.hit(1)), row.hit);
}

void W11_noBlockIsInTwoTables(Check& check) {
    CacheDriver driver(grouped(9, 4, {{}, {8, 0, 0}}));
    driver.add(0, tokens_from(0, 8));
    CHECK_THAT(driver.admit(0));
    driver.release(0);
    // 2 + 2 free blocks are hit; the 4 new ones must be the 4 others.
    driver.add(1, tokens_from(0, 16));
    CHECK_THAT(driver.admit(1));
    CHECK_EQUAL(driver.hit_tokens, 8u);
    CHECK_EQUAL(driver.plan.needed_blocks, 8u);
    std::set<std::uint32_t> ids;
    for (std::uint32_t group = 0; group < 2; ++group)
        for (const BlockId block : driver.cache->table(SequenceId{1}, group)) ids.insert(block.value);
    CHECK_EQUAL(ids.size(), std::size_t(8));
    CHECK_EQUAL(driver.count(EventKind::evict), std::size_t(0));
    // All hits are touched before the first block is popped.
    bool popped = false;
    for (const Event& event : driver.events) {
        popped = popped || event.kind == EventKind::allocate;
        CHECK_THAT(event.kind != EventKind::prefix_hit || !popped);
    }
}

// A window's hits are a part of what it holds at most: alone in the pool it is never refused for them.
void theGateCountsAWindowsHitsOnce(Check& check) {
    CacheDriver driver(grouped(6, 2, {{4, 0, 0}}));  // 5 usable; 3 + 4 tokens at once take at most ceil(7 / 2) + 1
    driver.add(0, tokens_from(0, 20));
    CHECK_THAT(driver.admit(0, 4));
    for (int step = 0; step < 4; ++step) CHECK_THAT(driver.compute(0, 4));
    driver.release(0);
    driver.add(1, joined(tokens_from(0, 20), tokens_from(500, 20)));
    CHECK_THAT(driver.hit(1) > 0);
    CHECK_THAT(driver.admit(1, 4));
}

void V18_nullHitsNeedNoBlock(Check& check) {
    CacheDriver driver(grouped(41, 2, {{11, 0, 0}}));
    driver.add(0, tokens_from(0, 20));
    CHECK_THAT(driver.admit(0));
    driver.release(0);
    driver.add(1, joined(tokens_from(0, 20), tokens_from(900, 20)));
    CHECK_THAT(driver.admit(1));
    CHECK_EQUAL(driver.hit_tokens, 20u);
    CHECK_EQUAL(nulls(driver, 1), 5);
    CHECK_EQUAL(driver.plan.needed_blocks, 15u);
}

void blocksThatTheStepItselfFreesCountAsFree(Check& check) {
    CacheDriver driver(grouped(4, 2, {{4, 0, 0}}));  // 3 usable
    driver.add(0, tokens_from(0, 8));
    CHECK_THAT(!driver.admit(0, 6));  // at this pace it holds 4 blocks once
    CHECK_EQUAL(driver.refused, Cause::prompt_too_long_now);
    driver.whole_prompt = false;
    CHECK_THAT(driver.admit(0, 6));
    CHECK_EQUAL(driver.available(), 0u);
    CHECK_THAT(driver.compute(0, 1));
    CHECK_EQUAL(driver.table(0), "0 2 3 1");
}

void aWindowedSequenceMayBeLongerThanThePool(Check& check) {
    CacheDriver driver(grouped(8, 4, {{8, 4, 0}}));
    CHECK_EQUAL(driver.cache->most_slots(12, 4), std::uint64_t(1) << 32);  // 1 + ceil(11 / 4) + 1 = 5 of 7
    driver.add(0, tokens_from(0, 12));
    CHECK_THAT(driver.admit(0, 4));
    CHECK_THAT(driver.compute(0, 4) && driver.compute(0, 4));
    for (TokenId token = 0; token < 500; ++token) CHECK_THAT(driver.append(0, {token}));
    CHECK_THAT(driver.cache->used_blocks() <= 5);
    CHECK_EQUAL(CacheDriver(CacheDriver::paged(8, 4)).cache->most_slots(12, 12), std::uint64_t(28));
    CHECK_EQUAL(CacheDriver(grouped(8, 4, {{}, {8, 0, 0}})).cache->most_slots(12, 1), std::uint64_t(16));
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(W1_blocksBeforeTheWindowAreFreedInDescendingOrder));
    claims.add(CLAIM(W2_blocksBeforeTheChunkAreFreed));
    claims.add(CLAIM(W3_sinksAreKept));
    claims.add(CLAIM(W4_aHitNeedsTheWholeWindow), W4_aHitNeedsTheWholeWindow_cases());
    claims.add(CLAIM(aHitNeedsTheSinksToo));
    claims.add(CLAIM(aPromptInNewChunksOnlyIsNoHit));
    claims.add(CLAIM(W8_threeGroupsHitTogether));
    claims.add(CLAIM(W9_whichLostBlockCostsWhat), W9_whichLostBlockCostsWhat_cases());
    claims.add(CLAIM(W11_noBlockIsInTwoTables));
    claims.add(CLAIM(theGateCountsAWindowsHitsOnce));
    claims.add(CLAIM(V18_nullHitsNeedNoBlock));
    claims.add(CLAIM(blocksThatTheStepItselfFreesCountAsFree));
    claims.add(CLAIM(aWindowedSequenceMayBeLongerThanThePool));
    return claims.rows();
}
