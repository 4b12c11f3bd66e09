// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/breakpoint_dialog.h"
#include "gui/fork_dialog.h"
#include "gui/picture_sequence_dialog.h"
#include "gui/request_dialog.h"
#include "gui/session_controller.h"

#include <QCheckBox>
#include <QComboBox>
#include <QDialogButtonBox>
#include <QLabel>
#include <QLineEdit>
#include <QListWidget>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QSpinBox>
#include <QTest>

#include <algorithm>

using namespace kvloupe;

class TestDialogs : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() { QTest::failOnWarning(QRegularExpression(QStringLiteral(".*"))); }

    void anEmptyPromptCannotBeStarted() {
        RequestDialog dialog(RequestDialog::Purpose::addRequest, SessionController::bundledScenario());
        auto* start = dialog.findChild<QDialogButtonBox*>()->button(QDialogButtonBox::Ok);
        QVERIFY(!start->isEnabled());
        dialog.findChild<QPlainTextEdit*>()->setPlainText(QString::fromUtf8("你好"));
        QVERIFY(start->isEnabled());
        QCOMPARE(*dialog.request().prompt, std::string("你好"));
    }

    void aPictureSequenceIsProposedAsItWasAsked() {
        PictureSequence asked;
        asked.view = QStringLiteral("pool");
        asked.first = 20;
        asked.last = 90;
        asked.folder = QStringLiteral("pictures");
        PictureSequenceDialog dialog(asked, 128);
        const PictureSequence said = dialog.sequence();
        QCOMPARE(said.view, asked.view);
        QCOMPARE(said.first, asked.first);
        QCOMPARE(said.last, asked.last);
        QCOMPARE(said.folder, asked.folder);
        const auto says = [&dialog](const QString& words) {
            const auto labels = dialog.findChildren<QLabel*>();
            return std::any_of(labels.begin(), labels.end(), [&](const QLabel* label) { return label->text().contains(words); });
        };
        QVERIFY(says(QStringLiteral("71 pictures of 2000 × 1280 pixels")));
        dialog.findChild<QLineEdit*>(QStringLiteral("folder"))->clear();
        QVERIFY(says(QStringLiteral("Choose the folder")));
    }

    void aNewSessionKeepsTheLanesThatAreChosenAndTakesTheFields() {
        RequestDialog dialog(RequestDialog::Purpose::newSession, SessionController::bundledScenario());
        const auto boxes = dialog.findChildren<QCheckBox*>();
        QCOMPARE(boxes.size(), 4);
        boxes[0]->setChecked(false);
        dialog.findChild<QComboBox*>()->setCurrentText(QStringLiteral("bf16"));
        const Scenario scenario = dialog.scenario();
        QCOMPARE(static_cast<int>(scenario.lanes.size()), 3);
        QCOMPARE(scenario.lanes.front().name, std::string("GQA"));
        QCOMPARE(scenario.lanes.front().cache.key_dtypes.front(), DType::bf16);
        QVERIFY(!scenario.lanes.back().kv_cache);
        QCOMPARE(*scenario.lanes.front().cache.blocks, 64u);
    }

    void withoutALaneThereIsNoSession() {
        RequestDialog dialog(RequestDialog::Purpose::newSession, SessionController::bundledScenario());
        for (QCheckBox* box : dialog.findChildren<QCheckBox*>()) box->setChecked(false);
        QVERIFY(!dialog.findChild<QDialogButtonBox*>()->button(QDialogButtonBox::Ok)->isEnabled());
    }

    void breakpointsAreAddedAndRemoved() {
        BreakpointDialog dialog({});
        const auto press = [&dialog](const QString& text) {
            for (QPushButton* button : dialog.findChildren<QPushButton*>())
                if (button->text() == text) button->click();
        };
        press(QStringLiteral("&Add"));  // nothing is given: nothing is added
        QVERIFY(dialog.breakpoints().empty());
        dialog.findChild<QLineEdit*>(QString(), Qt::FindDirectChildrenOnly)->setText(QStringLiteral("b"));
        dialog.findChild<QComboBox*>()->setCurrentText(QStringLiteral("finish"));
        press(QStringLiteral("&Add"));
        QCOMPARE(static_cast<int>(dialog.breakpoints().size()), 1);
        QVERIFY(dialog.breakpoints()[0].on == EventKind::finish);
        QCOMPARE(*dialog.breakpoints()[0].request, std::string("b"));
        QVERIFY(!dialog.breakpoints()[0].step);
        dialog.findChild<QListWidget*>()->setCurrentRow(0);
        press(QStringLiteral("Re&move"));
        QVERIFY(dialog.breakpoints().empty());
    }

    void everyEventKindCanStopTheRun() {
        BreakpointDialog dialog({}, {QStringLiteral("GQA"), QStringLiteral("MHA")});
        QComboBox* events = dialog.findChild<QComboBox*>();
        QCOMPARE(events->count(), event_kind_count + 1);
        QVERIFY(events->findText(QStringLiteral("copy-on-write")) > 0);
        std::vector<int> kinds;
        for (int i = 1; i < events->count(); ++i) kinds.push_back(events->itemData(i).toInt());
        std::sort(kinds.begin(), kinds.end());
        for (int i = 0; i < event_kind_count; ++i) QCOMPARE(kinds[static_cast<std::size_t>(i)], i);
    }

    void aProposedBreakpointFillsEveryFieldAndComesBackTheSame() {
        Breakpoint wanted;
        wanted.on = EventKind::copy_on_write;
        wanted.request = "a";
        wanted.block = 16;
        wanted.token = 7;
        wanted.step = 206;
        wanted.used_blocks = 90;
        wanted.lane = "MHA";
        BreakpointDialog dialog({}, {QStringLiteral("GQA"), QStringLiteral("MHA")});
        dialog.propose(wanted);
        for (QPushButton* button : dialog.findChildren<QPushButton*>())
            if (button->text() == QStringLiteral("&Add")) button->click();
        QCOMPARE(static_cast<int>(dialog.breakpoints().size()), 1);
        const Breakpoint& added = dialog.breakpoints().front();
        QVERIFY(added.on == wanted.on && added.request == wanted.request && added.block == wanted.block &&
                added.token == wanted.token && added.step == wanted.step && added.used_blocks == wanted.used_blocks &&
                added.lane == wanted.lane);
        QCOMPARE(BreakpointDialog::sentence(added), QStringLiteral("on copy-on-write and request a and lane MHA and step 206 and "
                                                                   "block 16 and token id 7 and 90 blocks in use"));
    }

    void aBreakpointOnAnUnknownRequestIsRefused() {
        BreakpointDialog dialog({});
        dialog.setRequests({QStringLiteral("a"), QStringLiteral("b")});
        Breakpoint breakpoint;
        const auto says = [&dialog](const QString& text) {
            for (const QLabel* label : dialog.findChildren<QLabel*>())
                if (label->text().contains(text)) return true;
            return false;
        };
        const QList<QPushButton*> buttons = dialog.findChildren<QPushButton*>();
        const auto add = std::find_if(buttons.begin(), buttons.end(),
                                      [](const QPushButton* each) { return each->text() == QStringLiteral("&Add"); });
        QVERIFY(add != buttons.end());
        breakpoint.request = "zz";
        dialog.propose(breakpoint);
        QVERIFY(!(*add)->isEnabled());
        QVERIFY(says(QStringLiteral("no request “zz”")));
        breakpoint.request = "b";
        dialog.propose(breakpoint);
        QVERIFY((*add)->isEnabled());
        QVERIFY(!says(QStringLiteral("no request")));
    }

    void aLaneAloneIsNoBreakpoint() {
        BreakpointDialog dialog({}, {QStringLiteral("GQA")});
        Breakpoint lane;
        lane.lane = "GQA";
        dialog.propose(lane);
        for (QPushButton* button : dialog.findChildren<QPushButton*>())
            if (button->text() == QStringLiteral("&Add")) QVERIFY(!button->isEnabled());
    }

    void aForkTakesTheFirstFreeNameAndRefusesATakenOne() {
        ForkDialog dialog({{"a", 55}, {"b", 20}}, "a", {}, {"a", "b"}, 16);
        auto* ok = dialog.findChild<QDialogButtonBox*>()->button(QDialogButtonBox::Ok);
        QVERIFY(ok->isEnabled());
        QCOMPARE(dialog.choice().name, std::string("c"));
        QCOMPARE(dialog.choice().parent, std::string("a"));
        QVERIFY(!dialog.choice().position && !dialog.choice().prompt && !dialog.choice().max_new_tokens);
        dialog.findChild<QLineEdit*>(QString(), Qt::FindDirectChildrenOnly)->setText(QStringLiteral("b"));
        QVERIFY(!ok->isEnabled());
        dialog.findChild<QLineEdit*>(QString(), Qt::FindDirectChildrenOnly)->clear();
        QVERIFY(!ok->isEnabled());
    }

    void aForkAtAnEarlierPositionSaysWhatIsShared() {
        ForkDialog dialog({{"a", 55}}, "a", 37u, {"a"}, 16);
        QVERIFY(dialog.choice().position == 37u);
        QString text;
        for (QLabel* label : dialog.findChildren<QLabel*>()) text += label->text();
        QVERIFY2(text.contains(QStringLiteral("3 blocks will be shared, the last with 5 of 16 slots")), qPrintable(text));
        dialog.findChild<QPlainTextEdit*>()->setPlainText(QStringLiteral("Tell me more"));
        QCOMPARE(*dialog.choice().prompt, std::string("Tell me more"));
        QVERIFY(ForkDialog({}, "", {}, {}, 16).findChild<QDialogButtonBox*>()->button(QDialogButtonBox::Ok)->isEnabled() == false);
    }

    void actionsCarryWhatTheDialogWasFilledWith() {
        ForkChoice choice;
        choice.parent = "a";
        choice.name = "c";
        choice.position = 37;
        choice.prompt = "Tell me";
        choice.max_new_tokens = 18;
        const ScenarioAction fork = SessionController::fork(choice);
        QVERIFY(fork.kind == ActionKind::fork);
        QVERIFY(fork.request == "a" && fork.as == "c" && fork.position == 37u && fork.prompt == "Tell me" &&
                fork.max_new_tokens == 18u);
        QVERIFY(SessionController::preempt(QStringLiteral("b")).kind == ActionKind::preempt);
        QVERIFY(SessionController::evict(BlockId(5)).block == 5u);
        QVERIFY(SessionController::resetPrefixCache().kind == ActionKind::reset_prefix_cache);
    }
};

QTEST_MAIN(TestDialogs)
#include "tst_dialogs.moc"
