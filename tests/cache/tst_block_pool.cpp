// SPDX-License-Identifier: GPL-3.0-or-later
//
// Oracles V3, V5, V14 (the pool's part) and V22 of CACHE_SEMANTICS section 2.
#include <QRegularExpression>
#include <QTest>

#include "engine/cache/block_pool.h"

using namespace kvloupe;

namespace {

std::vector<BlockId> ids(std::initializer_list<std::uint32_t> values) {
    std::vector<BlockId> result;
    for (const auto value : values) result.push_back(BlockId{value});
    return result;
}

QByteArray text(const std::vector<BlockId>& blocks) {
    QByteArray line;
    for (const BlockId id : blocks) line += QByteArray::number(id.value) + ' ';
    return line.trimmed();
}

BlockHash hash_of(int value) {
    BlockHash hash{};
    hash[0] = std::byte(value);
    return hash;
}

}  // namespace

class TestBlockPool : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() { QTest::failOnWarning(QRegularExpression(".*")); }

    void blockZeroIsTheNullBlockAndTheRestIsFreeInOrder() {
        const BlockPool pool(6);
        QCOMPARE(pool.usable(), 5u);
        QCOMPARE(pool.free_count(), 5u);
        QCOMPARE(pool.used_count(), 0u);
        QVERIFY(!pool.block(null_block_id).linked());
        QCOMPARE(text(pool.free_order()), QByteArray("1 2 3 4 5"));
        QCOMPARE(text(pool.free_order(2)), QByteArray("1 2"));
    }

    void V22_takingFromAnEmptyQueueGivesNothing() {
        BlockPool pool(2);
        QCOMPARE(pool.take()->value, 1u);
        QVERIFY(!pool.take());
        QCOMPARE(pool.free_count(), 0u);
        QCOMPARE(pool.used_count(), 1u);
    }

    void V22_unlinkFromTheMiddleJoinsBothNeighbours() {
        BlockPool pool(6);
        pool.unlink(BlockId{3});
        QCOMPARE(text(pool.free_order()), QByteArray("1 2 4 5"));
        pool.unlink(BlockId{1});
        pool.unlink(BlockId{5});
        QCOMPARE(text(pool.free_order()), QByteArray("2 4"));
        QCOMPARE(pool.free_count(), 2u);
    }

    void V22_prependAndAppendKeepTheOrderOfTheirLists() {
        BlockPool pool(7);
        for (int i = 0; i < 6; ++i) QVERIFY(pool.take());
        pool.append(ids({3}));
        pool.prepend(ids({4, 5}));
        pool.prepend(ids({1, 2}));
        QCOMPARE(text(pool.free_order()), QByteArray("1 2 4 5 3"));
        pool.append({});
        pool.prepend({});
        QCOMPARE(text(pool.free_order()), QByteArray("1 2 4 5 3"));
        pool.append(ids({6}));
        for (const std::uint32_t expected : {1, 2, 4, 5, 3, 6}) QCOMPARE(pool.take()->value, expected);
        QVERIFY(!pool.take());
    }

    void theQueueMayBeginInAnOrderOfItsOwn() {
        const BlockPool pool(9, FreeOrder::vllm, ids({7, 1, 5, 2, 3}));
        QCOMPARE(text(pool.free_order()), QByteArray("7 1 5 2 3 4 6 8"));
    }

    void withTheOrderAppendEveryBlockGoesToTheTail() {
        BlockPool pool(4, FreeOrder::append);
        QCOMPARE(pool.take()->value, 1u);
        QVERIFY(!pool.release(BlockId{1}).front);
        QCOMPARE(text(pool.free_order()), QByteArray("2 3 1"));
    }

    void aHeldBlockIsInNoQueueUntilItIsLetGo() {
        BlockPool pool(4);
        QCOMPARE(pool.take()->value, 1u);
        pool.set_hash(BlockId{1}, hash_of(1));
        pool.release(BlockId{1}, true);
        QCOMPARE(text(pool.free_order()), QByteArray("2 3"));
        QCOMPARE(pool.used_count(), 0u);
        QCOMPARE(pool.cached_count(), 1u);
        pool.touch(BlockId{1});
        QCOMPARE(pool.held_count(), 0u);
        QCOMPARE(pool.used_count(), 1u);
        pool.release(BlockId{1}, true);
        pool.clear_hash(BlockId{1});
        QVERIFY(pool.let_go(BlockId{1}));
        QCOMPARE(text(pool.free_order()), QByteArray("1 2 3"));
        QCOMPARE(pool.cached_count(), 0u);
    }

    void allHashesAreForgottenAtOnce() {
        BlockPool pool(4);
        QCOMPARE(pool.take()->value, 1u);
        QCOMPARE(pool.take()->value, 2u);
        for (std::uint32_t id : {1u, 2u}) pool.set_hash(BlockId{id}, hash_of(int(id)));
        pool.release(BlockId{1});
        QCOMPARE(pool.cached_count(), 1u);
        pool.clear_all_hashes();
        QCOMPARE(pool.cached_count(), 0u);
        QVERIFY(!pool.hash(BlockId{1}) && !pool.hash(BlockId{2}));
        pool.set_hash(BlockId{2}, hash_of(9));
        QVERIFY(*pool.hash(BlockId{2}) == hash_of(9));
    }

    // V3 with the prefix hits done by hand: the pool's part of it.
    void blocksWithAHashGoToTheTailAndOthersToTheHead() {
        BlockPool pool(11);
        for (int i = 0; i < 4; ++i) QVERIFY(pool.take());
        for (std::uint32_t i = 1; i <= 3; ++i) pool.set_hash(BlockId{i}, hash_of(int(i)));
        for (std::uint32_t i = 1; i <= 3; ++i) pool.touch(BlockId{i});
        QCOMPARE(pool.take()->value, 5u);
        QCOMPARE(pool.free_count(), 5u);
        for (const BlockId id : ids({4, 3, 2, 1})) pool.release(id);
        for (const BlockId id : ids({5, 3, 2, 1})) pool.release(id);
        QCOMPARE(text(pool.free_order()), QByteArray("5 4 6 7 8 9 10 3 2 1"));
        // V5: taking them all loses the hashes, in this order.
        int evictions = 0;
        for (const BlockId expected : ids({5, 4, 6, 7, 8, 9, 10, 3, 2, 1})) {
            bool evicted = false;
            QCOMPARE(pool.take(&evicted)->value, expected.value);
            QVERIFY(!pool.hashed(expected));
            evictions += evicted;
        }
        QCOMPARE(evictions, 3);
    }

    void touchingAFreeBlockTakesItOutOfTheQueue() {
        BlockPool pool(3);
        QCOMPARE(pool.take()->value, 1u);
        pool.set_hash(BlockId{1}, hash_of(1));
        QVERIFY(!pool.release(BlockId{1}).front);
        pool.touch(BlockId{1});
        QCOMPARE(pool.block(BlockId{1}).references, 1);
        QCOMPARE(pool.take()->value, 2u);  // V14: the block that was hit is never handed out as new
        QVERIFY(!pool.take());
    }

    void aSecondReleaseOfAFreeBlockChangesNothing() {
        BlockPool pool(4);
        QVERIFY(pool.take());
        QVERIFY(pool.release(BlockId{1}).front);
        const QByteArray before = text(pool.free_order());
        pool.release(BlockId{1});
        QCOMPARE(text(pool.free_order()), before);
        QCOMPARE(pool.block(BlockId{1}).references, 0);
        QCOMPARE(pool.free_count(), 3u);
    }

    void theNullBlockIsNeitherTouchedNorFreed() {
        BlockPool pool(4);
        pool.touch(null_block_id);
        pool.release(null_block_id);
        QCOMPARE(pool.block(null_block_id).references, 0);
        QCOMPARE(text(pool.free_order()), QByteArray("1 2 3"));
    }

    void aSharedBlockIsFreeOnlyWithItsLastOwner() {
        BlockPool pool(3);
        QVERIFY(pool.take());
        pool.touch(BlockId{1});
        QCOMPARE(pool.release(BlockId{1}).owners_left, 1);
        QCOMPARE(pool.free_count(), 1u);
        QCOMPARE(pool.release(BlockId{1}).owners_left, 0);
        QCOMPARE(pool.free_count(), 2u);
    }
};

QTEST_GUILESS_MAIN(TestBlockPool)
#include "tst_block_pool.moc"
