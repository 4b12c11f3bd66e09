// SPDX-License-Identifier: GPL-3.0-or-later
//
// Forks, copies and swapped sequences over a radix tree: what a sequence owns is never evicted, what the tree has is never
// written. The driver audits the manager and replays the events after every change.
#include <QRegularExpression>
#include <QTest>

#include "tests/cache/cache_driver.h"

using namespace kvloupe;

namespace {

CacheDriver scene(std::uint32_t blocks, std::uint32_t host_blocks = 0) {
    CacheManagerOptions options = CacheDriver::paged(blocks, 4);
    options.prefix_index = PrefixIndexKind::radix;
    options.host_blocks = host_blocks;
    return CacheDriver(options);
}

QByteArray blocks_of(const CacheDriver& driver, EventKind kind) {
    QByteArray line;
    for (const Event& event : driver.events)
        if (event.kind == kind) line += QByteArray::number(event.block.value) + ' ';
    return line.trimmed();
}

void decode(CacheDriver& driver, std::uint32_t id, TokenId first, int count) {
    for (int i = 0; i < count; ++i) QVERIFY(driver.append(id, {first + i}));
}

}  // namespace

class TestRadixSharing : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() { QTest::failOnWarning(QRegularExpression(".*")); }

    void aForkKeepsWhatItSharesFromEviction() {
        CacheDriver driver = scene(6);
        driver.add(0, tokens_from(100, 12));
        QVERIFY(driver.admit(0));
        QVERIFY(driver.fork(1, 0, 8));
        driver.release(0);
        QCOMPARE(driver.cache->cached_blocks(), 1u);  // the third block: the fork has the others
        driver.add(2, tokens_from(900, 16));
        QVERIFY(!driver.admit(2));
        QCOMPARE(driver.plan.free_blocks, 3u);
        driver.add(3, tokens_from(900, 12));
        driver.notes = false;
        QVERIFY(driver.admit(3));
        QCOMPARE(blocks_of(driver, EventKind::evict), QByteArray("3"));
        QCOMPARE(driver.table(1), QByteArray("1 2"));
    }

    void aWriteIntoABlockOfTheTreeIsACopy() {
        CacheDriver driver = scene(10);
        driver.add(0, tokens_from(100, 8));
        QVERIFY(driver.admit(0));
        QVERIFY(driver.fork(1, 0, 6));
        driver.release(0);
        QCOMPARE(driver.cache->owners(BlockId{2}), 1u);  // the fork is its last owner, but the tree has it too
        QVERIFY(driver.append(1, {60}));
        QCOMPARE(driver.plan.needed_blocks, 1u);
        QCOMPARE(driver.table(1), QByteArray("1 3"));
        const Event& copy = driver.events.front();
        QCOMPARE(copy.kind, EventKind::copy_on_write);
        QCOMPARE(copy.block.value, 2u);
        QCOMPARE(copy.tokens, 2u);
        QVERIFY(copy.flags & Event::flag_held);
        QCOMPARE(driver.cache->cached_blocks(), 1u);
        driver.add(2, tokens_from(100, 9));
        QCOMPARE(driver.hit(2), 8u);
        // The copied block is the fork's own: it can be evicted now, the first one cannot.
        QVERIFY(driver.cache->plan_evict(BlockId{2}));
        QVERIFY(!driver.cache->plan_evict(BlockId{1}));
    }

    void aForkMayComputeItsLastTokenAgain() {
        CacheDriver driver = scene(10);
        driver.add(0, tokens_from(100, 11));
        QVERIFY(driver.admit(0));
        QVERIFY(driver.fork(1, 0, 8));
        driver.sequences[1].computed = 7;
        driver.notes = false;
        QVERIFY(driver.compute(1, 1));
        QCOMPARE(driver.table(1), QByteArray("1 4"));
        // The same token again: the tree's block takes the copy's place.
        driver.note(1);
        QCOMPARE(driver.table(1), QByteArray("1 2"));
        QCOMPARE(blocks_of(driver, EventKind::free), QByteArray("4"));
    }

    void blocksThatForksShareComeInForAllOfThem() {
        CacheDriver driver = scene(8);
        driver.add(0, tokens_from(100, 6));
        QVERIFY(driver.admit(0));
        decode(driver, 0, 200, 3);  // 9 tokens: block 2 is full, but was filled by decoding
        QVERIFY(!driver.hashed(2));
        QVERIFY(driver.fork(1, 0, 9));
        QVERIFY(driver.fork(2, 0, 7));
        driver.release(0);
        QVERIFY(driver.hashed(1) && driver.hashed(2));
        QCOMPARE(driver.cache->cached_blocks(), 0u);  // the forks own both
        driver.add(3, tokens_from(900, 20));
        QVERIFY(!driver.admit(3));
        QCOMPARE(driver.plan.free_blocks, 4u);
        driver.release(1);
        QCOMPARE(driver.cache->cached_blocks(), 0u);  // block 2 is the second fork's as well
        driver.release(2);
        QCOMPARE(driver.cache->cached_blocks(), 2u);
        QVERIFY(driver.admit(3));
    }

    void aForkKeepsItsDuplicatesUntilItEndsItself() {
        CacheDriver driver = scene(12);
        for (const std::uint32_t id : {0u, 1u}) {
            driver.add(id, tokens_from(100, 6));
            QVERIFY(driver.admit(id));
            decode(driver, id, 200, 3);
        }
        QCOMPARE(driver.table(0), QByteArray("1 2 3"));
        QCOMPARE(driver.table(1), QByteArray("1 4 5"));
        QVERIFY(driver.fork(2, 1, 9));
        driver.release(0);
        QVERIFY(driver.hashed(2));
        driver.release(1);  // block 2 takes the place of block 4, which the fork still has
        QCOMPARE(driver.cache->owners(BlockId{4}), 1u);
        QCOMPARE(driver.table(2), QByteArray("1 4 5"));
        decode(driver, 2, 203, 3);
        driver.release(2);
        QVERIFY(!driver.hashed(4));
        QCOMPARE(driver.cache->cached_blocks(), 3u);
        QCOMPARE(driver.cache->used_blocks(), 0u);
        driver.add(3, joined(tokens_from(100, 6), tokens_from(200, 7)));
        QCOMPARE(driver.hit(3), 12u);
    }

    void aSwappedSequenceLetsGoAndComesBackInBlocksOfItsOwn() {
        CacheDriver driver = scene(12, 8);
        driver.add(0, tokens_from(100, 9));
        QVERIFY(driver.admit(0));
        decode(driver, 0, 200, 3);
        QVERIFY(driver.apply(driver.cache->plan_swap_out(driver.view(0), 12)));
        QCOMPARE(driver.cache->used_blocks(), 0u);
        QCOMPARE(driver.cache->cached_blocks(), 2u);  // the prompt's blocks; what it decoded lies in host memory only
        QVERIFY(driver.apply(driver.cache->plan_swap_in(driver.view(0))));
        QCOMPARE(driver.cache->used_blocks(), 3u);
        QCOMPARE(driver.cache->cached_blocks(), 2u);
        decode(driver, 0, 203, 1);
        QCOMPARE(driver.cache->cached_blocks(), 2u);
        driver.release(0);
        QCOMPARE(driver.cache->cached_blocks(), 3u);  // its copies of the prompt's blocks were duplicates
        QCOMPARE(driver.cache->free_blocks(), 8u);
        driver.add(1, joined(tokens_from(100, 9), tokens_from(200, 4)));
        QCOMPARE(driver.hit(1), 12u);
    }

    // The fork's own block with the same tokens stands in its table; the tree's is on the path to the next one it owns.
    void blocksBeforeOwnedOnesArePinned() {
        CacheDriver driver = scene(12);
        driver.add(0, tokens_from(100, 4));
        driver.add(1, tokens_from(100, 8));
        driver.notes = false;
        QVERIFY(driver.admit(0) && driver.admit(1));
        driver.note(0);
        driver.release(0);
        QVERIFY(driver.fork(2, 1, 8));
        driver.note(1);
        driver.release(1);
        QCOMPARE(driver.table(2), QByteArray("2 3"));
        QCOMPARE(driver.cache->used_blocks(), 2u);
        QCOMPARE(driver.cache->cached_blocks(), 1u);
        QVERIFY(!driver.cache->plan_evict(BlockId{1}));
        driver.add(3, tokens_from(900, 40));
        QVERIFY(!driver.admit(3));
        QCOMPARE(driver.plan.free_blocks, 8u);  // of 11: two are owned, one is pinned
        driver.release(2);
        QCOMPARE(driver.cache->cached_blocks(), 2u);
        QVERIFY(driver.apply(*driver.cache->plan_evict(BlockId{1})));
        QCOMPARE(blocks_of(driver, EventKind::evict), QByteArray("3 1"));
    }
};

QTEST_GUILESS_MAIN(TestRadixSharing)
#include "tst_radix_sharing.moc"
