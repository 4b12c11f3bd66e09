// SPDX-License-Identifier: GPL-3.0-or-later
//
// Oracles V1 to V18 of CACHE_SEMANTICS section 2 that need one full-attention group, and N1.
#include <QRegularExpression>
#include <QTest>

#include "tests/cache/cache_driver.h"

using namespace kvloupe;

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
    if (!driver.admit(0) || !driver.admit(1)) qFatal("the prompts do not fit");
    driver.release(0);
    driver.release(1);
    return driver;
}

}  // namespace

class TestPagedPrefix : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() { QTest::failOnWarning(QRegularExpression(".*")); }

    void V1_aPromptTakesTheFirstBlocksAndItsFullOnesAreHashed() {
        CacheDriver driver(CacheDriver::paged(11, 16));
        driver.add(0, first_prompt());
        QVERIFY(driver.admit(0));
        QCOMPARE(driver.table(0), QByteArray("1 2 3 4"));
        for (std::uint32_t block = 1; block <= 4; ++block) {
            QCOMPARE(driver.hashed(block), block <= 3);
            QCOMPARE(driver.cache->owners(BlockId{block}), 1u);
        }
        QCOMPARE(driver.available(), 6u);
        QCOMPARE(driver.cache->used_blocks(), 4u);
    }

    void V2_anEqualPrefixIsShared() {
        CacheDriver driver(CacheDriver::paged(11, 16));
        driver.add(0, first_prompt());
        driver.add(1, second_prompt());
        QVERIFY(driver.admit(0) && driver.admit(1));
        QCOMPARE(driver.hit_tokens, 48u);
        QCOMPARE(driver.table(1), QByteArray("1 2 3 5"));
        for (std::uint32_t block = 1; block <= 3; ++block) QCOMPARE(driver.cache->owners(BlockId{block}), 2u);
        QCOMPARE(driver.count(EventKind::prefix_hit), std::size_t(3));
        QCOMPARE(driver.count(EventKind::allocate), std::size_t(1));
        QCOMPARE(driver.available(), 5u);
    }

    void V3_freeOrderIsUnhashedFirst() {
        QCOMPARE(served(FreeOrder::vllm).free_order(), QByteArray("5 4 6 7 8 9 10 3 2 1"));
    }
    void V4_freeOrderBeforeJune2026IsAppendOnly() {
        QCOMPARE(served(FreeOrder::append).free_order(), QByteArray("6 7 8 9 10 4 5 3 2 1"));
    }

    void V5_freedBlocksAreHitUntilTheyAreTaken() {
        CacheDriver driver = served(FreeOrder::vllm);
        driver.add(2, joined(tokens_from(100, 48), tokens_from(700, 5)));
        QVERIFY(driver.admit(2));
        QCOMPARE(driver.table(2), QByteArray("1 2 3 5"));
        QCOMPARE(driver.available(), 6u);
        driver.release(2);
        driver.add(3, tokens_from(5000, 160));
        QVERIFY(driver.admit(3));
        QCOMPARE(driver.table(3), QByteArray("5 4 6 7 8 9 10 3 2 1"));
        QCOMPARE(driver.count(EventKind::evict), std::size_t(3));
        QCOMPARE(driver.available(), 0u);
        driver.release(3);
        driver.add(4, first_prompt());
        QCOMPARE(driver.hit(4), 0u);
    }

    void V6_aBlockIsTakenWithItsFirstSlotAndHashedWithItsLast() {
        CacheDriver driver(CacheDriver::paged(11, 16));
        driver.add(0, first_prompt());
        QVERIFY(driver.admit(0));
        QVERIFY(driver.append(0, tokens_from(1, 4)));
        QCOMPARE(driver.table(0), QByteArray("1 2 3 4"));
        QVERIFY(!driver.hashed(4));
        QVERIFY(driver.append(0, tokens_from(10, 19)));
        QCOMPARE(driver.table(0), QByteArray("1 2 3 4 5"));
        QVERIFY(driver.hashed(4));
        QVERIFY(!driver.hashed(5));
    }

    void V8_growthStopsAtTheLastBlock() {
        CacheDriver driver(CacheDriver::paged(5, 4, false));
        driver.add(0, tokens_from(0, 10));
        QVERIFY(driver.admit(0));
        QCOMPARE(driver.table(0), QByteArray("1 2 3"));
        QVERIFY(driver.append(0, tokens_from(10, 6)));
        QCOMPARE(driver.table(0), QByteArray("1 2 3 4"));
        QVERIFY(!driver.append(0, tokens_from(16, 1)));
        QCOMPARE(driver.refused, Cause::pool_too_full);
        QCOMPARE(driver.plan.needed_blocks, 1u);
        QCOMPARE(driver.plan.free_blocks, 0u);
        QCOMPARE(driver.table(0), QByteArray("1 2 3 4"));
    }

    void V9_onlyFullBlocksAreRegistered() {
        CacheDriver driver(CacheDriver::paged(11, 4));
        driver.add(0, tokens_from(0, 14));
        const auto hashed = [&] {
            int count = 0;
            for (std::uint32_t block = 1; block < 11; ++block) count += driver.hashed(block);
            return count;
        };
        QVERIFY(driver.admit(0, 8));
        QCOMPARE(hashed(), 2);
        QVERIFY(driver.compute(0, 4));
        QCOMPARE(hashed(), 3);
        QVERIFY(driver.compute(0));
        QCOMPARE(hashed(), 3);
    }

    void V10_theLastTokenIsAlwaysComputedAgain() {
        CacheDriver driver(CacheDriver::paged(11, 16));
        driver.add(0, tokens_from(100, 48));
        QVERIFY(driver.admit(0));
        driver.add(1, tokens_from(100, 48));
        QCOMPARE(driver.hit(1), 32u);
        driver.add(2, tokens_from(100, 49));
        QCOMPARE(driver.hit(2), 48u);
    }

    void N1_aPromptOfExactlyTwoBlocksHitsOne() {
        CacheDriver driver(CacheDriver::paged(11, 256));
        driver.add(0, tokens_from(0, 512));
        QVERIFY(driver.admit(0));
        driver.add(1, tokens_from(0, 512));
        QVERIFY(driver.admit(1));
        QCOMPARE(driver.hit_tokens, 256u);
        QCOMPARE(driver.plan.request.new_tokens, 256u);
        driver.add(2, {7});
        QVERIFY(driver.admit(2));
        QCOMPARE(driver.plan.request.new_tokens, 1u);
    }

    void V12_aSaltKeepsEqualPromptsApart() {
        CacheDriver driver(CacheDriver::paged(20, 16));
        driver.add(0, first_prompt(), "a");
        QVERIFY(driver.admit(0));
        driver.add(1, first_prompt(), "b");
        QCOMPARE(driver.hit(1), 0u);
        driver.add(2, first_prompt());
        QCOMPARE(driver.hit(2), 0u);
        driver.add(3, first_prompt(), "", "a");
        QCOMPARE(driver.hit(3), 0u);
        driver.add(4, first_prompt(), "a");
        QCOMPARE(driver.hit(4), 48u);
    }

    void untaggedExtraKeysGiveAWrongHit() {
        auto options = CacheDriver::paged(20, 16);
        options.tag_extra_keys = false;
        CacheDriver driver(options);
        driver.add(0, first_prompt(), "a");
        QVERIFY(driver.admit(0));
        driver.add(1, first_prompt(), "b");
        QCOMPARE(driver.hit(1), 0u);
        driver.add(2, first_prompt(), "", "a");  // an adapter of the salt's name: the first block is taken for its own
        QCOMPARE(driver.hit(2), 16u);
    }

    void V14_aHitBlockIsNeverHandedOutAsNew() {
        CacheDriver driver(CacheDriver::paged(3, 4));
        driver.add(0, tokens_from(0, 4));
        QVERIFY(driver.admit(0));
        driver.release(0);
        QCOMPARE(driver.free_order(), QByteArray("2 1"));
        driver.add(1, tokens_from(0, 6));
        QVERIFY(driver.admit(1));
        QCOMPARE(driver.table(1), QByteArray("1 2"));
        QCOMPARE(driver.plan.needed_blocks, 2u);  // V18: the hit leaves the free queue, one new
        QCOMPARE(driver.count(EventKind::evict), std::size_t(0));
    }

    void V15_resetOnlyWhenNothingIsInUse() {
        CacheDriver driver(CacheDriver::paged(11, 16));
        driver.add(0, first_prompt());
        QVERIFY(driver.admit(0));
        const auto refused = driver.cache->plan_reset();
        QVERIFY(!refused);
        QVERIFY(QByteArray::fromStdString(refused.error().sentence).contains("4 blocks are in use"));
        QVERIFY(driver.hashed(1));
        driver.release(0);
        auto plan = driver.cache->plan_reset();
        QVERIFY(plan && driver.apply(*plan));
        QCOMPARE(driver.count(EventKind::reset), std::size_t(1));
        for (std::uint32_t block = 1; block < 11; ++block) QVERIFY(!driver.hashed(block));
        QCOMPARE(driver.cache->cached_blocks(), 0u);
        driver.add(1, first_prompt());
        QCOMPARE(driver.hit(1), 0u);
    }

    void V16_anEqualBlockIsFoundUntilBothAreGone() {
        CacheDriver driver(CacheDriver::paged(11, 4));
        driver.add(0, tokens_from(0, 4));
        driver.add(1, tokens_from(0, 4));
        QVERIFY(driver.admit(0) && driver.admit(1));  // neither may hit its only block
        driver.release(0);
        driver.release(1);
        driver.add(2, tokens_from(0, 5));
        QCOMPARE(text(driver.cache->match(driver.view(2)).blocks[0]), QByteArray("1"));
        const auto evict = [&](std::uint32_t block) {
            auto plan = driver.cache->plan_evict(BlockId{block});
            return plan && driver.apply(*plan);
        };
        QVERIFY(evict(1));
        QCOMPARE(text(driver.cache->match(driver.view(2)).blocks[0]), QByteArray("2"));
        QVERIFY(evict(2));
        QCOMPARE(driver.hit(2), 0u);
        QVERIFY(!driver.cache->plan_evict(BlockId{2}));
    }

    void V17_equalBlocksOfTwoRunningSequencesAreNotMerged() {
        CacheDriver driver(CacheDriver::paged(11, 4));
        driver.add(0, tokens_from(0, 3));
        driver.add(1, tokens_from(0, 3));
        QVERIFY(driver.admit(0) && driver.admit(1));
        QVERIFY(driver.append(0, {3}) && driver.append(1, {3}));
        QCOMPARE(driver.table(0), QByteArray("1"));
        QCOMPARE(driver.table(1), QByteArray("2"));
        QVERIFY(driver.hashed(1) && driver.hashed(2));
        QVERIFY(driver.cache->hash(BlockId{1}) == driver.cache->hash(BlockId{2}));
    }

    void V18_freeHitsCountAsNeededBlocks() {
        CacheDriver driver(CacheDriver::paged(40, 4));
        driver.add(0, tokens_from(0, 40));
        QVERIFY(driver.admit(0));
        driver.release(0);
        driver.add(1, joined(tokens_from(0, 40), tokens_from(900, 40)));
        QVERIFY(driver.admit(1));
        QCOMPARE(driver.hit_tokens, 40u);
        QCOMPARE(driver.plan.needed_blocks, 20u);
        QCOMPARE(driver.count(EventKind::allocate), std::size_t(10));
    }

    void V20_draftSlotsGetNoHash() {
        CacheDriver driver(CacheDriver::paged(11, 4));
        driver.add(0, tokens_from(0, 3));
        const CacheSequence sequence = driver.view(0);
        GrowRequest request{&sequence, 0, 3, 2, nullptr, true, false, true};
        QVERIFY(driver.grow(0, request));
        QCOMPARE(driver.table(0), QByteArray("1 2"));
        QVERIFY(!driver.hashed(1));
        request.lookahead = 4;
        QVERIFY(driver.grow(0, request));
        QCOMPARE(driver.table(0), QByteArray("1 2"));
    }
};

QTEST_GUILESS_MAIN(TestPagedPrefix)
#include "tst_paged_prefix.moc"
