// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/environment.h"
#include "gui/size_dialog.h"
#include "tests/gui/window_fixture.h"

#include "engine/analysis/size_cases.h"

#include <QApplication>
#include <QClipboard>
#include <QComboBox>
#include <QDialogButtonBox>
#include <QDoubleSpinBox>
#include <QLabel>
#include <QLineEdit>
#include <QMenu>
#include <QMenuBar>
#include <QPushButton>
#include <QSpinBox>
#include <QTemporaryDir>
#include <QTextBrowser>
#include <QTimer>

#include <memory>
#include <stdexcept>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

KnownModels table() {
    auto known = known_models();
    return known ? std::move(*known) : throw std::runtime_error(known.error().message());
}

// The field that the label with this text belongs to.
template <class Field>
Field* field(const QWidget& dialog, const QString& label) {
    for (const QLabel* each : dialog.findChildren<QLabel*>())
        if (QString(each->text()).remove('&') == label)
            return each->buddy()
                       ? qobject_cast<Field*>(each->buddy()->focusProxy() ? each->buddy()->focusProxy() : each->buddy())
                       : nullptr;
    return nullptr;
}

}  // namespace

class TestSizeDialog : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void initTestCase() { keepSettingsIn(m_folder.path(), QStringLiteral("size-dialog")); }
    void init() { startAfresh(); }

    void theMenuOpensItOnTheSessionsModel() {
        MainWindow window;
        window.show();
        openBundled(window);
        QString name, text;
        QTimer::singleShot(50, [&] {
            auto* dialog = qobject_cast<SizeDialog*>(QApplication::activeModalWidget());
            if (!dialog) return;
            if (dialog->report()) name = QString::fromStdString(dialog->report()->model.config.name);
            text = dialog->text();
            dialog->reject();
        });
        bool triggered = false;
        for (QAction* menu : window.menuBar()->actions())
            for (QAction* action : menu->menu()->actions())
                if (QString(action->text()).remove('&') == QString::fromUtf8("Size…")) {
                    triggered = true;
                    action->trigger();
                }
        QVERIFY(triggered);
        QCOMPARE(name, QString::fromStdString(default_bundled_model()));
        QVERIFY2(text.contains(QString::fromUtf8("2 × 4 layers × 2 KV heads × 16 values × 2 B = 512 B")),
                 qPrintable(text));
    }

    void everyEverydayCaseIsAPreset() {
        SizeDialog dialog(table(), {});
        auto* cases = field<QComboBox>(dialog, QStringLiteral("Everyday case"));
        QVERIFY(cases);
        QCOMPARE(cases->count(), 8);
        const double gibibytes[] = {0.5, 4, 2.5, 16, 8, 64, 8};
        QVERIFY2(dialog.report(), qPrintable(dialog.problem()));
        QCOMPARE(dialog.report()->kv_bytes, quint64(1) << 29);  // the first is shown at once
        for (int i = 7; i > 0; --i) {
            cases->setCurrentIndex(i);
            QVERIFY2(dialog.report(), qPrintable(dialog.problem()));
            QCOMPARE(dialog.report()->kv_bytes, quint64(gibibytes[i - 1] * (1 << 30)));
            QCOMPARE(cases->currentIndex(), i);
        }
        field<QComboBox>(dialog, QStringLiteral("GPU"))->setCurrentIndex(1);
        QCOMPARE(cases->currentIndex(), 1);
        field<QSpinBox>(dialog, QStringLiteral("Context"))->setValue(5000);  // no longer that case
        QCOMPARE(cases->currentIndex(), 0);
        QCOMPARE(dialog.report()->kv_bytes, quint64(5000) * 131072);
    }

    void fieldsAreReachedAndSetByTheKeyboard() {
        SizeDialog dialog(table(), QStringLiteral("GPT-2"));
        dialog.show();
        QVERIFY(QTest::qWaitForWindowActive(&dialog));
        QVERIFY2(dialog.report(), qPrintable(dialog.problem()));
        QCOMPARE(dialog.report()->request.context, quint64(1024));
        auto* name = field<QComboBox>(dialog, QStringLiteral("Model"));
        QVERIFY(name);
        name->setFocus();
        name->lineEdit()->selectAll();
        QTest::keyClicks(name->lineEdit(), QStringLiteral("llama-3-70b"));
        QTest::keyClick(name->lineEdit(), Qt::Key_Return);  // the field's, not the dialog's end
        QVERIFY(dialog.isVisible());
        QCOMPARE(dialog.report()->kv_bytes_per_token, quint64(327680));
        QTest::keyClick(&dialog, Qt::Key_T, Qt::AltModifier);
        auto* tensor = field<QSpinBox>(dialog, QStringLiteral("Tensor parallel"));
        QCOMPARE(dialog.focusWidget(), static_cast<QWidget*>(tensor));
        tensor->selectAll();
        QTest::keyClicks(tensor, QStringLiteral("8"));
        QCOMPARE(dialog.report()->stages[0].kv_bytes_per_token, quint64(40960));
        auto* gpu = field<QComboBox>(dialog, QStringLiteral("GPU"));
        auto* utilization = field<QDoubleSpinBox>(dialog, QStringLiteral("Utilization"));
        QVERIFY(!utilization->isEnabled());
        QVERIFY(!dialog.report()->sequences_that_fit);
        QTest::keyClick(&dialog, Qt::Key_G, Qt::AltModifier);
        QCOMPARE(dialog.focusWidget(), static_cast<QWidget*>(gpu));
        QTest::keyClicks(gpu, QStringLiteral("H2"));
        QCOMPARE(gpu->currentText(), QStringLiteral("H200 SXM"));
        QVERIFY(utilization->isEnabled());
        const auto most = *dialog.report()->sequences_that_fit;
        utilization->setValue(0.5);
        QVERIFY(*dialog.report()->sequences_that_fit < most);
        // Every mnemonic belongs to one field.
        QStringList taken;
        for (const QLabel* label : dialog.findChildren<QLabel*>()) {
            const auto at = label->text().indexOf('&');
            if (at < 0 || !label->buddy()) continue;
            const QString letter = label->text().mid(at + 1, 1).toLower();
            QVERIFY2(!taken.contains(letter), qPrintable(letter));
            taken << letter;
        }
        QCOMPARE(taken.size(), 11);
        QTest::keyClick(&dialog, Qt::Key_Escape);
        QVERIFY(!dialog.isVisible());
    }

    void keysAndValuesHaveTheirOwnPrecision() {
        SizeDialog dialog(table(), QStringLiteral("Llama-3-8B"));
        field<QComboBox>(dialog, QStringLiteral("Keys in"))->setCurrentText(QStringLiteral("q8_0"));
        QCOMPARE(dialog.report()->kv_bytes_per_token, quint64(69632 / 2 + 65536));
        field<QComboBox>(dialog, QStringLiteral("Values in"))->setCurrentText(QStringLiteral("q4_0"));
        QCOMPARE(dialog.report()->kv_bytes_per_token, quint64((69632 + 36864) / 2));
    }

    void whatCannotBeIsSaidAndRecovered() {
        SizeDialog dialog(table(), QStringLiteral("GPT-2 XL"));
        auto* tensor = field<QSpinBox>(dialog, QStringLiteral("Tensor parallel"));
        auto* result = dialog.findChild<QTextBrowser*>(QStringLiteral("result"));
        QVERIFY(result->toPlainText().contains(QStringLiteral("KV per token")));
        tensor->setValue(2);
        QVERIFY(!dialog.report());
        QVERIFY2(dialog.problem().contains(QStringLiteral("25 query heads")), qPrintable(dialog.problem()));
        QCOMPARE(result->toPlainText(), dialog.problem());  // no numbers beside fields that they do not belong to
        tensor->setValue(5);
        QVERIFY(dialog.report());
        QVERIFY(dialog.problem().isEmpty());
        auto* name = field<QComboBox>(dialog, QStringLiteral("Model"));
        name->setCurrentText(QStringLiteral("Lama-3-8B"));
        Q_EMIT name->lineEdit()->editingFinished();
        QVERIFY2(dialog.problem().contains(QStringLiteral("Llama-3-8B")), qPrintable(dialog.problem()));
        tensor->setValue(1);
        QVERIFY(!dialog.problem().isEmpty());  // another number does not make it known
        name->setCurrentText(QStringLiteral(KVLOUPE_SOURCE_DIR "/tests/fixtures/tiny-gqa/tiny-gqa.Q8_0.gguf"));
        Q_EMIT name->lineEdit()->editingFinished();
        QVERIFY2(dialog.report(), qPrintable(dialog.problem()));
        QVERIFY(dialog.report()->weights_stored);
    }

    void aDialogMayEndWhileItIsShown() {
        auto dialog = std::make_unique<SizeDialog>(table(), QStringLiteral("GPT-2"));
        dialog->show();
        QVERIFY(QTest::qWaitForWindowActive(dialog.get()));
        field<QComboBox>(*dialog, QStringLiteral("Model"))->setFocus();
        dialog.reset();
    }

    void theResultCanBeCopied() {
        SizeDialog dialog(table(), {});
        for (QPushButton* button : dialog.findChildren<QPushButton*>())
            if (QString(button->text()).remove('&') == QLatin1String("Copy")) button->click();
        QCOMPARE(QApplication::clipboard()->text(), dialog.text());
        QVERIFY(dialog.text().contains(QString::fromUtf8("KV per token\t2 × 32 layers × 8 KV heads × 128 values × 2 B")));
    }

private:
    QTemporaryDir m_folder;
};

QTEST_MAIN(TestSizeDialog)
#include "tst_size_dialog.moc"
