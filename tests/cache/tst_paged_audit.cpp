// SPDX-License-Identifier: GPL-3.0-or-later
//
// Each of the seven invariants, broken on purpose, is found.
#include <QRegularExpression>
#include <QTest>

#include "engine/cache/hash_index.h"
#include "engine/cache/paged_audit.h"

using namespace kvloupe;

namespace {

// Sequence 0 owns blocks 1 and 2 of a pool of 6, 6 of 8 slots filled; block 1 is registered.
struct Scene {
    CacheManagerOptions options;
    BlockPool pool{6};
    std::vector<std::unique_ptr<PagedSequence>> sequences;
    std::unique_ptr<HashIndex> index;
    std::vector<TokenId> tokens{1, 2, 3, 4, 5, 6};

    Scene() {
        options.blocks = 6;
        options.block_size = 4;
        options.prefix_caching = true;
        index = std::make_unique<HashIndex>(pool, options);
        sequences.push_back(std::make_unique<PagedSequence>());
        PagedSequence& own = *sequences[0];
        own.groups.resize(1);
        own.groups[0].table = {*pool.take(), *pool.take()};
        own.covered = 6;
        std::vector<Event> events;
        index->after_grow({SequenceId{0}, tokens, 6, 6, {}, 0}, own, events);
    }
    PagedSequence::Group& group() { return sequences[0]->groups[0]; }

    // The number of the invariant that is said to be broken, 0 if none.
    int broken() const {
        for (const Result<void>& result : {audit_pool(pool), audit_tables(pool, sequences, 4), index->audit()}) {
            if (result) continue;
            const QString sentence = QString::fromStdString(result.error().sentence);
            return QRegularExpression(QStringLiteral("invariant (\\d)")).match(sentence).captured(1).toInt();
        }
        return 0;
    }
};

}  // namespace

class TestPagedAudit : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() { QTest::failOnWarning(QRegularExpression(".*")); }

    void aSoundPoolPasses() {
        const Scene scene;
        QVERIFY(scene.pool.hashed(BlockId{1}));
        QCOMPARE(scene.broken(), 0);
    }
    void aReferencedBlockInTheQueueIsFound() {
        Scene scene;
        scene.pool.append(std::vector<BlockId>{BlockId{1}});
        QCOMPARE(scene.broken(), 1);
    }
    void aFreeBlockOutsideTheQueueIsFound() {
        Scene scene;
        scene.pool.unlink(BlockId{4});
        QCOMPARE(scene.broken(), 1);
    }
    void theNullBlockInTheQueueIsFound() {
        Scene scene;
        scene.pool.append(std::vector<BlockId>{null_block_id});
        QCOMPARE(scene.broken(), 1);
    }
    void aTableEntryWithoutAReferenceIsFound() {
        Scene scene;
        scene.sequences.push_back(std::make_unique<PagedSequence>());
        scene.sequences[1]->groups.resize(1);
        scene.sequences[1]->groups[0].table = {BlockId{1}};
        QCOMPARE(scene.broken(), 3);
    }
    void aReferenceWithoutATableEntryIsFound() {
        Scene scene;
        scene.pool.touch(BlockId{2});
        QCOMPARE(scene.broken(), 3);
    }
    void moreTokensThanSlotsAreFound() {
        Scene scene;
        scene.sequences[0]->covered = 9;
        QCOMPARE(scene.broken(), 3);
    }
    void aNullEntryThatWasNotCountedIsFound() {
        Scene scene;
        scene.group().table.push_back(null_block_id);
        QCOMPARE(scene.broken(), 3);
        scene.group().nulls = 1;
        QCOMPARE(scene.broken(), 0);
    }
    void anIndexEntryWithoutItsHashIsFound() {
        Scene scene;
        scene.pool.clear_hash(BlockId{1});
        QCOMPARE(scene.broken(), 4);
    }
    void anIndexEntryWithAnotherHashIsFound() {
        Scene scene;
        scene.pool.set_hash(BlockId{1}, BlockHash{});
        QCOMPARE(scene.broken(), 4);
    }
    void aHashThatTheIndexDoesNotKnowIsFound() {
        Scene scene;
        scene.pool.set_hash(BlockId{4}, BlockHash{});
        QCOMPARE(scene.broken(), 4);
    }
    void aHashOnABlockThatIsNotFullIsFound() {
        Scene scene;
        scene.group().registered = 2;
        scene.pool.set_hash(BlockId{2}, BlockHash{});
        QCOMPARE(scene.broken(), 5);
    }
    void aBlockTwiceInOneTableIsFound() {
        Scene scene;
        scene.group().table.push_back(BlockId{1});
        scene.pool.touch(BlockId{1});
        QCOMPARE(scene.broken(), 6);
    }
    void aHeldBlockIsNotLost() {
        Scene scene;
        scene.pool.take();
        scene.pool.release(BlockId{3}, true);
        QCOMPARE(scene.broken(), 0);
    }
};

QTEST_GUILESS_MAIN(TestPagedAudit)
#include "tst_paged_audit.moc"
