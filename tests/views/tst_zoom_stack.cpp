// SPDX-License-Identifier: GPL-3.0-or-later
#include <QTest>

#include "tests/support/demo_recording.h"
#include "views/events_view.h"
#include "views/kv_bytes_view.h"
#include "views/timeline_view.h"

#include <QUndoStack>
#include <QWheelEvent>

using namespace kvloupe;

class TestZoomStack : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void initTestCase() {
        m_cursor.setRecording(demo_recording());
        m_cursor.advanced();
    }

    void init() { m_cursor.zoomStack()->clear(); }

    void zoomsOfDifferentViewsAreUndoneInOrder() {
        TimelineView timeline(&m_cursor);
        EventsView events(&m_cursor);
        show(timeline);
        show(events);
        wheel(timeline);
        const QVariant zoomed = timeline.zoomState();
        QVERIFY(zoomed.isValid());
        events.setFilterText(QStringLiteral("kind:allocate"));
        QCOMPARE(m_cursor.zoomStack()->count(), 2);

        m_cursor.zoomStack()->undo();
        QVERIFY(!events.zoomState().isValid());
        QCOMPARE(timeline.zoomState(), zoomed);
        m_cursor.zoomStack()->undo();
        QVERIFY(!timeline.zoomState().isValid());
        m_cursor.zoomStack()->redo();
        QCOMPARE(timeline.zoomState(), zoomed);
        m_cursor.zoomStack()->redo();
        QCOMPARE(events.zoomState().toString(), QStringLiteral("kind:allocate"));
    }

    void turnsOfTheWheelInOneGestureAreOneStep() {
        TimelineView timeline(&m_cursor);
        show(timeline);
        for (int i = 0; i < 3; ++i) wheel(timeline);
        QCOMPARE(m_cursor.zoomStack()->count(), 1);
        m_cursor.zoomStack()->undo();
        QVERIFY(!timeline.zoomState().isValid());
    }

    void aPlotsRangesComeBack() {
        KvBytesView view(&m_cursor);
        show(view);
        view.plot()->zoom(0.5);
        const QVariant zoomed = view.zoomState();
        QVERIFY(zoomed.isValid());
        QTest::qWait(1100);  // another gesture
        view.plot()->zoom(0.5);
        QCOMPARE(m_cursor.zoomStack()->count(), 2);
        m_cursor.zoomStack()->undo();
        QCOMPARE(view.zoomState(), zoomed);
        m_cursor.zoomStack()->undo();
        QVERIFY(view.plot()->isFitted());
    }

    void aViewThatIsGoneDoesNoHarm() {
        {
            TimelineView timeline(&m_cursor);
            show(timeline);
            wheel(timeline);
        }
        m_cursor.zoomStack()->undo();
        m_cursor.zoomStack()->redo();
    }

    void anotherRecordingEmptiesTheStack() {
        TimelineView timeline(&m_cursor);
        show(timeline);
        wheel(timeline);
        QCOMPARE(m_cursor.zoomStack()->count(), 1);
        m_cursor.setRecording(demo_recording());
        m_cursor.advanced();
        QCOMPARE(m_cursor.zoomStack()->count(), 0);
    }

private:
    static void show(View& view) {
        view.resize(700, 300);
        view.show();
        QVERIFY(QTest::qWaitForWindowExposed(&view));
    }

    static void wheel(View& view) {
        QWheelEvent turn(QPointF(350, 100), view.mapToGlobal(QPointF(350, 100)), {}, QPoint(0, 120), Qt::NoButton,
                         Qt::NoModifier, Qt::NoScrollPhase, false);
        QCoreApplication::sendEvent(&view, &turn);
    }

    Cursor m_cursor;
};

QTEST_MAIN(TestZoomStack)
#include "tst_zoom_stack.moc"
