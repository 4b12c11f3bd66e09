// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/breakpoint_dialog.h"
#include "gui/request_dialog.h"
#include "gui/session_controller.h"

#include <QCheckBox>
#include <QComboBox>
#include <QDialogButtonBox>
#include <QLineEdit>
#include <QListWidget>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QSpinBox>
#include <QTest>

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

    void aNewSessionKeepsTheLanesThatAreChosenAndTakesTheFields() {
        RequestDialog dialog(RequestDialog::Purpose::newSession, SessionController::bundledScenario());
        const auto boxes = dialog.findChildren<QCheckBox*>();
        QCOMPARE(boxes.size(), 4);
        boxes[0]->setChecked(false);
        dialog.findChild<QComboBox*>()->setCurrentText(QStringLiteral("bf16"));
        const Scenario scenario = dialog.scenario();
        QCOMPARE(static_cast<int>(scenario.lanes.size()), 3);
        QCOMPARE(scenario.lanes.front().name, std::string("GQA"));
        QCOMPARE(scenario.lanes.front().cache.dtype_k, DType::bf16);
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
};

QTEST_MAIN(TestDialogs)
#include "tst_dialogs.moc"
