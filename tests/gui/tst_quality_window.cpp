// SPDX-License-Identifier: GPL-3.0-or-later
//
// Measuring quality from the window: it runs beside it, can be stopped, is kept and shown again; what is stopped leaves what was there.
#include "gui/quality_dialog.h"
#include "gui/quality_measurement.h"
#include "tests/gui/window_fixture.h"
#include "views/quality_view.h"

#include <QAction>
#include <QFile>
#include <QMenu>
#include <QMenuBar>
#include <QTemporaryDir>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

Scenario twoPrecisions() {
    Scenario scenario = SessionController::bundledScenario();
    const std::string text = R"({"version": 1, "device": "cpu", "lanes": [{"name": "f32", "cache": {"dtype": "f32"}},
                                 {"name": "bf16", "cache": {"dtype": "bf16"}}], "requests": []})";
    const auto lanes = parse_scenario(std::as_bytes(std::span(text)), "test.json");
    if (!lanes) throw std::runtime_error(lanes.error().message());
    scenario.lanes = lanes->lanes;
    scenario.device = "cpu";
    return scenario;
}

void open(MainWindow& window, const Scenario& scenario) {
    QSignalSpy changed(window.controller(), &SessionController::sessionChanged);
    window.controller()->openScenario(scenario);
    if (!changed.wait(60000) || !window.controller()->hasSession())
        throw std::runtime_error("the scenario did not open: " + window.notice().toStdString());
}

QualityChoice few() {
    QualityChoice choice;
    choice.texts = 6;
    choice.questions = 8;
    return choice;
}

// The window's picture of quality.
QualityView* picture(const MainWindow& window) {
    for (View* view : window.views())
        if (auto* quality = qobject_cast<QualityView*>(view)) return quality;
    throw std::runtime_error("the window has no view of quality");
}

void measured(MainWindow& window, const QualityChoice& choice) {
    QSignalSpy ended(window.quality(), &QualityMeasurement::ended);
    window.quality()->measure(choice);
    if (ended.isEmpty() && !ended.wait(120000)) throw std::runtime_error("the measurement did not end");
}

}  // namespace

class TestQualityWindow : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void initTestCase() { keepSettingsIn(m_home.path(), QStringLiteral("kvloupe-test-quality")); }
    void init() {
        startAfresh();
        QFile::remove(kept());
    }
    void cleanup() { QFile::remove(kept()); }

    void qualityIsMeasuredKeptAndShownAgain() {
        std::shared_ptr<const QualityReport> first;
        {
            MainWindow window;
            window.show();
            open(window, twoPrecisions());
            QVERIFY(!window.quality()->report());
            QVERIFY(!picture(window)->quality());
            measured(window, few());
            first = window.quality()->report();
            QVERIFY2(first && first->complete(), qPrintable(window.notice()));
            QCOMPARE(picture(window)->quality(), first);
            QCOMPARE(first->texts, std::uint64_t(6));
            QCOMPARE(first->questions, std::uint64_t(8));
            QCOMPARE(first->reference, std::string("f32"));
            QVERIFY(first->lanes[1].divergence.measured() && first->lanes[1].divergence.value > 0);
            // A bundled model has learned these stories: chance would be 768.
            QVERIFY(first->lanes[0].perplexity.value > 1 && first->lanes[0].perplexity.value < 10);
            QVERIFY2(window.notice().startsWith(QStringLiteral("Perplexity over 6 stories")), qPrintable(window.notice()));
            QVERIFY(QFile::exists(kept()));
        }
        MainWindow window;  // another day
        window.show();
        open(window, twoPrecisions());
        QVERIFY(window.quality()->report());
        QVERIFY(*window.quality()->report() == *first);
        QCOMPARE(picture(window)->quality(), window.quality()->report());
        window.controller()->close();
        QVERIFY(!window.quality()->report());
    }

    void aStoppedMeasurementLeavesWhatWasThere() {
        MainWindow window;
        window.show();
        open(window, twoPrecisions());
        measured(window, few());
        const auto before = window.quality()->report();
        QVERIFY(before);
        QSignalSpy progressed(window.quality(), &QualityMeasurement::progressed);
        QSignalSpy ended(window.quality(), &QualityMeasurement::ended);
        window.quality()->measure({});  // all of it: minutes
        QVERIFY(window.quality()->running());
        QVERIFY(picture(window)->quality()->state == QualityReport::State::running);  // said before the first text is read
        QTRY_VERIFY_WITH_TIMEOUT(!progressed.isEmpty(), 120000);  // the window's own events go on meanwhile
        QVERIFY2(window.notice().startsWith(QStringLiteral("Measuring quality")), qPrintable(window.notice()));
        window.quality()->cancel();
        QTRY_COMPARE_WITH_TIMEOUT(ended.size(), qsizetype(1), 120000);
        QVERIFY2(window.notice().contains(QStringLiteral("nothing was kept")), qPrintable(window.notice()));
        QCOMPARE(picture(window)->quality(), before);
        QVERIFY(*window.quality()->report() == *before);
    }

    void theSessionStandsStillMeanwhileAndGoesOnAfterwards() {
        MainWindow window;
        window.show();
        open(window, SessionController::bundledScenario());
        window.controller()->run();
        QTRY_VERIFY_WITH_TIMEOUT(window.controller()->phase() == Phase::running, 60000);
        QSignalSpy progressed(window.quality(), &QualityMeasurement::progressed);
        window.quality()->measure(few());
        QTRY_VERIFY_WITH_TIMEOUT(!progressed.isEmpty() || !window.quality()->running(), 120000);
        if (window.quality()->running()) QVERIFY(window.controller()->session()->recording()->phase() != Phase::running);
        QTRY_VERIFY_WITH_TIMEOUT(!window.quality()->running(), 120000);
        QTRY_VERIFY_WITH_TIMEOUT(window.controller()->phase() != Phase::paused, 60000);
        QCOMPARE(window.quality()->report()->lanes.size(), window.controller()->session()->scenario().lanes.size());
    }

    void aTextOfOnesOwnIsMeasuredOrRefusedWithWhatItNeeds() {
        MainWindow window;
        window.show();
        open(window, twoPrecisions());
        QualityChoice own;
        own.file = m_home.filePath(QStringLiteral("short.txt"));
        write(own.file, "One sunny day.");
        measured(window, own);
        QVERIFY2(window.notice().contains(QStringLiteral("short.txt is too short to measure")), qPrintable(window.notice()));
        QVERIFY(!window.quality()->report());
        own.file = m_home.filePath(QStringLiteral("long.txt"));
        QByteArray text;
        for (int i = 0; i < 60; ++i) text += "The red kite is in the green tin. Where is the red kite? ";
        write(own.file, text);
        measured(window, own);
        QVERIFY2(window.quality()->report(), qPrintable(window.notice()));
        QCOMPARE(window.quality()->report()->text, std::string("long.txt"));
        QCOMPARE(window.quality()->report()->questions, std::uint64_t(0));
        own.file = m_home.filePath(QStringLiteral("absent.txt"));
        measured(window, own);
        QVERIFY2(window.notice().contains(QStringLiteral("absent.txt")), qPrintable(window.notice()));
        QCOMPARE(window.quality()->report()->text, std::string("long.txt"));
    }

    void theDialogOffersWhatFitsTheModels() {
        QualityDialog stories({QStringLiteral("a"), QStringLiteral("b")}, true);
        QCOMPARE(stories.choice().reference, QStringLiteral("a"));
        QVERIFY(stories.choice().file.isEmpty());
        const QString file = m_home.filePath(QStringLiteral("own.txt"));
        write(file, "text");
        stories.setFile(file);
        QCOMPARE(stories.choice().file, file);
        QCOMPARE(stories.choice().texts, 0u);
    }

private:
    static QString kept() {
        return QStandardPaths::writableLocation(QStandardPaths::GenericDataLocation) + QStringLiteral("/kvloupe/quality.json");
    }
    static void write(const QString& path, const QByteArray& content) {
        QFile file(path);
        if (!file.open(QIODevice::WriteOnly)) qFatal("cannot write %s", qPrintable(path));
        file.write(content);
    }

    QTemporaryDir m_home;
};

QTEST_MAIN(TestQualityWindow)
#include "tst_quality_window.moc"
