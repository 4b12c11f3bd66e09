// SPDX-License-Identifier: GPL-3.0-or-later
#include <QObject>  // first: moc 6.4 stumbles over libstdc++ when <compare> comes first

#include "tests/support/demo_recording.h"
#include "tests/views/sharing_fixture.h"
#include "views/event_names.h"
#include "views/events_view.h"
#include "views/table_picture.h"

#include <QAbstractItemModelTester>
#include <QLineEdit>
#include <QRegularExpression>
#include <QTableView>
#include <QTest>

#include <functional>

using namespace kvloupe;

class TestEventsView : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void initTestCase() { m_recording = SharingFixture().record(); }

    void init() {
        QTest::failOnWarning(QRegularExpression(QStringLiteral(".*")));
        m_cursor = std::make_unique<Cursor>();
        m_cursor->setRecording(m_recording);
    }

    void rowsGrowWithTheRecordingAndFadeBehindTheCursor() {
        DemoOptions options;
        options.steps = 60;
        DemoSession session(options);
        while (session.recording()->lane(LaneId(1)).step_count() < 20) session.step();
        EventsModel model;
        QAbstractItemModelTester tester(&model, QAbstractItemModelTester::FailureReportingMode::QtTest);
        const LaneRecord& lane = session.recording()->lane(LaneId(1));
        model.show(session.recording(), LaneId(1), 19);
        QCOMPARE(model.rowCount(), static_cast<int>(lane.step(19).events.end));
        while (session.step()) {
        }
        model.show(session.recording(), LaneId(1), 30);
        QCOMPARE(model.rowCount(), static_cast<int>(lane.step(59).events.end));
        QCOMPARE(model.total(), lane.step(59).events.end);
        QCOMPARE(model.rowsUpTo(30), static_cast<int>(lane.step(30).events.end));
        const auto faded = [&model](int row) { return model.index(row, 0).data(fadedRole).toBool(); };
        QVERIFY(!faded(model.rowsUpTo(30) - 1));
        QVERIFY(faded(model.rowsUpTo(30)));
        model.show(session.recording(), LaneId(1), 10);  // the cursor goes back: nothing is hidden
        QCOMPARE(model.rowCount(), static_cast<int>(lane.step(59).events.end));
        QVERIFY(faded(model.rowsUpTo(30) - 1));
        QVERIFY(!faded(model.rowsUpTo(10) - 1));
        model.show(nullptr, LaneId(0), -1);
        QCOMPARE(model.rowCount(), 0);
    }

    void theFilterLineKeepsWhatItNames_data() {
        QTest::addColumn<QString>("line");
        QTest::addColumn<QString>("error");
        QTest::addColumn<int>("rows");
        const LaneRecord& lane = m_recording->lane(LaneId(0));
        const auto count = [&lane](const std::function<bool(const Event&)>& wanted) {
            int rows = 0;
            for (std::uint64_t i = 0; i < lane.events().size(); ++i) rows += wanted(lane.events()[i]);
            return rows;
        };
        const auto add = [&](const char* line, const std::function<bool(const Event&)>& wanted) {
            const int rows = count(wanted);
            QVERIFY(rows > 0);
            QTest::newRow(line) << QString::fromLatin1(line) << QString() << rows;
        };
        add("kind:copy_on_write", [](const Event& e) { return e.kind == EventKind::copy_on_write; });
        add("kind:copy-on-write kind:fork", [](const Event& e) { return e.kind == EventKind::copy_on_write || e.kind == EventKind::fork; });
        add("seq:c", [](const Event& e) { return e.sequence == SequenceId(2); });
        add("request:a", [](const Event& e) { return e.sequence == SequenceId(0) || e.sequence == SequenceId(2); });
        add("block:6", [](const Event& e) {
            return (e.block.valid() && e.block.value == 6) || (e.kind == EventKind::copy_on_write && e.other == 6);
        });
        add("cause:block_needed", [](const Event& e) { return e.cause == Cause::block_needed; });
        add("cause:\"another owner\"", [](const Event& e) { return e.cause == Cause::shared_block_written; });
        add("another", [](const Event& e) { return e.cause == Cause::shared_block_written; });
        QTest::newRow("unknown key") << QStringLiteral("colour:red") << QStringLiteral("colour")
                                     << count([](const Event&) { return true; });
        QTest::newRow("unknown kind") << QStringLiteral("kind:frok") << QStringLiteral("frok")
                                      << count([](const Event&) { return true; });
    }

    void theFilterLineKeepsWhatItNames() {
        QFETCH(QString, line);
        QFETCH(QString, error);
        QFETCH(int, rows);
        EventsModel model;
        QAbstractItemModelTester tester(&model, QAbstractItemModelTester::FailureReportingMode::QtTest);
        model.show(m_recording, LaneId(0), 3);
        model.setFilter(EventFilter::parse(line));
        QCOMPARE(model.filter().error.isEmpty(), error.isEmpty());
        QVERIFY(model.filter().error.contains(error));
        QCOMPARE(model.rowCount(), rows);
    }

    void everyCauseIsFoundByItsName() {
        for (int i = 0; i < cause_count; ++i) {
            const auto cause = static_cast<Cause>(i);
            QVERIFY(causeFromName(causeName(cause)) == cause);
        }
        QVERIFY(!causeFromName(QStringLiteral("because")));
        // The list stands in the order of the enumeration.
        QCOMPARE(causeName(Cause::shared_block_written), QStringLiteral("shared_block_written"));
        QCOMPARE(causeName(Cause::requested), QStringLiteral("requested"));
        QCOMPARE(causeName(Cause::sequence_preempted), QStringLiteral("sequence_preempted"));
    }

    void theCopyOfTheStepIsInFocus() {
        EventsModel model;
        model.setFocusWash(Qt::yellow);
        model.show(m_recording, LaneId(0), 2);
        model.setFilter(EventFilter::parse(QStringLiteral("kind:copy_on_write")));
        QCOMPARE(model.rowCount(), 1);
        QVERIFY(model.index(0, 0).data(focusRole).toBool());
        QVERIFY(model.index(0, 0).data(Qt::BackgroundRole).canConvert<QBrush>());
        model.show(m_recording, LaneId(0), 3);
        QVERIFY(!model.index(0, 0).data(focusRole).toBool());
        QVERIFY(!model.index(0, 0).data(Qt::BackgroundRole).isValid());
    }

    void jumpsGoToTheNextOfAKind() {
        EventsView view(m_cursor.get());
        view.resize(1200, 200);
        view.show();
        m_cursor->setStep(0);
        view.setFilterText(QStringLiteral("kind:allocate"));
        std::vector<std::uint64_t> seen;
        while (view.jump(1)) seen.push_back(*m_cursor->locked().event);
        const LaneRecord& lane = m_recording->lane(LaneId(0));
        std::vector<std::uint64_t> expected;
        for (std::uint64_t i = lane.step(0).events.end; i < lane.events().size(); ++i)
            if (lane.events()[i].kind == EventKind::allocate) expected.push_back(i);
        QCOMPARE(seen, expected);
        QCOMPARE(m_cursor->step(), 5);
        QVERIFY(view.jump(-1));
        QCOMPARE(*m_cursor->locked().event, expected[expected.size() - 2]);
        // Without a filter the locked event's kind is the one that is meant.
        view.setFilterText({});
        QVERIFY(view.jump(1));
        QCOMPARE(*m_cursor->locked().event, expected.back());
        QVERIFY(!view.jump(1));
    }

    void theKeyboardJumpsAndLocks() {
        EventsView view(m_cursor.get());
        view.resize(1200, 200);
        view.show();
        m_cursor->setStep(1);
        view.setFilterText(QStringLiteral("kind:fork"));
        QTest::keyClick(view.findChild<QTableView*>(), Qt::Key_N);
        QCOMPARE(m_cursor->step(), 2);
        QVERIFY(m_cursor->locked().event.has_value());
        QTest::keyClick(view.findChild<QTableView*>(), Qt::Key_Escape);
        QVERIFY(m_cursor->locked().empty());
    }

    void theTableIsTheFilteredList() {
        EventsView view(m_cursor.get());
        view.resize(1200, 200);
        view.show();
        view.setFilterText(QStringLiteral("kind:copy_on_write"));
        const QStringList lines = view.csv().split(QStringLiteral("\r\n"), Qt::SkipEmptyParts);
        QCOMPARE(lines.size(), 2);
        QVERIFY2(lines[1].startsWith(QStringLiteral("2,copy-on-write,0 (a),3 → 6,")), qPrintable(lines[1]));
        QVERIFY(lines[1].endsWith(QStringLiteral(",768,2.9")));
    }

private:
    std::shared_ptr<const Recording> m_recording;
    std::unique_ptr<Cursor> m_cursor;
};

QTEST_MAIN(TestEventsView)
#include "tst_events_view.moc"
