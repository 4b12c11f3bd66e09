// SPDX-License-Identifier: GPL-3.0-or-later
#include <QTest>  // first: moc 6.4 stumbles over libstdc++ when <compare> comes first

#include "engine/record/figures.h"
#include "engine/record/recount.h"
#include "tests/support/demo_recording.h"
#include "tests/views/compare_fixture.h"
#include "views/allocators_view.h"
#include "views/free_runs_view.h"
#include "views/history_view.h"
#include "views/split_view.h"

#include <QRegularExpression>
#include <QUndoStack>
#include <QWheelEvent>

#include <cmath>

using namespace kvloupe;

namespace {

void show(View& view, int width = 900, int height = 420) {
    view.resize(width, height);
    view.show();
    QVERIFY(QTest::qWaitForWindowExposed(&view));
}

void wheel(View& view, const QPointF& at, int delta, Qt::KeyboardModifiers modifiers = {}) {
    QWheelEvent turn(at, view.mapToGlobal(at), {}, QPoint(0, delta), Qt::NoButton, modifiers, Qt::NoScrollPhase, false);
    QCoreApplication::sendEvent(&view, &turn);
}

// A lane of the accounting kind that forks, copies, caches and evicts: written by hand, so that every state is known.
//   step 0: sequence 0 takes blocks 1, 2, 3       step 1: block 1 is stored; sequence 1 forks at 40: shares 1, 2, 3
//   step 2: sequence 1 copies block 3 to 4        step 3: sequence 0 ends: 3, 2 free, 1 shared no longer
//   step 4: sequence 1 ends: 4, 2 free, 1 cached  step 5: nothing          step 6: sequence 2 evicts and takes 1
std::shared_ptr<const Recording> sharing() {
    RecordingWriter writer("sharing", 1 << 20);
    writer.set_time(0);
    LaneInfo info;
    info.name = "paged";
    info.cache_dtype = "f16";
    info.attention_variant = "none";
    info.block_size = 16;
    info.blocks = 9;
    info.block_bytes = 1024;
    info.bytes_per_token = 64;
    LaneWriter& lane = writer.add_lane(info, std::make_shared<VocabularyText>());
    writer.lanes_complete();
    RequestInfo request;
    request.id = "a";
    request.prompt = std::vector<TokenId>(40, 1);
    request.max_new_tokens = 8;
    writer.add_request(request);
    lane.add_sequence({RequestId(0), {}, 0});
    lane.add_sequence({RequestId(0), SequenceId(0), 40});
    lane.add_sequence({RequestId(0), {}, 0});
    const auto emit = [&lane](EventKind kind, Cause cause, std::uint32_t sequence, std::uint32_t block = Index<int>::none_value,
                              std::uint32_t other = Event{}.other, std::uint32_t tokens = 0) {
        Event event;
        event.kind = kind;
        event.cause = cause;
        event.sequence = SequenceId(sequence);
        event.block = BlockId(block);
        event.other = other;
        event.tokens = tokens;
        lane.event(event);
    };
    const auto end = [&lane] {
        StepRecord counters;
        counters.used_blocks = lane.state().used_blocks();
        lane.end_step(counters);
    };
    lane.begin_step();
    emit(EventKind::arrive, Cause::submitted, 0, Index<int>::none_value, Event{}.other, 40);
    emit(EventKind::admit, Cause::fits_beside_running, 0);
    for (std::uint32_t i = 0; i < 3; ++i) emit(EventKind::allocate, Cause::first_slot_of_block, 0, i + 1, i);
    emit(EventKind::prefill, Cause::whole_prompt, 0, Index<int>::none_value, 0, 40);
    end();
    lane.begin_step();
    emit(EventKind::store, Cause::block_full, 0, 1, 7, 9);
    emit(EventKind::fork, Cause::requested, 1, Index<int>::none_value, 0, 40);
    end();
    lane.begin_step();
    emit(EventKind::copy_on_write, Cause::shared_block_written, 1, 3, 4, 8);
    emit(EventKind::decode, Cause::next_token, 1, Index<int>::none_value, 40, 1);
    end();
    lane.begin_step();
    emit(EventKind::finish, Cause::length_reached, 0, Index<int>::none_value, Event{}.other, 1);
    for (const std::uint32_t block : {3u, 2u, 1u}) emit(EventKind::free, Cause::sequence_finished, 0, block, 0);
    end();
    lane.begin_step();
    emit(EventKind::finish, Cause::length_reached, 1, Index<int>::none_value, Event{}.other, 1);
    for (const std::uint32_t block : {4u, 2u, 1u}) emit(EventKind::free, Cause::sequence_finished, 1, block, 0);
    end();
    lane.begin_step();
    end();
    lane.begin_step();
    emit(EventKind::evict, Cause::block_needed, 2, 1);
    emit(EventKind::allocate, Cause::first_slot_of_block, 2, 1, 0);
    end();
    writer.set_phase(Phase::paused);
    return writer.recording();
}

// What the block was after the step, by the record itself.
BlockKind kindOf(const BlockState& state) {
    return state.owners > 1 ? BlockKind::shared : state.owners == 1 ? BlockKind::owned : state.cached() ? BlockKind::cached : BlockKind::free;
}

}  // namespace

class TestMemoryViews : public QObject {
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
        QTest::addColumn<bool>("shares");
        QTest::newRow("demo") << false;
        QTest::newRow("sharing") << true;
    }

    void indexAgreesWithTheStateOfEveryStep() {
        QFETCH(bool, shares);
        const auto recording = shares ? m_sharing : m_demo;
        const LaneId id(shares ? 0 : 1);
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

    void splitIsTheRecountedRecord() {
        SplitView view(m_cursor.get());
        show(view);
        const LaneRecord& lane = m_demo->lane(LaneId(1));
        const Recount counted = recount(*m_demo, lane, lane.step_count());
        const QList<QStringList> rows = rowsOf(view.csv());
        QCOMPARE(rows.size(), static_cast<qsizetype>(lane.step_count()) + 1);
        for (std::size_t step = 0; step < lane.step_count(); ++step) {
            const SlotCounts& slots_ = counted.slots[step];
            const QStringList& row = rows[static_cast<qsizetype>(step) + 1];
            const std::uint64_t expected[] = {step, slots_.token, slots_.cached, slots_.reserved, slots_.internal, slots_.external, slots_.free};
            for (int i = 0; i < 7; ++i) QCOMPARE(row[i].toULongLong(), expected[i]);
            std::uint64_t sum = 0;
            for (int i = 1; i < 7; ++i) sum += row[i].toULongLong();
            QCOMPARE(row[7].toULongLong(), sum);  // every slot is exactly one of them
        }
        QTest::mouseClick(&view, Qt::LeftButton, {}, QPoint(qRound(view.xOfStep(100.5)), 60));
        QCOMPARE(m_cursor->step(), 100);
        QTest::keyClick(&view, Qt::Key_Right);
        QCOMPARE(m_cursor->step(), 101);
    }

    // The figure of summary.json where the cursor stands at the end, and its definition before.
    void wastedIsTheContractsFormula() {
        AllocatorsView view(m_cursor.get());
        show(view);
        QCOMPARE(view.rows().size(), std::size_t{3});  // the uncached lane has no memory to compare
        for (const int last : {0, 5, 60, 259, 100, 12}) {
            m_cursor->setStep(last);
            for (const AllocatorsView::Row& row : view.rows()) {
                const LaneRecord& lane = m_demo->lane(row.lane);
                const Recount counted = recount(*m_demo, lane, lane.step_count());
                double sum = 0, waiting = 0;
                int all = 0, waited = 0;
                bool waits = false;
                std::uint32_t peak = 0, rejected = 0;
                for (std::size_t step = 0; step <= static_cast<std::size_t>(last); ++step) {
                    const StepRecord& record = lane.step(step);
                    waits = waits || record.waiting > 0;
                    peak = std::max(peak, record.running);
                    for (std::uint64_t i = record.events.begin; i < record.events.end; ++i) rejected += lane.events()[i].kind == EventKind::reject;
                    const auto share = wasted_share(counted.slots[step]);
                    if (!share) continue;
                    sum += *share;
                    ++all;
                    if (record.waiting == 0) continue;
                    waiting += *share;
                    ++waited;
                }
                QVERIFY(row.wasted);
                QVERIFY(std::abs(*row.wasted - (waits ? waiting / waited : sum / all)) < 1e-12);
                QCOMPARE(row.peakRunning, peak);
                QCOMPARE(row.rejected, rejected);
                QCOMPARE(row.waiting, lane.step(static_cast<std::size_t>(last)).waiting);
                double shares = 0;
                for (const double share : row.mean) shares += share;
                QVERIFY(std::abs(shares - 1) < 1e-9);
            }
        }
    }

    void aRowOfAllocatorsFocusesItsLane() {
        AllocatorsView view(m_cursor.get());
        show(view, 420, 300);
        QTest::mouseClick(&view, Qt::LeftButton, {}, view.rowRect(2).center().toPoint());
        QCOMPARE(m_cursor->lane(), LaneId(2));
        QTest::keyClick(&view, Qt::Key_Escape);
        QTest::keyClick(&view, Qt::Key_Up);
        QVERIFY(m_cursor->hover().lane == LaneId(1));
        QTest::keyClick(&view, Qt::Key_Return);
        QCOMPARE(m_cursor->lane(), LaneId(1));
    }

    void freeRunsAreTheFreeBlocks() {
        FreeRunsView view(m_cursor.get());
        show(view, 560, 170);
        for (const int step : {0, 30, 60, 120, 259, 120, 0}) {
            m_cursor->setStep(step);
            const LaneState& state = *m_cursor->state();
            std::uint64_t blocks = 0;
            std::uint32_t after = 0;
            for (const FreeRun& run : view.runs().runs) {
                QVERIFY(run.first > after);  // a block that is owned lies in between
                after = run.first + run.length;
                blocks += run.length;
                for (std::uint32_t block = run.first; block < after; ++block) QCOMPARE(state.blocks()[block].owners, 0u);
            }
            QCOMPARE(blocks, std::uint64_t{state.blocks().size() - 1 - state.used_blocks()});
            QCOMPARE(view.runs().blocks, blocks);
            QCOMPARE(rowsOf(view.csv()).size(), static_cast<qsizetype>(view.runs().runs.size()) + 1);
        }
    }

    void cachedRunsStandApartAndBarsHoldAllRuns() {
        const LaneState state = m_sharing->lane(LaneId(0)).state_after(5);  // block 1 is free but cached, so are all others free
        const FreeRuns runs = FreeRuns::of(state);
        QCOMPARE(runs.runs.size(), std::size_t{1});
        QCOMPARE(runs.largest.length, 8u);
        QCOMPARE(runs.cached, std::uint64_t{1});
        QVERIFY(runs.holding(4) && !runs.holding(0) && !runs.holding(9));
        for (const std::uint32_t most : {100u, 4u}) {
            std::uint64_t plain = 0, cached = 0;
            for (const RunBar& bar : runBars(runs, most)) {
                plain += bar.plain;
                cached += bar.cached;
            }
            QCOMPARE(plain, std::uint64_t{0});
            QCOMPARE(cached, std::uint64_t{1});
        }
        QCOMPARE(runBars(runs, 4).size(), std::size_t{4});  // 1, 2–3, 4–7, 8–15
    }

    void aBarNamesItsRun() {
        FreeRunsView view(m_cursor.get());
        show(view, 560, 170);
        const FreeRun largest = view.runs().largest;
        const QPoint bar = view.barRect(largest.length - std::size_t{1}).center().toPoint();
        QTest::mouseClick(&view, Qt::LeftButton, {}, bar);
        QVERIFY(m_cursor->locked().block == BlockId(largest.first));
        QTest::keyClick(&view, Qt::Key_Right);
        QVERIFY(m_cursor->hover().block.has_value());
    }

    void everyStateOfAViewPaintsWithoutWarnings_data() {
        QTest::addColumn<QSize>("size");
        QTest::addColumn<double>("scale");
        QTest::newRow("usual") << QSize(900, 420) << 1.0;
        QTest::newRow("large") << QSize(1600, 900) << 1.0;
        QTest::newRow("small") << QSize(420, 300) << 1.25;
        QTest::newRow("least") << QSize(160, 90) << 1.5;
    }

    void everyStateOfAViewPaintsWithoutWarnings() {
        QFETCH(QSize, size);
        QFETCH(double, scale);
        m_cursor->setFontScale(scale);
        HistoryView history(m_cursor.get());
        SplitView split(m_cursor.get());
        AllocatorsView allocators(m_cursor.get());
        FreeRunsView runs(m_cursor.get());
        for (View* view : std::initializer_list<View*>{&history, &split, &allocators, &runs}) {
            show(*view, size.width(), size.height());
            for (const auto& recording : {m_sharing, m_demo, demo_empty_recording(), std::shared_ptr<const Recording>()}) {
                m_cursor->setRecording(recording);
                for (const int step : {0, 2, 6}) {
                    m_cursor->setStep(step);
                    Pick pick;
                    pick.lane = LaneId(0);
                    pick.block = BlockId(3);
                    if (recording) m_cursor->lock(pick);
                    QVERIFY(!view->image(1.25).isNull());
                    view->repaint();
                }
                if (recording == m_demo) {
                    m_cursor->setLane(LaneId(3));  // uncached
                    QVERIFY(!view->image().isNull());
                }
            }
        }
    }

private:
    std::shared_ptr<const Recording> m_demo, m_sharing;
    std::unique_ptr<Cursor> m_cursor;
};

QTEST_MAIN(TestMemoryViews)
#include "tst_memory_views.moc"
