// SPDX-License-Identifier: GPL-3.0-or-later
//
// The picture of measured quality: what it shows is what was measured, what was not is said, and it asks for a measurement.
#include <QTest>

#include "tests/views/compare_fixture.h"
#include "tests/views/variants_fixture.h"
#include "views/quality_view.h"

#include <QPushButton>
#include <QRegularExpression>
#include <QSignalSpy>

#include <cmath>

using namespace kvloupe;

namespace {

std::unique_ptr<QualityView> qualityShown(Cursor& cursor, std::shared_ptr<const QualityReport> report, int width = 600) {
    auto view = std::make_unique<QualityView>(&cursor);
    view->resize(width, 300);
    view->catchUp();
    view->setQuality(std::move(report));
    return view;
}

}  // namespace

class TestQualityView : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() { QTest::failOnWarning(QRegularExpression(QStringLiteral(".*"))); }

    void whatIsNotMeasuredIsAskedFor() {
        Cursor cursor;
        cursor.setRecording(variants(3));
        const auto view = qualityShown(cursor, nullptr);
        QSignalSpy asked(view.get(), &View::emptyAction);
        auto* button = view->findChild<QPushButton*>();
        QVERIFY(button && !button->isHidden());
        button->click();
        QCOMPARE(asked.size(), qsizetype(1));
        QCOMPARE(asked.front().front().toString(), QStringLiteral("measure-quality"));
        QCOMPARE(rowsOf(view->csv()).size(), qsizetype(1));
        view->setQuality(variantsQuality());
        QVERIFY(button->isHidden());
        QVERIFY(view->subtitle().contains(QStringLiteral("512 stories")));
        view->setQuality(nullptr);
        QVERIFY(!button->isHidden());
    }

    void lanesWithoutAModelHaveNothingToMeasure() {
        Cursor cursor;
        RecordingWriter writer("accounting", 1 << 20);
        LaneInfo info;
        info.name = "accounting";
        writer.add_lane(info, std::make_shared<VocabularyText>());
        writer.lanes_complete();
        cursor.setRecording(writer.recording());
        const auto view = qualityShown(cursor, nullptr);
        QVERIFY(!view->findChild<QPushButton*>());  // measuring would change nothing
        QVERIFY(view->accessibleDescription().contains(QStringLiteral("No lane has a model")));
    }

    void theTableHoldsEveryMeasuredFigure() {
        Cursor cursor;
        cursor.setRecording(variants(3));
        const auto report = variantsQuality();
        const auto view = qualityShown(cursor, report);
        // Names hold commas, so rows are told by their beginning.
        const QString csv = view->csv();
        for (const LaneQuality& lane : report->lanes) {
            const QString name = QString::fromStdString(lane.lane);
            const QString perplexity = QStringLiteral("\r\n%1,GQA,perplexity,,,%2,%3,%4,52000\r\n")
                                           .arg(name).arg(lane.perplexity.value, 0, 'g', 9).arg(lane.perplexity.low, 0, 'g', 9).arg(lane.perplexity.high, 0, 'g', 9);
            QVERIFY2(csv.contains(perplexity), qPrintable(perplexity));
            QCOMPARE(csv.count(QStringLiteral("\r\n%1,GQA,\"recall by distance, share\",").arg(name)), qsizetype(4));
            QCOMPARE(csv.count(QStringLiteral("\r\n%1,GQA,perplexity by position,").arg(name)), qsizetype(6));
            QCOMPARE(csv.contains(QStringLiteral("\r\n%1,GQA,\"KL divergence, nats\",").arg(name)), lane.lane != "GQA");
        }
    }

    void answersOfAllNumbersOfFactsCountTogetherByDistance() {
        LaneQuality lane;
        lane.recall = {{2, 20, wilson(30, 40)}, {2, 40, wilson(10, 40)}, {4, 20, wilson(20, 60)}, {8, 80, {}}};
        const auto by_distance = recall_by_distance(lane);
        QCOMPARE(by_distance.size(), std::size_t(2));
        QCOMPARE(by_distance[0].distance, 20u);
        QCOMPARE(by_distance[0].right.value, 0.5);
        QCOMPARE(by_distance[0].right.samples, std::uint64_t(100));
        QCOMPARE(by_distance[0].right.low, wilson(50, 100).low);
        QCOMPARE(by_distance[1].right.value, 0.25);
    }

    void moreRoomShowsMoreParts() {
        Cursor cursor;
        cursor.setRecording(variants(3));
        const auto view = qualityShown(cursor, variantsQuality());
        QCOMPARE(view->partsShown(430).front(), QStringLiteral("perplexity"));
        QStringList before = view->partsShown(200);
        QCOMPARE(before.size(), qsizetype(1));
        for (int width = 220; width <= 1600; width += 20) {
            const QStringList now = view->partsShown(width);
            QVERIFY2(now.mid(0, before.size()) == before, "a wider view shows what a narrower one showed, and more");
            before = now;
        }
        QCOMPARE(before, QStringList({QStringLiteral("perplexity"), QStringLiteral("recall"), QStringLiteral("recall by distance"),
                                      QStringLiteral("perplexity change"), QStringLiteral("KL divergence"), QStringLiteral("KL divergence by position")}));
        view->choose(QStringLiteral("show"), 3);
        QCOMPARE(view->partsShown(700), QStringList({QStringLiteral("recall by distance"), QStringLiteral("KL divergence by position")}));
    }

    void whatThereAreNoFiguresOfIsNotDrawn() {
        Cursor cursor;
        cursor.setRecording(variants(3, 0, 1));
        auto report = std::make_shared<QualityReport>(*variantsQuality());
        report->lanes.resize(1);
        report->reference = "MHA";
        report->questions = 0;
        LaneQuality& lane = report->lanes.front();
        lane.recall.clear();
        lane.recall_total = {};
        lane.divergence = lane.perplexity_ratio = lane.agreement = {};
        for (QualityBlock& block : lane.blocks) block.divergence = {};
        const auto view = qualityShown(cursor, report, 1400);
        QCOMPARE(view->partsShown(1400), QStringList(QStringLiteral("perplexity")));
        QVERIFY(!view->image().isNull());
    }

    void aMeasurementThatRunsSaysHowFarItIs() {
        Cursor cursor;
        cursor.setRecording(variants(3));
        auto report = std::make_shared<QualityReport>(*variantsQuality());
        report->state = QualityReport::State::running;
        report->texts = 64;
        const auto view = qualityShown(cursor, report);
        QVERIFY2(view->subtitle().contains(QStringLiteral("64 texts")), qPrintable(view->subtitle()));
        QSignalSpy asked(view.get(), &View::emptyAction);
        QTest::keyClick(view.get(), Qt::Key_M);
        QCOMPARE(asked.size(), qsizetype(0));
        view->setQuality(variantsQuality());
        QTest::keyClick(view.get(), Qt::Key_M);
        QCOMPARE(asked.size(), qsizetype(1));
    }

    void aLaneThatWasNotMeasuredIsCounted() {
        Cursor cursor;
        cursor.setRecording(variants(3));
        auto report = std::make_shared<QualityReport>(*variantsQuality());
        report->lanes.erase(report->lanes.begin());
        const auto view = qualityShown(cursor, report);
        QVERIFY2(view->subtitle().contains(QStringLiteral("1 lane not measured")), qPrintable(view->subtitle()));
        QVERIFY(!view->csv().contains(QStringLiteral("\r\nMHA,")));
    }

    void rowsAreLanesForKeyboardAndLock() {
        Cursor cursor;
        cursor.setRecording(variants(3));
        const auto view = qualityShown(cursor, variantsQuality());
        view->show();
        QTest::keyClick(view.get(), Qt::Key_Down);
        QTest::keyClick(view.get(), Qt::Key_Down);
        QVERIFY(cursor.hover().lane == LaneId(1));
        QTest::keyClick(view.get(), Qt::Key_Return);
        QVERIFY(cursor.locked().lane == LaneId(1));
        QCOMPARE(cursor.lane(), LaneId(1));
    }

    void scalesHoldAllIntervalsBetweenRoundTicks() {
        const NiceScale linear = qualityScale(QualityColumn::perplexity, {{2.1, 2.05, 2.2, 10}, {9.4, 9.1, 9.9, 10}, {}}, 6);
        QVERIFY(linear.low < 2.05 && linear.high > 9.9);
        QVERIFY(linear.ticks.size() >= 3 && linear.ticks.size() <= 6);
        for (const double tick : linear.ticks) QVERIFY(std::abs(tick / linear.step - std::round(tick / linear.step)) < 1e-9);
        const NiceScale powers = qualityScale(QualityColumn::divergence, {{3e-6, 2e-6, 4e-6, 10}, {0.2, 0.1, 0.3, 10}, {0, 0, 0, 10}}, 12);
        QVERIFY(powers.logarithmic);
        QVERIFY(powers.low <= 2e-6 && powers.high >= 0.3);
        QCOMPARE(powers.share(0), 0.0);  // what does not differ stands at the edge
        QVERIFY(std::abs(powers.share(std::sqrt(powers.low * powers.high)) - 0.5) < 1e-9);
        const NiceScale recall = qualityScale(QualityColumn::recall, {{1, 0.99, 1, 400}, {0.9, 0.87, 0.92, 400}}, 5);
        QVERIFY(recall.ticks.back() <= 1);
        const NiceScale same = qualityScale(QualityColumn::perplexity, {{2, 2, 2, 10}}, 5);
        QVERIFY(same.low < 2 && same.high > 2);
    }

    void numbersSayAsMuchAsTheyKnow() {
        QCOMPARE(qualityNumber(QualityColumn::perplexity, 2.13401), QStringLiteral("2.134"));
        QCOMPARE(qualityNumber(QualityColumn::perplexity, 17.456), QStringLiteral("17.46"));
        QCOMPARE(qualityNumber(QualityColumn::recall, 0.984), QStringLiteral("98.4 %"));
        QCOMPARE(qualityNumber(QualityColumn::ratio, 1.00016), QStringLiteral("+0.016 %"));
        QCOMPARE(qualityNumber(QualityColumn::ratio, 0.9871), QStringLiteral("−1.3 %"));
        QCOMPARE(qualityNumber(QualityColumn::ratio, 1.0), QStringLiteral("0.000 %"));
        QCOMPARE(qualityNumber(QualityColumn::divergence, 3.2e-6), QStringLiteral("3.2e−6"));
    }
};

QTEST_MAIN(TestQualityView)
#include "tst_quality_view.moc"
