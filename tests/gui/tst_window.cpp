// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/main_window.h"
#include "tests/gui/window_fixture.h"
#include "gui/tab_page.h"
#include "views/view.h"

#include <QAbstractButton>
#include <QAction>
#include <QApplication>
#include <QDockWidget>
#include <QDragEnterEvent>
#include <QDropEvent>
#include <QFile>
#include <QLabel>
#include <QMenu>
#include <QMimeData>
#include <QScreen>
#include <QSettings>
#include <QSignalSpy>
#include <QStandardPaths>
#include <QStyle>
#include <QTemporaryDir>
#include <QTest>

#include <algorithm>
#include <stdexcept>

using namespace kvloupe;
using namespace kvloupe::test;

class TestWindow : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void initTestCase() {
        QVERIFY(m_home.isValid());
        keepSettingsIn(m_home.path(), QStringLiteral("kvloupe-test"));
    }

    void init() {
        startAfresh();
    }

    void anEmptyWindowOffersSampleScenarios() {
        MainWindow window;
        window.show();
        QVERIFY(QTest::qWaitForWindowExposed(&window));
        QVERIFY(!window.controller()->hasSession());
        QVERIFY(window.findChildren<QAbstractButton*>().size() >= 8);
    }

    void theBundledFamilyHasFourLanesAndItsFirstStep() {
        MainWindow window;
        window.show();
        openBundled(window);
        const Cursor* cursor = window.controller()->cursor();
        QCOMPARE(static_cast<int>(cursor->recording()->lanes().size()), 4);
        QTRY_COMPARE_WITH_TIMEOUT(cursor->step(), 0, 60000);
        QTRY_COMPARE_WITH_TIMEOUT(window.controller()->phase(), Phase::paused, 60000);
        QStringList variants;
        for (const auto& lane : cursor->recording()->lanes())
            variants << QString::fromStdString(lane->info().attention_variant);
        QCOMPARE(variants, (QStringList{"MHA", "GQA", "MQA", "GQA"}));
    }

    void rightStepsLeftGoesBackHomeAndEndGoToTheEnds() {
        MainWindow window;
        window.show();
        QVERIFY(QTest::qWaitForWindowActive(&window));
        openBundled(window);
        Cursor* cursor = window.controller()->cursor();
        QTRY_COMPARE_WITH_TIMEOUT(cursor->step(), 0, 60000);
        for (int step = 1; step <= 3; ++step) {
            QTRY_VERIFY_WITH_TIMEOUT(stepAction(window)->isEnabled(), 30000);
            QTest::keyClick(&window, Qt::Key_Right);
            QTRY_COMPARE_WITH_TIMEOUT(cursor->step(), step, 30000);
        }
        QTRY_VERIFY_WITH_TIMEOUT(stepAction(window)->isEnabled(), 30000);
        QTest::keyClick(&window, Qt::Key_Left);
        QCOMPARE(cursor->step(), 2);
        QCOMPARE(cursor->stepCount(), 4);
        QTest::keyClick(&window, Qt::Key_Right);  // forward in what is recorded: no new step
        QCOMPARE(cursor->step(), 3);
        QTest::qWait(60);
        QCOMPARE(cursor->stepCount(), 4);
        QTest::keyClick(&window, Qt::Key_Home);
        QCOMPARE(cursor->step(), 0);
        QTest::keyClick(&window, Qt::Key_End);
        QCOMPARE(cursor->step(), 3);
    }

    void spaceRunsAndPauses() {
        MainWindow window;
        window.show();
        QVERIFY(QTest::qWaitForWindowActive(&window));
        openBundled(window);
        Cursor* cursor = window.controller()->cursor();
        QTRY_COMPARE_WITH_TIMEOUT(cursor->step(), 0, 60000);
        QTRY_VERIFY_WITH_TIMEOUT(stepAction(window)->isEnabled(), 30000);
        QTest::keyClick(&window, Qt::Key_Space);
        QTRY_VERIFY_WITH_TIMEOUT(cursor->stepCount() > 8, 60000);
        if (window.controller()->phase() == Phase::running) QTest::keyClick(&window, Qt::Key_Space);
        QTRY_VERIFY_WITH_TIMEOUT(window.controller()->phase() != Phase::running, 30000);
        QTest::qWait(300);
        const int steps = cursor->stepCount();
        QTest::qWait(100);
        QCOMPARE(cursor->stepCount(), steps);
    }

    void whatCannotBeOpenedLeavesTheSessionAsItWas_data() {
        QTest::addColumn<QString>("name");
        QTest::addColumn<QByteArray>("content");
        QTest::addColumn<QString>("named");
        QTest::newRow("no GGUF") << "a.gguf" << QByteArray("hello") << "a.gguf";
        QTest::newRow("typo in a scenario") << "s.json" << QByteArray(R"({"version":1,"requets":[]})") << "requets";
        QTest::newRow("model of a scenario is absent")
            << "s.json" << QByteArray(R"({"version":1,"model":"/nowhere/m.gguf","requests":[{"id":"a","prompt":"x"}]})")
            << "/nowhere/m.gguf";
        QTest::newRow("no recording") << "r.kvt" << QByteArray("x") << "is not a recording";
    }

    void whatCannotBeOpenedLeavesTheSessionAsItWas() {
        QFETCH(QString, name);
        QFETCH(QByteArray, content);
        QFETCH(QString, named);
        QTemporaryDir folder;
        QFile file(folder.filePath(name));
        QVERIFY(file.open(QIODevice::WriteOnly));
        file.write(content);
        file.close();

        MainWindow window;
        window.show();
        openBundled(window);
        QTRY_COMPARE_WITH_TIMEOUT(window.controller()->cursor()->step(), 0, 60000);
        const auto before = window.controller()->cursor()->sharedRecording();
        window.controller()->openPath(file.fileName());
        QTRY_VERIFY_WITH_TIMEOUT(!window.notice().isEmpty(), 60000);
        QVERIFY2(window.notice().contains(named), qPrintable(window.notice()));
        QVERIFY(window.controller()->hasSession());
        QCOMPARE(window.controller()->cursor()->sharedRecording(), before);
    }

    void aDroppedScenarioOpens() {
        MainWindow window;
        window.show();
        QMimeData data;
        data.setUrls({QUrl::fromLocalFile(QStringLiteral(KVLOUPE_SOURCE_DIR "/resources/scenarios/block-size.json"))});
        QDragEnterEvent enter({10, 10}, Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
        QApplication::sendEvent(&window, &enter);
        QVERIFY(enter.isAccepted());
        QDropEvent drop({10, 10}, Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
        QApplication::sendEvent(&window, &drop);
        QTRY_VERIFY_WITH_TIMEOUT(window.controller()->hasSession(), 60000);
        QCOMPARE(static_cast<int>(window.controller()->cursor()->recording()->lanes().size()), 3);
    }

    void cancelledLoadingLeavesAnEmptyWindow() {
        MainWindow window;
        window.show();
        window.controller()->openBundled();
        window.controller()->cancelLoading();
        QTest::qWait(300);
        QVERIFY(!window.controller()->hasSession());
        QVERIFY(!window.controller()->isLoading());
    }

    void everyTabHasDocksAndTheLayoutCanBeReset() {
        MainWindow window;
        window.show();
        openBundled(window);
        for (int tab = 0; tab < 4; ++tab) {
            window.showTab(tab);
            TabPage* page = window.page(tab);
            QVERIFY(!page->docks().isEmpty());
            page->docks().first()->close();
            QVERIFY(page->docks().first()->isHidden());
            page->resetLayout();
            // What a block holds, and what is asked in SQL, is there when somebody opens it.
            QStringList behindTheMenu;
            for (const char* id : {"window", "cache-values", "latent", "query", "tracks"}) behindTheMenu << QStringLiteral("Memory/") + QLatin1String(id);
            for (QDockWidget* dock : page->docks()) QCOMPARE(dock->isHidden(), behindTheMenu.contains(dock->objectName()));
        }
    }

    void theLayoutComesBack() {
        {
            MainWindow window;
            window.show();
            window.showTab(1);
            window.setFontScale(1.25);
            window.page(1)->docks().last()->close();
            window.close();
        }
        MainWindow window;
        window.show();
        openBundled(window);
        QVERIFY(window.page(1)->docks().last()->isHidden());
        QCOMPARE(window.controller()->cursor()->fontScale(), 1.25);
    }

    // Docks of a tab that was not in view have no sizes: saved, they would stand for the user's.
    void aLayoutThatNobodyChangedIsNotSaved() {
        {
            MainWindow window;
            QVERIFY(window.width() <= window.screen()->availableSize().width());
            QVERIFY(window.height() <= window.screen()->availableSize().height());
            window.show();
            openBundled(window);
            window.showTab(1);
            window.showTab(0);
            window.controller()->close();
            window.close();
        }
        for (const char* tab : {"Step", "Compare", "Memory", "Profile"})
            QVERIFY2(!QSettings().contains(QStringLiteral("layout/") + QLatin1String(tab)), tab);
    }

    void aMovedSeparatorIsSavedAndAClickIsNot() {
        MainWindow window;
        window.resize(1600, 1000);
        window.show();
        openBundled(window);
        TabPage* page = window.page(0);
        QTest::qWait(50);
        QTest::mouseClick(page->docks().last()->widget(), Qt::LeftButton);
        QVERIFY(page->layoutToSave().isEmpty());
        const QRect left = page->docks().first()->geometry();  // lanes, left of a separator
        const QPoint at(left.right() + 2, left.center().y());
        QVERIFY(!page->childAt(at));
        QTest::mousePress(page, Qt::LeftButton, {}, at);
        QTest::mouseMove(page, at + QPoint(60, 0));
        QTest::mouseRelease(page, Qt::LeftButton, {}, at + QPoint(60, 0));
        QVERIFY(!page->layoutToSave().isEmpty());
    }

    // Closed by the user while in view, kept although another tab is in view at the end and in a start of its own.
    void aLayoutOfATabOutOfViewIsKept() {
        QByteArray saved;
        for (int start = 0; start < 2; ++start) {
            MainWindow window;
            window.show();
            openBundled(window);
            if (start == 0) {
                window.showTab(2);
                window.page(2)->docks().last()->close();
            }
            window.showTab(1);
            window.close();
            const QByteArray now = QSettings().value(QStringLiteral("layout/Memory")).toByteArray();
            QVERIFY(!now.isEmpty());
            if (start == 0) saved = now;
            QCOMPARE(now, saved);
        }
    }

    void theUncachedLaneStopsAtItsLimitAndCanBeContinued() {
        MainWindow window;
        window.show();
        openBundled(window);
        window.controller()->run();
        QTRY_VERIFY_WITH_TIMEOUT(!window.controller()->laneAtLimit().isEmpty(), 60000);
        QTRY_VERIFY_WITH_TIMEOUT(window.notice().contains(QLatin1String("GQA uncached")), 60000);
        const auto& uncached = *window.controller()->cursor()->recording()->lanes().back();
        const std::size_t stopped = uncached.step_count();
        window.controller()->continueUncached();
        window.controller()->run();
        QTRY_VERIFY_WITH_TIMEOUT(uncached.step_count() > stopped, 60000);
        QTRY_VERIFY_WITH_TIMEOUT(window.notice().isEmpty(), 60000);
    }

    void choicesOfViewsAreSaved() {
        {
            MainWindow window;
            window.show();
            viewOf(window, QStringLiteral("pool"))->choose(QStringLiteral("colour"), 2);
            viewOf(window, QStringLiteral("requests"))->choose(QStringLiteral("order"), 1);
            window.close();
        }
        MainWindow window;
        QCOMPARE(viewOf(window, QStringLiteral("pool"))->choices().front().current, 2);
        QCOMPARE(viewOf(window, QStringLiteral("requests"))->choices().front().current, 1);
        QCOMPARE(viewOf(window, QStringLiteral("tokens"))->choices().front().current, 0);
    }

    void theContextMenuOffersWhatCanBeDone() {
        MainWindow window;
        window.show();
        openBundled(window);
        const Cursor* cursor = window.controller()->cursor();
        QTRY_COMPARE_WITH_TIMEOUT(cursor->step(), 0, 60000);
        QTRY_COMPARE_WITH_TIMEOUT(window.controller()->phase(), Phase::paused, 60000);
        Pick pick;
        pick.lane = LaneId(0);
        pick.sequence = SequenceId(0);
        pick.position = 17;
        pick.block = cursor->state()->sequences()[0].table[1];
        QMenu menu;
        window.fillViewMenu(&menu, viewOf(window, QStringLiteral("pool")), pick);
        const auto offered = [&menu](const QString& text) {
            for (QAction* action : menu.actions())
                if (action->text().startsWith(text)) return action->isEnabled() ? 1 : 0;
            return -1;
        };
        QCOMPARE(offered(QStringLiteral("Colour by")), 1);
        QCOMPARE(offered(QStringLiteral("Fork a at position 17")), 1);
        QCOMPARE(offered(QStringLiteral("Preempt a")), 1);
        QVERIFY(offered(QStringLiteral("Evict block")) >= 0);
        QVERIFY(offered(QStringLiteral("Reset the prefix cache")) >= 0);
        QCOMPARE(offered(QStringLiteral("Breakpoint on block")), 1);
        QCOMPARE(offered(QStringLiteral("Breakpoint on request a")), 1);
    }

    void aForkSharesBlocksInTheNextStep() {
        MainWindow window;
        window.show();
        openBundled(window);
        const Cursor* cursor = window.controller()->cursor();
        QTRY_COMPARE_WITH_TIMEOUT(cursor->step(), 0, 60000);
        QTRY_COMPARE_WITH_TIMEOUT(window.controller()->phase(), Phase::paused, 60000);
        ForkChoice choice;
        choice.parent = "a";
        choice.name = "c";
        QCOMPARE(window.controller()->act(SessionController::fork(choice)), QString());
        QTRY_COMPARE_WITH_TIMEOUT(cursor->step(), 1, 60000);
        const auto& blocks = cursor->state()->blocks();
        QVERIFY(std::any_of(blocks.begin(), blocks.end(), [](const BlockState& block) { return block.owners == 2; }));
        choice.parent = "nobody";
        choice.name = "e";
        const QString refused = window.controller()->act(SessionController::fork(choice));
        QVERIFY2(refused.contains(QStringLiteral("nobody")), qPrintable(refused));
    }

    void tipsComeAfter150Milliseconds() {
        MainWindow window;
        QCOMPARE(QApplication::style()->styleHint(QStyle::SH_ToolTip_WakeUpDelay), 150);
    }

    void breakingAwayMidRunIsSafe() {
        MainWindow window;
        window.show();
        openBundled(window);
        window.controller()->run();
        QTest::qWait(50);
        openBundled(window);
        window.controller()->run();
        QTest::qWait(30);
        window.controller()->close();
        QVERIFY(!window.controller()->hasSession());
    }

    void everyPauseLocksTheEventItStoppedAt() {
        MainWindow window;
        window.show();
        Cursor* cursor = window.controller()->cursor();
        window.controller()->openPath(QStringLiteral(KVLOUPE_SOURCE_DIR "/resources/scenarios/faults/preemption-storm.json"));
        int before = -1;
        for (int pause = 0; pause < 3; ++pause) {
            if (pause > 0) window.controller()->run();  // two steps: over before the clock sees it running
            QTRY_VERIFY_WITH_TIMEOUT(window.controller()->hasSession() && cursor->step() > before &&
                                         window.controller()->phase() == Phase::paused && cursor->locked().event,
                                     60000);
            const auto focus = cursor->recording()->pause_focus();
            QVERIFY(focus && focus->event);
            QTRY_COMPARE_WITH_TIMEOUT(*cursor->locked().event, *focus->event, 10000);
            before = cursor->step();
        }
    }

private:
    // The window's own Step, by its key (a tab has the same name).
    static QAction* stepAction(const MainWindow& window) {
        for (QAction* action : window.actions())
            if (action->shortcut() == QKeySequence(Qt::Key_Right)) return action;
        return nullptr;
    }

    static View* viewOf(const MainWindow& window, const QString& id) {
        for (View* view : window.views())
            if (view->id() == id) return view;
        throw std::runtime_error("there is no view " + id.toStdString());
    }

    QTemporaryDir m_home;
};

QTEST_MAIN(TestWindow)
#include "tst_window.moc"
