// SPDX-License-Identifier: GPL-3.0-or-later
//
// Restart from here and Branch in the window: of a session and of a recording file, with the cursor staying where it was.
#include "gui/branch_dialog.h"
#include "gui/environment.h"
#include "tests/gui/window_fixture.h"

#include "engine/record/describe.h"
#include "engine/record/kvt_writer.h"

#include <QAction>
#include <QComboBox>
#include <QDialogButtonBox>
#include <QLabel>
#include <QLineEdit>
#include <QMenu>
#include <QMenuBar>
#include <QPushButton>
#include <QSpinBox>
#include <QTemporaryDir>
#include <QTimer>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

Scenario twoRequests() {
    const std::string text = R"({"version": 1, "model": "bundled:gqa", "device": "cpu", "lanes": [{"name": "GQA", "cache": {"block_size": 8, "blocks": 40}}],
        "requests": [{"id": "a", "prompt": "One sunny day, Mia met Ben.", "max_new_tokens": 8},
                     {"id": "b", "prompt": "Tom had a dog.", "max_new_tokens": 8, "temperature": 0.8, "arrival_step": 2}]})";
    const auto scenario = parse_scenario(std::as_bytes(std::span(text)), "two.json");
    if (!scenario) throw std::runtime_error(scenario.error().message());
    return *scenario;
}

void openTwo(MainWindow& window) {
    QSignalSpy changed(window.controller(), &SessionController::sessionChanged);
    window.controller()->openScenario(twoRequests());
    if (!changed.wait(60000) || !window.controller()->hasSession()) throw std::runtime_error(window.notice().toStdString());
}

void runToItsEnd(MainWindow& window) {
    window.controller()->run();
    if (!QTest::qWaitFor([&] { return window.controller()->phase() == Phase::finished && window.controller()->cursor()->stepCount() > 8; }, 60000))
        throw std::runtime_error("it does not end");
}

// Waits for what is computed again.
void replayOf(MainWindow& window, const std::function<void()>& start) {
    QSignalSpy replayed(window.controller(), &SessionController::replayed);
    start();
    if (replayed.isEmpty() && !replayed.wait(60000)) throw std::runtime_error("nothing was computed again: " + window.notice().toStdString());
    if (!replayed[0][0].toString().isEmpty()) throw std::runtime_error(replayed[0][0].toString().toStdString());
}

QAction* runAction(MainWindow& window, const QString& part) {
    for (QAction* each : window.findChildren<QAction*>())
        if (each->text().remove(QLatin1Char('&')).contains(part)) return each;
    throw std::runtime_error("no action " + part.toStdString());
}

std::vector<TokenId> tokensOf(const LaneRecord& lane, std::size_t steps) {
    std::vector<TokenId> tokens;
    for (std::size_t step = 0; step < steps; ++step)
        for (std::uint64_t i = lane.step(step).tokens.begin; i < lane.step(step).tokens.end; ++i) tokens.push_back(lane.tokens()[i].token);
    return tokens;
}

}  // namespace

class TestBranchWindow : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void initTestCase() { keepSettingsIn(m_home.path(), QStringLiteral("kvloupe-test-branch")); }
    void init() { startAfresh(); }

    void restartFromHereForgetsWhatCameLater() {
        MainWindow window;
        QVERIFY(!runAction(window, QStringLiteral("Restart from here"))->isEnabled());
        openTwo(window);
        runToItsEnd(window);
        const auto before = window.controller()->recording();
        Cursor* cursor = window.controller()->cursor();
        cursor->setStep(4);
        replayOf(window, [&] { runAction(window, QStringLiteral("Restart from here"))->trigger(); });
        QCOMPARE(cursor->step(), 4);
        QCOMPARE(cursor->stepCount(), 5);
        QVERIFY(cursor->sharedRecording() != before);
        QCOMPARE(window.controller()->phase(), Phase::paused);
        QCOMPARE(window.notice(), QString());
        runToItsEnd(window);
        const std::size_t steps = before->lanes()[0]->step_count();
        QCOMPARE(cursor->stepCount(), int(steps));
        QVERIFY(tokensOf(*cursor->sharedRecording()->lanes()[0], steps) == tokensOf(*before->lanes()[0], steps));
    }

    void aBranchStandsBesideItsParent() {
        MainWindow window;
        openTwo(window);
        runToItsEnd(window);
        const auto before = window.controller()->recording();
        const LaneRecord& old = *before->lanes()[0];
        window.controller()->cursor()->setStep(5);
        QString wrong;
        // The dialog, filled in by hand: the second most probable token of a.
        QTimer::singleShot(0, this, [&] {
            auto* dialog = window.findChild<BranchDialog*>();
            if (!dialog) return;
            QPushButton* ok = dialog->findChild<QDialogButtonBox*>()->button(QDialogButtonBox::Ok);
            auto* more = dialog->findChild<QLineEdit*>(QStringLiteral("more"));
            auto* sentence = dialog->findChild<QLabel*>(QStringLiteral("sentence"));
            if (!ok->isEnabled() || !sentence->text().contains(QLatin1String("Nothing differs yet"))) wrong = QStringLiteral("at first: ") + sentence->text();
            more->setText(QStringLiteral("scheduler.victim=sglang"));
            if (!ok->isEnabled() || !sentence->text().contains(QLatin1String("switches there"))) wrong = sentence->text();
            more->setText(QStringLiteral("cache.dtyp=int8"));
            if (ok->isEnabled() || !sentence->text().contains(QLatin1String("Did you mean 'dtype'?"))) wrong = sentence->text();
            more->clear();
            dialog->findChild<QSpinBox*>(QStringLiteral("step"))->setValue(99);
            if (ok->isEnabled() || !sentence->text().contains(QLatin1String("no step 99"))) wrong = sentence->text();
            dialog->findChild<QSpinBox*>(QStringLiteral("step"))->setValue(5);
            dialog->findChild<QComboBox*>(QStringLiteral("precision"))->setCurrentText(QStringLiteral("int8"));
            if (!ok->isEnabled() || !sentence->text().contains(QLatin1String("a pool of its own"))) wrong = sentence->text();
            auto* token = dialog->findChild<QComboBox*>(QStringLiteral("token"));
            if (token->count() != 21 || !token->itemText(2).startsWith(QLatin1String("a: "))) wrong = QStringLiteral("tokens: %1, %2").arg(token->count()).arg(token->itemText(2));
            token->setCurrentIndex(2);
            dialog->findChild<QLineEdit*>(QStringLiteral("name"))->setText(QStringLiteral("other word"));
            dialog->accept();
            if (dialog->isVisible()) {
                wrong += QStringLiteral(" it stays open: ") + sentence->text();
                dialog->reject();
            }
        });
        replayOf(window, [&] { runAction(window, QStringLiteral("Branch…"))->trigger(); });
        QCOMPARE(wrong, QString());
        const auto now = window.controller()->recording();
        QCOMPARE(now->lanes().size(), std::size_t(2));
        const LaneRecord& branch = *now->lanes()[1];
        QCOMPARE(QString::fromStdString(branch.info().name), QStringLiteral("other word"));
        QCOMPARE(QString::fromStdString(branch.info().cache_dtype), QStringLiteral("int8"));
        QCOMPARE(window.controller()->cursor()->step(), 5);
        QCOMPARE(window.controller()->cursor()->lane().value, 1u);
        QCOMPARE(branch.step_count(), old.step_count());
        QVERIFY(tokensOf(branch, 5) == tokensOf(old, 5));
        QVERIFY(tokensOf(branch, 6) != tokensOf(old, 6));
        QVERIFY(tokensOf(*now->lanes()[0], old.step_count()) == tokensOf(old, old.step_count()));
    }

    void aRecordingFileIsGoneOnWith() {
        const QString path = m_home.filePath(QStringLiteral("two.kvt"));
        {
            MainWindow window;
            openTwo(window);
            QVERIFY(QTest::qWaitFor([&] { return window.controller()->cursor()->stepCount() == 1; }, 60000));
            ScenarioAction fork;
            fork.request = "a";
            fork.kind = ActionKind::fork;
            QCOMPARE(window.controller()->act(fork), QString());  // by the user, in step 1
            runToItsEnd(window);
            const auto written = write_kvt(window.controller()->recording(), kvt_options(path.toStdString(), window.controller()->scenarioJson()));
            QVERIFY2(written, written ? "" : written.error().message().data());
        }
        MainWindow window;
        QSignalSpy changed(window.controller(), &SessionController::sessionChanged);
        window.controller()->openPath(path);
        QVERIFY(changed.wait(60000));
        QVERIFY(window.controller()->hasFile());
        const auto before = window.controller()->recording();
        window.controller()->cursor()->setStep(6);
        replayOf(window, [&] { runAction(window, QStringLiteral("Restart from here"))->trigger(); });
        QVERIFY(window.controller()->hasSession() && !window.controller()->hasFile());
        QCOMPARE(window.controller()->cursor()->step(), 6);
        QCOMPARE(window.controller()->cursor()->stepCount(), 7);
        QVERIFY(tokensOf(*window.controller()->recording()->lanes()[0], 7) == tokensOf(*before->lanes()[0], 7));
        bool forked = false;
        for (const auto& lane : window.controller()->recording()->lanes())
            for (std::uint32_t i = 0; i < lane->sequences().size(); ++i)
                forked = forked || sequence_name(*window.controller()->recording(), *lane, SequenceId(i)) == "a-2";
        QVERIFY(forked);
        // From the file's session a menu leads on, at the step that is shown.
        QMenu menu;
        window.fillViewMenu(&menu, window.views().first(), {});
        QStringList texts;
        for (const QAction* each : menu.actions()) texts << each->text();
        QVERIFY2(texts.contains(QStringLiteral("Restart from step 6")) && texts.contains(QStringLiteral("Branch from step 6…")), qPrintable(texts.join(QLatin1Char('|'))));
        replayOf(window, [&] {
            QCOMPARE(window.controller()->branch({{"GQA", 7, std::nullopt, ""}, "", {{"scheduler.max_num_seqs", "1"}}}), QString());
        });
        QCOMPARE(window.controller()->recording()->lanes().size(), std::size_t(2));
        QCOMPARE(window.controller()->recording()->lanes()[1]->step_count(), std::size_t(7));
    }

    void aFileWithoutItsScenarioSaysSo() {
        const QString path = m_home.filePath(QStringLiteral("bare.kvt"));
        MainWindow window;
        openTwo(window);
        runToItsEnd(window);
        QVERIFY(write_kvt(window.controller()->recording(), kvt_options(path.toStdString(), {})));
        QSignalSpy changed(window.controller(), &SessionController::sessionChanged);
        window.controller()->openPath(path);
        QVERIFY(changed.wait(60000));
        runAction(window, QStringLiteral("Restart from here"))->trigger();
        QVERIFY2(window.notice().contains(QLatin1String("holds no scenario")), qPrintable(window.notice()));
        QVERIFY(window.controller()->hasFile());
        runAction(window, QStringLiteral("Branch…"))->trigger();
        QVERIFY(window.notice().contains(QLatin1String("holds no scenario")));
    }

private:
    QTemporaryDir m_home;
};

QTEST_MAIN(TestBranchWindow)
#include "tst_branch_window.moc"
