// SPDX-License-Identifier: GPL-3.0-or-later
//
// Search for events, marks of steps, and the scrubber.
#include <QObject>  // first: moc 6.4 stumbles over libstdc++ when <compare> comes first

#include "tests/support/demo_recording.h"
#include "tests/views/sharing_fixture.h"
#include "views/event_search.h"
#include "views/step_scrubber.h"

#include <QRegularExpression>
#include <QSignalSpy>
#include <QTest>
#include <QWheelEvent>

using namespace kvloupe;

class TestTimeTravel : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void initTestCase() { m_recording = SharingFixture().record(); }
    void init() { QTest::failOnWarning(QRegularExpression(QStringLiteral("^(?!This plugin does not support)"))); }

    void theNextOfAKindIsTheFirstBeyondTheCursor() {
        const auto hit = search("kind:copy_on_write request:a", {0, {}}, true);
        QVERIFY(hit && !hit->wrapped);
        QCOMPARE(hit->step, 2u);
        QCOMPARE(lane().events()[hit->event].kind, EventKind::copy_on_write);
    }

    // Every event is found once, in order, before the search comes round to where it began.
    void goingOnVisitsEveryMatchOnce_data() {
        QTest::addColumn<QString>("line");
        QTest::addColumn<bool>("forwards");
        for (const char* line : {"", "kind:decode", "request:a", "block:3", "kind:free,allocate", "step:2-4"})
            for (const bool forwards : {true, false}) QTest::addRow("%s %d", line, forwards) << QString::fromLatin1(line) << forwards;
    }
    void goingOnVisitsEveryMatchOnce() {
        QFETCH(QString, line);
        QFETCH(bool, forwards);
        const EventFilter filter = EventFilter::parse(line);
        std::vector<std::uint64_t> expected;
        for (std::size_t step = 0; step < lane().step_count(); ++step)
            for (std::uint64_t i = lane().step(step).events.begin; i < lane().step(step).events.end; ++i)
                if (filter.matches(*m_recording, lane(), lane().events()[i], static_cast<std::uint32_t>(step))) expected.push_back(i);
        if (!forwards) std::reverse(expected.begin(), expected.end());
        QVERIFY(expected.size() > 1);
        const auto last = static_cast<std::uint32_t>(lane().step_count() - 1);
        SearchPlace from{forwards ? 0 : last, {}};
        for (const std::uint64_t wanted : expected) {
            const auto hit = search(line, from, forwards);
            QVERIFY(hit && !hit->wrapped);
            QCOMPARE(hit->event, wanted);
            QCOMPARE(hit->step, EventSearch(*m_recording, lane()).stepOf(wanted));
            from = {hit->step, hit->event};
        }
        const auto round = search(line, from, forwards);
        QVERIFY(round && round->wrapped);
        QCOMPARE(round->event, expected.front());
    }

    void theOnlyMatchIsFoundAgainAroundTheEnd() {
        const auto first = search("kind:copy_on_write", {0, {}}, true);
        QVERIFY(first);
        for (const bool forwards : {true, false}) {
            const auto again = search("kind:copy_on_write", {first->step, first->event}, forwards);
            QVERIFY(again && again->wrapped);
            QCOMPARE(again->event, first->event);
        }
    }

    void whatDoesNotHappenIsNotFoundAndSaidInWords() {
        QVERIFY(!search("kind:swap_out", {0, {}}, true));
        QVERIFY(!search("kind:swap_out", {6, {}}, false));
        QCOMPARE(filterText(EventFilter::parse("kind:copy_on_write request:a block:3 two owners")),
                 QStringLiteral("copy-on-write of request a on block 3 that says “two owners”"));
        QCOMPARE(filterText(EventFilter::parse("step:4-6")), QStringLiteral("event in steps 4 to 6"));
    }

    void aCancelledSearchFindsNothing() {
        DemoOptions options;
        options.steps = 2000;
        options.attention = false;
        options.one_lane = true;
        const auto recording = demo_recording(options);
        const LaneRecord& record = recording->lane(LaneId(0));
        const EventFilter filter = EventFilter::parse("kind:finish");
        const auto found = EventSearch(*recording, record).find(filter, {0, {}}, true, std::atomic<bool>(false));
        QVERIFY(found && found->event > 0);
        QVERIFY(!EventSearch(*recording, record).find(filter, {0, {}}, true, std::atomic<bool>(true)));
    }

    void marksCountWhatEachStepDid() {
        StepMarks marks;
        int changes = 0;
        marks.follow(m_recording, LaneId(0), [&changes] { ++changes; });
        QCOMPARE(changes, 1);
        QVERIFY(marks.complete());
        QCOMPARE(marks.counts().size(), lane().step_count());
        for (std::size_t step = 0; step < lane().step_count(); ++step) {
            int copies = 0, evictions = 0, preemptions = 0;
            for (std::uint64_t i = lane().step(step).events.begin; i < lane().step(step).events.end; ++i) {
                const EventKind kind = lane().events()[i].kind;
                copies += kind == EventKind::copy_on_write;
                evictions += kind == EventKind::evict;
                preemptions += kind == EventKind::preempt;
            }
            QCOMPARE(int(marks.counts()[step].copies), copies);
            QCOMPARE(int(marks.counts()[step].evictions), evictions);
            QCOMPARE(int(marks.counts()[step].preemptions), preemptions);
        }
        QCOMPARE(marks.next(0, true).value(), std::size_t{2});   // a copies
        QCOMPARE(marks.next(2, true).value(), std::size_t{3});   // b is preempted
        QCOMPARE(marks.next(3, true).value(), std::size_t{5});   // block 4 loses its hash
        QVERIFY(!marks.next(5, true));
        QCOMPARE(marks.next(6, false).value(), std::size_t{5});
        QVERIFY(!marks.next(2, false));
    }

    void marksGrowWithTheRecordingAndStartAnewWithAnother() {
        DemoOptions options;
        options.steps = 40;
        DemoSession session(options);
        StepMarks marks;
        const auto follow = [&] { marks.follow(session.recording(), LaneId(1), [] {}); };
        for (int step = 0; step < 10; ++step) session.step();
        follow();
        QCOMPARE(marks.counts().size(), std::size_t{10});
        while (session.step()) {}
        QVERIFY(marks.counts().size() == 10);
        follow();
        QCOMPARE(marks.counts().size(), std::size_t{40});
        marks.follow(m_recording, LaneId(0), [] {});
        QCOMPARE(marks.counts().size(), lane().step_count());
        marks.follow(nullptr, LaneId(0), [] {});
        QVERIFY(marks.counts().empty());
    }

    void manyEventsAreCountedInTheBackground() {
        DemoOptions options;
        options.steps = 6000;
        options.attention = false;
        options.one_lane = true;
        options.stages_every = 0;
        const auto recording = demo_recording(options);
        QVERIFY(recording->lane(LaneId(0)).events().size() > 0);
        StepMarks marks;
        bool told = false;
        marks.follow(recording, LaneId(0), [&told] { told = true; });
        marks.wait();
        QVERIFY(told);
        QCOMPARE(marks.counts().size(), recording->lane(LaneId(0)).step_count());
    }

    void theScrubberFollowsTheCursorAndMovesIt() {
        Cursor cursor;
        StepScrubber scrubber(&cursor);
        scrubber.resize(1000, 22);
        QVERIFY(!scrubber.isEnabled());
        cursor.setRecording(m_recording);
        QVERIFY(scrubber.isEnabled());
        QCOMPARE(scrubber.maximum(), 6);
        QCOMPARE(scrubber.value(), 6);
        cursor.setStep(2);
        QCOMPARE(scrubber.value(), 2);
        QTest::mouseClick(&scrubber, Qt::LeftButton, {}, pointAt(scrubber, 4));
        QCOMPARE(cursor.step(), 4);
        QTest::mousePress(&scrubber, Qt::LeftButton, {}, pointAt(scrubber, 4));
        for (const int step : {3, 1, 5}) {
            QTest::mouseMove(&scrubber, pointAt(scrubber, step));
            QTRY_COMPARE_WITH_TIMEOUT(cursor.step(), step, 60000);
        }
        QTest::mouseMove(&scrubber, {-50, 10});
        QTRY_COMPARE_WITH_TIMEOUT(cursor.step(), 0, 60000);
        QTest::mouseRelease(&scrubber, Qt::LeftButton, {}, {2000, 10});
        QCOMPARE(cursor.step(), 0);
        QTest::mouseMove(&scrubber, pointAt(scrubber, 5));  // the button is up
        QCOMPARE(cursor.step(), 0);
    }

    void itsKeysAndTheWheelStep() {
        Cursor cursor;
        cursor.setRecording(m_recording);
        StepScrubber scrubber(&cursor);
        scrubber.resize(1000, 22);
        QTest::keyClick(&scrubber, Qt::Key_Home);
        QCOMPARE(cursor.step(), 0);
        QTest::keyClick(&scrubber, Qt::Key_Right);
        QCOMPARE(cursor.step(), 1);
        QTest::keyClick(&scrubber, Qt::Key_PageDown);
        QCOMPARE(cursor.step(), 6);
        QTest::keyClick(&scrubber, Qt::Key_Left);
        QCOMPARE(cursor.step(), 5);
        QTest::keyClick(&scrubber, Qt::Key_End);
        QCOMPARE(cursor.step(), 6);
        for (const int half : {60, 60}) {  // two half notches up are one step back
            QWheelEvent wheel(QPointF(500, 10), QPointF(500, 10), {}, {0, half}, Qt::NoButton, Qt::NoModifier, Qt::NoScrollPhase, false);
            QApplication::sendEvent(&scrubber, &wheel);
        }
        QCOMPARE(cursor.step(), 5);
    }

    void theTipSaysTheStepAndWhatIsMarkedThere() {
        Cursor cursor;
        cursor.setRecording(m_recording);
        StepScrubber scrubber(&cursor);
        scrubber.resize(1000, 22);
        QCOMPARE(scrubber.tipFor(scrubber.xOfStep(2)), QStringLiteral("Step 2 of 6\n1 copy · lane cached"));
        QCOMPARE(scrubber.tipFor(scrubber.xOfStep(3)), QStringLiteral("Step 3 of 6\n1 preemption · lane cached"));
        QCOMPARE(scrubber.tipFor(scrubber.xOfStep(0)), QStringLiteral("Step 0 of 6\nno copy, eviction or preemption · lane cached"));
        cursor.setStep(0);
        QVERIFY(scrubber.jump(true));
        QCOMPARE(cursor.step(), 2);
        QVERIFY(!scrubber.jump(false));
    }

    // The tips of all pixels together name every step once.
    void stepsThatShareAPixelAreToldTogether() {
        DemoOptions options;
        options.steps = 1000;
        options.attention = false;
        options.one_lane = true;
        options.stages_every = 0;
        Cursor cursor;
        cursor.setRecording(demo_recording(options));
        StepScrubber scrubber(&cursor);
        scrubber.resize(324, 22);
        static const QRegularExpression span(QStringLiteral("^Steps? ([0-9,]+)(?: to ([0-9,]+))? of 999"));
        const auto number = [](QString text) { return text.remove(QLatin1Char(',')).toInt(); };
        int expected = 0;
        for (int x = 12; x < 312; ++x) {
            const auto match = span.match(scrubber.tipFor(x + 0.5));
            QVERIFY2(match.hasMatch(), qPrintable(scrubber.tipFor(x + 0.5)));
            QCOMPARE(number(match.captured(1)), expected);
            expected = number(match.captured(match.captured(2).isEmpty() ? 1 : 2)) + 1;
        }
        QCOMPARE(expected, 1000);
    }

private:
    const LaneRecord& lane() const { return m_recording->lane(LaneId(0)); }
    std::optional<EventHit> search(const QString& line, const SearchPlace& from, bool forwards) const {
        return EventSearch(*m_recording, lane()).find(EventFilter::parse(line), from, forwards, std::atomic<bool>(false));
    }
    static QPoint pointAt(const StepScrubber& scrubber, int step) { return {int(scrubber.xOfStep(step)), 10}; }

    std::shared_ptr<const Recording> m_recording;
};

QTEST_MAIN(TestTimeTravel)
#include "tst_time_travel.moc"
