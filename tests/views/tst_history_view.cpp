// SPDX-License-Identifier: GPL-3.0-or-later
#include <QTest>  // first: moc 6.4 stumbles over libstdc++ when <compare> comes first

#include "tests/support/demo_sharing.h"
#include "tests/views/memory_fixture.h"
#include "views/history_view.h"
#include "views/split_view.h"

#include <QRegularExpression>
#include <QUndoStack>

#include <cmath>

using namespace kvloupe;

namespace {

// What the block was after the step, by the record itself.
BlockKind kindOf(const BlockState& state) {
    return state.owners > 1 ? BlockKind::shared : state.owners == 1 ? BlockKind::owned : state.cached() ? BlockKind::cached : BlockKind::free;
}

}  // namespace

class TestHistoryView : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void initTestCase() {
        DemoOptions options = plainOptions();
        options.steps = 260;
        m_demo = demo_recording(options);
        m_sharing = sharing();
    }

    void init() {
        QTest::failOnWarning(QRegularExpression(QStringLiteral(".*")));
        m_cursor = std::make_unique<Cursor>();
        m_cursor->setRecording(m_demo);
        m_cursor->setLane(LaneId(1));
        m_cursor->setStep(60);
    }

    void cleanup() { m_cursor.reset(); }

    void indexAgreesWithTheStateOfEveryStep_data() {
        QTest::addColumn<QString>("name");
        // By hand; a lane without sharing; hashes, swapping, windows in two groups, the radix tree, contiguous regions.
        for (const char* name : {"by hand", "GQA", "paged", "swap", "windows", "radix", "max", "oracle"}) QTest::newRow(name) << QString(name);
    }

    void indexAgreesWithTheStateOfEveryStep() {
        QFETCH(QString, name);
        const auto recording = name == QLatin1String("by hand") ? m_sharing : name == QLatin1String("GQA") ? m_demo : demo_sharing_recording();
        LaneId id(0);
        for (std::uint32_t i = 0; i < recording->lanes().size(); ++i)
            if (QString::fromStdString(recording->lanes()[i]->info().name) == name) id = LaneId(i);
        const LaneRecord& lane = recording->lane(id);
        HistoryIndex index(recording, id);
        // In pieces, as while it runs.
        for (std::size_t end = 1; end < lane.step_count(); end += 7) index.advance(end, std::atomic<bool>(false));
        index.advance(lane.step_count(), std::atomic<bool>(false));
        QCOMPARE(index.steps(), static_cast<std::uint32_t>(lane.step_count()));
        for (std::uint32_t step = 0; step < index.steps(); ++step) {
            const LaneState state = lane.state_after(step);
            for (std::uint32_t block = 1; block < index.blocks(); ++block) {
                const HistoryIndex::Code code = index.codeAt(block, step);
                QCOMPARE(HistoryIndex::kindOf(code), kindOf(state.blocks()[block]));
                if (HistoryIndex::kindOf(code) == BlockKind::cached || HistoryIndex::kindOf(code) == BlockKind::free) continue;
                std::vector<SequenceId> owners = state.owners_of(BlockId(block));
                std::sort(owners.begin(), owners.end());
                QVERIFY(index.owners(code) == owners);
            }
        }
    }

    void aBlocksLifeIsToldInOrder() {
        HistoryIndex index(m_sharing, LaneId(0));
        index.advance(7, std::atomic<bool>(false));
        const auto life = index.intervals(1, 0, 7);
        const BlockKind kinds[] = {BlockKind::owned, BlockKind::shared, BlockKind::owned, BlockKind::cached, BlockKind::owned};
        const std::uint32_t ends[] = {1, 3, 4, 6, 7};
        QCOMPARE(life.size(), std::size_t{5});
        for (std::size_t i = 0; i < life.size(); ++i) {
            QCOMPARE(HistoryIndex::kindOf(life[i].code), kinds[i]);
            QCOMPARE(life[i].end, ends[i]);
        }
        QVERIFY(index.owners(life[1].code) == (std::vector<SequenceId>{SequenceId(0), SequenceId(1)}));
        QVERIFY(index.owners(life[3].code) == std::vector<SequenceId>{SequenceId(1)});  // whose content it was
        QCOMPARE(index.marks().size(), std::size_t{2});
        QCOMPARE(index.marks()[0].block, 3u);  // the fork: the last block shared
        QCOMPARE(index.marks()[1].block, 4u);  // the copy: its destination
    }

    void cellsShowTheMostFrequentState_data() {
        QTest::addColumn<int>("blockLevel");
        QTest::addColumn<int>("stepLevel");
        for (const int blocks : {0, 1, 3})
            for (const int steps : {0, 2, 5}) QTest::addRow("%d %d", blocks, steps) << blocks << steps;
    }

    // Against a count cell by cell from the states themselves.
    void cellsShowTheMostFrequentState() {
        QFETCH(int, blockLevel);
        QFETCH(int, stepLevel);
        const LaneRecord& lane = m_demo->lane(LaneId(1));
        HistoryIndex index(m_demo, LaneId(1));
        index.advance(lane.step_count(), std::atomic<bool>(false));
        const HistoryTileKey key{static_cast<std::uint8_t>(blockLevel), static_cast<std::uint8_t>(stepLevel), 0, 0};
        const auto tile = countTile(index, key, std::atomic<bool>(false));
        std::vector<std::vector<std::uint8_t>> classes(lane.step_count());
        for (std::size_t step = 0; step < std::min<std::size_t>(lane.step_count(), 256u << stepLevel); ++step) {
            const LaneState state = lane.state_after(step);
            for (std::uint32_t block = 0; block < index.blocks(); ++block) {
                const BlockState& each = state.blocks()[block];
                classes[step].push_back(each.owners > 1    ? history_cell::shared
                                        : each.owners == 1 ? static_cast<std::uint8_t>(history_cell::owned + each.first_owner.value % 8)
                                        : each.cached()    ? history_cell::cached
                                                           : history_cell::free);
            }
        }
        for (std::uint32_t row = 0; row << blockLevel < index.blocks(); ++row)
            for (std::uint32_t column = 0; column < 256 && std::size_t{column} << stepLevel < lane.step_count(); ++column) {
                HistoryCount count;
                for (std::uint32_t block = std::max(row << blockLevel, 1u); block < std::min((row + 1) << blockLevel, index.blocks()); ++block)
                    for (std::size_t step = std::size_t{column} << stepLevel; step < std::min<std::size_t>((column + std::size_t{1}) << stepLevel, lane.step_count()); ++step) {
                        ++count.kinds[classes[step][block]];
                        ++count.total;
                    }
                QCOMPARE(tile->cells[row * 256 + column], chosen(count));
            }
    }

    void historyCsvIsWhatTheStatesSay() {
        m_cursor->setRecording(m_sharing);
        HistoryView view(m_cursor.get());
        show(view);
        const QList<QStringList> rows = rowsOf(view.csv());
        const char* const names[] = {"free", "cached", "used", "shared"};
        const LaneRecord& lane = m_sharing->lane(LaneId(0));
        for (const int step : {0, 1, 2, 3, 4, 5, 6, 5, 2, 0}) {  // forwards and back: the cursor changes nothing
            m_cursor->setStep(step);
            QCOMPARE(rowsOf(view.csv()), rows);
            const LaneState state = lane.state_after(static_cast<std::size_t>(step));
            int seen = 0;
            for (const QStringList& row : rows) {
                if (row[0] == QLatin1String("first_block") || step < row[2].toInt() || step > row[3].toInt()) continue;
                ++seen;
                QCOMPARE(row[4], QLatin1String(names[static_cast<int>(kindOf(state.blocks()[row[0].toUInt()]))]));
            }
            QCOMPARE(seen, 8);  // each block once
        }
    }

    void theWheelZoomsBothAxesOrOne() {
        HistoryView view(m_cursor.get());
        show(view);
        const QPointF middle = view.frame().plot.center();
        const HistoryFrame before = view.frame();
        const double step = before.axis.stepAt(middle.x()), block = before.blockAt(middle.y());
        wheel(view, middle, 240);
        const HistoryFrame both = view.frame();
        QVERIFY(both.axis.perStep > before.axis.perStep && both.perBlock > before.perBlock);
        QVERIFY(std::abs(both.axis.stepAt(middle.x()) - step) < 1e-6);  // what is under the pointer stays there
        QVERIFY(std::abs(both.blockAt(middle.y()) - block) < 1e-6);
        QVERIFY(m_cursor->stepRange().has_value());
        wheel(view, middle, 240, Qt::ControlModifier);
        QCOMPARE(view.frame().axis.perStep, both.axis.perStep);
        const double rows = view.frame().perBlock;
        QVERIFY(rows > both.perBlock);
        wheel(view, middle, 240, Qt::ShiftModifier);
        QCOMPARE(view.frame().perBlock, rows);
        QVERIFY(view.frame().axis.perStep > both.axis.perStep);
        m_cursor->zoomStack()->undo();
        QVERIFY(!view.zoomState().isValid());
        QVERIFY(!m_cursor->stepRange().has_value());
        m_cursor->zoomStack()->redo();
        QCOMPARE(view.frame().perBlock, rows);
        QTest::keyClick(&view, Qt::Key_F);
        QVERIFY(!view.zoomState().isValid());
    }

    void stepAxesZoomTogetherAndUndoOnce() {
        HistoryView history(m_cursor.get());
        SplitView split(m_cursor.get());
        show(history);
        show(split);
        QCOMPARE(history.frame().axis.x(100), split.xOfStep(100));
        wheel(split, QPointF(500, 100), 360);
        QVERIFY(split.zoomState().isValid());
        QCOMPARE(history.frame().axis.x(100), split.xOfStep(100));
        QCOMPARE(m_cursor->zoomStack()->count(), 1);
        m_cursor->zoomStack()->undo();
        QVERIFY(!split.zoomState().isValid() && !history.zoomState().isValid());
    }

    void aClickMovesTheCursorADragPansADoubleClickLocks() {
        HistoryView view(m_cursor.get());
        show(view);
        const HistoryFrame frame = view.frame();
        const auto at = [&](double step, double block) { return QPointF(frame.axis.x(step + 0.5), frame.y(block + 0.5)).toPoint(); };
        QTest::mouseClick(&view, Qt::LeftButton, {}, at(30, 2));
        QCOMPARE(m_cursor->step(), 30);
        QVERIFY(m_cursor->locked().empty());
        QTest::mouseDClick(&view, Qt::LeftButton, {}, at(30, 2));
        QVERIFY(m_cursor->locked().block == BlockId(2));
        QVERIFY(m_cursor->locked().sequence == SequenceId(0));
        QTest::keyClick(&view, Qt::Key_Escape);
        QVERIFY(m_cursor->locked().empty());
        view.zoomAt(frame.plot.center(), 0.3, 0.3);
        const double first = view.frame().axis.begin, row = view.frame().firstBlock;
        const QPoint from = view.frame().plot.center().toPoint();
        QTest::mousePress(&view, Qt::LeftButton, {}, from);
        for (int i = 1; i <= 4; ++i) {
            QMouseEvent move(QEvent::MouseMove, from + QPoint(10 * i, 5 * i), view.mapToGlobal(from + QPoint(10 * i, 5 * i)), Qt::NoButton,
                             Qt::LeftButton, {});
            QCoreApplication::sendEvent(&view, &move);
        }
        QTest::mouseRelease(&view, Qt::LeftButton, {}, from + QPoint(40, 20));
        QVERIFY(std::abs(first - view.frame().axis.begin - 40 / view.frame().axis.perStep) < 0.01);
        QVERIFY(std::abs(row - view.frame().firstBlock - 20 / view.frame().perBlock) < 0.01);
        QCOMPARE(m_cursor->step(), 30);  // a drag is no click
    }

    void keysWalkRowsStepsAndZooms() {
        HistoryView view(m_cursor.get());
        show(view);
        QTest::keyClick(&view, Qt::Key_Down);
        QTest::keyClick(&view, Qt::Key_Down);
        QVERIFY(m_cursor->hover().block == BlockId(2));
        QTest::keyClick(&view, Qt::Key_Return);
        QVERIFY(m_cursor->locked().block == BlockId(2));
        QTest::keyClick(&view, Qt::Key_Left);
        QCOMPARE(m_cursor->step(), 59);
        QTest::keyClick(&view, Qt::Key_Plus);
        QVERIFY(view.zoomState().isValid());
        const double begin = view.frame().axis.begin;
        QTest::keyClick(&view, Qt::Key_Right, Qt::ShiftModifier);
        QVERIFY(view.frame().axis.begin > begin);
    }

    void theHistoryFollowsARunAndFoldsWhatIsSmall() {
        DemoOptions options = plainOptions();
        options.steps = 120;
        options.one_lane = true;
        DemoSession session(options);
        m_cursor->setRecording(session.recording());
        HistoryView view(m_cursor.get());
        show(view, 420, 300);
        for (int i = 0; i < 60; ++i) session.step();
        m_cursor->advanced();
        QTest::qWait(60);
        QVERIFY(view.settled());
        QCOMPARE(view.index()->steps(), 60u);
        while (session.step()) {
        }
        m_cursor->advanced();
        QTRY_VERIFY(view.settled());
        QCOMPARE(view.index()->steps(), 120u);
        QVERIFY(!view.frame().folded());
        view.resize(420, 80);
        QTRY_VERIFY(view.frame().blockLevel > 0);
        QVERIFY(view.subtitle().contains(QStringLiteral("folded")));
        QVERIFY(!view.image().isNull());
    }

    // Too many events and blocks to be read in one frame: a job does, and the head says so until it is done.
    void aLongRecordingIsReadByAJob() {
        DemoSharingOptions options = DemoSharingOptions::large(60, 60000);
        const auto recording = demo_sharing_recording(options);
        const auto& lane = recording->lane(LaneId(0));
        m_cursor->setRecording(recording);
        HistoryView view(m_cursor.get());
        view.resize(800, 400);
        view.catchUp();
        QVERIFY(!view.index());  // the job has it
        QVERIFY(view.isStale() && view.headText().contains(QStringLiteral("computing step 59")));
        QVERIFY(view.frame().blockLevel > 0);
        view.show();
        QTRY_VERIFY(view.settled());
        QVERIFY(!view.isStale());
        const LaneState state = lane.state_after(59);
        for (std::uint32_t block = 1; block < view.index()->blocks(); block += 97)
            QCOMPARE(HistoryIndex::kindOf(view.index()->codeAt(block, 59)), kindOf(state.blocks()[block]));
        m_cursor->setRecording(m_demo);  // while the next one is read
        m_cursor->setRecording(recording);
        m_cursor->setRecording(nullptr);
        QVERIFY(view.settled());
    }

private:
    std::shared_ptr<const Recording> m_demo, m_sharing;
    std::unique_ptr<Cursor> m_cursor;
};

QTEST_MAIN(TestHistoryView)
#include "tst_history_view.moc"
