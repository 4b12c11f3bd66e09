// SPDX-License-Identifier: GPL-3.0-or-later
#include <QObject>  // first: moc 6.4 stumbles over libstdc++ when <compare> comes first

#include "tests/support/demo_recording.h"
#include "views/cursor.h"
#include "views/picking.h"

#include <QRegularExpression>
#include <QSignalSpy>
#include <QTest>

using namespace kvloupe;

namespace {

// Without attention rows, which no cursor looks at.
DemoOptions light(std::uint32_t steps = 200) {
    DemoOptions options;
    options.attention = false;
    options.steps = steps;
    return options;
}

}  // namespace

class TestCursor : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() { QTest::failOnWarning(QRegularExpression(QStringLiteral(".*"))); }
    void standsAtTheLastStepAndFollows();
    void staysWhereItWasPutWhileTheRecordingGrows();
    void clampsToTheRecording();
    void shorterLanesShowTheirLastStep();
    void stateEqualsTheRecordsOwn();
    void anotherLaneKeepsTheRequest();
    void hoverEndsWithEscapeAndSoDoesTheLock();
    void tokenPickNamesTheBlockOfItsTable();
    void blockPickNamesTheTokenInItsSlot();
};

void TestCursor::standsAtTheLastStepAndFollows() {
    DemoSession session(light());
    Cursor cursor;
    cursor.setRecording(session.recording());
    QCOMPARE(cursor.step(), -1);
    QVERIFY(!cursor.state());
    QSignalSpy moved(&cursor, &Cursor::stepChanged);
    for (int i = 0; i < 3; ++i) session.step();
    cursor.advanced();
    QCOMPARE(cursor.step(), 2);
    QCOMPARE(cursor.stepCount(), 3);
    QVERIFY(cursor.following());
    QCOMPARE(moved.count(), 1);
}

void TestCursor::staysWhereItWasPutWhileTheRecordingGrows() {
    DemoSession session(light());
    Cursor cursor;
    cursor.setRecording(session.recording());
    for (int i = 0; i < 5; ++i) session.step();
    cursor.advanced();
    cursor.setStep(1);
    QVERIFY(!cursor.following());
    QSignalSpy grew(&cursor, &Cursor::grew);
    session.step();
    cursor.advanced();
    QCOMPARE(cursor.step(), 1);
    QCOMPARE(grew.count(), 1);
    cursor.setStep(5);
    QVERIFY(cursor.following());
    session.step();
    cursor.advanced();
    QCOMPARE(cursor.step(), 6);
}

void TestCursor::clampsToTheRecording() {
    Cursor cursor;
    cursor.setStep(7);
    QCOMPARE(cursor.step(), -1);
    cursor.setRecording(demo_recording(light(20)));
    cursor.setStep(-5);
    QCOMPARE(cursor.step(), 0);
    cursor.setStep(999);
    QCOMPARE(cursor.step(), cursor.stepCount() - 1);
}

void TestCursor::shorterLanesShowTheirLastStep() {
    DemoOptions options = light(40);
    options.uncached_steps = 10;
    Cursor cursor;
    cursor.setRecording(demo_recording(options));
    const LaneId uncached(3);
    QCOMPARE(cursor.stepOf(uncached), 9);
    QCOMPARE(cursor.stepOf(LaneId(0)), cursor.step());
    cursor.setStep(4);
    QCOMPARE(cursor.stepOf(uncached), 4);
}

void TestCursor::stateEqualsTheRecordsOwn() {
    const auto recording = demo_recording(light());
    Cursor cursor;
    cursor.setRecording(recording);
    for (const int step : {0, 63, 31, 150, 32}) {
        cursor.setStep(step);
        const LaneState expected = recording->lane(LaneId(0)).state_after(static_cast<std::size_t>(step));
        QVERIFY(cursor.state());
        QCOMPARE(cursor.state()->used_blocks(), expected.used_blocks());
        QCOMPARE(cursor.state()->sequences().size(), expected.sequences().size());
        for (std::size_t s = 0; s < expected.sequences().size(); ++s)
            QVERIFY(cursor.state()->sequences()[s].table == expected.sequences()[s].table);
    }
}

void TestCursor::anotherLaneKeepsTheRequest() {
    const auto recording = demo_recording(light());
    Cursor cursor;
    cursor.setRecording(recording);
    cursor.setSequence(SequenceId(1));
    const RequestId request = recording->lane(LaneId(0)).sequences()[1].request;
    cursor.setLane(LaneId(2));
    QCOMPARE(cursor.lane(), LaneId(2));
    QVERIFY(recording->lane(LaneId(2)).sequences()[cursor.sequence().value].request == request);
}

void TestCursor::hoverEndsWithEscapeAndSoDoesTheLock() {
    Cursor cursor;
    cursor.setRecording(demo_recording(light()));
    QSignalSpy hover(&cursor, &Cursor::hoverChanged), lock(&cursor, &Cursor::lockChanged);
    Pick pick;
    pick.block = BlockId(3);
    cursor.setHover(pick);
    cursor.setHover(pick);
    QCOMPARE(hover.count(), 1);
    Pick other;
    other.lane = LaneId(1);
    other.block = BlockId(5);
    cursor.lock(other);
    QCOMPARE(cursor.lane(), LaneId(1));
    QVERIFY(cursor.shown() == other);
    cursor.clear();
    QVERIFY(cursor.shown().empty());
    QCOMPARE(lock.count(), 2);
}

void TestCursor::tokenPickNamesTheBlockOfItsTable() {
    Cursor cursor;
    cursor.setRecording(demo_recording(light()));
    cursor.setStep(30);
    const auto& table = cursor.state()->sequences()[0].table;
    QVERIFY(table.size() > 2);
    for (const std::uint32_t position : {0u, 15u, 16u, 40u})
        QVERIFY(pickToken(cursor, SequenceId(0), position).block == table[position / 16]);
}

void TestCursor::blockPickNamesTheTokenInItsSlot() {
    Cursor cursor;
    cursor.setRecording(demo_recording(light()));
    cursor.setStep(30);
    const BlockId block = cursor.state()->sequences()[0].table[1];
    const Pick pick = pickBlock(cursor, block, 3u);
    QVERIFY(pick.sequence == SequenceId(0));
    QVERIFY(pick.position == 19u);
    QVERIFY(!pickBlock(cursor, null_block_id).sequence);
}

QTEST_GUILESS_MAIN(TestCursor)
#include "tst_cursor.moc"
