// SPDX-License-Identifier: GPL-3.0-or-later
//
// The window and its devices: one that is lost, the choice of another, what a device reaches, how often it is measured.
#include <QAction>
#include <QApplication>
#include <QFile>
#include <QMenu>
#include <QMenuBar>
#include <QMessageBox>
#include <QPushButton>
#include <QRegularExpression>
#include <QSettings>
#include <QSignalSpy>
#include <QStandardPaths>
#include <QTemporaryDir>
#include <QTest>
#include <QTimer>

#include "gui/ceilings_measurement.h"
#include "gui/main_window.h"
#include "tests/gui/window_fixture.h"
#include "kernels/make_backend.h"
#include "tests/serve/failing_backend.h"

#include <atomic>
#include <stdexcept>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

// What the ceilings of a device say in these tests: measuring takes as long as the test wants.
struct Measuring {
    std::atomic<int> started{0};
    std::atomic<bool> hold{false};
    std::atomic<bool> slow{false};  // a run lasts long enough to be seen
    Ceilings result;
};

class MeasuredBackend final : public WrappingBackend {
public:
    MeasuredBackend(std::unique_ptr<Backend> real, std::shared_ptr<Measuring> measuring)
        : WrappingBackend(std::move(real)), m_measuring(std::move(measuring)) {}
    Result<void> begin_batch(const Batch& batch) override {
        if (m_measuring->slow) QTest::qSleep(20);
        return m_real->begin_batch(batch);
    }
    Ceilings measure_ceilings(std::stop_token stop) override {
        ++m_measuring->started;
        while (m_measuring->hold && !stop.stop_requested()) QTest::qSleep(1);
        return stop.stop_requested() ? Ceilings{} : m_measuring->result;
    }

private:
    std::shared_ptr<Measuring> m_measuring;
};

// A card of 64 MiB; what its backends hold together is used, until they go.
class CardBackend final : public WrappingBackend {
public:
    CardBackend(std::unique_ptr<Backend> real, std::shared_ptr<std::atomic<std::uint64_t>> used)
        : WrappingBackend(std::move(real)), m_used(std::move(used)) {}
    ~CardBackend() override { *m_used -= m_own; }
    DeviceInfo info() const override { return {"cuda:0", "A card", "", total, total - *m_used, true}; }
    Result<std::unique_ptr<KvCache>> kv_cache(const KvCacheShape& shape, Purpose purpose) override {
        auto cache = m_real->kv_cache(shape, purpose);
        if (!cache) return cache.error();
        if (*m_used + (*cache)->bytes() > total) return Error{"The card is full", "Free some."};
        m_own += (*cache)->bytes();
        *m_used += (*cache)->bytes();
        return cache;
    }
    static constexpr std::uint64_t total = 64 << 20;

private:
    std::shared_ptr<std::atomic<std::uint64_t>> m_used;
    std::uint64_t m_own = 0;
};

template <class Make>
BackendFactory factory(Make make) {
    return [make](const std::string& device) -> Result<std::unique_ptr<Backend>> {
        auto real = make_backend(BackendOptions{"cpu", 2});
        if (!real) return real.error();
        return make(device, std::move(*real));
    };
}

Scenario oneLane(const char* device) {
    Scenario scenario = SessionController::bundledScenario();
    scenario.lanes = {LaneOptions{}};
    scenario.lanes[0].cache.blocks = 64;
    scenario.device = device;
    return scenario;
}

void open(MainWindow& window, const Scenario& scenario) {
    QSignalSpy changed(window.controller(), &SessionController::sessionChanged);
    window.controller()->openScenario(scenario);
    if (!changed.wait(60000) || !window.controller()->hasSession())
        throw std::runtime_error("the scenario did not open: " + window.notice().toStdString());
}

QAction* actionIn(const QMenu* menu, const QString& start) {
    for (QAction* action : menu->actions())
        if (action->text().remove(QLatin1Char('&')).startsWith(start)) return action;
    return nullptr;
}

QMenu* menuOf(const MainWindow& window, const QString& name) {
    for (QAction* action : window.menuBar()->actions())
        if (action->text().remove(QLatin1Char('&')) == name) return action->menu();
    throw std::runtime_error("there is no menu " + name.toStdString());
}

}  // namespace

class TestDevices : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void initTestCase() {
        keepSettingsIn(m_home.path(), QStringLiteral("kvloupe-test-devices"));
    }
    void init() {
        startAfresh();
        QFile::remove(kept());
    }
    void cleanup() { QFile::remove(kept()); }

    void aLostDeviceLeavesTheWindowAliveAndTheCpuToChoose() {
        const auto sabotage = std::make_shared<Sabotage>();
        MainWindow window;
        window.controller()->setBackendFactory(factory([sabotage](const std::string& device, std::unique_ptr<Backend> real) {
            if (device == "cpu") return real;
            return std::unique_ptr<Backend>(std::make_unique<FailingBackend>(std::move(real), sabotage));
        }));
        window.show();
        open(window, oneLane("cuda:0"));
        Cursor* cursor = window.controller()->cursor();
        window.controller()->step(2);
        QTRY_VERIFY_WITH_TIMEOUT(cursor->stepCount() == 3 && window.controller()->phase() == Phase::paused, 60000);
        sabotage->lost = true;
        window.controller()->run();
        QTRY_VERIFY_WITH_TIMEOUT(window.controller()->phase() == Phase::failed, 60000);
        QTRY_VERIFY_WITH_TIMEOUT(window.notice().contains(QStringLiteral("the device is lost")), 10000);
        // What was recorded before is still there to look at.
        const auto before = cursor->sharedRecording();
        QTRY_COMPARE_WITH_TIMEOUT(cursor->stepCount(), 4, 10000);
        cursor->setStep(1);
        QVERIFY(cursor->state());

        // A device that does not come leaves everything as it was.
        window.controller()->setBackendFactory([](const std::string& device) -> Result<std::unique_ptr<Backend>> {
            if (device != "cpu") return Error{"Device '" + device + "' cannot compute here", "Use 'cpu'."};
            return make_backend(BackendOptions{"cpu", 2});
        });
        QSignalSpy failed(window.controller(), &SessionController::failed);
        window.controller()->chooseDevice(QStringLiteral("cuda:1"));
        QVERIFY(failed.wait(60000));
        QVERIFY2(window.notice().contains(QStringLiteral("cuda:1")), qPrintable(window.notice()));
        QCOMPARE(cursor->sharedRecording(), before);

        QSignalSpy changed(window.controller(), &SessionController::sessionChanged);
        window.controller()->chooseDevice(QStringLiteral("cpu"));
        QVERIFY(changed.wait(60000));
        QCOMPARE(window.controller()->session()->scenario().device, std::string("cpu"));
        QTRY_COMPARE_WITH_TIMEOUT(cursor->stepCount(), 1, 60000);
        window.controller()->step(3);
        QTRY_COMPARE_WITH_TIMEOUT(cursor->stepCount(), 4, 60000);
        QVERIFY(window.controller()->phase() != Phase::failed);
    }

    void aSessionThatFillsTheCardMakesRoomForTheNext() {
        const auto used = std::make_shared<std::atomic<std::uint64_t>>(0);
        MainWindow window;
        window.controller()->setBackendFactory(factory([used](const std::string&, std::unique_ptr<Backend> real) {
            return std::unique_ptr<Backend>(std::make_unique<CardBackend>(std::move(real), used));
        }));
        window.show();
        Scenario filling = oneLane("cuda:0");
        filling.lanes[0].cache.blocks.reset();
        filling.lanes[0].scheduler.max_num_batched_tokens = 256;
        filling.lanes[0].scheduler.max_num_seqs = 4;
        open(window, filling);
        QVERIFY(*used > CardBackend::total / 2);
        const std::uint64_t first = *used;
        // What is not good by itself leaves it there.
        Scenario bad = filling;
        bad.requests[0].prompt.reset();
        bad.requests[0].prompt_tokens = {{99'999'999}};
        QSignalSpy failed(window.controller(), &SessionController::failed);
        window.controller()->openScenario(bad);
        QVERIFY(failed.wait(60000));
        QVERIFY(window.controller()->hasSession());
        QSignalSpy changed(window.controller(), &SessionController::sessionChanged);
        window.controller()->openScenario(filling);
        QTRY_COMPARE_WITH_TIMEOUT(changed.size(), 2, 60000);  // the old one went, the new one came
        QVERIFY2(window.controller()->hasSession(), qPrintable(window.notice()));
        QCOMPARE(used->load(), first);
    }

    void theDeviceMenuNamesEachDeviceAndWhyOneIsAbsent() {
        MainWindow window;
        window.show();
        open(window, oneLane("cpu"));
        QMenu menu;
        window.fillDeviceMenu(&menu);
        QVERIFY(actionIn(&menu, QStringLiteral("Automatic"))->isEnabled());
        QVERIFY(!actionIn(&menu, QStringLiteral("Automatic"))->isChecked());
        for (const DeviceReport& device : list_devices()) {
            const QAction* action = actionIn(&menu, QString::fromStdString(device.id) + QLatin1Char(':'));
            QVERIFY(action);
            QCOMPARE(action->isEnabled(), device.available);
            QCOMPARE(action->isChecked(), device.id == "cpu");
            QVERIFY(action->text().contains(QString::fromStdString(device.available ? device.name : device.detail)));
        }
        QSignalSpy changed(window.controller(), &SessionController::sessionChanged);
        QTRY_COMPARE_WITH_TIMEOUT(window.controller()->cursor()->stepCount(), 1, 60000);
        actionIn(&menu, QStringLiteral("cpu:"))->trigger();  // in use already
        QTest::qWait(100);
        QVERIFY(!window.controller()->isLoading() && changed.isEmpty());
        QString asked;
        const auto answer = [&asked](QMessageBox::StandardButton button) {
            QTimer::singleShot(50, [&asked, button] {
                auto* box = qobject_cast<QMessageBox*>(QApplication::activeModalWidget());
                if (!box) return;
                asked = box->text();
                box->button(button)->click();
            });
        };
        answer(QMessageBox::Cancel);
        actionIn(&menu, QStringLiteral("Automatic"))->trigger();
        QVERIFY2(asked.contains(QStringLiteral("from step 0")) && asked.contains(QStringLiteral("of 1 step is lost")), qPrintable(asked));
        QVERIFY(!window.controller()->isLoading() && changed.isEmpty());
        answer(QMessageBox::Ok);
        actionIn(&menu, QStringLiteral("Automatic"))->trigger();
        QVERIFY(changed.wait(60000));
        QCOMPARE(window.controller()->session()->scenario().device, std::string("auto"));
    }

    void howOftenStagesAreMeasuredIsChosenAndShown() {
        MainWindow window;
        window.show();
        open(window, oneLane("cpu"));
        Cursor* cursor = window.controller()->cursor();
        QTRY_COMPARE_WITH_TIMEOUT(cursor->stepCount(), 1, 60000);
        const QRegularExpression whole(QStringLiteral("^Stages: every step · clocks cost ◐ (\\d+(\\.\\d+)?) %$"));
        QTRY_VERIFY2_WITH_TIMEOUT(whole.match(window.stagesText()).hasMatch(), qPrintable(window.stagesText()), 10000);
        const double every = whole.match(window.stagesText()).captured(1).toDouble();
        QVERIFY(every < 50);
        QMenu* stages = actionIn(menuOf(window, QStringLiteral("Analyse")), QStringLiteral("Measure stages"))->menu();
        Q_EMIT stages->aboutToShow();
        QVERIFY(actionIn(stages, QStringLiteral("In every step"))->isChecked());
        actionIn(stages, QStringLiteral("Never"))->trigger();
        QCOMPARE(window.controller()->session()->stages_every(), 0u);
        QCOMPARE(window.stagesText(), QStringLiteral("Stages: never measured"));
        window.controller()->step(2);
        QTRY_COMPARE_WITH_TIMEOUT(cursor->stepCount(), 3, 60000);
        QCOMPARE(cursor->laneRecord()->stages_of(2).size(), std::uint64_t(0));
        actionIn(stages, QStringLiteral("In every 10th step"))->trigger();
        QVERIFY2(window.stagesText().startsWith(QStringLiteral("Stages: every 10th step")), qPrintable(window.stagesText()));
        Q_EMIT stages->aboutToShow();
        QVERIFY(actionIn(stages, QStringLiteral("In every 10th step"))->isChecked());
    }

    void ceilingsAreMeasuredKeptAndShownAgain() {
        const auto measuring = std::make_shared<Measuring>();
        measuring->result = {4e10, 3e10, 2e11, DType::f32, "2026-01-02"};
        const auto devices = factory([measuring](const std::string&, std::unique_ptr<Backend> real) {
            return std::unique_ptr<Backend>(std::make_unique<MeasuredBackend>(std::move(real), measuring));
        });
        {
            MainWindow window;
            window.controller()->setBackendFactory(devices);
            window.show();
            open(window, oneLane("cpu"));
            QVERIFY(!window.ceilings()->ceilings().measured());
            actionIn(menuOf(window, QStringLiteral("Analyse")), QStringLiteral("Measure ceilings"))->trigger();
            QTRY_VERIFY_WITH_TIMEOUT(window.ceilings()->ceilings() == measuring->result, 60000);
            QVERIFY2(window.notice().contains(QStringLiteral("measured 2026-01-02: read 40.0 GB/s, copy 30.0 GB/s, f32 matrices 0.2 TFLOP/s")),
                     qPrintable(window.notice()));
            QVERIFY(QFile::exists(kept()));
        }
        MainWindow window;  // another day
        window.controller()->setBackendFactory(devices);
        window.show();
        open(window, oneLane("cpu"));
        QVERIFY(window.ceilings()->ceilings() == measuring->result);
        QCOMPARE(measuring->started.load(), 1);
        window.controller()->close();
        QVERIFY(!window.ceilings()->ceilings().measured());
    }

    void aMeasurementPausesTheEngineAndCanBeStopped() {
        const auto measuring = std::make_shared<Measuring>();
        measuring->hold = true;
        measuring->slow = true;
        measuring->result = {4e10, 3e10, 2e11, DType::f32, "2026-01-02"};
        MainWindow window;
        window.controller()->setBackendFactory(factory([measuring](const std::string&, std::unique_ptr<Backend> real) {
            return std::unique_ptr<Backend>(std::make_unique<MeasuredBackend>(std::move(real), measuring));
        }));
        window.show();
        open(window, oneLane("cpu"));
        QTRY_COMPARE_WITH_TIMEOUT(window.controller()->cursor()->stepCount(), 1, 60000);
        window.controller()->run();
        QTRY_VERIFY_WITH_TIMEOUT(window.controller()->phase() == Phase::running, 60000);
        window.ceilings()->measure();
        QVERIFY2(window.notice().startsWith(QStringLiteral("Measuring")) && window.notice().contains(QStringLiteral("The run pauses")),
                 qPrintable(window.notice()));
        QTRY_COMPARE_WITH_TIMEOUT(measuring->started.load(), 1, 60000);
        QVERIFY(window.controller()->phase() != Phase::running);
        // What is recorded; the window may be behind it.
        const auto recorded = [&window] { return window.controller()->cursor()->recording()->lane(LaneId(0)).step_count(); };
        const std::size_t steps = recorded();
        QTest::qWait(50);
        QCOMPARE(recorded(), steps);
        QAction* action = actionIn(menuOf(window, QStringLiteral("Analyse")), QStringLiteral("Stop measuring"));
        QVERIFY(action);
        action->trigger();
        QTRY_VERIFY_WITH_TIMEOUT(!window.ceilings()->running(), 60000);
        QVERIFY2(window.notice().contains(QStringLiteral("was stopped")), qPrintable(window.notice()));
        QVERIFY(!window.ceilings()->ceilings().measured());
        QVERIFY(!QFile::exists(kept()));
        QTRY_VERIFY_WITH_TIMEOUT(recorded() > steps + 1, 60000);  // the run goes on
    }

    void aMeasurementLeavesTheNoticeThatStoodAndSaysWhyItWasDropped() {
        const auto measuring = std::make_shared<Measuring>();
        measuring->hold = true;
        MainWindow window;
        window.controller()->setBackendFactory(factory([measuring](const std::string&, std::unique_ptr<Backend> real) {
            return std::unique_ptr<Backend>(std::make_unique<MeasuredBackend>(std::move(real), measuring));
        }));
        window.show();
        Scenario scenario = oneLane("cpu");
        scenario.comment = "Look at the blocks.";
        open(window, scenario);
        const auto press = [&window](const QString& name) {
            for (QAbstractButton* button : window.findChildren<QAbstractButton*>())
                if (button->isVisible() && (button->text() == name || button->accessibleName() == name)) return button->click();
        };
        QTRY_COMPARE_WITH_TIMEOUT(window.controller()->cursor()->stepCount(), 1, 60000);
        window.ceilings()->measure();
        QVERIFY(window.notice().startsWith(QStringLiteral("Measuring")));
        press(QStringLiteral("Stop"));
        QTRY_VERIFY_WITH_TIMEOUT(window.notice().contains(QStringLiteral("was stopped")), 60000);
        press(QStringLiteral("Close this message"));
        QCOMPARE(window.notice(), QStringLiteral("Look at the blocks."));
        window.ceilings()->measure();
        window.controller()->openScenario(oneLane("cpu"));
        QTRY_VERIFY_WITH_TIMEOUT(window.notice().contains(QStringLiteral("was dropped: another session")), 60000);
    }

    void whatCouldNotBeMeasuredIsSaid() {
        const auto measuring = std::make_shared<Measuring>();
        MainWindow window;
        window.controller()->setBackendFactory(factory([measuring](const std::string&, std::unique_ptr<Backend> real) {
            return std::unique_ptr<Backend>(std::make_unique<MeasuredBackend>(std::move(real), measuring));
        }));
        window.show();
        open(window, oneLane("cpu"));
        window.ceilings()->measure();
        QTRY_VERIFY_WITH_TIMEOUT(window.notice().contains(QStringLiteral("could not be measured")), 60000);
        QVERIFY(!QFile::exists(kept()));
    }

    void aKnownCardStandsBesideItsDataSheet() {
        DeviceInfo card;
        card.id = "cuda:0";
        card.name = "NVIDIA H100 80GB HBM3";
        const QString text = CeilingsMeasurement::sentence(card, {{2.9e12, 2.7e12, 6.5e14, DType::f16, "2026-01-02"}, 1});
        QVERIFY2(text.contains(QStringLiteral("f16 matrices 650 TFLOP/s. Data sheet of the H100 SXM: 3,350")) ||
                     text.contains(QStringLiteral("f16 matrices 650 TFLOP/s. Data sheet of the H100 SXM: 3350")),
                 qPrintable(text));
        card.name = "NVIDIA GeForce RTX 4090";
        QVERIFY(!CeilingsMeasurement::sentence(card, {{1e12, 9e11, 1e14, DType::f16, "2026-01-02"}, 3}).contains(QStringLiteral("Data sheet")));
    }

private:
    static QString kept() {
        return QStandardPaths::writableLocation(QStandardPaths::GenericDataLocation) + QStringLiteral("/kvloupe/ceilings.json");
    }
    QTemporaryDir m_home;
};

QTEST_MAIN(TestDevices)
#include "tst_devices.moc"
