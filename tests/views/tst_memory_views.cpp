// SPDX-License-Identifier: GPL-3.0-or-later
#include <QTest>  // first: moc 6.4 stumbles over libstdc++ when <compare> comes first

#include "engine/record/figures.h"
#include "engine/record/recount.h"
#include "tests/views/memory_fixture.h"
#include "views/allocators_view.h"
#include "views/free_runs_view.h"
#include "views/history_view.h"
#include "views/split_view.h"

#include <QRegularExpression>

#include <cmath>

using namespace kvloupe;

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
