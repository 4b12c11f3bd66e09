// SPDX-License-Identifier: GPL-3.0-or-later
//
// Ledger and parameters: the tables hold what the records say, sums are right, and what nothing explains is seen.
#include <QTest>

#include "engine/record/attention_ledger.h"
#include "tests/views/compare_fixture.h"
#include "tests/views/variants_fixture.h"
#include "views/ledger_view.h"
#include "views/parameters_view.h"
#include "views/table_picture.h"

#include <QAbstractItemModelTester>
#include <QLabel>
#include <QRegularExpression>
#include <QTableView>

using namespace kvloupe;

class TestLedgerViews : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() { QTest::failOnWarning(QRegularExpression(QStringLiteral(".*"))); }

    void theModelKeepsItsPromises() {
        Cursor cursor;
        LedgerModel model;
        QAbstractItemModelTester tester(&model, QAbstractItemModelTester::FailureReportingMode::Fatal);
        model.show(cursor, true, Palette::light(), QFont());
        QCOMPARE(model.rowCount(), 0);
        cursor.setRecording(variants(20));
        for (const int step : {0, 7, 19, 3}) {
            cursor.setStep(step);
            for (const bool all : {true, false}) model.show(cursor, all, Palette::light(), QFont());
        }
        QVERIFY(model.rowCount() > 0);
        cursor.setRecording(nullptr);
        model.show(cursor, true, Palette::light(), QFont());
        QCOMPARE(model.rowCount(), 0);
    }

    void everyLineIsTheLedgersOwn() {
        Cursor cursor;
        cursor.setRecording(variants(20));
        cursor.setStep(13);
        LedgerModel model;
        model.show(cursor, true, Palette::light(), QFont());
        int row = 0;
        for (std::uint32_t lane = 0; lane < 6; ++lane) {
            auto expected = ledger(cursor.recording()->lane(LaneId(lane)), 13);
            for (LedgerEntry& entry : attention_ledger(cursor.recording()->lane(LaneId(lane)), 13)) expected.push_back(entry);
            for (const LedgerEntry& entry : expected) {
                QVERIFY(row < model.rowCount());
                const auto plain = [&](int column) { return model.index(row, column).data(csvRole).toString(); };
                QCOMPARE(plain(LedgerModel::lane), QString::fromLatin1(variant_lanes[lane].name));
                QCOMPARE(plain(LedgerModel::what), QString::fromStdString(entry.what));
                QCOMPARE(plain(LedgerModel::predicted), QString::number(*entry.predicted));
                QCOMPARE(plain(LedgerModel::measured), entry.measured ? QString::number(*entry.measured) : QString());
                if (entry.measured) {
                    QCOMPARE(plain(LedgerModel::residual), QString::number(entry.residual));
                    QCOMPARE(plain(LedgerModel::unexplained), QStringLiteral("0"));
                    QVERIFY(model.sentence(row).contains(QString::fromStdString(entry.residual_why)));
                }
                ++row;
            }
        }
        QCOMPARE(row, model.rowCount());
        QCOMPARE(model.unexplainedBytes(), std::uint64_t(0));
    }

    void whatNothingExplainsIsSeen() {
        Cursor cursor;
        cursor.setRecording(variants(20, 777));
        cursor.setStep(13);
        LedgerView view(&cursor);
        view.resize(1200, 300);
        view.catchUp();
        QCOMPARE(view.model()->unexplainedBytes(), std::uint64_t(777));
        QVERIFY2(view.subtitle().contains(QStringLiteral("777 B that nothing explains")), qPrintable(view.subtitle()));
        QVERIFY(view.csv().contains(QStringLiteral(",777,")));
    }

    void theLaneInFocusCanStandAlone() {
        Cursor cursor;
        cursor.setRecording(variants(5));
        LedgerView view(&cursor);
        view.resize(1000, 300);
        view.catchUp();
        const int all = view.model()->rowCount();
        cursor.setLane(LaneId(4));
        view.choose(QStringLiteral("lanes"), 1);
        QVERIFY(view.model()->rowCount() > 0 && view.model()->rowCount() < all);
        for (const auto& line : view.model()->lines()) QCOMPARE(line.lane, LaneId(4));
        view.show();
        view.activateWindow();
        QVERIFY(QTest::qWaitForWindowActive(&view));
        view.table()->setFocus();
        QTest::keyClick(view.table(), Qt::Key_C);
        QCOMPARE(view.model()->rowCount(), all);
        QTest::keyClick(view.table(), Qt::Key_Down);
        QTest::keyClick(view.table(), Qt::Key_Return);
        QVERIFY(cursor.locked().lane == view.model()->lines()[static_cast<std::size_t>(view.table()->currentIndex().row())].lane);
    }

    void aChosenRowIsToldInFull() {
        Cursor cursor;
        cursor.setRecording(variants(5));
        LedgerView view(&cursor);
        view.resize(700, 300);
        view.show();
        view.table()->selectRow(1);
        QStringList texts;
        for (const QLabel* label : view.findChildren<QLabel*>()) texts << label->text();
        const QString all = texts.join(QLatin1Char('\n'));
        const LedgerEntry& entry = view.model()->lines()[1].entry;
        QVERIFY2(all.contains(QString::fromStdString(entry.predicted_how)) && all.contains(QString::fromStdString(entry.measured_how)), qPrintable(all));
    }

    void aLaneWithoutAModelHasNoLedger() {
        Cursor cursor;
        cursor.setRecording(diverging());
        LedgerView view(&cursor);
        view.resize(500, 300);
        view.catchUp();
        QCOMPARE(view.model()->rowCount(), 0);
        QVERIFY(view.accessibleDescription().contains(QStringLiteral("no model")));
    }

    void parametersAreThePartsOfTheRecord() {
        Cursor cursor;
        cursor.setRecording(variants(3));
        ParametersView view(&cursor);
        view.resize(1200, 300);
        view.catchUp();
        const QList<QStringList> rows = rowsOf(view.csv());
        QCOMPARE(rows.size(), qsizetype(7));
        for (qsizetype i = 1; i < rows.size(); ++i) {
            const ParameterParts& parts = cursor.recording()->lane(LaneId(static_cast<std::uint32_t>(i - 1))).info().parameter_parts;
            QCOMPARE(rows[i][2].toULongLong(), parts.embedding);
            QCOMPARE(rows[i][3].toULongLong(), parts.attention);
            QCOMPARE(rows[i][4].toULongLong(), parts.feed_forward);
            qulonglong sum = 0;
            for (int part = 2; part < 7; ++part) sum += rows[i][part].toULongLong();
            QCOMPARE(rows[i][7].toULongLong(), sum);
        }
        QVERIFY2(view.subtitle().contains(QStringLiteral("4 models in 6 lanes")), qPrintable(view.subtitle()));
    }

    void attentionsOwnPartIsTheLastToGiveWay() {
        Cursor cursor;
        cursor.setRecording(variants(3));
        ParametersView view(&cursor);
        view.resize(1200, 300);
        view.catchUp();
        QCOMPARE(view.columnsShown(2000).size(), std::size_t(ParametersView::partCount_ + 1));
        std::vector<int> last = view.columnsShown(2000);
        for (int width = 2000; width > 0 && !last.empty(); width -= 10) {
            const std::vector<int> now = view.columnsShown(width);
            if (now.empty()) QCOMPARE(last, std::vector<int>{ParametersView::attention});
            last = now;
        }
        QVERIFY(last.empty());
    }
};

QTEST_MAIN(TestLedgerViews)
#include "tst_ledger_views.moc"
