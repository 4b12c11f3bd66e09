// SPDX-License-Identifier: GPL-3.0-or-later
//
// Converting a lane's model in the window, and saving it: what is predicted is what the new lane takes, what fails changes nothing.
#include "gui/convert_dialog.h"
#include "gui/model_saving.h"
#include "tests/gui/window_fixture.h"

#include <QApplication>
#include <QComboBox>
#include <QDialogButtonBox>
#include <QDir>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QSpinBox>
#include <QTemporaryDir>
#include <QTimer>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

Scenario oneLane(const std::string& lanes = R"({"name": "MHA", "cache": {"blocks": 64}})") {
    const std::string text = R"({"version": 1, "model": "bundled:mha", "device": "cpu", "lanes": [)" + lanes +
                             R"(], "requests": [{"id": "a", "prompt": "One sunny day, Mia met Ben.", "max_new_tokens": 8}]})";
    const auto scenario = parse_scenario(std::as_bytes(std::span(text)), "test.json");
    if (!scenario) throw std::runtime_error(scenario.error().message());
    return *scenario;
}

void openAndWait(MainWindow& window, const std::function<void()>& open) {
    QSignalSpy changed(window.controller(), &SessionController::sessionChanged);
    QSignalSpy failed(window.controller(), &SessionController::failed);
    open();
    if (!QTest::qWaitFor([&] { return !changed.isEmpty() || !failed.isEmpty(); }, 120000))
        throw std::runtime_error("nothing opened, and nothing failed");
}

void open(MainWindow& window, const Scenario& scenario) {
    openAndWait(window, [&] { window.controller()->openScenario(scenario); });
    if (!window.controller()->hasSession()) throw std::runtime_error(window.notice().toStdString());
}

// The fields of a dialog by their names.
struct Fields {
    ConvertDialog& dialog;
    template <class T>
    T* field(const char* name) const {
        T* found = dialog.findChild<T*>(QLatin1String(name));
        if (!found) throw std::runtime_error(std::string("no field ") + name);
        return found;
    }
    QComboBox* box(const char* name) const { return field<QComboBox>(name); }
    QString sentence() const { return field<QLabel>("sentence")->text(); }
    QString prediction() const { return field<QLabel>("prediction")->text(); }
    bool possible() const { return dialog.findChild<QDialogButtonBox*>()->button(QDialogButtonBox::Ok)->isEnabled(); }
};

}  // namespace

class TestConvertWindow : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void initTestCase() { keepSettingsIn(m_home.path(), QStringLiteral("kvloupe-test-convert")); }
    void init() { startAfresh(); }

    void whatIsPredictedIsWhatTheNewLaneTakes_data() {
        QTest::addColumn<int>("to");
        QTest::addColumn<int>("heads");
        QTest::addColumn<int>("widths");
        QTest::addColumn<int>("values");
        QTest::addColumn<int>("by");
        QTest::addColumn<QString>("cache");
        QTest::addColumn<double>("bytes");  // by hand: 4 layers, 16 values a head, K and V
        QTest::addColumn<QString>("name");
        QTest::newRow("GQA") << 0 << 0 << 0 << 0 << 0 << "" << 4 * 2 * 4 * 16 * 2.0 << "MHA to GQA-4";
        QTest::newRow("GQA with two heads") << 0 << 1 << 0 << 0 << 0 << "" << 4 * 2 * 2 * 16 * 2.0 << "MHA to GQA-2";
        QTest::newRow("MQA in bf16") << 1 << 0 << 0 << 0 << 0 << "bf16" << 4 * 2 * 16 * 2.0 << "MHA to MQA";
        QTest::newRow("MLA") << 2 << 0 << 0 << 64 << 0 << "" << 4 * 64 * 2.0 << "MHA to MLA-64";
        QTest::newRow("MLA in q8_0") << 2 << 0 << 0 << 64 << 0 << "q8_0" << 4 * 2 * 34.0 << "MHA to MLA-64";
        QTest::newRow("MLA by a budget") << 2 << 0 << 1 << 130 << 0 << "" << 130 * 2.0 << "MHA to MLA of 130";
        QTest::newRow("MLA by sensitivity") << 2 << 0 << 1 << 130 << 1 << "f32" << 130 * 4.0 << "MHA to MLA of 130, sensitivity";
    }
    void whatIsPredictedIsWhatTheNewLaneTakes() {
        QFETCH(int, to);
        QFETCH(int, heads);
        QFETCH(int, widths);
        QFETCH(int, values);
        QFETCH(int, by);
        QFETCH(QString, cache);
        QFETCH(double, bytes);
        QFETCH(QString, name);
        MainWindow window;
        window.show();
        open(window, oneLane());
        ConvertDialog dialog(window.convertSources(), 0, {QStringLiteral("MHA")});
        const Fields fields{dialog};
        fields.box("to")->setCurrentIndex(to);
        if (to == 0) fields.box("heads")->setCurrentIndex(heads);
        fields.box("widths")->setCurrentIndex(widths);
        fields.box("by")->setCurrentIndex(by);
        if (values > 0) fields.field<QSpinBox>("values")->setValue(values);
        if (!cache.isEmpty()) fields.box("cache")->setCurrentText(cache);
        QVERIFY2(fields.possible(), qPrintable(fields.sentence()));
        QCOMPARE(*dialog.bytesPerToken(), bytes);
        const QString before = QStringLiteral("in lane MHA (%1 B)").arg(QStringLiteral("2,048"));
        QVERIFY2(fields.prediction().contains(before), qPrintable(fields.prediction()));
        QCOMPARE(QString::fromStdString(dialog.lane().name), name);

        openAndWait(window, [&] { window.addLane(dialog.lane()); });
        QVERIFY2(window.controller()->hasSession(), qPrintable(window.notice()));
        const auto recording = window.controller()->session()->recording();
        QCOMPARE(recording->lanes().size(), std::size_t(2));
        QCOMPARE(double(recording->lanes()[1]->info().bytes_per_token), bytes);
        QCOMPARE(recording->lanes()[1]->info().name, name.toStdString());
    }

    void theNewLaneStepsBesideTheOthersOverTheSamePrompt() {
        MainWindow window;
        window.show();
        open(window, oneLane());
        QTRY_VERIFY_WITH_TIMEOUT(window.controller()->cursor()->stepCount() == 1, 60000);
        ConvertDialog dialog(window.convertSources(), 0, {QStringLiteral("MHA")});
        Fields{dialog}.box("to")->setCurrentIndex(1);
        openAndWait(window, [&] { window.addLane(dialog.lane()); });
        window.controller()->run();
        QTRY_VERIFY_WITH_TIMEOUT(window.controller()->phase() == Phase::finished, 60000);
        const auto recording = window.controller()->session()->recording();
        for (const auto& lane : recording->lanes()) {
            QCOMPARE(lane->step_count(), recording->lanes()[0]->step_count());
            QVERIFY(lane->step_count() >= 8);
        }
        QCOMPARE(recording->lanes()[1]->info().kv_heads, 1u);
        // It is offered as what it was made from, once.
        QCOMPARE(window.convertSources().size(), std::size_t(1));
        QCOMPARE(window.convertSources()[0].config.kv_heads, 8u);
    }

    void aDialogOpensAndConvertsByTheKeyboardAlone() {
        MainWindow window;
        window.show();
        QVERIFY(QTest::qWaitForWindowExposed(&window));
        open(window, oneLane());
        bool seen = false;
        QTimer::singleShot(300, this, [&] {
            auto* dialog = qobject_cast<ConvertDialog*>(QApplication::activeModalWidget());
            if (!dialog) return;
            seen = true;
            QTest::keyClick(dialog, Qt::Key_T, Qt::AltModifier);  // To
            QVERIFY(dialog->focusWidget() == dialog->findChild<QComboBox*>(QStringLiteral("to")));
            QTest::keyClick(dialog->focusWidget(), Qt::Key_End);
            QTest::keyClick(dialog, Qt::Key_V, Qt::AltModifier);  // Values
            QVERIFY(dialog->focusWidget() == dialog->findChild<QSpinBox*>(QStringLiteral("values")));
            QTest::keyClick(dialog->focusWidget(), Qt::Key_A, Qt::ControlModifier);
            QTest::keyClicks(dialog->focusWidget(), QStringLiteral("48"));
            QTest::keyClick(dialog->focusWidget(), Qt::Key_Return);
        });
        openAndWait(window, [&] { QTest::keyClick(&window, Qt::Key_L, Qt::ControlModifier); });
        QVERIFY(seen);
        const auto& lanes = window.controller()->session()->scenario().lanes;
        QCOMPARE(lanes.size(), std::size_t(2));
        QVERIFY(lanes[1].convert && *lanes[1].convert == (ConvertOptions{ConvertOptions::Target::mla, 0, 48, 0, {}}));
    }

    void whatCannotBeConvertedIsSaidInTheDialog() {
        MainWindow window;
        window.show();
        Scenario lanes = oneLane(R"({"name": "MLA", "model": "bundled:mla"}, {"name": "MQA", "model": "bundled:mqa"}, {"name": "MHA"})");
        open(window, lanes);
        ConvertDialog dialog(window.convertSources(), 0, {QStringLiteral("MLA"), QStringLiteral("MQA"), QStringLiteral("MHA")});
        const Fields fields{dialog};
        QVERIFY(!fields.possible());
        QVERIFY2(fields.sentence().contains(QStringLiteral("keeps latents already")), qPrintable(fields.sentence()));
        fields.box("source")->setCurrentIndex(1);
        QVERIFY(fields.possible());  // latents of its one head
        fields.box("to")->setCurrentIndex(0);
        QVERIFY2(!fields.possible() && fields.sentence().contains(QStringLiteral("one KV head already")), qPrintable(fields.sentence()));
        fields.box("source")->setCurrentIndex(2);
        QVERIFY(fields.possible());
        fields.box("to")->setCurrentIndex(2);
        fields.box("cache")->setCurrentText(QStringLiteral("q8_0"));
        fields.field<QSpinBox>("values")->setValue(65);  // packs of 32
        QVERIFY2(!fields.possible() && fields.sentence().contains(QStringLiteral("32")), qPrintable(fields.sentence()));
        fields.field<QSpinBox>("values")->setValue(64);
        QVERIFY(fields.possible());
        fields.field<QLineEdit>("name")->clear();
        QTest::keyClicks(fields.field<QLineEdit>("name"), QStringLiteral("MQA"));
        QVERIFY2(!fields.possible() && fields.sentence().contains(QStringLiteral("a lane 'MQA' already")), qPrintable(fields.sentence()));
    }

    void whatFailsToConvertLeavesTheSessionAsItWas() {
        MainWindow window;
        window.show();
        open(window, oneLane());
        const Session* before = window.controller()->session();
        LaneOptions lane = before->scenario().lanes[0];
        lane.name = "three";
        lane.convert = ConvertOptions{ConvertOptions::Target::gqa, 3, 0, 0, {}};
        openAndWait(window, [&] { window.addLane(lane); });
        QVERIFY(window.controller()->session() == before);
        QCOMPARE(before->scenario().lanes.size(), std::size_t(1));
        QVERIFY2(window.notice().contains(QStringLiteral("3 does not divide the 8 KV heads")), qPrintable(window.notice()));
    }

    void aConversionIsCancelledAndTheSessionStays() {
        MainWindow window;
        window.show();
        open(window, oneLane());
        const Session* before = window.controller()->session();
        LaneOptions lane = before->scenario().lanes[0];
        lane.name = "measured";
        lane.convert = ConvertOptions{ConvertOptions::Target::mla, 0, 0, 120, ConvertOptions::Measure::sensitivity};
        QStringList told;
        connect(window.controller(), &SessionController::loadingProgress, &window, [&](double fraction, const QString& what) {
            QVERIFY(fraction >= 0 && fraction <= 1);
            told << what;
            if (what.startsWith(QStringLiteral("Measuring what the layers are given"))) window.controller()->cancelLoading();
        });
        window.addLane(lane);
        QTRY_VERIFY_WITH_TIMEOUT(!window.controller()->isLoading(), 120000);
        QVERIFY2(!told.isEmpty() && told.last().startsWith(QStringLiteral("Measuring")), qPrintable(told.join(QLatin1Char(' '))));
        QVERIFY(window.controller()->session() == before);
    }

    void aLanesModelIsSavedAndOpenedAgain() {
        MainWindow window;
        window.show();
        open(window, oneLane(R"({"name": "two", "convert": {"to": "gqa", "kv_heads": 2}},
                                {"name": "latents", "convert": {"to": "mla", "budget": 90}})"));
        for (const int lane : {0, 1}) {
            const QString folder = m_home.filePath(QStringLiteral("saved-%1").arg(lane));
            save(window, lane, folder);
            QVERIFY2(window.notice().contains(QStringLiteral("lies in")), qPrintable(window.notice()));
            const auto again = load_model(folder.toStdString());
            QVERIFY2(again, again ? "" : again.error().message().c_str());
            const auto model = window.controller()->session()->model(LaneId(std::uint32_t(lane)));
            QVERIFY((*again)->config.latent == model->config.latent);
            QVERIFY((*again)->config.layer_shapes == model->config.layer_shapes);
            save(window, lane, folder);
            QVERIFY2(window.notice().contains(QStringLiteral("is not empty")), qPrintable(window.notice()));
        }
        openAndWait(window, [&] { window.controller()->openPath(m_home.filePath(QStringLiteral("saved-1"))); });
        QVERIFY2(window.controller()->hasSession(), qPrintable(window.notice()));
        QVERIFY(window.controller()->session()->model(LaneId(0))->config.latent.late_rotation);
    }

    void aStoppedSaveLeavesNothing() {
        MainWindow window;
        window.show();
        open(window, oneLane());
        const QString folder = m_home.filePath(QStringLiteral("stopped"));
        connect(window.saving(), &ModelSaving::runningChanged, &window, [&] { window.saving()->cancel(); });
        QSignalSpy ended(window.saving(), &ModelSaving::ended);
        window.saveModel(LaneId(0), folder);
        QTRY_COMPARE_WITH_TIMEOUT(ended.size(), qsizetype(1), 60000);
        QVERIFY2(window.notice().contains(QStringLiteral("Saving was cancelled")), qPrintable(window.notice()));
        QVERIFY(!QDir(folder).exists() && !QDir(folder + QStringLiteral(".part")).exists());
    }

private:
    static void save(MainWindow& window, int lane, const QString& folder) {
        QSignalSpy ended(window.saving(), &ModelSaving::ended);
        window.saveModel(LaneId(std::uint32_t(lane)), folder);
        if (ended.isEmpty() && !ended.wait(60000)) throw std::runtime_error("the saving did not end");
    }

    QTemporaryDir m_home;
};

QTEST_MAIN(TestConvertWindow)
#include "tst_convert_window.moc"
