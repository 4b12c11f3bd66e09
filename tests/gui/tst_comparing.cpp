// SPDX-License-Identifier: GPL-3.0-or-later
//
// Two recordings side by side in the window: opening the second one, lanes, alignment, where they part, and what cannot be opened.
#include "engine/record/kvt_writer.h"
#include "gui/comparing.h"
#include "gui/main_window.h"
#include "gui/tab_page.h"
#include "tests/gui/window_fixture.h"
#include "tests/support/demo_sharing.h"
#include "views/difference_view.h"
#include "views/pool_view.h"
#include "views/reference.h"

#include <QAction>
#include <QComboBox>
#include <QDockWidget>
#include <QFile>
#include <QLabel>
#include <QMenu>
#include <QMenuBar>
#include <QTemporaryDir>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

QAction* actionOf(const QWidget* menu, const QString& text) {
    for (QAction* action : menu->actions())
        if (QString(action->text()).remove(QLatin1Char('&')) == text) return action;
    return nullptr;
}

}  // namespace

class TestComparing : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void initTestCase() {
        QVERIFY(m_home.isValid());
        keepSettingsIn(m_home.path(), QStringLiteral("kvloupe-test-comparing"));
        DemoSharingOptions options;
        options.steps = 120;
        options.lanes = {"paged", "static"};
        save(options, first());
        options.blocks = 60;
        save(options, second());
        options.lanes = {"radix"};
        save(options, path("radix"));
        QFile damaged(path("damaged"));
        QVERIFY(damaged.open(QIODevice::WriteOnly));
        damaged.write("SQLite format 3 and nothing of it");
    }
    void init() { startAfresh(); }
    void cleanupTestCase() { m_window.reset(); }

    void aSecondRecordingStandsBesideTheFirst() {
        MainWindow& window = opened();
        QVERIFY(!window.comparing()->bar()->isVisible());
        compare(window, second());
        Cursor* cursor = window.controller()->cursor();
        const Reference* reference = cursor->reference();
        QCOMPARE(reference->name(), QStringLiteral("second.kvt"));
        QCOMPARE(QString::fromStdString(reference->laneRecord().info().name), QStringLiteral("paged"));
        QVERIFY(window.comparing()->bar()->isVisible());
        cursor->setStep(40);
        QCOMPARE(reference->step(), 40);
        QCOMPARE(window.comparing()->sentence(), QStringLiteral("Lane paged, step 40, compared with lane paged of second.kvt, step 40"));
        // The lane of the same name goes with the lane in focus.
        cursor->setLane(LaneId(1));
        QCOMPARE(QString::fromStdString(cursor->reference()->laneRecord().info().name), QStringLiteral("static"));
        cursor->setLane(LaneId(0));
        for (View* view : window.views())
            if (auto* pool = qobject_cast<PoolView*>(view)) {
                pool->catchUp();
                QVERIFY(!pool->difference().blocks.empty());
            }
        window.comparing()->stop();
        QVERIFY(!cursor->reference());
        QVERIFY(!window.comparing()->bar()->isVisible());
    }

    void whatCannotBeOpenedLeavesEverythingAsItWas_data() {
        QTest::addColumn<QString>("name");
        QTest::newRow("no file") << QStringLiteral("absent");
        QTest::newRow("damaged") << QStringLiteral("damaged");
    }
    void whatCannotBeOpenedLeavesEverythingAsItWas() {
        QFETCH(QString, name);
        MainWindow& window = opened();
        compare(window, second());
        Cursor* cursor = window.controller()->cursor();
        cursor->setStep(33);
        const auto shown = cursor->sharedRecording(), other = cursor->reference()->recording();
        QSignalSpy told(window.comparing(), &Comparing::told);
        window.comparing()->open(path(name));
        QTRY_COMPARE_WITH_TIMEOUT(told.count(), 1, 60000);
        QVERIFY2(window.notice().contains(name), qPrintable(window.notice()));
        QCOMPARE(cursor->sharedRecording(), shown);
        QCOMPARE(cursor->step(), 33);
        QVERIFY(cursor->reference());
        QCOMPARE(cursor->reference()->recording(), other);
        QCOMPARE(cursor->reference()->name(), QStringLiteral("second.kvt"));
    }

    void theRecordingThatWasAskedForLastIsCompared() {
        MainWindow& window = opened();
        window.comparing()->open(second());
        window.comparing()->open(path("radix"));
        QTRY_VERIFY_WITH_TIMEOUT(window.controller()->cursor()->reference(), 60000);
        QTRY_VERIFY_WITH_TIMEOUT(!window.comparing()->isOpening(), 60000);
        QCOMPARE(window.controller()->cursor()->reference()->name(), QStringLiteral("radix.kvt"));
    }

    void lanesOfOneRecordingAreComparedAndChangePlaces() {
        MainWindow& window = opened();
        Cursor* cursor = window.controller()->cursor();
        QMenu* lanes = actionOf(window.comparing()->menu(), QStringLiteral("With lane"))->menu();
        Q_EMIT lanes->aboutToShow();
        QVERIFY(!actionOf(lanes, QStringLiteral("paged")));  // it is in focus
        QAction* other = actionOf(lanes, QStringLiteral("static"));
        QVERIFY(other);
        other->trigger();
        QVERIFY(cursor->reference());
        QCOMPARE(cursor->reference()->recording(), cursor->sharedRecording());
        QCOMPARE(cursor->reference()->lane(), LaneId(1));
        cursor->setLane(LaneId(1));
        QCOMPARE(cursor->reference()->lane(), LaneId(0));
        QVERIFY(!cursor->reference()->isSameLane());
    }

    void theAlignmentIsChosenInTheBar() {
        MainWindow& window = opened();
        compare(window, second());
        Cursor* cursor = window.controller()->cursor();
        auto* box = window.comparing()->bar()->findChild<QComboBox*>();
        QVERIFY(box);
        box->setCurrentIndex(1);
        Q_EMIT box->activated(1);
        QCOMPARE(cursor->reference()->alignment(), Alignment::token);
        // It stays for what is compared next.
        window.comparing()->compareWithLane(LaneId(1));
        QCOMPARE(cursor->reference()->alignment(), Alignment::token);
    }

    void theMenuGoesToWhereTheyPart() {
        MainWindow& window = opened();
        compare(window, second());
        Cursor* cursor = window.controller()->cursor();
        const auto diff = diff_lanes(*cursor->recording(), LaneId(0), *cursor->reference()->recording(), LaneId(0));
        std::size_t expected = 0;
        for (const Parting& parting : diff.first)
            if (parting.kind == Parting::table) expected = parting.step_a;
        QVERIFY(expected > 0);
        QMenu* go = actionOf(window.menuBar(), QStringLiteral("Go"))->menu();
        QVERIFY(go && go->actions().contains(window.comparing()->firstMenu()->menuAction()));
        actionOf(window.comparing()->firstMenu(), QStringLiteral("In the block tables"))->trigger();
        QTRY_COMPARE_WITH_TIMEOUT(cursor->step(), static_cast<int>(expected), 60000);
        QCOMPARE(cursor->reference()->step(), static_cast<int>(expected));
        QVERIFY(cursor->locked().sequence);
        actionOf(window.comparing()->firstMenu(), QStringLiteral("In the logits"))->trigger();
        QCOMPARE(window.notice(), QStringLiteral("There is no first other logit."));
    }

    void differencesInTheViewsAreSwitchedTogether() {
        MainWindow& window = opened();
        compare(window, second());
        QAction* shown = actionOf(window.comparing()->menu(), QStringLiteral("Differences in the views"));
        QVERIFY(shown && shown->isChecked());
        const auto choosing = [&] {
            int on = 0;
            for (const View* view : window.views())
                for (const ViewChoice& choice : view->choices()) on += choice.key == QLatin1String(difference_key) && choice.current == 1;
            return on;
        };
        QCOMPARE(choosing(), 4);
        shown->trigger();
        QCOMPARE(choosing(), 0);
        shown->trigger();
        QCOMPARE(choosing(), 4);
    }

    void theTableIsShownFromTheBar() {
        MainWindow& window = opened();
        compare(window, second());
        Q_EMIT window.comparing()->differencesWanted();
        DifferenceView* table = nullptr;
        for (View* view : window.views())
            if (auto* found = qobject_cast<DifferenceView*>(view)) table = found;
        QVERIFY(table && table->isVisible());
        table->settle();
        QVERIFY(table->model()->rowCount() > 10);
    }

    void anotherSessionEndsIt() {
        MainWindow& window = opened();
        compare(window, second());
        window.controller()->close();
        QVERIFY(!window.controller()->cursor()->reference());
        QVERIFY(!window.comparing()->bar()->isVisible());
        QVERIFY(!window.comparing()->openAction()->isEnabled());
    }

private:
    QString path(const QString& name) const { return m_home.filePath(name + QStringLiteral(".kvt")); }
    QString path(const char* name) const { return path(QLatin1String(name)); }
    QString first() const { return path("first"); }
    QString second() const { return path("second"); }

    static void save(const DemoSharingOptions& options, const QString& where) {
        KvtOptions file;
        file.path = where.toStdString();
        file.program = "tst_comparing";
        const auto written = write_kvt(demo_sharing_recording(options), file);
        QVERIFY2(written, written ? "" : written.error().message().c_str());
    }

    // One window for all: it takes longest. Each test finds the first recording, compared with nothing.
    MainWindow& opened() {
        if (!m_window) {
            m_window = std::make_unique<MainWindow>();
            m_window->resize(1366, 768);
            m_window->show();
        }
        QSignalSpy changed(m_window->controller(), &SessionController::sessionChanged);
        m_window->controller()->openPath(first());
        if (!changed.wait(60000)) throw std::runtime_error("the recording did not open: " + m_window->notice().toStdString());
        return *m_window;
    }

    static void compare(MainWindow& window, const QString& with) {
        window.comparing()->open(with);
        QTRY_VERIFY_WITH_TIMEOUT(window.controller()->cursor()->reference(), 60000);
    }

    QTemporaryDir m_home;
    std::unique_ptr<MainWindow> m_window;
};

QTEST_MAIN(TestComparing)
#include "tst_comparing.moc"
