// SPDX-License-Identifier: GPL-3.0-or-later
//
// The query panel: questions, answers as a table, saved questions, and tracks.
#include <QObject>  // first: moc 6.4 stumbles over libstdc++ when <compare> comes first

#include "engine/record/kvt_writer.h"
#include "tests/support/demo_recording.h"
#include "tests/support/demo_sharing.h"
#include "tests/views/sharing_fixture.h"
#include "views/query_tracks.h"
#include "views/query_view.h"
#include "views/table_picture.h"
#include "views/tracks_view.h"

#include <QAbstractItemModelTester>
#include <QComboBox>
#include <QHeaderView>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QRegularExpression>
#include <QSettings>
#include <QSignalSpy>
#include <QSpinBox>
#include <QTableView>
#include <QTemporaryDir>
#include <QTest>
#include <QToolButton>

using namespace kvloupe;

class TestQuery : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void initTestCase() {
        QVERIFY(m_home.isValid());
        QSettings::setPath(QSettings::NativeFormat, QSettings::UserScope, m_home.path());
        QCoreApplication::setOrganizationName(QStringLiteral("kvloupe-test"));
        QCoreApplication::setApplicationName(QStringLiteral("kvloupe-query-test"));
        m_recording = SharingFixture().record();
    }

    void init() {
        QTest::failOnWarning(QRegularExpression(QStringLiteral("^(?!This plugin does not support)")));
        QSettings().clear();
        m_cursor = std::make_unique<Cursor>();
        m_cursor->setRecording(m_recording);
    }

    void aRecordingInMemoryAnswersThroughACopy() {
        QueryView view(m_cursor.get());
        view.resize(900, 400);
        view.show();
        QVERIFY(ask(view, "SELECT step, COUNT(*) AS events FROM events GROUP BY step"));
        QCOMPARE(view.model().rowCount(), 7);
        const LaneRecord& lane = m_recording->lane(LaneId(0));
        for (int row = 0; row < 7; ++row) {
            QCOMPARE(view.model().integer(row, 0).value(), row);
            QCOMPARE(view.model().integer(row, 1).value(), static_cast<int>(lane.step(static_cast<std::size_t>(row)).events.size()));
        }
        QVERIFY2(view.told().contains("7 rows") && view.told().contains("copy of the session with 7 steps"), qPrintable(view.told()));
    }

    void anOpenedFileAnswersItself() {
        QueryView view(m_cursor.get());
        view.setFile(file());
        view.show();
        QVERIFY(ask(view, "SELECT id FROM requests"));
        QCOMPARE(view.csv(), QStringLiteral("id\r\na\r\nb\r\nd\r\n"));
        QVERIFY2(view.told().contains("by the file itself"), qPrintable(view.told()));
    }

    void theCopyIsRenewedWhenStepsCame() {
        DemoOptions options;
        options.steps = 30;
        options.one_lane = true;
        DemoSession session(options);
        for (int i = 0; i < 5; ++i) session.step();
        m_cursor->setRecording(session.recording());
        QueryView view(m_cursor.get());
        view.show();
        QVERIFY(ask(view, "SELECT COUNT(*) FROM steps"));
        QCOMPARE(view.model().integer(0, 0).value(), 5);
        for (int i = 0; i < 4; ++i) session.step();
        m_cursor->advanced();
        QTRY_VERIFY2_WITH_TIMEOUT(view.told().contains("4 steps are newer"), qPrintable(view.told()), 60000);
        auto* renew = button(view, "Renew");
        QVERIFY(renew->isEnabled());
        QTest::mouseClick(renew, Qt::LeftButton);
        QTRY_VERIFY_WITH_TIMEOUT(!view.running(), 60000);
        QCOMPARE(view.model().integer(0, 0).value(), 9);
        QVERIFY(!renew->isEnabled());
    }

    void whatIsNoQuestionIsRefusedInASentence_data() {
        QTest::addColumn<QString>("sql");
        QTest::addColumn<QString>("said");
        QTest::newRow("no table") << "SELECT * FROM nowhere" << "nowhere";
        QTest::newRow("no SQL") << "what is slow" << "not understood";
        QTest::newRow("writes") << "DELETE FROM steps" << "more than read";
        QTest::newRow("attaches") << "ATTACH 'x' AS y" << "more than read";
        QTest::newRow("two") << "SELECT 1; SELECT 2" << "more than one";
    }
    void whatIsNoQuestionIsRefusedInASentence() {
        QFETCH(QString, sql);
        QFETCH(QString, said);
        QueryView view(m_cursor.get());
        view.setFile(file());
        view.show();
        QVERIFY(ask(view, sql));
        QVERIFY2(view.told().contains(said), qPrintable(view.told()));
        QCOMPARE(view.model().rowCount(), 0);
        QVERIFY(ask(view, "SELECT 1 AS one"));  // the next one is answered
        QCOMPARE(view.model().integer(0, 0).value(), 1);
    }

    void aQueryThatRunsForEverIsStopped() {
        QueryView view(m_cursor.get());
        view.setFile(file());
        view.show();
        view.setQuestion("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT MAX(i) AS m FROM n");
        view.run();
        QVERIFY(view.running());
        auto* stop = button(view, "Stop");
        QVERIFY(stop->isEnabled());
        QTest::qWait(30);
        QVERIFY(view.running());
        QTest::mouseClick(stop, Qt::LeftButton);
        QTRY_VERIFY_WITH_TIMEOUT(!view.running(), 60000);
        QVERIFY2(view.told().contains("stopped"), qPrintable(view.told()));
        QVERIFY(!stop->isEnabled());
    }

    void anotherRecordingDropsTheAnswerThatIsOutstanding() {
        QueryView view(m_cursor.get());
        view.setFile(file());
        view.show();
        view.setQuestion("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT MAX(i) AS m FROM n");
        view.run();
        m_cursor->setRecording(demo_recording({.steps = 10, .attention = false, .one_lane = true}));
        QVERIFY(!view.running());
        QVERIFY(ask(view, "SELECT COUNT(*) FROM steps"));
        QCOMPARE(view.model().integer(0, 0).value(), 10);
    }

    void moreRowsThanAskedForAreSaid() {
        QueryView view(m_cursor.get());
        view.setFile(file());
        view.show();
        view.findChild<QSpinBox*>()->setValue(3);
        QVERIFY(ask(view, "SELECT step FROM steps"));
        QCOMPARE(view.model().rowCount(), 3);
        QVERIFY2(view.told().contains("The first 3 rows; there are more"), qPrintable(view.told()));
    }

    void everyReadyMadeQuestionIsAnswered_data() {
        QTest::addColumn<int>("index");
        const auto all = SavedQuestions::readyMade();
        QVERIFY(all.size() >= 8);
        for (std::size_t i = 0; i < all.size(); ++i) QTest::newRow(qPrintable(all[i].title)) << static_cast<int>(i);
    }
    void everyReadyMadeQuestionIsAnswered() {
        QFETCH(int, index);
        static const QString path = [this] {
            const QString made = m_home.filePath("sharing.kvt");
            DemoSharingSession session;
            while (session.step()) {}
            KvtOptions options;
            options.path = made.toStdString();
            return write_kvt(session.recording(), options) ? made : QString();
        }();
        const auto stored = open_kvt(path.toStdString());
        QVERIFY(stored);
        m_cursor->setRecording(stored->recording);
        QueryView view(m_cursor.get());
        view.setFile(path);
        view.show();
        QVERIFY(ask(view, SavedQuestions::readyMade()[static_cast<std::size_t>(index)].sql));
        QVERIFY2(view.model().answer().error.isEmpty(), qPrintable(view.told()));
        QVERIFY2(view.model().rowCount() > 0 || view.question().contains("stages"), qPrintable(view.told()));
    }

    void rowsAreSortedByValueNotByText() {
        QueryModel model;
        QAbstractItemModelTester tester(&model, QAbstractItemModelTester::FailureReportingMode::QtTest);
        QueryAnswer answer;
        answer.columns = {"v", "n"};
        const std::vector<SqlValue> values{std::string("b"), std::int64_t{10}, SqlValue(), 9.5, std::string("a"), std::int64_t{-3}};
        for (std::size_t i = 0; i < values.size(); ++i) answer.rows.push_back({values[i], static_cast<std::int64_t>(i)});
        model.show(answer);
        const QPersistentModelIndex ten = model.index(1, 0);
        const auto column = [&model](int c) {
            QStringList texts;
            for (int row = 0; row < model.rowCount(); ++row) texts << model.index(row, c).data().toString();
            return texts.join(' ');
        };
        model.sort(0, Qt::AscendingOrder);
        QCOMPARE(column(0), QStringLiteral(" -3 9.5 10 a b"));
        QCOMPARE(ten.row(), 3);
        model.sort(0, Qt::DescendingOrder);
        QCOMPARE(column(0), QStringLiteral("b a 10 9.5 -3 "));
        QCOMPARE(ten.row(), 2);
        model.sort(-1);
        QCOMPARE(column(1), QStringLiteral("0 1 2 3 4 5"));
        QCOMPARE(model.columnNamed("N"), 1);
        QCOMPARE(model.columnNamed("x"), -1);
        QCOMPARE(model.numericColumns(), std::vector<int>{1});
        model.clear();
        QCOMPARE(model.rowCount(), 0);
        QVERIFY(!model.integer(0, 0));
    }

    void aClickOnARowTakesTheCursorThere() {
        QueryView view(m_cursor.get());
        view.resize(900, 400);
        view.setFile(file());
        view.show();
        QVERIFY(ask(view, "SELECT lane, step, event, sequence, block FROM events WHERE kind = 'copy_on_write'"));
        m_cursor->setStep(0);
        const QModelIndex first = view.model().index(0, 1);
        QTest::mouseClick(view.table()->viewport(), Qt::LeftButton, {}, view.table()->visualRect(first).center());
        QCOMPARE(m_cursor->step(), 2);
        QVERIFY(m_cursor->locked().event);
        QCOMPARE(m_recording->lane(LaneId(0)).events()[*m_cursor->locked().event].kind, EventKind::copy_on_write);
        QCOMPARE(m_cursor->locked().block, std::optional(BlockId(3)));
    }

    void controlEnterAsksAndAQuestionIsKept() {
        QueryView view(m_cursor.get());
        view.setFile(file());
        view.show();
        auto* editor = view.findChild<QPlainTextEdit*>();
        editor->setFocus();
        QTest::keyClicks(editor, "SELECT 42 AS answer");
        QTest::keyClick(editor, Qt::Key_Return, Qt::ControlModifier);
        QTRY_VERIFY_WITH_TIMEOUT(!view.running(), 60000);
        QCOMPARE(view.model().integer(0, 0).value(), 42);
        QCOMPARE(view.question(), QStringLiteral("SELECT 42 AS answer"));
        auto* saved = named<QComboBox>(view, "Saved questions");
        saved->setEditText("Mine");
        QTest::mouseClick(button(view, "Keep"), Qt::LeftButton);
        QueryView other(m_cursor.get());
        other.setFile(file());
        other.show();
        auto* offered = named<QComboBox>(other, "Saved questions");
        QCOMPARE(offered->itemText(0), QStringLiteral("Mine"));
        offered->setCurrentIndex(0);
        Q_EMIT offered->activated(0);
        QTRY_VERIFY_WITH_TIMEOUT(!other.running() && other.model().rowCount() == 1, 60000);
        QVERIFY(button(other, "Delete")->isEnabled());
        QTest::mouseClick(button(other, "Delete"), Qt::LeftButton);
        QCOMPARE(SavedQuestions().all().size(), SavedQuestions::readyMade().size());
        offered->setEditText(SavedQuestions::readyMade()[0].title);
        QVERIFY(!button(other, "Delete")->isEnabled());  // what comes with the program stays
    }

    void aPinnedColumnIsDrawnAgainstTheStepsUntilItIsRemoved() {
        QueryTracks tracks;
        QueryView view(m_cursor.get());
        TracksView drawn(m_cursor.get());
        view.setTracks(&tracks);
        drawn.setTracks(&tracks);
        drawn.resize(900, 160);
        drawn.show();
        view.setFile(file());
        view.show();
        QVERIFY(ask(view, "SELECT step, used_blocks, free_blocks, 'x' AS text FROM steps"));
        auto* column = named<QComboBox>(view, "Column for a track");
        QCOMPARE(column->count(), 2);  // numbers alone
        column->setCurrentText("used_blocks");
        QTest::mouseClick(button(view, "Pin as track"), Qt::LeftButton);
        QTRY_COMPARE_WITH_TIMEOUT(tracks.tracks().size(), std::size_t{1}, 60000);
        QTRY_COMPARE_WITH_TIMEOUT(tracks.tracks()[0].points.size(), std::size_t{7}, 60000);
        const LaneRecord& lane = m_recording->lane(LaneId(0));
        for (std::size_t step = 0; step < 7; ++step) {
            QCOMPARE(tracks.tracks()[0].points[step].step, static_cast<std::uint32_t>(step));
            QCOMPARE(tracks.tracks()[0].points[step].value, double(lane.step(step).used_blocks));
        }
        QTest::mouseClick(&drawn, Qt::LeftButton, {}, QPoint(int(drawn.xOfStep(3.5)), int(drawn.bandOf(0).center().y())));
        QCOMPARE(m_cursor->step(), 3);
        QVERIFY(drawn.csv().contains("used_blocks") && drawn.csv().count("\r\n") == 8);
        column->setCurrentText("free_blocks");
        QTest::mouseClick(button(view, "Pin as track"), Qt::LeftButton);
        QTRY_VERIFY_WITH_TIMEOUT(tracks.tracks().size() == 2 && tracks.tracks()[1].points.size() == 7, 60000);
        // The settings keep both; another recording fills them anew.
        QueryTracks again;
        QCOMPARE(again.tracks().size(), std::size_t{2});
        QVERIFY(again.tracks()[0].points.empty());
        m_cursor->setRecording(demo_recording({.steps = 12, .attention = false, .one_lane = true}));
        QVERIFY(tracks.tracks()[0].points.empty());
        QVERIFY(ask(view, "SELECT 1"));
        QTRY_COMPARE_WITH_TIMEOUT(tracks.tracks()[1].points.size(), std::size_t{12}, 60000);
        QTest::mouseClick(&drawn, Qt::LeftButton, {}, drawn.removeButtonOf(0).center().toPoint());
        QCOMPARE(tracks.tracks().size(), std::size_t{1});
        QCOMPARE(tracks.tracks()[0].column, QStringLiteral("free_blocks"));
    }

    void tracksShareTheAxisOfStepsWithTheOtherViews() {
        QueryTracks tracks;
        QVERIFY(tracks.pin({"", "q", "c", {{0, 1}, {5, 2}}, {}}));
        m_cursor->setRecording(demo_recording({.steps = 100, .attention = false, .one_lane = true}));
        TracksView drawn(m_cursor.get());
        drawn.setTracks(&tracks);
        drawn.resize(900, 100);
        drawn.show();
        const double left = drawn.xOfStep(40), before = drawn.xOfStep(0);
        QVERIFY(left > before);
        m_cursor->setStepRange(std::pair(40.0, 60.0));
        QCOMPARE(drawn.xOfStep(40), before);
        drawn.fit();
        QVERIFY(!m_cursor->stepRange());
        QCOMPARE(drawn.xOfStep(40), left);
    }

    void whyATrackIsEmptyIsSaid() {
        QueryAnswer answer;
        answer.columns = {"step", "v"};
        answer.rows = {{SqlValue(), std::int64_t{1}}, {std::int64_t{2}, std::string("x")}, {std::int64_t{-1}, std::int64_t{1}}};
        QVERIFY(QueryTracks::trackOf(answer, "q", "v").problem.contains("No row"));
        QVERIFY(QueryTracks::trackOf(answer, "q", "w").problem.contains("“w”"));
        answer.columns = {"s", "v"};
        QVERIFY(QueryTracks::trackOf(answer, "q", "v").problem.contains("“step”"));
        answer.error = "The query was stopped.";
        QCOMPARE(QueryTracks::trackOf(answer, "q", "v").problem, answer.error);
        QueryTracks tracks;
        for (std::size_t i = 0; i < QueryTracks::most; ++i) QVERIFY(tracks.pin({"", "q", QString::number(i), {}, {}}));
        QVERIFY(!tracks.pin({"", "q", "one too many", {}, {}}));
        QVERIFY(tracks.pin({"", "q", "3", {}, {}}));  // replaces
        QCOMPARE(tracks.tracks().size(), QueryTracks::most);
    }

private:
    template <class T>
    static T* named(QWidget& view, const char* name) {
        for (T* each : view.findChildren<T*>())
            if (each->accessibleName() == QLatin1String(name)) return each;
        return nullptr;
    }
    static QAbstractButton* button(QWidget& view, const char* text) {
        for (auto* each : view.findChildren<QAbstractButton*>())
            if (each->text() == QLatin1String(text)) return each;
        return nullptr;
    }
    static bool ask(QueryView& view, const QString& sql) {
        view.setQuestion(sql);
        view.run();
        return QTest::qWaitFor([&view] { return !view.running(); }, 180000);
    }
    QString file() {
        const QString path = m_home.filePath("fixture.kvt");
        if (QFile::exists(path)) return path;
        KvtOptions options;
        options.path = path.toStdString();
        return write_kvt(m_recording, options) ? path : QString();
    }

    QTemporaryDir m_home;
    std::shared_ptr<const Recording> m_recording;
    std::unique_ptr<Cursor> m_cursor;
};

QTEST_MAIN(TestQuery)
#include "tst_query.moc"
