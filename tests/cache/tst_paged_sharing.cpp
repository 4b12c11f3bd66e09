// SPDX-License-Identifier: GPL-3.0-or-later
//
// Oracles C1, C2, C5 and N2 of CACHE_SEMANTICS section 2, and the block tables of the PagedAttention paper, Fig. 6 to 8
// (FORMATS 3.2): forks, copy-on-write, swapping, preemption.
#include <QRegularExpression>
#include <QTest>

#include "tests/cache/cache_driver.h"

using namespace kvloupe;

namespace {

std::vector<BlockId> ids(std::initializer_list<std::uint32_t> values) {
    std::vector<BlockId> result;
    for (const auto value : values) result.push_back(BlockId{value});
    return result;
}

const Event* first_of(const CacheDriver& driver, EventKind kind) {
    for (const Event& event : driver.events)
        if (event.kind == kind) return &event;
    return nullptr;
}

}  // namespace

class TestPagedSharing : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() { QTest::failOnWarning(QRegularExpression(".*")); }

    void C1_aForkCopiesExactlyItsPartialBlock_data() {
        QTest::addColumn<int>("length");
        QTest::addColumn<int>("appended");
        QTest::addColumn<bool>("caching");
        for (int length : {1, 3, 4, 5, 7, 8, 12})
            for (int appended : {1, 2, 4, 9})
                for (bool caching : {false, true})
                    QTest::addRow("%d + %d%s", length, appended, caching ? ", cached" : "") << length << appended << caching;
    }
    void C1_aForkCopiesExactlyItsPartialBlock() {
        QFETCH(int, length);
        QFETCH(int, appended);
        QFETCH(bool, caching);
        CacheDriver driver(CacheDriver::paged(20, 4, caching));
        driver.add(0, tokens_from(0, std::size_t(length)));
        QVERIFY(driver.admit(0));
        const QByteArray parent = driver.table(0);
        const int before = int(driver.cache->used_blocks());
        QCOMPARE(before, (length + 3) / 4);
        QVERIFY(driver.fork(1, 0, std::uint32_t(length)));
        QCOMPARE(int(driver.cache->used_blocks()), before);  // C2: no allocation
        for (const BlockId block : driver.cache->table(SequenceId{1})) QCOMPARE(driver.cache->owners(block), 2u);
        QVERIFY(driver.append(1, tokens_from(700, std::size_t(appended))));
        QCOMPARE(int(driver.cache->used_blocks()) - before, (length + appended + 3) / 4 - length / 4);
        QCOMPARE(driver.count(EventKind::copy_on_write), std::size_t(length % 4 > 0));
        if (const Event* copy = first_of(driver, EventKind::copy_on_write)) {
            QCOMPARE(int(copy->tokens), length % 4);
            QCOMPARE(copy->cause, Cause::shared_block_written);
        }
        QCOMPARE(driver.table(0), parent);
        driver.release(0);
        driver.release(1);
        QCOMPARE(driver.cache->used_blocks(), 0u);
    }

    void C1_withinAStepTheParentWritesFirstAndCopies() {
        CacheDriver driver(CacheDriver::paged(20, 4));
        driver.add(0, tokens_from(0, 6));
        QVERIFY(driver.admit(0));
        QVERIFY(driver.fork(1, 0, 6));
        QVERIFY(driver.append(0, {50}));
        QCOMPARE(driver.table(0), QByteArray("1 3"));
        QCOMPARE(driver.count(EventKind::copy_on_write), std::size_t(1));
        QVERIFY(driver.append(1, {60}));
        QCOMPARE(driver.table(1), QByteArray("1 2"));
        QCOMPARE(driver.plan.needed_blocks, 0u);
    }

    void C2_theLastOwnerWritesInPlace() {
        CacheDriver driver(CacheDriver::paged(20, 4));
        driver.add(0, tokens_from(0, 6));
        QVERIFY(driver.admit(0));
        QVERIFY(driver.fork(1, 0, 6));
        driver.release(0);
        QVERIFY(driver.append(1, {60}));
        QCOMPARE(driver.table(1), QByteArray("1 2"));
        QCOMPARE(driver.cache->used_blocks(), 2u);
    }

    void aWriteIntoAHashedBlockDropsTheHashFirst() {
        CacheDriver driver(CacheDriver::paged(20, 4));
        driver.add(0, tokens_from(0, 8));
        QVERIFY(driver.admit(0));
        QVERIFY(driver.fork(1, 0, 6));
        driver.release(0);
        QVERIFY(driver.hashed(2));
        QVERIFY(driver.append(1, {60}));
        QCOMPARE(driver.table(1), QByteArray("1 2"));
        QVERIFY(driver.hashed(1) && !driver.hashed(2));
        QCOMPARE(driver.events.front().kind, EventKind::evict);
        QCOMPARE(driver.events.front().cause, Cause::last_owner_writes);
        QVERIFY(driver.append(1, {61}));  // full again, with other tokens
        QVERIFY(driver.hashed(2));
        driver.add(2, {0, 1, 2, 3, 4, 5, 60, 61, 9});
        QCOMPARE(driver.hit(2), 8u);
        driver.add(3, tokens_from(0, 9));
        QCOMPARE(driver.hit(3), 4u);
    }

    void aCopyLeavesTheHashedSourceAsItIs() {
        CacheDriver driver(CacheDriver::paged(20, 4));
        driver.add(0, tokens_from(0, 8));
        QVERIFY(driver.admit(0));
        QVERIFY(driver.fork(1, 0, 6));
        QVERIFY(driver.append(1, {60, 61, 62}));
        QCOMPARE(driver.table(1), QByteArray("1 3 4"));
        QVERIFY(driver.hashed(2) && driver.hashed(3));
        QCOMPARE(first_of(driver, EventKind::copy_on_write)->tokens, 2u);
    }

    // A fork that computes the token before its position again writes into a full, shared block.
    void aForkMayComputeItsLastTokenAgain() {
        CacheDriver driver(CacheDriver::paged(20, 4));
        driver.add(0, tokens_from(0, 11));
        QVERIFY(driver.admit(0));
        QVERIFY(driver.fork(1, 0, 8, {}));
        driver.sequences[1].computed = 7;
        QVERIFY(driver.compute(1, 1));
        QCOMPARE(driver.table(1), QByteArray("1 4"));
        QCOMPARE(first_of(driver, EventKind::copy_on_write)->tokens, 3u);
        QVERIFY(driver.hashed(2) && driver.hashed(4));
    }

    void forksThatCannotBeAreRefused() {
        CacheDriver driver(CacheDriver::paged(20, 4));
        driver.add(0, tokens_from(0, 6));
        driver.add(5, tokens_from(0, 6));
        QVERIFY(!driver.fork(1, 0, 6));
        QVERIFY(driver.error.contains("without blocks"));
        QVERIFY(driver.admit(0) && driver.admit(5));
        QVERIFY(!driver.cache->plan_fork(driver.view(5), SequenceId{0}, 6));
        driver.sequences.at(0).tokens.resize(9);
        QVERIFY(!driver.fork(1, 0, 7));
        QVERIFY(driver.error.contains("7"));
    }

    void aForkInsideALostWindowIsRefused() {
        auto options = CacheDriver::paged(20, 2);
        options.groups[0].span.window = 4;
        CacheDriver driver(options);
        driver.add(0, tokens_from(0, 10));
        QVERIFY(driver.admit(0, 9));
        QVERIFY(driver.compute(0, 1));
        QCOMPARE(driver.table(0), QByteArray("0 0 0 4 5"));
        QVERIFY(!driver.fork(1, 0, 7));
        QVERIFY(driver.error.contains("left the window"));
        QVERIFY(driver.fork(2, 0, 10));
        QVERIFY(driver.append(2, {99}));
        QCOMPARE(driver.table(2), QByteArray("0 0 0 4 5 6"));
    }

    void undoTakesBackTheHashesOfTheStep() {
        CacheDriver driver(CacheDriver::paged(20, 4));
        driver.add(0, tokens_from(0, 16));
        QVERIFY(driver.admit(0, 8));
        QVERIFY(driver.compute(0, 8));
        driver.release(0, Cause::sequence_preempted, 8);
        QVERIFY(driver.hashed(1) && driver.hashed(2) && !driver.hashed(3) && !driver.hashed(4));
        QCOMPARE(driver.count(EventKind::evict), std::size_t(2));
        QCOMPARE(driver.hit(0), 8u);
    }

    void undoKeepsWhatOthersGave() {
        CacheDriver driver(CacheDriver::paged(20, 4));
        driver.add(0, tokens_from(0, 8));
        QVERIFY(driver.admit(0));
        QVERIFY(driver.fork(1, 0, 6));
        driver.release(1, Cause::sequence_preempted, 6);
        QVERIFY(driver.hashed(2));
    }

    void N2_aPreemptedSequenceAsksForNoBlockTwice() {
        CacheDriver driver(CacheDriver::paged(10, 256));
        driver.add(0, tokens_from(0, 257));
        QVERIFY(driver.admit(0));
        driver.release(0, Cause::sequence_preempted, 257);
        QVERIFY(driver.admit(0));
        QCOMPARE(driver.hit_tokens, 256u);
        const QByteArray table = driver.table(0);
        QCOMPARE(driver.cache->table(SequenceId{0}).size(), std::size_t(2));
        QVERIFY(driver.append(0, {5}));
        QCOMPARE(driver.table(0), table);
        QCOMPARE(driver.plan.needed_blocks, 0u);
    }

    void C5_swapOutAndInKeepsOrderAndSlots() {
        auto options = CacheDriver::paged(8, 4);
        options.host_blocks = 4;
        CacheDriver driver(options);
        driver.add(0, tokens_from(0, 14));
        QVERIFY(driver.admit(0));
        QVERIFY(driver.apply(driver.cache->plan_swap_out(driver.view(0), 14)));
        QCOMPARE(driver.count(EventKind::swap_out), std::size_t(4));
        QCOMPARE(driver.cache->used_blocks(), 0u);
        QCOMPARE(driver.cache->host_blocks_used(), 4u);
        std::map<std::uint32_t, std::uint32_t> slots_on_host;
        for (const Event& event : driver.events)
            if (event.kind == EventKind::swap_out) slots_on_host[event.other] = event.tokens;
        QVERIFY(slots_on_host == (std::map<std::uint32_t, std::uint32_t>{{0, 4}, {1, 4}, {2, 4}, {3, 2}}));
        driver.add(1, tokens_from(500, 3));
        QVERIFY(driver.admit(1));
        const CachePlan full = driver.cache->plan_swap_out(driver.view(1), 3);
        QCOMPARE(full.refused_because, Cause::pool_too_full);
        QVERIFY(driver.apply(driver.cache->plan_swap_in(driver.view(0))));
        std::uint32_t host = 0;
        for (const Event& event : driver.events)
            if (event.kind == EventKind::swap_in) {
                QCOMPARE(event.other, host++);
                QCOMPARE(event.tokens, host < 4 ? 4u : 2u);
            }
        QCOMPARE(driver.cache->table(SequenceId{0}).size(), std::size_t(4));
        QCOMPARE(driver.cache->host_blocks_used(), 0u);
        QVERIFY(driver.append(0, {14, 15}));
        QCOMPARE(driver.cache->table(SequenceId{0}).size(), std::size_t(4));
        for (const BlockId block : driver.cache->table(SequenceId{0})) QVERIFY(driver.hashed(block.value));
    }

    void swapWithoutRoomOrSequenceIsRefused() {
        auto options = CacheDriver::paged(8, 4);
        options.host_blocks = 2;
        CacheDriver driver(options);
        driver.add(0, tokens_from(0, 9));
        QVERIFY(driver.admit(0));
        const CachePlan out = driver.cache->plan_swap_out(driver.view(0), 9);
        QCOMPARE(out.refused_because, Cause::pool_too_full);
        QCOMPARE(out.needed_blocks, 3u);
        QCOMPARE(out.free_blocks, 2u);
        QVERIFY(!driver.cache->plan_swap_in(driver.view(0)).fits());
    }

    void aSwappedSequenceThatEndsGivesItsHostBlocksBack() {
        auto options = CacheDriver::paged(8, 4);
        options.host_blocks = 3;
        CacheDriver driver(options);
        driver.add(0, tokens_from(0, 9));
        QVERIFY(driver.admit(0));
        QVERIFY(driver.apply(driver.cache->plan_swap_out(driver.view(0), 9)));
        driver.release(0, Cause::sequence_cancelled);
        QCOMPARE(driver.cache->host_blocks_used(), 0u);
    }

    // "Four score and seven years ago our": block tables, fills and order of Fig. 6 and 7.
    void pagedAttentionFigures6And7() {
        auto options = CacheDriver::paged(9, 4, false);
        options.free_queue = ids({7, 1, 5, 2, 3});
        CacheDriver driver(options);
        QCOMPARE(driver.free_order(), QByteArray("7 1 5 2 3 4 6 8"));
        driver.add(0, tokens_from(0, 7));
        driver.add(1, tokens_from(100, 5));  // "it was the best of": its last word falls into a block of its own
        QVERIFY(driver.admit(0));
        QCOMPARE(driver.table(0), QByteArray("7 1"));
        QCOMPARE(driver.sequences[0].computed % 4, 3u);  // 3 of 4 slots
        QVERIFY(driver.append(0, {7}));                  // "fathers" fills the block
        QCOMPARE(driver.table(0), QByteArray("7 1"));
        QCOMPARE(driver.plan.needed_blocks, 0u);
        QVERIFY(driver.admit(1));
        QCOMPARE(driver.table(1), QByteArray("5 2"));
        QVERIFY(driver.append(0, {8}));  // "brought" opens one
        QCOMPARE(driver.table(0), QByteArray("7 1 3"));
    }

    void pagedAttentionFigure8() {
        auto options = CacheDriver::paged(9, 4, false);
        options.free_queue = ids({7, 1, 3});
        CacheDriver driver(options);
        driver.add(0, tokens_from(0, 7));
        QVERIFY(driver.admit(0));
        QVERIFY(driver.fork(1, 0, 7));
        QCOMPARE(driver.table(1), QByteArray("7 1"));
        QCOMPARE(driver.cache->owners(BlockId{7}), 2u);
        QCOMPARE(driver.cache->owners(BlockId{1}), 2u);
        QVERIFY(driver.append(0, {70}));  // the first to write copies block 1 to block 3 …
        QCOMPARE(driver.table(0), QByteArray("7 3"));
        const Event* copy = first_of(driver, EventKind::copy_on_write);
        QVERIFY(copy && copy->block == BlockId{1} && copy->other == 3 && copy->tokens == 3);
        QCOMPARE(driver.cache->owners(BlockId{1}), 1u);
        QVERIFY(driver.append(1, {71}));  // … the last owner writes in place
        QCOMPARE(driver.table(1), QByteArray("7 1"));
        QCOMPARE(driver.count(EventKind::copy_on_write), std::size_t(1));
        QCOMPARE(driver.cache->owners(BlockId{7}), 2u);
    }
};

QTEST_GUILESS_MAIN(TestPagedSharing)
#include "tst_paged_sharing.moc"
