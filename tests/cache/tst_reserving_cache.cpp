// SPDX-License-Identifier: GPL-3.0-or-later
//
// Oracles V1 (without hashes), V3 (without hashes) and V8 of CACHE_SEMANTICS section 2; random sequences against a
// naive model under the auditor.
#include <QRegularExpression>
#include <QTest>

#include "engine/cache/auditor.h"
#include "engine/cache/reserving_cache.h"

#include <algorithm>
#include <map>
#include <random>

using namespace kvloupe;

namespace {

QByteArray text(const std::vector<BlockId>& blocks) {
    QByteArray line;
    for (const BlockId id : blocks) line += QByteArray::number(id.value) + ' ';
    return line.trimmed();
}

const SequenceId first{0}, second{1};

// The rules of CACHE_SEMANTICS 1.1 with caching off, in the plainest form.
struct NaiveModel {
    std::vector<std::uint32_t> queue;
    std::map<std::uint32_t, std::vector<std::uint32_t>> tables;
    std::uint32_t block_size = 1;

    NaiveModel(std::uint32_t blocks, std::uint32_t size) : block_size(size) {
        for (std::uint32_t id = 1; id < blocks; ++id) queue.push_back(id);
    }
    bool grow(std::uint32_t sequence, std::uint32_t tokens) {
        std::vector<std::uint32_t> table = tables.count(sequence) ? tables[sequence] : std::vector<std::uint32_t>{};
        std::vector<std::uint32_t> rest = queue;
        while (table.size() * block_size < tokens) {
            if (rest.empty()) return false;
            table.push_back(rest.front());
            rest.erase(rest.begin());
        }
        queue = rest;
        tables[sequence] = table;
        return true;
    }
    void release(std::uint32_t sequence) {
        auto& table = tables[sequence];
        for (auto id = table.rbegin(); id != table.rend(); ++id) queue.insert(queue.begin(), *id);
        tables.erase(sequence);
    }
};

}  // namespace

class TestReservingCache : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() { QTest::failOnWarning(QRegularExpression(".*")); }

    void aPromptTakesTheFirstBlocksOfAnEmptyPool() {
        ReservingCache cache(11, 16);
        const auto changes = cache.apply(cache.plan_grow(first, 55));
        QVERIFY(changes);
        QCOMPARE(changes->allocated.size(), std::size_t(4));
        QCOMPARE(changes->allocated[3].logical, 3u);
        QCOMPARE(text(cache.table(first).blocks), QByteArray("1 2 3 4"));
        for (std::uint32_t id = 1; id <= 4; ++id) QCOMPARE(cache.pool().block(BlockId{id}).references, 1);
        QCOMPARE(cache.pool().free_count(), 6u);
        QVERIFY(audit(cache));
    }

    void appendingTakesABlockOnlyWhenItsFirstSlotIsNeeded() {
        ReservingCache cache(11, 16);
        QVERIFY(cache.apply(cache.plan_grow(first, 55)));
        QCOMPARE(cache.plan_grow(first, 59).new_blocks, 0u);  // V6
        QCOMPARE(cache.plan_grow(first, 64).new_blocks, 0u);
        QCOMPARE(cache.plan_grow(first, 65).new_blocks, 1u);
        QCOMPARE(cache.plan_grow(first, 78).new_blocks, 1u);
    }

    void growthStopsAtTheLastBlock() {  // V8
        ReservingCache cache(5, 4);
        QVERIFY(cache.apply(cache.plan_grow(first, 10)));
        QCOMPARE(cache.table(first).blocks.size(), std::size_t(3));
        QVERIFY(cache.apply(cache.plan_grow(first, 16)));
        QCOMPARE(cache.table(first).blocks.size(), std::size_t(4));
        const CachePlan plan = cache.plan_grow(first, 17);
        QVERIFY(!plan.fits());
        QVERIFY(!cache.apply(plan));
        QCOMPARE(text(cache.table(first).blocks), QByteArray("1 2 3 4"));
        QCOMPARE(cache.table(first).tokens, 16u);
        QVERIFY(audit(cache));
    }

    void releasedBlocksAreReusedFirst() {  // V3 with caching off: every block goes to the head
        ReservingCache cache(11, 16);
        QVERIFY(cache.apply(cache.plan_grow(first, 55)));
        QVERIFY(cache.apply(cache.plan_grow(second, 5)));
        QVERIFY(cache.apply(cache.plan_release(first)));
        QCOMPARE(text(cache.pool().free_order()), QByteArray("1 2 3 4 6 7 8 9 10"));
        const auto changes = cache.apply(cache.plan_release(second));
        QVERIFY(changes);
        QVERIFY(changes->freed[0].front);
        QCOMPARE(text(cache.pool().free_order()), QByteArray("5 1 2 3 4 6 7 8 9 10"));
    }

    void blocksAreFreedFromTheTailOfTheTable() {
        ReservingCache cache(5, 4);
        QVERIFY(cache.apply(cache.plan_grow(first, 12)));
        const auto changes = cache.apply(cache.plan_release(first));
        QVERIFY(changes);
        std::vector<BlockId> order;
        for (const auto& freed : changes->freed) order.push_back(freed.block);
        QCOMPARE(text(order), QByteArray("3 2 1"));
    }

    void aPlanIsRefusedOnceThePoolHasChanged() {
        ReservingCache cache(5, 4);
        const CachePlan old = cache.plan_grow(second, 4);
        QVERIFY(cache.apply(cache.plan_grow(first, 4)));
        QVERIFY(!cache.apply(old));
        QVERIFY(cache.table(second).blocks.empty());
    }

    void planningChangesNothing() {
        const ReservingCache cache(5, 4);
        for (std::uint32_t tokens : {0u, 1u, 16u, 1000u, 0xFFFFFFFFu}) {
            const CachePlan plan = cache.plan_grow(first, tokens);
            QCOMPARE(plan.fits(), tokens <= 16u);
        }
        QVERIFY(cache.tables().empty());
        QCOMPARE(cache.pool().free_count(), 4u);
    }

    void slotsFollowTheTable() {
        const std::vector<BlockId> table{BlockId{7}, BlockId{2}};
        const SlotMapping mapping(table, 4);
        std::vector<std::uint64_t> slots;
        mapping.append(2, 4, slots);
        QCOMPARE(slots, (std::vector<std::uint64_t>{30, 31, 8, 9}));
        QCOMPARE(blocks_for(0, 4), 0u);
        QCOMPARE(blocks_for(4, 4), 1u);
        QCOMPARE(blocks_for(5, 4), 2u);
    }

    void randomWorkEqualsTheNaiveModel_data() {
        QTest::addColumn<int>("blocks");
        QTest::addColumn<int>("blockSize");
        QTest::newRow("one usable block") << 2 << 4;
        QTest::newRow("small") << 9 << 3;
        QTest::newRow("block size 1") << 40 << 1;
        QTest::newRow("larger") << 25 << 16;
    }
    void randomWorkEqualsTheNaiveModel() {
        QFETCH(int, blocks);
        QFETCH(int, blockSize);
        ReservingCache cache{std::uint32_t(blocks), std::uint32_t(blockSize)};
        NaiveModel model{std::uint32_t(blocks), std::uint32_t(blockSize)};
        std::mt19937 random(7);
        int refused = 0, released = 0;
        for (int round = 0; round < 3000; ++round) {
            const std::uint32_t sequence = random() % 6;
            if (random() % 4 == 0) {
                if (model.tables.count(sequence)) ++released;
                model.release(sequence);
                QVERIFY(cache.apply(cache.plan_release(SequenceId{sequence})));
            } else {
                const std::uint32_t tokens =
                    cache.table(SequenceId{sequence}).tokens + 1 + random() % std::uint32_t(2 * blockSize);
                const CachePlan plan = cache.plan_grow(SequenceId{sequence}, tokens);
                QCOMPARE(plan.fits(), model.grow(sequence, tokens));
                QCOMPARE(bool(cache.apply(plan)), plan.fits());
                refused += !plan.fits();
            }
            const auto checked = audit(cache);
            QVERIFY2(checked, checked ? "" : checked.error().sentence.c_str());
            QCOMPARE(cache.pool().free_count(), std::uint32_t(model.queue.size()));
            std::vector<std::uint32_t> order;
            for (const BlockId id : cache.pool().free_order()) order.push_back(id.value);
            QCOMPARE(order, model.queue);
            for (std::uint32_t s = 0; s < 6; ++s) {
                std::vector<std::uint32_t> table;
                for (const BlockId id : cache.table(SequenceId{s}).blocks) table.push_back(id.value);
                QCOMPARE(table, model.tables.count(s) ? model.tables[s] : std::vector<std::uint32_t>{});
            }
        }
        QVERIFY(refused > 0);
        QVERIFY(released > 0);
    }
};

QTEST_GUILESS_MAIN(TestReservingCache)
#include "tst_reserving_cache.moc"
