// SPDX-License-Identifier: GPL-3.0-or-later
//
// What stands around the views: status bar, notices, toolbar, and the window's own size.
#include "gui/main_window.h"
#include "tests/gui/window_fixture.h"

#include <QAbstractButton>
#include <QApplication>
#include <QLabel>
#include <QScreen>
#include <QScrollBar>
#include <QSettings>
#include <QSignalSpy>
#include <QStandardPaths>
#include <QStatusBar>
#include <QTableView>
#include <QTemporaryDir>
#include <QTest>
#include <QToolBar>
#include <QToolButton>

#include <stdexcept>

using namespace kvloupe;
using namespace kvloupe::test;

class TestWindowFrame : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void initTestCase() {
        QVERIFY(m_home.isValid());
        keepSettingsIn(m_home.path(), QStringLiteral("kvloupe-test-frame"));
    }

    void init() {
        startAfresh();
    }

    void theStatusBarSaysWhatIsInFocus() {
        MainWindow window;
        window.show();
        openBundled(window);
        Cursor* cursor = window.controller()->cursor();
        QTRY_COMPARE_WITH_TIMEOUT(cursor->step(), 0, 60000);
        const auto shown = [&window](const QString& start) {
            for (const QLabel* label : window.statusBar()->findChildren<QLabel*>())
                if (label->text().startsWith(start)) return true;
            return false;
        };
        for (std::uint32_t lane = 0; lane < 4; ++lane) {
            cursor->setLane(LaneId(lane));
            const LaneInfo& info = cursor->recording()->lane(LaneId(lane)).info();
            QVERIFY(shown((info.kv_heads == 1 ? QStringLiteral("%1 · %2 layers · %3 query heads / %4 KV head")
                                              : QStringLiteral("%1 · %2 layers · %3 query / %4 KV heads"))
                              .arg(QString::fromStdString(info.model_name)).arg(info.layers).arg(info.query_heads).arg(info.kv_heads)));
        }
    }

    void noTwoActionsHaveOneShortcut() {
        MainWindow window;
        QMap<QString, QString> taken;
        int shortcuts = 0;
        for (const QAction* action : window.findChildren<QAction*>())
            for (const QKeySequence& keys : action->shortcuts()) {
                const QString text = keys.toString();
                QVERIFY2(!taken.contains(text), qPrintable(text + QStringLiteral(": ") + taken[text] + QStringLiteral(" and ") + action->text()));
                taken[text] = action->text();
                ++shortcuts;
            }
        QVERIFY(shortcuts > 30);
    }

    void oneClickOpensSixLanesThatStepTogetherToTheEnd() {
        MainWindow window;
        window.resize(1366, 768);
        window.show();
        QAbstractButton* sample = nullptr;
        for (auto* button : window.findChildren<QAbstractButton*>())
            if (button->text() == QStringLiteral("Six lanes over one prompt")) sample = button;
        QVERIFY(sample);
        QSignalSpy changed(window.controller(), &SessionController::sessionChanged);
        sample->click();
        QVERIFY(changed.wait(60000));
        QTRY_COMPARE_WITH_TIMEOUT(window.controller()->phase(), Phase::paused, 60000);
        window.showTab(1);
        window.controller()->run();
        QTRY_COMPARE_WITH_TIMEOUT(window.controller()->phase(), Phase::finished, 120000);
        const Recording& recording = *window.controller()->cursor()->recording();
        QCOMPARE(recording.lanes().size(), std::size_t{6});
        // None of them stops before the others: the lane without a cache stays within the limit of such lanes.
        for (const auto& lane : recording.lanes()) QCOMPARE(lane->step_count(), recording.lanes().front()->step_count());
        for (auto* table : window.findChildren<QTableView*>())
            if (table->accessibleName() == QStringLiteral("Comparison")) {
                QCOMPARE(table->model()->rowCount(), 6);
                QCOMPARE(table->verticalScrollBar()->maximum(), 0);
            }
    }

    void aScenarioWithoutRequestsAsksForOne() {
        MainWindow window;
        window.show();
        Scenario scenario = SessionController::bundledScenario();
        scenario.requests.clear();
        QSignalSpy changed(window.controller(), &SessionController::sessionChanged);
        window.controller()->openScenario(scenario);
        QVERIFY(changed.wait(60000));
        QVERIFY2(window.notice().contains(QStringLiteral("The scenario has no requests: add one (Ctrl+A)")), qPrintable(window.notice()));
    }

    void theTabsFitTheToolBar_data() {
        QTest::addColumn<int>("width");
        QTest::addColumn<double>("scale");
        QTest::newRow("wide") << 1600 << 1.0;
        QTest::newRow("a laptop") << 1366 << 1.0;
        QTest::newRow("a projector") << 1366 << 1.5;
    }
    void theTabsFitTheToolBar() {
        QFETCH(int, width);
        QFETCH(double, scale);
        MainWindow window;
        window.show();
        openBundled(window);
        window.setFontScale(scale);
        window.resize(width, 700);
        QTest::qWait(100);
        QCOMPARE(window.width(), width);
        const auto* bar = window.findChild<QToolBar*>(QStringLiteral("session"));
        int tabs = 0;
        for (const QToolButton* button : bar->findChildren<QToolButton*>())
            if (button->isVisible() && button->text().startsWith(QStringLiteral("Profile"))) {
                ++tabs;
                QVERIFY(button->geometry().right() <= bar->width() && button->width() >= button->sizeHint().width());
            }
        QCOMPARE(tabs, 1);
        // A text that the first step has just changed is laid out with the next events.
        const auto clipped = [&window] {
            for (const QLabel* label : window.statusBar()->findChildren<QLabel*>())
                if (label->isVisible() && !label->text().contains(QStringLiteral(" layers")) && label->width() < label->sizeHint().width())
                    return label->text();
            return QString();
        };
        QTRY_COMPARE_WITH_TIMEOUT(clipped(), QString(), 60000);
    }

    void aWindowComesBackWithinTheScreen() {
        {
            MainWindow window;
            const QSize room = window.screen()->availableSize();
            window.setGeometry(-300, -200, 2 * room.width(), 2 * room.height());
            window.show();
            window.close();
        }
        MainWindow window;
        const QRect room = window.screen()->availableGeometry();
        QVERIFY(window.width() <= room.width() && window.height() <= room.height());
        window.show();
        QVERIFY(room.contains(window.geometry().topLeft()));
        // What its views need at the least may be more than a very small screen has.
        const QSize most = room.size().expandedTo(window.minimumSizeHint());
        QVERIFY2(window.width() <= most.width() && window.height() <= most.height(),
                 qPrintable(QStringLiteral("%1 x %2").arg(window.width()).arg(window.height())));
    }

private:
    QTemporaryDir m_home;
};

QTEST_MAIN(TestWindowFrame)
#include "tst_window_frame.moc"
