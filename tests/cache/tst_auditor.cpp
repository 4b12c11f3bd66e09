// SPDX-License-Identifier: GPL-3.0-or-later
//
// Each of the seven invariants, broken on purpose, is found.
#include <QRegularExpression>
#include <QTest>

#include "engine/cache/auditor.h"

using namespace kvloupe;

namespace {

struct Scene {
    BlockPool pool{6};
    std::map<SequenceId, BlockTable> tables;
    std::vector<IndexEntry> index;
    Scene() {
        auto& table = tables[SequenceId{0}];
        table.blocks = {*pool.take(), *pool.take()};  // 1, 2
        table.tokens = 6;
    }
    // The number of the invariant that the auditor says is broken, 0 if none.
    int broken() const {
        const auto result = audit(AuditSubject{pool, tables, 4, index});
        if (result) return 0;
        const QString sentence = QString::fromStdString(result.error().sentence);
        return QRegularExpression("invariant (\\d)").match(sentence).captured(1).toInt();
    }
};

}  // namespace

class TestAuditor : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() { QTest::failOnWarning(QRegularExpression(".*")); }

    void aSoundPoolPasses() { QCOMPARE(Scene().broken(), 0); }

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
        scene.tables[SequenceId{1}].blocks = {BlockId{1}};
        QCOMPARE(scene.broken(), 3);
    }
    void aReferenceWithoutATableEntryIsFound() {
        Scene scene;
        scene.pool.touch(BlockId{2});
        QCOMPARE(scene.broken(), 3);
    }
    void moreTokensThanSlotsAreFound() {
        Scene scene;
        scene.tables[SequenceId{0}].tokens = 9;
        QCOMPARE(scene.broken(), 3);
    }
    void anIndexEntryWithAnotherHashIsFound() {
        Scene scene;
        scene.index.push_back({BlockHash{}, BlockId{1}});
        QCOMPARE(scene.broken(), 4);
        scene.pool.set_hash(BlockId{1}, BlockHash{});
        QCOMPARE(scene.broken(), 0);
    }
    void aHashOnABlockThatIsNotFullIsFound() {
        Scene scene;
        scene.pool.set_hash(BlockId{2}, BlockHash{});
        QCOMPARE(scene.broken(), 5);
    }
    void aBlockTwiceInOneTableIsFound() {
        Scene scene;
        scene.tables[SequenceId{0}].blocks.push_back(BlockId{1});
        scene.pool.touch(BlockId{1});
        QCOMPARE(scene.broken(), 6);
    }
    void theNullBlockMayStandInATableManyTimes() {
        Scene scene;
        auto& table = scene.tables[SequenceId{0}];
        table.blocks.insert(table.blocks.begin(), {null_block_id, null_block_id});
        QCOMPARE(scene.broken(), 0);
    }
};

QTEST_GUILESS_MAIN(TestAuditor)
#include "tst_auditor.moc"
