// SPDX-License-Identifier: GPL-3.0-or-later
//
// What blocks hold, from the window: the views stand behind the menu until they are asked for, the running engine answers, and
// started over it knows what every value was before it was stored.
#include "gui/tab_page.h"
#include "tests/gui/window_fixture.h"
#include "views/view.h"

#include <QAction>
#include <QDockWidget>
#include <QMenu>
#include <QMenuBar>
#include <QTemporaryDir>

#include <functional>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

void openLanes(MainWindow& window) {
    Scenario scenario = SessionController::bundledScenario();
    const std::string text = R"({"version": 1, "device": "cpu", "lanes": [{"name": "int8", "model": "bundled:gqa", "cache": {"dtype": "int8"}},
                                 {"name": "MLA", "model": "bundled:mla"}], "requests": []})";
    const auto lanes = parse_scenario(std::as_bytes(std::span(text)), "test.json");
    if (!lanes) throw std::runtime_error(lanes.error().message());
    scenario.lanes = lanes->lanes;
    scenario.device = "cpu";
    QSignalSpy changed(window.controller(), &SessionController::sessionChanged);
    window.controller()->openScenario(scenario);
    if (!changed.wait(60000) || !window.controller()->hasSession()) throw std::runtime_error("the scenario did not open: " + window.notice().toStdString());
}

View* viewOf(MainWindow& window, const char* id) {
    for (View* view : window.views())
        if (view->id() == QLatin1String(id)) return view;
    return nullptr;
}

QList<QStringList> tableOf(const View* view) {
    QList<QStringList> rows;
    for (const QString& line : view->csv().split(QStringLiteral("\r\n"), Qt::SkipEmptyParts)) rows << line.split(QLatin1Char(','));
    return rows;
}

}  // namespace

class TestValueWindow : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void initTestCase() { keepSettingsIn(m_home.path(), QStringLiteral("kvloupe-test-values")); }
    void init() { startAfresh(); }

    void viewsOfBlocksOpenFromTheMenu() {
        MainWindow window;
        window.show();
        QVERIFY(!window.showView(QStringLiteral("nothing")));
        QMenu* more = nullptr;
        for (QMenu* menu : window.menuBar()->findChildren<QMenu*>())
            if (menu->title() == QLatin1String("&More views")) more = menu;
        QVERIFY(more);
        QCOMPARE(more->actions().size(), 5);  // three of blocks, questions and their tracks
        openLanes(window);
        View* view = viewOf(window, "cache-values");
        QVERIFY(view && !view->isVisible());
        QVERIFY(window.page(2)->layoutToSave().isEmpty());  // hidden is how the layout begins
        more->actions().first()->trigger();
        QTRY_VERIFY(view->isVisible());
        QVERIFY(!window.page(2)->layoutToSave().isEmpty());
        window.page(2)->resetLayout();
        QVERIFY(!view->isVisible());
    }

    void theEngineAnswersAndKnowsAllWhenStartedOver() {
        MainWindow window;
        window.show();
        openLanes(window);
        QTRY_VERIFY_WITH_TIMEOUT(window.controller()->cursor()->stepCount() > 0, 60000);
        window.showView(QStringLiteral("cache-values"));
        View* view = viewOf(window, "cache-values");
        QTRY_VERIFY_WITH_TIMEOUT(tableOf(view).size() > 1, 20000);
        // The prompt was stored by the first step, before anybody looked.
        QCOMPARE(tableOf(view)[1][7], QString());
        QVERIFY(!tableOf(view)[1][8].isEmpty());
        window.controller()->reset();
        const auto known = [view] { return tableOf(view).size() > 1 && !tableOf(view)[1][7].isEmpty(); };
        QTRY_VERIFY_WITH_TIMEOUT(known(), 60000);
        double largest = 0;
        for (const QStringList& row : tableOf(view).mid(1)) largest = std::max(largest, std::abs(row[9].toDouble()));
        QVERIFY2(largest > 0 && largest < 0.5, qPrintable(QString::number(largest)));
        window.controller()->cursor()->setLane(LaneId(1));
        window.showView(QStringLiteral("latent"));
        QTRY_VERIFY_WITH_TIMEOUT(tableOf(viewOf(window, "latent")).size() > 1, 20000);
        QCOMPARE(tableOf(viewOf(window, "latent"))[1][0], QStringLiteral("MLA"));
        window.controller()->close();
        QCOMPARE(tableOf(viewOf(window, "latent")).size(), 1);
    }

private:
    QTemporaryDir m_home;
};

QTEST_MAIN(TestValueWindow)
#include "tst_value_window.moc"
