// SPDX-License-Identifier: GPL-3.0-or-later
//
// The table of differences of two lanes: its rows, its job, and the way to where they part.
#include <QTest>

#include "tests/support/demo_sharing.h"
#include "tests/views/compare_fixture.h"
#include "views/difference_view.h"
#include "views/reference.h"
#include "views/table_picture.h"

#include <QAbstractItemModelTester>
#include <QRegularExpression>
#include <QSignalSpy>
#include <QTableView>

#include <cmath>

using namespace kvloupe;

namespace {

std::shared_ptr<const Recording> paged(std::uint32_t blocks) {
    DemoSharingOptions options;
    options.lanes = {"paged"};
    options.steps = 120;
    options.blocks = blocks;
    return demo_sharing_recording(options);
}

}  // namespace

class TestDifferenceTable : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() { QTest::failOnWarning(QRegularExpression(QStringLiteral(".*"))); }

    void theTableHoldsWhatDiffersByWeight() {
        const auto a = paged(80), b = paged(60);
        Cursor cursor;
        cursor.setRecording(a);
        auto view = shown<DifferenceView>(cursor);
        QVERIFY(view->accessibleDescription().contains(QStringLiteral("Nothing is compared")));
        DifferenceModel model;
        QAbstractItemModelTester tester(&model, QAbstractItemModelTester::FailureReportingMode::QtTest);
        const RecordingDiff diff = diff_lanes(*a, LaneId(0), *b, LaneId(0));
        model.show(diff, QStringLiteral("here"), QStringLiteral("there"));
        model.setLook(Palette::light(), QFont());
        QCOMPARE(model.rowCount(), static_cast<int>(diff.configuration.size() + diff.numbers.size() + diff.first.size()));
        const auto cell = [&](int row, int column) { return model.index(row, column).data(csvRole).toString(); };
        double before = HUGE_VAL;
        int section = 0;
        bool blocks = false, counted = false;
        for (int row = 0; row < model.rowCount(); ++row) {
            const QStringList sections{QStringLiteral("Configuration"), QStringLiteral("Numbers"), QStringLiteral("Where they part")};
            const int now = static_cast<int>(sections.indexOf(cell(row, DifferenceModel::section)));
            QVERIFY(now >= section);
            section = now;
            blocks = blocks || (cell(row, DifferenceModel::what) == QLatin1String("blocks") &&
                                cell(row, DifferenceModel::here) == QLatin1String("80") &&
                                cell(row, DifferenceModel::there) == QLatin1String("60") && cell(row, DifferenceModel::delta).isEmpty());
            if (section != 1) continue;
            const QString percent = cell(row, DifferenceModel::percent);
            const double weight = percent.isEmpty() ? HUGE_VAL : std::abs(percent.toDouble());
            QVERIFY(weight <= before * 1.0001);
            before = weight;
            if (cell(row, DifferenceModel::what) != QLatin1String("kv.waste_percent")) continue;
            counted = true;
            const double here = cell(row, DifferenceModel::here).toDouble(), there = cell(row, DifferenceModel::there).toDouble();
            QVERIFY(std::abs(cell(row, DifferenceModel::delta).toDouble() - (here - there)) < 1e-6);
            QVERIFY(std::abs(percent.toDouble() - (here - there) / there * 100) < 1e-2);
            QCOMPARE(model.index(row, DifferenceModel::here).data(originRole).toInt(), static_cast<int>(Origin::derived));
        }
        QCOMPARE(section, 2);
        QVERIFY(blocks && counted);
    }

    void theViewComparesInItsJobAndGoesToWhereTheyPart() {
        const auto a = paged(80), b = paged(60);
        Cursor cursor;
        cursor.setRecording(a);
        auto view = shown<DifferenceView>(cursor);
        cursor.compareWith(b, LaneId(0), Alignment::time, QStringLiteral("small.kvt"));
        view->catchUp();
        view->settle();
        QVERIFY(view->model()->rowCount() > 0);
        QSignalSpy told(view.get(), &DifferenceView::told);
        int gone = 0;
        for (int row = 0; row < view->model()->rowCount(); ++row) {
            const Parting* parting = view->model()->partingAt(row);
            if (!parting) continue;
            cursor.setStep(0);
            Q_EMIT view->table()->activated(view->model()->index(row, 0));
            QCOMPARE(cursor.step(), static_cast<int>(parting->step_a));
            QCOMPARE(cursor.reference()->step(), static_cast<int>(parting->step_b));
            QCOMPARE(cursor.locked().sequence, std::optional(parting->sequence));
            ++gone;
        }
        QVERIFY(gone > 0);
        cursor.setStep(0);
        view->goToFirst(Parting::table);
        QVERIFY(cursor.step() > 0);
        QCOMPARE(told.count(), 0);
        view->goToFirst(Parting::logit);  // these lanes have none
        QCOMPARE(told.count(), 1);
        QCOMPARE(told.front().front().toString(), QStringLiteral("There is no first other logit."));
        cursor.stopComparing();
        QCOMPARE(view->model()->rowCount(), 0);
        view->goToFirst(Parting::table);
        QCOMPARE(told.count(), 2);
    }

    void equalRecordingsAreSaidToBeTheSame() {
        Cursor cursor;
        cursor.setRecording(paged(80));
        cursor.compareWith(paged(80), LaneId(0), Alignment::step, QStringLiteral("again.kvt"));
        auto view = shown<DifferenceView>(cursor);
        view->settle();
        QCOMPARE(view->model()->rowCount(), 0);
        QVERIFY(view->accessibleDescription().startsWith(QStringLiteral("Nothing differs")));
    }

    void timesAreLeftOutWhereNobodyAsksForThem() {
        const auto a = paged(80), b = paged(60);
        Cursor cursor;
        cursor.setRecording(a);
        cursor.compareWith(b, LaneId(0), Alignment::step);
        auto view = shown<DifferenceView>(cursor);
        view->settle();
        const auto times = [&] {
            int found = 0;
            for (const DiffValue& value : view->model()->diff().numbers) found += value.name.find("_ms") != std::string::npos;
            return found;
        };
        QVERIFY(times() > 0);
        view->choose(QStringLiteral("times"), 1);
        view->settle();
        QCOMPARE(times(), 0);
        QVERIFY(view->model()->rowCount() > 0);
    }
};

QTEST_MAIN(TestDifferenceTable)
#include "tst_difference_table.moc"
