// SPDX-License-Identifier: GPL-3.0-or-later
#include <QObject>  // first: moc 6.4 stumbles over libstdc++ when <compare> comes first

#include "tests/support/demo_recording.h"
#include "views/frame_clock.h"

#include <QRegularExpression>
#include <QSignalSpy>
#include <QTest>

using namespace kvloupe;

class TestFrameClock : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() { QTest::failOnWarning(QRegularExpression(QStringLiteral(".*"))); }
    void tellsManyStepsOnce();
    void tellsThePhaseAfterTheLastSteps();
    void keepsGapsOnlyWhileRunning();
};

void TestFrameClock::tellsManyStepsOnce() {
    DemoOptions options;
    options.attention = false;
    DemoSession session(options);
    FrameClock clock;
    QSignalSpy advanced(&clock, &FrameClock::advanced);
    for (int i = 0; i < 50; ++i) session.step();
    clock.watch(session.recording());
    QTRY_COMPARE(advanced.count(), 1);  // fifty steps, one signal
    session.step();
    clock.wake();
    QTRY_COMPARE(advanced.count(), 2);
}

void TestFrameClock::tellsThePhaseAfterTheLastSteps() {
    DemoOptions options;
    options.attention = false;
    DemoSession session(options);
    FrameClock clock;
    session.set_phase(Phase::running);
    clock.watch(session.recording());
    QTRY_COMPARE(clock.phase(), Phase::running);
    std::size_t seen = 0;
    connect(&clock, &FrameClock::advanced, this,
            [&] { seen = session.recording()->lanes().front()->step_count(); });
    std::size_t seenAtEnd = 0;
    connect(&clock, &FrameClock::phaseChanged, this, [&] {
        if (clock.phase() == Phase::finished) seenAtEnd = seen;
    });
    for (int i = 0; i < 7; ++i) session.step();
    session.set_phase(Phase::finished);
    QTRY_COMPARE(clock.phase(), Phase::finished);
    QCOMPARE(seenAtEnd, std::size_t{7});
}

void TestFrameClock::keepsGapsOnlyWhileRunning() {
    DemoOptions options;
    options.attention = false;
    DemoSession session(options);
    FrameClock clock;
    session.set_phase(Phase::paused);
    clock.watch(session.recording());
    QTRY_COMPARE(clock.phase(), Phase::paused);
    QVERIFY(clock.frameGaps().empty());
    session.set_phase(Phase::running);
    clock.wake();
    QTRY_VERIFY(clock.frameGaps().size() >= 3);
    for (const double gap : clock.frameGaps()) QVERIFY(gap >= 0);
}

QTEST_GUILESS_MAIN(TestFrameClock)
#include "tst_frame_clock.moc"
