// SPDX-License-Identifier: GPL-3.0-or-later
//
// Oracles W1 to W4, W8, W9 and W11 of CACHE_SEMANTICS section 2: windows, chunks and several groups over one pool.
#include <QRegularExpression>
#include <QTest>

#include "tests/cache/cache_driver.h"

#include <set>

using namespace kvloupe;

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
    if (!driver.admit(0)) qFatal("the prompt does not fit");
    return driver;
}

}  // namespace

class TestPagedWindows : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() { QTest::failOnWarning(QRegularExpression(".*")); }

    void W1_blocksBeforeTheWindowAreFreedInDescendingOrder() {
        CacheDriver driver(grouped(11, 2, {{4, 0, 0}}));
        driver.add(0, tokens_from(0, 12));
        QVERIFY(driver.admit(0, 4));
        const auto step = [&](std::uint32_t count, int expected) {
            QVERIFY(driver.compute(0, count));
            QCOMPARE(nulls(driver, 0), expected);
        };
        step(1, 0);  // computed 4
        step(1, 1);  // 5
        step(1, 1);  // 6
        step(4, 2);  // 7
        QCOMPARE(driver.table(0), QByteArray("0 0 3 4 5 6"));
        step(1, 4);  // 11
        std::vector<BlockId> freed;
        for (const Event& event : driver.events)
            if (event.kind == EventKind::free) freed.push_back(event.block);
        QCOMPARE(text(freed), QByteArray("4 3"));
        QCOMPARE(driver.table(0), QByteArray("0 0 0 0 5 6"));
    }

    void W2_blocksBeforeTheChunkAreFreed() {
        CacheDriver driver(grouped(11, 2, {{0, 0, 4}}));
        driver.add(0, tokens_from(0, 13));
        QVERIFY(driver.admit(0, 4));
        QCOMPARE(nulls(driver, 0), 0);
        QVERIFY(driver.compute(0, 2));
        QCOMPARE(nulls(driver, 0), 2);
        QCOMPARE(driver.events.front().cause, Cause::out_of_chunk);
        QVERIFY(driver.compute(0, 6));
        QCOMPARE(nulls(driver, 0), 2);
        QVERIFY(driver.compute(0, 1));
        QCOMPARE(nulls(driver, 0), 6);
    }

    void W3_sinksAreKept() {
        CacheDriver driver(grouped(21, 4, {{8, 16, 0}}));
        driver.add(0, tokens_from(0, 37));
        QVERIFY(driver.admit(0, 28));
        QVERIFY(driver.compute(0, 8));
        QCOMPARE(driver.table(0), QByteArray("1 2 3 4 0 6 7 8 9"));
        QVERIFY(driver.compute(0, 1));
        QCOMPARE(driver.table(0), QByteArray("1 2 3 4 0 0 0 8 9 10"));
    }

    void W4_aHitNeedsTheWholeWindow_data() {
        QTest::addColumn<QByteArray>("cached");
        QTest::addColumn<int>("blocks");
        QTest::newRow("nothing") << QByteArray("FFFFFFFFFF") << 0;
        QTest::newRow("T") << QByteArray("T") << 1;
        QTest::newRow("TF") << QByteArray("TF") << 1;
        QTest::newRow("TT") << QByteArray("TT") << 2;
        QTest::newRow("TTF") << QByteArray("TTF") << 2;
        QTest::newRow("a run in the middle") << QByteArray("FFTTFT") << 4;
        QTest::newRow("one lost block: a cliff") << QByteArray("FTFTFTFT") << 0;
    }
    void W4_aHitNeedsTheWholeWindow() {
        QFETCH(QByteArray, cached);
        QFETCH(int, blocks);
        CacheDriver driver(grouped(21, 2, {{4, 0, 0}}));
        const auto tokens = tokens_from(0, std::size_t(cached.size()) * 2 + 1);
        driver.add(0, tokens);
        QVERIFY(driver.admit(0));
        driver.release(0);
        for (int i = 0; i < cached.size(); ++i)
            if (cached[i] == 'F') {
                auto plan = driver.cache->plan_evict(BlockId{std::uint32_t(i) + 1});
                QVERIFY(plan && driver.apply(*plan));
            }
        driver.add(1, tokens);
        QCOMPARE(int(driver.hit(1)), blocks * 2);
        QVERIFY(driver.admit(1));
        QCOMPARE(nulls(driver, 1), std::max(0, blocks - 2));
    }

    void aHitNeedsTheSinksToo() {
        CacheDriver driver(grouped(21, 2, {{4, 3, 0}}));
        driver.add(0, tokens_from(0, 17));
        QVERIFY(driver.admit(0));
        driver.release(0);
        driver.add(1, tokens_from(0, 17));
        QVERIFY(driver.admit(1));
        QCOMPARE(driver.hit_tokens, 16u);
        QCOMPARE(driver.table(1).left(19), QByteArray("1 2 0 0 0 0 7 8 9"));
        driver.release(1);
        auto plan = driver.cache->plan_evict(BlockId{2});
        QVERIFY(plan && driver.apply(*plan));
        driver.add(2, tokens_from(0, 17));
        QCOMPARE(driver.hit(2), 2u);
    }

    void aPromptInNewChunksOnlyIsNoHit() {
        CacheDriver driver(grouped(21, 2, {{0, 0, 4}}));
        driver.add(0, tokens_from(0, 9));
        QCOMPARE(driver.hit(0), 0u);
        QVERIFY(driver.admit(0));
        driver.release(0);
        driver.add(1, tokens_from(0, 11));
        QVERIFY(driver.admit(1));
        QCOMPARE(driver.hit_tokens, 8u);
        QCOMPARE(nulls(driver, 1), 4);
    }

    void W8_threeGroupsHitTogether() {
        CacheDriver driver = hybrid();
        QCOMPARE(driver.table(0, 0), QByteArray("1 2 3 4"));
        QCOMPARE(driver.table(0, 1), QByteArray("5 6 7 8"));
        QCOMPARE(driver.table(0, 2), QByteArray("9 10 11 12"));
        driver.add(1, joined(tokens_from(100, 48), tokens_from(900, 5)));
        QVERIFY(driver.admit(1));
        QCOMPARE(driver.hit_tokens, 48u);
        QCOMPARE(driver.table(1, 0), QByteArray("1 2 3 13"));
        QCOMPARE(driver.table(1, 1), QByteArray("0 6 7 14"));
        QCOMPARE(driver.table(1, 2), QByteArray("0 10 11 15"));
    }

    void W9_whichLostBlockCostsWhat_data() {
        QTest::addColumn<int>("block");
        QTest::addColumn<int>("hit");
        QTest::newRow("outside the window") << 5 << 48;
        QTest::newRow("first of full attention") << 1 << 0;
        QTest::newRow("last of full attention") << 3 << 32;
    }
    void W9_whichLostBlockCostsWhat() {
        QFETCH(int, block);
        QFETCH(int, hit);
        CacheDriver driver = hybrid();
        driver.release(0);
        auto plan = driver.cache->plan_evict(BlockId{std::uint32_t(block)});
        QVERIFY(plan && driver.apply(*plan));
        driver.add(1, joined(tokens_from(100, 48), tokens_from(900, 5)));
        QCOMPARE(int(driver.hit(1)), hit);
    }

    void W11_noBlockIsInTwoTables() {
        CacheDriver driver(grouped(9, 4, {{}, {8, 0, 0}}));
        driver.add(0, tokens_from(0, 8));
        QVERIFY(driver.admit(0));
        driver.release(0);
        // 2 + 2 free blocks are hit; the 4 new ones must be the 4 others.
        driver.add(1, tokens_from(0, 16));
        QVERIFY(driver.admit(1));
        QCOMPARE(driver.hit_tokens, 8u);
        QCOMPARE(driver.plan.needed_blocks, 8u);
        std::set<std::uint32_t> ids;
        for (std::uint32_t group = 0; group < 2; ++group)
            for (const BlockId block : driver.cache->table(SequenceId{1}, group)) ids.insert(block.value);
        QCOMPARE(ids.size(), std::size_t(8));
        QCOMPARE(driver.count(EventKind::evict), std::size_t(0));
        // All hits are touched before the first block is popped.
        bool popped = false;
        for (const Event& event : driver.events) {
            popped = popped || event.kind == EventKind::allocate;
            QVERIFY(event.kind != EventKind::prefix_hit || !popped);
        }
    }

    // A window's hits are a part of what it holds at most: alone in the pool it is never refused for them.
    void theGateCountsAWindowsHitsOnce() {
        CacheDriver driver(grouped(6, 2, {{4, 0, 0}}));  // 5 usable; 3 + 4 tokens at once take at most ceil(7 / 2) + 1
        driver.add(0, tokens_from(0, 20));
        QVERIFY(driver.admit(0, 4));
        for (int step = 0; step < 4; ++step) QVERIFY(driver.compute(0, 4));
        driver.release(0);
        driver.add(1, joined(tokens_from(0, 20), tokens_from(500, 20)));
        QVERIFY(driver.hit(1) > 0);
        QVERIFY(driver.admit(1, 4));
    }

    void V18_nullHitsNeedNoBlock() {
        CacheDriver driver(grouped(41, 2, {{11, 0, 0}}));
        driver.add(0, tokens_from(0, 20));
        QVERIFY(driver.admit(0));
        driver.release(0);
        driver.add(1, joined(tokens_from(0, 20), tokens_from(900, 20)));
        QVERIFY(driver.admit(1));
        QCOMPARE(driver.hit_tokens, 20u);
        QCOMPARE(nulls(driver, 1), 5);
        QCOMPARE(driver.plan.needed_blocks, 15u);
    }

    void blocksThatTheStepItselfFreesCountAsFree() {
        CacheDriver driver(grouped(4, 2, {{4, 0, 0}}));  // 3 usable
        driver.add(0, tokens_from(0, 8));
        QVERIFY(!driver.admit(0, 6));  // at this pace it holds 4 blocks once
        QCOMPARE(driver.refused, Cause::prompt_too_long_now);
        driver.whole_prompt = false;
        QVERIFY(driver.admit(0, 6));
        QCOMPARE(driver.available(), 0u);
        QVERIFY(driver.compute(0, 1));
        QCOMPARE(driver.table(0), QByteArray("0 2 3 1"));
    }

    void aWindowedSequenceMayBeLongerThanThePool() {
        CacheDriver driver(grouped(8, 4, {{8, 4, 0}}));
        QCOMPARE(driver.cache->most_slots(12, 4), std::uint64_t(1) << 32);  // 1 + ceil(11 / 4) + 1 = 5 of 7
        driver.add(0, tokens_from(0, 12));
        QVERIFY(driver.admit(0, 4));
        QVERIFY(driver.compute(0, 4) && driver.compute(0, 4));
        for (TokenId token = 0; token < 500; ++token) QVERIFY(driver.append(0, {token}));
        QVERIFY(driver.cache->used_blocks() <= 5);
        QCOMPARE(CacheDriver(CacheDriver::paged(8, 4)).cache->most_slots(12, 12), std::uint64_t(28));
        QCOMPARE(CacheDriver(grouped(8, 4, {{}, {8, 0, 0}})).cache->most_slots(12, 1), std::uint64_t(16));
    }
};

QTEST_GUILESS_MAIN(TestPagedWindows)
#include "tst_paged_windows.moc"
