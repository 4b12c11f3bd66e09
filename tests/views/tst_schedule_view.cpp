// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/views/tree_fixture.h"

#include "views/schedule_view.h"

#include <QRegularExpression>
#include <QUndoStack>

#include <map>
#include <optional>
#include <random>

using namespace kvloupe;

using Doing = ScheduleData::Phase;

namespace {

// What each sequence does in each step, read straight from the events.
std::vector<std::map<std::uint32_t, Doing>> replay(const LaneRecord& lane) {
    std::map<std::uint32_t, std::optional<Doing>> status;  // none: it runs or has ended
    std::vector<std::map<std::uint32_t, Doing>> steps;
    for (std::size_t s = 0; s < lane.step_count(); ++s) {
        std::map<std::uint32_t, Doing> doing;
        for (std::uint64_t i = lane.step(s).events.begin; i < lane.step(s).events.end; ++i) {
            const Event& event = lane.events()[i];
            const std::uint32_t id = event.sequence.value;
            if (event.kind == EventKind::arrive) status[id] = Doing::waiting;
            if (event.kind == EventKind::preempt) status[id] = Doing::preempted;
            if (event.kind == EventKind::swap_out) status[id] = Doing::swapped;
            if (event.kind == EventKind::admit || event.kind == EventKind::resume || event.kind == EventKind::fork ||
                event.kind == EventKind::finish || event.kind == EventKind::reject)
                status[id] = std::nullopt;
            if (event.kind == EventKind::prefill) doing[id] = event.cause == Cause::no_kv_cache ? Doing::decode : Doing::prefill;
            if (event.kind == EventKind::decode) doing[id] = Doing::decode;
        }
        for (const auto& [id, waits] : status)
            if (waits) doing[id] = *waits;
        steps.push_back(std::move(doing));
    }
    return steps;
}

}  // namespace

class TestScheduleView : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init();
    void phasesAreWhatTheEventsSay_data() { lanesAsRows({"paged", "swap", "windows", "radix", "max", "oracle"}); }
    void phasesAreWhatTheEventsSay();
    void tokensOfSpansAddUp();
    void foldedLoadsAreTheHighest();
    void growingGivesTheSameAsReadingAtOnce();
    void tableEqualsStepsAndSpans();
    void everyMomentIsDrawn();
    void whatLiesAfterTheCursorFades();
    void pointerPicksSequenceAndMark();
    void clickBelowTheRowsMovesTheCursor();
    void keysWalkRowsAndSteps();
    void zoomIsUndoneAndShared();
    void tipSaysWhyItWaits();
    void foldedRowsAreDrawnAnewWhenTheyChange();

private:
    void setUp(ScheduleView& view, const char* lane = "paged", int step = 120);
    std::unique_ptr<Cursor> m_cursor;
};

void TestScheduleView::init() {
    QTest::failOnWarning(QRegularExpression(QStringLiteral(".*")));
    m_cursor = std::make_unique<Cursor>();
    m_cursor->setRecording(sharingDemo());
}

void TestScheduleView::setUp(ScheduleView& view, const char* lane, int step) {
    m_cursor->setLane(laneNamed(*sharingDemo(), lane));
    m_cursor->setStep(step);
    showFor(view, {1200, 900});
}

void TestScheduleView::phasesAreWhatTheEventsSay() {
    QFETCH(QString, lane);
    const LaneId id = laneNamed(*sharingDemo(), lane.toLatin1().constData());
    const LaneRecord& record = sharingDemo()->lane(id);
    ScheduleData data;
    data.update(*sharingDemo(), id);
    const auto expected = replay(record);
    QCOMPARE(std::size_t{data.steps()}, expected.size());
    for (std::uint32_t step = 0; step < data.steps(); ++step)
        for (std::uint32_t s = 0; s < data.rows().size(); ++s) {
            const ScheduleData::Span* span = data.spanAt(SequenceId(s), step);
            const auto wanted = expected[step].find(s);
            const QByteArray where = QStringLiteral("sequence %1, step %2").arg(s).arg(step).toLatin1();
            QVERIFY2((span != nullptr) == (wanted != expected[step].end()), where.constData());
            if (span) QVERIFY2(span->phase == wanted->second, where.constData());
        }
    for (const ScheduleData::Row& row : data.rows())
        for (std::size_t i = 1; i < row.spans.size(); ++i) QVERIFY(row.spans[i - 1].end <= row.spans[i].begin);
}

void TestScheduleView::tokensOfSpansAddUp() {
    const LaneId id = laneNamed(*sharingDemo(), "swap");
    const LaneRecord& lane = sharingDemo()->lane(id);
    ScheduleData data;
    data.update(*sharingDemo(), id);
    std::map<std::uint32_t, std::uint64_t> computed;
    for (std::size_t i = 0; i < lane.events().size(); ++i)
        if (lane.events()[i].kind == EventKind::prefill || lane.events()[i].kind == EventKind::decode)
            computed[lane.events()[i].sequence.value] += lane.events()[i].tokens;
    for (std::uint32_t s = 0; s < data.rows().size(); ++s) {
        std::uint64_t sum = 0;
        for (const ScheduleData::Span& span : data.rows()[s].spans) sum += span.tokens;
        QCOMPARE(sum, computed[s]);
    }
}

void TestScheduleView::foldedLoadsAreTheHighest() {
    const LaneId id = laneNamed(*sharingDemo(), "paged");
    const LaneRecord& lane = sharingDemo()->lane(id);
    ScheduleData data;
    data.update(*sharingDemo(), id);
    std::mt19937 random(7);
    for (int round = 0; round < 200; ++round) {
        const std::uint32_t begin = random() % data.steps(), end = begin + 1 + random() % (data.steps() - begin);
        std::uint32_t tokens = 0, running = 0, waiting = 0;
        for (std::uint32_t step = begin; step < end; ++step) {
            tokens = std::max(tokens, lane.step(step).prefill_tokens + lane.step(step).decode_tokens);
            running = std::max(running, lane.step(step).running);
            waiting = std::max(waiting, lane.step(step).waiting);
        }
        const ScheduleData::Load load = data.load(begin, end);
        QCOMPARE(load.prefill + load.decode, tokens);
        QCOMPARE(load.running, running);
        QCOMPARE(load.waiting, waiting);
    }
}

void TestScheduleView::growingGivesTheSameAsReadingAtOnce() {
    DemoSharingOptions options;
    options.steps = 130;
    options.lanes = {"swap"};
    DemoSharingSession session(options);
    ScheduleData grown, once;
    bool more = true;
    while (more) {
        more = session.step();
        grown.update(*session.recording(), LaneId(0));
    }
    once.update(*session.recording(), LaneId(0));
    QCOMPARE(grown.rows().size(), once.rows().size());
    for (std::size_t s = 0; s < grown.rows().size(); ++s) {
        const auto &a = grown.rows()[s].spans, &b = once.rows()[s].spans;
        QCOMPARE(a.size(), b.size());
        for (std::size_t i = 0; i < a.size(); ++i)
            QVERIFY(a[i].begin == b[i].begin && a[i].end == b[i].end && a[i].phase == b[i].phase && a[i].tokens == b[i].tokens);
        QCOMPARE(grown.rows()[s].marks.size(), once.rows()[s].marks.size());
    }
}

void TestScheduleView::tableEqualsStepsAndSpans() {
    ScheduleView view(m_cursor.get());
    setUp(view);
    const LaneRecord& lane = *m_cursor->laneRecord();
    for (const int step : momentsOf(*sharingDemo())) {
        m_cursor->setStep(step);
        std::size_t spans = 0, steps = 0;
        const auto rows = csvRows(view.csv());
        for (std::size_t r = 1; r < rows.size(); ++r) {
            QCOMPARE(rows[r].size(), rows[0].size());
            if (rows[r][0] != QLatin1String("step")) {
                ++spans;
                continue;
            }
            const StepRecord& record = lane.step(steps++);
            QCOMPARE(rows[r][6].toUInt(), record.prefill_tokens);
            QCOMPARE(rows[r][7].toUInt(), record.decode_tokens);
            QCOMPARE(rows[r][8].toUInt(), record.running);
            QCOMPARE(rows[r][9].toUInt(), record.waiting);
        }
        std::size_t all = 0;
        for (const ScheduleData::Row& row : view.data().rows()) all += row.spans.size();
        QCOMPARE(spans, all);
        QCOMPARE(steps, lane.step_count());
    }
}

void TestScheduleView::everyMomentIsDrawn() {
    ScheduleView view(m_cursor.get());
    for (const char* lane : {"paged", "swap"}) {
        m_cursor->setLane(laneNamed(*sharingDemo(), lane));
        paintsEverywhere(view, *m_cursor);
    }
}

void TestScheduleView::whatLiesAfterTheCursorFades() {
    ScheduleView view(m_cursor.get());
    setUp(view, "paged", 239);
    // f decodes from about step 30 to the end; its bar at step 150 is the same colour mixed with the panel.
    const QRectF row = view.rowRect(SequenceId(7));
    QVERIFY(!row.isEmpty());
    const QPoint place(static_cast<int>(view.xOfStep(150.5)), static_cast<int>(row.center().y()));
    const QColor now = view.grab().toImage().pixelColor(place);
    m_cursor->setStep(100);
    const QColor later = view.grab().toImage().pixelColor(place), panel = Palette::of(&view).panel;
    QVERIFY(now != later);
    QVERIFY(std::abs(later.red() - (0.4 * now.red() + 0.6 * panel.red())) < 4);
    QVERIFY(std::abs(later.blue() - (0.4 * now.blue() + 0.6 * panel.blue())) < 4);
}

void TestScheduleView::pointerPicksSequenceAndMark() {
    ScheduleView view(m_cursor.get());
    setUp(view);
    const LaneRecord& lane = *m_cursor->laneRecord();
    // The copy of c, which forked from a.
    std::uint64_t copy = 0;
    for (std::uint64_t i = 0; i < lane.events().size(); ++i)
        if (lane.events()[i].kind == EventKind::copy_on_write && lane.events()[i].sequence == SequenceId(6)) copy = i;
    QVERIFY(copy > 0);
    const QRectF row = view.rowRect(SequenceId(6));
    for (const ScheduleData::Mark& mark : view.data().rows()[6].marks)
        if (mark.kind == EventKind::copy_on_write) moveTo(view, QPointF(view.xOfStep(mark.step + 0.5), row.center().y()));
    QVERIFY(m_cursor->hover().sequence == SequenceId(6));
    QVERIFY(m_cursor->hover().event.has_value());
    moveTo(view, QPointF(view.xOfStep(40.5), row.center().y()));
    QVERIFY(m_cursor->hover().sequence == SequenceId(6));
    QVERIFY(!m_cursor->hover().event);
    clickAt(view, QPointF(view.xOfStep(40.5), view.rowRect(SequenceId(1)).center().y()));
    QVERIFY(m_cursor->locked().sequence == SequenceId(1));
    QCOMPARE(m_cursor->step(), 120);  // a click locks, it does not move the cursor
    QTest::keyClick(&view, Qt::Key_Escape);
    QVERIFY(m_cursor->locked().empty());
}

void TestScheduleView::clickBelowTheRowsMovesTheCursor() {
    ScheduleView view(m_cursor.get());
    setUp(view);
    clickAt(view, QPointF(view.xOfStep(70.5), view.height() - 6));
    QCOMPARE(m_cursor->step(), 70);
}

void TestScheduleView::keysWalkRowsAndSteps() {
    ScheduleView view(m_cursor.get());
    setUp(view);
    QTest::keyClick(&view, Qt::Key_Down);
    QVERIFY(m_cursor->hover().sequence == SequenceId(0));
    QTest::keyClick(&view, Qt::Key_Down);
    QTest::keyClick(&view, Qt::Key_Down);
    QVERIFY(m_cursor->hover().sequence == SequenceId(2));
    QTest::keyClick(&view, Qt::Key_Up);
    QTest::keyClick(&view, Qt::Key_Return);
    QVERIFY(m_cursor->locked().sequence == SequenceId(1));
    QTest::keyClick(&view, Qt::Key_Left);
    QCOMPARE(m_cursor->step(), 119);
    QTest::keyClick(&view, Qt::Key_Home);
    QCOMPARE(m_cursor->step(), 0);
    QTest::keyClick(&view, Qt::Key_End);
    QCOMPARE(m_cursor->step(), 239);
}

void TestScheduleView::zoomIsUndoneAndShared() {
    ScheduleView view(m_cursor.get()), other(m_cursor.get());
    setUp(view);
    wheelAt(view, QPointF(600, 300), 3);
    QVERIFY(view.range().second - view.range().first < 200);
    QVERIFY(m_cursor->stepRange() == view.range());
    QVERIFY(other.range() == view.range());
    QCOMPARE(m_cursor->zoomStack()->count(), 1);  // the other view follows without a step of its own
    const QVariant first = view.zoomState();
    QTest::qWait(1100);                            // another gesture
    wheelAt(view, QPointF(600, 300), 2, Qt::ControlModifier);
    QCOMPARE(m_cursor->zoomStack()->count(), 2);
    QVERIFY(view.zoomState() != first);
    m_cursor->zoomStack()->undo();
    QCOMPARE(view.zoomState(), first);
    m_cursor->zoomStack()->undo();
    QVERIFY(!view.zoomState().isValid());
    QVERIFY(!m_cursor->stepRange());
    m_cursor->zoomStack()->redo();
    QCOMPARE(view.zoomState(), first);
    QTest::keyClick(&view, Qt::Key_F);
    QVERIFY(!view.zoomState().isValid());
    QVERIFY(!other.zoomState().isValid());
}

void TestScheduleView::tipSaysWhyItWaits() {
    class Open : public ScheduleView {
    public:
        using ScheduleView::ScheduleView;
        using ScheduleView::tipAt;
    };
    Open view(m_cursor.get());
    setUp(view, "swap", 230);
    bool checked = false;
    for (std::uint32_t s = 0; s < view.data().rows().size() && !checked; ++s)
        for (const ScheduleData::Span& span : view.data().rows()[s].spans) {
            const auto refusal = view.data().refusal(SequenceId(s), span.begin);
            const QRectF row = view.rowRect(SequenceId(s));
            if (span.phase != Doing::waiting || !refusal || row.isEmpty()) continue;
            const QString tip = view.tipAt(QPointF(view.xOfStep(span.begin + 0.5), row.center().y()));
            QVERIFY2(tip.contains(QStringLiteral("waiting in steps")) && tip.contains(QStringLiteral("because")), qPrintable(tip));
            checked = true;
            break;
        }
    QVERIFY(checked);
}

// Rows thinner than six pixels are one image that is kept.
void TestScheduleView::foldedRowsAreDrawnAnewWhenTheyChange() {
    DemoSharingOptions options;
    options.lanes = {"paged", "swap"};
    DemoSharingSession session(options);
    for (int i = 0; i < 180; ++i) session.step();
    Cursor cursor;
    cursor.setRecording(session.recording());
    cursor.setStep(100);
    ScheduleView view(&cursor);
    view.resize(420, 300);
    const QImage first = view.image();
    QCOMPARE(view.image(), first);
    wheelAt(view, QPointF(200, 100), 4);
    QVERIFY(view.image() != first);
    view.fit();
    QCOMPARE(view.image(), first);
    cursor.setLane(LaneId(1));
    QVERIFY(view.image() != first);
    cursor.setLane(LaneId(0));
    QCOMPARE(view.image(), first);
    for (int i = 0; i < 60; ++i) session.step();
    cursor.advanced();
    cursor.setStep(100);
    QVERIFY(view.image() != first);
}

QTEST_MAIN(TestScheduleView)
#include "tst_schedule_view.moc"
