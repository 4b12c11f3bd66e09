// SPDX-License-Identifier: GPL-3.0-or-later
//
// The window as a time machine: scrubber, search, jumps, opened recordings, and recordings that it writes.
#include "engine/record/kvt_query.h"
#include "engine/record/kvt_reader.h"
#include "engine/record/kvt_writer.h"
#include "engine/record/last_minutes.h"
#include "gui/main_window.h"
#include "gui/recording_desk.h"
#include "gui/recording_dialogs.h"
#include "gui/search_bar.h"
#include "gui/time_machine.h"
#include "tests/gui/window_fixture.h"
#include "tests/views/sharing_fixture.h"
#include "views/query_view.h"
#include "views/step_scrubber.h"

#include <QAbstractButton>
#include <QComboBox>
#include <QDir>
#include <QDragEnterEvent>
#include <QDropEvent>
#include <QLabel>
#include <QLineEdit>
#include <QMimeData>
#include <QSpinBox>
#include <QTemporaryDir>

#include <csignal>
#include <sys/resource.h>

using namespace kvloupe;
using namespace kvloupe::test;

class TestTimeMachine : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void initTestCase() {
        QVERIFY(m_home.isValid());
        keepSettingsIn(m_home.path(), QStringLiteral("kvloupe-time-test"));
        m_fixture = m_home.filePath(QStringLiteral("fixture.kvt"));
        KvtOptions options;
        options.path = m_fixture.toStdString();
        QVERIFY(write_kvt(SharingFixture().record(), options));
    }

    void init() {
        QTest::failOnWarning(QRegularExpression(QStringLiteral("^(?!This plugin does not support)")));
        QSettings().clear();
    }

    void controlFFindsTheNextCopyOfARequest() {
        MainWindow& window = opened();
        Cursor* cursor = window.controller()->cursor();
        QTest::keyClick(&window, Qt::Key_Home);
        QCOMPARE(cursor->step(), 0);
        QTest::keyClick(&window, Qt::Key_F, Qt::ControlModifier);
        SearchBar* search = window.time()->search();
        QVERIFY(search->isVisible());
        search->findChild<QComboBox*>(QStringLiteral("searchKind"))->setCurrentText(QStringLiteral("copy-on-write"));
        search->findChild<QComboBox*>(QStringLiteral("searchRequest"))->setCurrentText(QStringLiteral("a"));
        auto* words = search->findChild<QLineEdit*>(QStringLiteral("searchWords"));
        QVERIFY(words->hasFocus());
        QTest::keyClick(words, Qt::Key_Return);
        QTRY_COMPARE_WITH_TIMEOUT(cursor->step(), 2, 60000);
        QVERIFY(cursor->locked().event);
        QVERIFY2(search->told().startsWith(QStringLiteral("Step 2: a copied")), qPrintable(search->told()));
        // Again: the only one, around the end, and that is said.
        QTest::keyClick(words, Qt::Key_F3);
        QTRY_VERIFY2_WITH_TIMEOUT(search->told().startsWith(QStringLiteral("From the beginning again.")), qPrintable(search->told()), 60000);
        QCOMPARE(cursor->step(), 2);
        QTest::keyClick(words, Qt::Key_F3, Qt::ShiftModifier);
        QTRY_VERIFY2_WITH_TIMEOUT(search->told().startsWith(QStringLiteral("From the end again.")), qPrintable(search->told()), 60000);
        // Elsewhere F3 is the tab.
        search->findChild<QComboBox*>(QStringLiteral("searchRequest"))->setCurrentText(QStringLiteral("b"));
        QTest::keyClick(words, Qt::Key_Return, Qt::ShiftModifier);
        QTRY_COMPARE_WITH_TIMEOUT(search->told(), QStringLiteral("No copy-on-write of request b in lane cached."), 60000);
        QTest::keyClick(words, Qt::Key_Escape);
        QVERIFY(!search->isVisible());
        // Ctrl+G goes on with the bar closed; what came of it is said above the views.
        QTest::keyClick(&window, Qt::Key_G, Qt::ControlModifier);
        QTRY_COMPARE_WITH_TIMEOUT(window.notice(), QStringLiteral("No copy-on-write of request b in lane cached."), 60000);
    }

    void searchGoesThroughWordsOfTheSentenceAndBlocks() {
        MainWindow& window = opened();
        Cursor* cursor = window.controller()->cursor();
        cursor->setStep(0);
        SearchBar* search = window.time()->search();
        search->open();
        search->findChild<QComboBox*>(QStringLiteral("searchKind"))->setCurrentIndex(0);  // what was sought before is kept
        search->findChild<QComboBox*>(QStringLiteral("searchRequest"))->setCurrentText({});
        search->findChild<QLineEdit*>(QStringLiteral("searchWords"))->setText(QStringLiteral("kind:evict"));
        search->find(true);
        QTRY_COMPARE_WITH_TIMEOUT(cursor->step(), 5, 60000);
        search->findChild<QLineEdit*>(QStringLiteral("searchWords"))->clear();
        search->findChild<QLineEdit*>(QStringLiteral("searchBlock"))->setText(QStringLiteral("7"));
        search->find(false);
        QTRY_COMPARE_WITH_TIMEOUT(cursor->step(), 3, 60000);  // c takes block 7
        search->findChild<QLineEdit*>(QStringLiteral("searchWords"))->setText(QStringLiteral("colour:red"));
        search->find(true);
        QVERIFY2(search->told().contains(QStringLiteral("“colour” is unknown")), qPrintable(search->told()));
    }

    void jumpsGoByTensAndFromMarkToMark() {
        MainWindow& window = opened();
        Cursor* cursor = window.controller()->cursor();
        QTest::keyClick(&window, Qt::Key_PageUp, Qt::ControlModifier);
        QCOMPARE(cursor->step(), 0);
        for (const int step : {2, 3, 5}) {
            QTest::keyClick(&window, Qt::Key_Right, Qt::ControlModifier);
            QCOMPARE(cursor->step(), step);
        }
        QTest::keyClick(&window, Qt::Key_Right, Qt::ControlModifier);
        QCOMPARE(cursor->step(), 5);
        QVERIFY2(window.notice().contains(QStringLiteral("after this step")), qPrintable(window.notice()));
        QTest::keyClick(&window, Qt::Key_Left, Qt::ControlModifier);
        QCOMPARE(cursor->step(), 3);
        QTest::keyClick(&window, Qt::Key_PageDown, Qt::ControlModifier);
        QCOMPARE(cursor->step(), 6);
    }

    void anOpenedRecordingSaysSoAndPlays() {
        MainWindow& window = opened();
        QVERIFY2(window.windowTitle().contains(QStringLiteral("recording fixture.kvt, not live")), qPrintable(window.windowTitle()));
        QVERIFY(window.desk()->statusText().startsWith(QStringLiteral("Recording file, ● ")));
        Cursor* cursor = window.controller()->cursor();
        QTest::keyClick(&window, Qt::Key_Home);
        QTest::keyClick(&window, Qt::Key_Right);
        QCOMPARE(cursor->step(), 1);
        QTest::keyClick(&window, Qt::Key_Left);
        QCOMPARE(cursor->step(), 0);
        QTest::keyClick(&window, Qt::Key_Space);
        QVERIFY(window.time()->playing());
        QTRY_VERIFY_WITH_TIMEOUT(cursor->step() >= 2, 60000);
        QTest::keyClick(&window, Qt::Key_Space);
        QVERIFY(!window.time()->playing());
        QTest::keyClick(&window, Qt::Key_Space);
        QTRY_VERIFY_WITH_TIMEOUT(!window.time()->playing(), 60000);  // at the end
        QCOMPARE(cursor->step(), cursor->stepCount() - 1);
        QTest::keyClick(&window, Qt::Key_Right);  // nothing steps
        QCOMPARE(cursor->stepCount(), 7);
    }

    void cleanupTestCase() { m_window.reset(); }

    void aDroppedRecordingOpensAndIsRemembered() {
        m_window.reset();  // the drop goes to the active window
        {
            MainWindow window;
            window.show();
            QMimeData data;
            data.setUrls({QUrl::fromLocalFile(m_fixture)});
            QDragEnterEvent enter({5, 5}, Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
            QCoreApplication::sendEvent(&window, &enter);
            QVERIFY(enter.isAccepted());
            QDropEvent drop({5, 5}, Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
            QSignalSpy changed(window.controller(), &SessionController::sessionChanged);
            QCoreApplication::sendEvent(&window, &drop);
            QVERIFY(changed.wait(60000));
            QVERIFY(window.controller()->hasFile());
            QVERIFY(window.time()->isVisible());
            window.close();
        }
        MainWindow window;
        window.show();
        QVERIFY(!window.time()->isVisible());  // nothing is open: nothing to scrub
        QStringList offered;
        for (const auto* each : window.findChildren<QAbstractButton*>()) offered << each->text();
        QVERIFY2(offered.contains(QStringLiteral("fixture.kvt")), qPrintable(offered.join('|')));
    }

    void aSessionIsWrittenWhileItRunsAndTheFileHoldsAllSteps() {
        const QString path = m_home.filePath(QStringLiteral("live.kvt"));
        MainWindow& window = shared();
        openBundled(window);
        Cursor* cursor = window.controller()->cursor();
        QTRY_COMPARE_WITH_TIMEOUT(cursor->stepCount(), 1, 60000);
        window.desk()->recordTo(path);
        QVERIFY(window.desk()->live()->running());
        window.controller()->step(4);
        QTRY_COMPARE_WITH_TIMEOUT(cursor->stepCount(), 5, 60000);
        QTRY_VERIFY_WITH_TIMEOUT(window.desk()->live()->progress().behind_events == 0, 60000);
        QVERIFY2(window.desk()->statusText().startsWith(QStringLiteral("Recording to live.kvt: ")),
                qPrintable(window.desk()->statusText()));
        window.desk()->live()->stop();
        QTRY_VERIFY2_WITH_TIMEOUT(window.notice().contains(QStringLiteral("live.kvt")), qPrintable(window.notice()), 60000);
        QVERIFY(!window.desk()->live()->running());
        const auto stored = open_kvt(path.toStdString());
        QVERIFY(stored && !stored->recovered);
        QCOMPARE(stored->recording->lane(LaneId(0)).step_count(), std::size_t{5});
        QVERIFY(check_kvt(path.toStdString()).empty());
        // Another session ends what is being written.
        window.desk()->recordTo(path);  // replaced, as the user was asked
        QVERIFY(window.desk()->live()->running());
        window.controller()->reset();
        QVERIFY(!window.desk()->live()->running());
        QTRY_VERIFY_WITH_TIMEOUT(!window.desk()->live()->closing(), 60000);
        QVERIFY(open_kvt(path.toStdString()));
    }

    void aFullDiskEndsTheFileNotTheSession() {
        const QString path = m_home.filePath(QStringLiteral("full.kvt"));
        MainWindow& window = shared();
        openBundled(window);
        Cursor* cursor = window.controller()->cursor();
        QTRY_COMPARE_WITH_TIMEOUT(cursor->stepCount(), 1, 60000);
        window.desk()->recordTo(path);
        QTRY_VERIFY_WITH_TIMEOUT(window.desk()->live()->progress().steps >= 4, 60000);
        rlimit before{};
        getrlimit(RLIMIT_FSIZE, &before);
        std::signal(SIGXFSZ, SIG_IGN);
        const rlimit full{4096, before.rlim_max};  // every write beyond it fails from now on
        setrlimit(RLIMIT_FSIZE, &full);
        window.controller()->step(3);
        const bool ended = QTest::qWaitFor([&] { return !window.desk()->live()->running() && !window.desk()->live()->closing(); }, 30000);
        setrlimit(RLIMIT_FSIZE, &before);
        QVERIFY(ended);
        QVERIFY2(window.notice().contains(QStringLiteral("the session goes on")), qPrintable(window.notice()));
        QTRY_COMPARE_WITH_TIMEOUT(cursor->stepCount(), 4, 60000);
        const auto stored = open_kvt(path.toStdString());
        QVERIFY2(stored, stored ? "" : stored.error().message().c_str());
        QVERIFY(stored->recording->lane(LaneId(0)).step_count() >= 1);
    }

    void aRangeOfStepsIsSaved() {
        MainWindow& window = opened();
        const QString path = m_home.filePath(QStringLiteral("part.kvt"));
        window.desk()->saveSteps(path, {2, 5});
        QTRY_VERIFY2_WITH_TIMEOUT(window.notice().contains(QStringLiteral("part.kvt")), qPrintable(window.notice()), 60000);
        const auto stored = open_kvt(path.toStdString());
        QVERIFY2(stored, stored ? "" : stored.error().message().c_str());
        QCOMPARE(stored->recording->lane(LaneId(0)).step_count(), std::size_t{3});
        window.desk()->saveSteps(m_fixture, {0, 2});
        QVERIFY2(window.notice().contains(QStringLiteral("is open")), qPrintable(window.notice()));
    }

    void theRangeDialogKeepsTheEndsInOrder() {
        StepRangeDialog dialog(100, 10, 20);
        auto* first = dialog.findChild<QSpinBox*>(QStringLiteral("first"));
        auto* last = dialog.findChild<QSpinBox*>(QStringLiteral("last"));
        first->setValue(50);
        QCOMPARE(last->value(), 50);
        last->setValue(3);
        QCOMPARE(last->value(), 50);
        QCOMPARE(dialog.steps().first, std::size_t{50});
        QCOMPARE(dialog.steps().end, std::size_t{51});
    }

    void theFlightRecorderSavesTheLastMinutesAtABreakpoint() {
        const QString folder = m_home.filePath(QStringLiteral("flight"));
        MainWindow& window = shared();
        openBundled(window);
        Cursor* cursor = window.controller()->cursor();
        QTRY_COMPARE_WITH_TIMEOUT(cursor->stepCount(), 1, 60000);
        QTRY_COMPARE_WITH_TIMEOUT(window.controller()->phase(), Phase::paused, 60000);
        QVERIFY(QDir(folder).entryList(QDir::Files).isEmpty());
        window.desk()->flight()->setSettings({5, folder});
        Breakpoint breakpoint;
        breakpoint.on = EventKind::decode;
        window.controller()->session()->set_breakpoints({breakpoint});
        window.controller()->run();
        QTRY_VERIFY2_WITH_TIMEOUT(window.notice().startsWith(QStringLiteral("Flight recorder: ")), qPrintable(window.notice()), 60000);
        const QStringList files = QDir(folder).entryList({QStringLiteral("*.kvt")}, QDir::Files);
        QCOMPARE(files.size(), 1);
        const auto stored = open_kvt(QDir(folder).filePath(files.first()).toStdString());
        QVERIFY2(stored, stored ? "" : stored.error().message().c_str());
        QCOMPARE(int(stored->recording->lane(LaneId(0)).step_count()), cursor->stepCount());  // all of it is younger than 5 minutes
        window.desk()->flight()->look(window.controller()->recording(), {});  // the same pause is not saved twice
        QVERIFY(!window.desk()->flight()->saving());
        QCOMPARE(FlightRecorder().settings(), (FlightSettings{5, folder}));
    }

    void theLastMinutesBeginWithTheFirstStepThatIsYoungEnough() {
        RecordingWriter writer("minutes", 1u << 20);
        LaneInfo info;
        info.name = "one";
        LaneWriter& lane = writer.add_lane(info, std::make_shared<VocabularyText>());
        writer.lanes_complete();
        QCOMPARE(first_step_of_last_minutes(*writer.recording(), 1), std::size_t{0});
        for (std::uint64_t second = 0; second < 300; second += 10) {  // 30 steps, each of a second
            writer.set_time(second * 1'000'000'000u);
            lane.begin_step();
            writer.set_time((second + 1) * 1'000'000'000u);
            lane.end_step({});
        }
        // The last step ends at 291 s.
        QCOMPARE(first_step_of_last_minutes(*writer.recording(), 1), std::size_t{24});
        QCOMPARE(first_step_of_last_minutes(*writer.recording(), 4), std::size_t{6});
        QCOMPARE(first_step_of_last_minutes(*writer.recording(), 60), std::size_t{0});
        QCOMPARE(FlightRecorder::fileName(QStringLiteral("a/b: c"), 7, QStringLiteral("now")), QStringLiteral("a-b- c, step 7, now.kvt"));
    }

    void thePanelAsksTheOpenedFile() {
        MainWindow& window = opened();
        QVERIFY(window.showView(QStringLiteral("query")));
        QueryView* query = nullptr;
        for (View* each : window.views())
            if (auto* found = qobject_cast<QueryView*>(each)) query = found;
        QVERIFY(query);
        query->setQuestion(QStringLiteral("SELECT step, used_blocks FROM steps"));
        query->run();
        QTRY_VERIFY_WITH_TIMEOUT(!query->running(), 60000);
        QCOMPARE(query->model().rowCount(), 7);
        QVERIFY(query->told().contains(QStringLiteral("by the file itself")));
        query->pinTrack();
        QTRY_VERIFY_WITH_TIMEOUT(!query->running(), 60000);
        bool shown = false;
        for (const View* each : window.views()) shown = shown || (each->id() == QLatin1String("tracks") && each->isVisible());
        QVERIFY(shown);
    }

private:
    // Making a window costs more than most of what is tested here, so the tests share one.
    MainWindow& shared() {
        if (!m_window) {
            m_window = std::make_unique<MainWindow>();
            m_window->show();
        }
        m_window->controller()->close();
        if (!QTest::qWaitForWindowActive(m_window.get())) throw std::runtime_error("the window is not active");
        return *m_window;
    }
    MainWindow& opened() {
        MainWindow& window = shared();
        QSignalSpy changed(window.controller(), &SessionController::sessionChanged);
        window.controller()->openPath(m_fixture);
        if (!changed.wait(60000) || !window.controller()->hasFile()) throw std::runtime_error(window.notice().toStdString());
        return window;
    }

    QTemporaryDir m_home;
    QString m_fixture;
    std::unique_ptr<MainWindow> m_window;
};

QTEST_MAIN(TestTimeMachine)
#include "tst_time_machine.moc"
