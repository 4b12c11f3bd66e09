// SPDX-License-Identifier: GPL-3.0-or-later
#include <QTest>  // first: moc 6.4 stumbles over libstdc++ when <compare> comes first

#include "tests/views/value_fixture.h"
#include "views/cache_values_view.h"
#include "views/latent_view.h"
#include "views/window_view.h"

#include <QRegularExpression>
#include <QSignalSpy>

using namespace kvloupe;

namespace {

struct Opened {
    explicit Opened(std::uint32_t lane, int step = 1) {
        cursor.setRecording(valueRecording());
        cursor.setLane(LaneId(lane));
        cursor.setStep(step);
    }
    Cursor cursor;
    HandMadeSource source;
};

void lockPosition(Cursor& cursor, std::uint32_t position) {
    Pick pick;
    pick.lane = cursor.lane();
    pick.sequence = SequenceId(0);
    pick.position = position;
    cursor.lock(pick);
}

}  // namespace

class TestValueViews : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() { QTest::failOnWarning(QRegularExpression(QStringLiteral(".*"))); }

    void theNewestBlockIsShownUntilAnotherIsLocked() {
        Opened at(0);
        QCOMPARE(chosenBlock(at.cursor)->question.block, BlockId(5));
        lockPosition(at.cursor, 6);
        QCOMPARE(chosenBlock(at.cursor)->question.block, BlockId(2));
        QCOMPARE(neighbourBlock(at.cursor, *chosenBlock(at.cursor), 1), BlockId(3));
        lockPosition(at.cursor, 18);
        QVERIFY(!neighbourBlock(at.cursor, *chosenBlock(at.cursor), 1));
        Pick block;
        block.block = BlockId(3);
        at.cursor.lock(block);
        QCOMPARE(chosenBlock(at.cursor)->question.block, BlockId(3));
        at.cursor.setLane(LaneId(3));
        QVERIFY(!chosenBlock(at.cursor));  // no cache
    }

    void aLayerOfAnotherGroupHasABlockOfItsOwn() {
        Opened at(2);
        lockPosition(at.cursor, 17);
        at.cursor.setHead(0, 0);
        QCOMPARE(chosenBlock(at.cursor)->question.block, BlockId(5));
        at.cursor.setHead(1, 0);
        QCOMPARE(chosenBlock(at.cursor)->question.block, BlockId(10));
        Pick block;
        block.block = BlockId(4);  // of group 0, positions 12 … 15
        at.cursor.lock(block);
        QCOMPARE(chosenBlock(at.cursor)->question.block, BlockId(9));
        QCOMPARE(chosenBlock(at.cursor)->question.layer, 1u);
        block.block = BlockId(2);  // given up by group 1
        at.cursor.lock(block);
        QCOMPARE(chosenBlock(at.cursor)->question.block, null_block_id);  // the lane says what that is
    }

    void aBlocksNumbersAreInItsTable() {
        Opened at(0);
        lockPosition(at.cursor, 6);
        CacheValuesView view(&at.cursor);
        view.setSource(&at.source);
        show(view);
        const QList<QStringList> rows = rowsOf(view.csv());
        QCOMPARE(rows.size(), 1 + 4 * 4);
        QCOMPARE(rows[1], (QStringList{"int8", "2", "0", "keys", "0", "4", "0", "", "0", "", "0", rows[1][11], ""}));  // stored earlier: no value before
        QCOMPARE(rows[6][5], QStringLiteral("5"));
        QCOMPARE(rows[6][8].toFloat(), 0.11f);
        QCOMPARE(rows[6][9].toDouble(), 0.0);
        QCOMPARE(rows[6][11].toFloat(), 0.13f / 127);  // the row's largest value is 0.13
        QTest::keyClick(&view, Qt::Key_Right);  // the other KV head
        QCOMPARE(at.cursor.head(), 2u);         // the first query head that reads it
        const QStringList row = rowsOf(view.csv())[6];
        QCOMPARE(row[4], QStringLiteral("1"));
        QCOMPARE(row[7].toFloat(), 1.61f);
        QVERIFY(qAbs(row[9].toDouble() + 0.5) < 1e-6);
        QVERIFY(view.subtitle().contains(QLatin1String("keys of KV head 1 of 2")));
        QVERIFY(view.subtitle().contains(QStringLiteral("positions 4–7")));
        QTest::keyClick(&view, Qt::Key_C);
        QVERIFY(rowsOf(view.csv())[6][8].startsWith(QLatin1Char('-')));
    }

    void keysWalkThroughLayersAndBlocks() {
        Opened at(0);
        CacheValuesView view(&at.cursor);
        view.setSource(&at.source);
        show(view);
        QCOMPARE(at.source.last->block, BlockId(5));
        QTest::keyClick(&view, Qt::Key_PageUp);
        QCOMPARE(at.source.last->block, BlockId(4));
        QTest::keyClick(&view, Qt::Key_Down);
        QCOMPARE(at.source.last->layer, 1u);
        QTest::keyClick(&view, Qt::Key_Down);  // there are only two
        QCOMPARE(at.source.last->layer, 1u);
        QTest::keyClick(&view, Qt::Key_PageDown);
        QTest::keyClick(&view, Qt::Key_PageDown);
        QCOMPARE(at.source.last->block, BlockId(5));
    }

    void aLateAnswerLeavesThePictureBeforeItMarkedAsStale() {
        Opened at(0);
        at.source.later = true;
        CacheValuesView view(&at.cursor);
        view.setSource(&at.source);
        show(view);
        QCOMPARE(rowsOf(view.csv()).size(), 1);  // a sentence, no numbers
        at.source.deliver();
        QCOMPARE(rowsOf(view.csv()).size(), 1 + 3 * 4);
        QVERIFY(!view.isStale());
        lockPosition(at.cursor, 2);
        QVERIFY(view.isStale());
        at.source.deliver();
        QVERIFY(!view.isStale());
        QCOMPARE(rowsOf(view.csv())[1][1], QStringLiteral("1"));
    }

    void anEarlierStepSaysThatItIsNotRecorded() {
        Opened at(0, 0);
        CacheValuesView view(&at.cursor);
        view.setSource(&at.source);
        show(view);
        QVERIFY2(view.subtitle().contains(QLatin1String("step 0 is not recorded: shown as of step 1")), qPrintable(view.subtitle()));
        at.cursor.setStep(1);
        QVERIFY2(view.subtitle().contains(QLatin1String("as of step 1")) && !view.subtitle().contains(QLatin1String("not recorded")), qPrintable(view.subtitle()));
    }

    void whereThereIsNothingASentenceSaysWhy_data() {
        QTest::addColumn<int>("lane");
        QTest::addColumn<bool>("source");
        QTest::addColumn<QString>("problem");
        QTest::addColumn<QString>("says");
        QTest::newRow("no engine") << 0 << false << QString() << "a running engine";
        QTest::newRow("no cache") << 3 << true << QString() << "keeps no cache";
        QTest::newRow("the lane's own") << 0 << true << "Block 5 is free: it holds no token." << "Block 5 is free";
    }
    void whereThereIsNothingASentenceSaysWhy() {
        QFETCH(int, lane);
        QFETCH(bool, source);
        QFETCH(QString, problem);
        QFETCH(QString, says);
        Opened at(static_cast<std::uint32_t>(lane));
        at.source.problem = problem.toStdString();
        CacheValuesView view(&at.cursor);
        if (source) view.setSource(&at.source);
        show(view);
        QVERIFY2(view.accessibleDescription().contains(says), qPrintable(view.accessibleDescription()));
        QCOMPARE(rowsOf(view.csv()).size(), 1);
        QVERIFY(!view.image().isNull());
    }

    void aHoveredCellIsTheTokenInEveryView() {
        Opened at(0);
        lockPosition(at.cursor, 6);
        CacheValuesView view(&at.cursor);
        view.setSource(&at.source);
        show(view, 900, 480);
        bool found = false;
        for (int y = 10; y < 300 && !found; y += 4) {
            QTest::mouseMove(&view, QPoint(150, y));
            found = at.cursor.hover().position == 7u && at.cursor.hover().block == BlockId(2);
        }
        QVERIFY(found);
    }

    void aLatentAndWhatItStandsForAreInTheTable() {
        Opened at(1);
        LatentView view(&at.cursor);
        view.setSource(&at.source);
        show(view);
        QTest::keyClick(&view, Qt::Key_Right);
        QCOMPARE(at.cursor.head(), 1u);
        const QList<QStringList> rows = rowsOf(view.csv());
        QCOMPARE(rows.size(), 1 + 3 * (6 + 2 + 5 + 3));
        QCOMPARE(rows[1], (QStringList{"MLA", "5", "0", "latent", "0", "16", "0", "0", "measured"}));
        const QStringList& last = rows.last();
        QCOMPARE(last[3], QStringLiteral("value"));
        QCOMPARE(last[4], QStringLiteral("1"));
        QCOMPARE(last[7].toFloat(), -1.22f);
        QCOMPARE(last[8], QStringLiteral("derived"));
        at.cursor.setLane(LaneId(0));
        QVERIFY2(view.accessibleDescription().contains(QLatin1String("Lanes that keep one: MLA")), qPrintable(view.accessibleDescription()));
    }

    // Window 6 and 2 sinks at 19 tokens: the newest sees 0, 1 and 13 … 18.
    void aWindowsSlotsAreEachOneThing() {
        const auto recording = valueRecording();
        const LaneRecord& lane = recording->lane(LaneId(2));
        const std::vector<WindowRow> rows = windowRows(lane.info(), lane.state_after(1), SequenceId(0));
        QCOMPARE(rows.size(), std::size_t(2));
        QCOMPARE(rows[0].runs, (std::vector<SlotRun>{{0, 19, SlotUse::seen}, {19, 20, SlotUse::unwritten}}));
        QCOMPARE(rows[0].layers, std::vector<std::uint32_t>{0});
        QCOMPARE(rows[1].runs, (std::vector<SlotRun>{{0, 2, SlotUse::sink}, {2, 4, SlotUse::kept}, {4, 12, SlotUse::given_up}, {12, 13, SlotUse::kept},
                                                     {13, 19, SlotUse::seen}, {19, 20, SlotUse::unwritten}}));
        QCOMPARE(rows[1].layers, (std::vector<std::uint32_t>{1, 2}));
        QCOMPARE(rows[1].seen.count(), 8u);
        QCOMPARE(rows[1].blocks_held(), 3u);
        QCOMPARE(rows[1].blocks_given_up(), 2u);
        QCOMPARE(rows[1].span.dropped(18), 11u);
        // A step earlier nothing had been given up yet.
        QCOMPARE(windowRows(lane.info(), lane.state_after(0), SequenceId(0))[1].count(SlotUse::given_up), 0u);
        QVERIFY(windowRows(lane.info(), lane.state_after(1), SequenceId(7)).empty());
    }

    void theWindowViewShowsItsRowsAtAnyStep() {
        Opened at(2);
        WindowView view(&at.cursor);
        show(view);
        QVERIFY2(view.subtitle().contains(QLatin1String("rank in the cache")), qPrintable(view.subtitle()));
        QList<QStringList> rows = rowsOf(view.csv());
        QCOMPARE(rows.size(), 1 + 2 + 6);
        QCOMPARE(rows[5].mid(4), (QStringList{"6", "2", "0", "4", "12", "given up", "0"}));
        at.cursor.setStep(0);
        rows = rowsOf(view.csv());
        QCOMPARE(rows.size(), 1 + 2 + 4);
        at.cursor.setStep(1);
        QTest::keyClick(&view, Qt::Key_Right);  // locks the first block
        QCOMPARE(at.cursor.locked().position, 0u);
        QTest::keyClick(&view, Qt::Key_Down);
        QCOMPARE(at.cursor.locked().block, BlockId(6));
        QCOMPARE(at.cursor.layer(), 1u);
        QTest::keyClick(&view, Qt::Key_Right);
        QCOMPARE(at.cursor.locked().position, 4u);
        QVERIFY(!at.cursor.locked().block);     // given up
        at.cursor.setLane(LaneId(3));
        QVERIFY(view.accessibleDescription().contains(QLatin1String("keeps no cache")));
    }

    void thePicturesFitSmallAndLarge() {
        Opened at(0);
        CacheValuesView values(&at.cursor);
        LatentView latent(&at.cursor);
        WindowView window(&at.cursor);
        values.setSource(&at.source);
        latent.setSource(&at.source);
        for (const std::uint32_t lane : {0u, 1u, 2u})
            for (const QSize size : {QSize(160, 90), QSize(420, 260), QSize(1800, 1000)}) {
                at.cursor.setLane(LaneId(lane));
                for (View* view : {static_cast<View*>(&values), static_cast<View*>(&latent), static_cast<View*>(&window)}) {
                    view->resize(size);
                    QVERIFY(!view->image().isNull());
                }
            }
    }
};

QTEST_MAIN(TestValueViews)
#include "tst_value_views.moc"
