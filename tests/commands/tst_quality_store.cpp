// SPDX-License-Identifier: GPL-3.0-or-later
//
// What was measured on a text is found again by the lanes' weights and caches, whatever they are called, and a damaged file costs
// nothing but what it held.
#include <QFile>
#include <QTemporaryDir>
#include <QTest>

#include "gui/quality_json.h"
#include "gui/quality_store.h"

using namespace kvloupe;

namespace {

QualityFigure figure(double value) { return {value, value - 0.25, value + 0.5, 1000}; }

LaneQuality lane(const std::string& name, const std::string& key, double perplexity, bool compared) {
    LaneQuality lane;
    lane.lane = name;
    lane.model = "gqa";
    lane.weights_id = 0xFEDCBA9876543210u;
    lane.key = key;
    lane.cache = "int8, a scale per token and head";
    lane.perplexity = figure(perplexity);
    lane.blocks = {{0, 63, figure(perplexity + 1), {}}, {64, 127, figure(perplexity), {}}};
    lane.recall = {{2, 20, figure(0.5)}, {4, 240, {}}};
    lane.recall_total = {0, 0, figure(0.5)};
    lane.steps = {{1, 3, 4.5, compared ? 0.25 : 0, compared ? 0.5 : 1}, {2, 2, 1.25, 0, 1}};
    lane.seconds = 1.5;
    if (!compared) return lane;
    lane.perplexity_ratio = figure(1.001);
    lane.divergence = figure(0.25);
    lane.divergence_p99 = 0.75;
    lane.divergence_max = 1.25;
    lane.agreement = figure(0.5);
    lane.first_difference = {17u, std::nullopt, 3u};
    lane.blocks[0].divergence = figure(0.125);
    return lane;
}

QualityReport report(const std::string& hash = "abc") {
    QualityReport report;
    report.text = "512 stories";
    report.text_hash = hash;
    report.texts = 3;
    report.tokens = 1000;
    report.questions = 8;
    report.unit = "texts";
    report.reference = "exact";
    report.measured_on = "2026-11-30";
    report.device = "CPU, 2 threads";
    report.lanes = {lane("exact", "w|f32", 4, false), lane("coarse", "w|int8", 4.5, true)};
    return report;
}

}  // namespace

class TestQualityStore : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void aReportIsFoundAgainByWhatItsNumbersDependOn() {
        QTemporaryDir folder;
        const std::string path = folder.filePath(QStringLiteral("new/quality.json")).toStdString();
        const QualityStore store(path);
        QVERIFY(!store.find({{"exact", "w|f32"}}));
        QVERIFY(store.keep(report()));
        auto found = QualityStore(path).find({{"exact", "w|f32"}, {"coarse", "w|int8"}});
        QVERIFY(found);
        QVERIFY(*found == report());
        // Other names, one lane more that nobody measured.
        found = store.find({{"new", "w|fp8"}, {"eight bits", "w|int8"}, {"plain", "w|f32"}});
        QVERIFY(found);
        QCOMPARE(found->reference, std::string("plain"));
        QCOMPARE(found->lanes.size(), std::size_t(2));
        QVERIFY(found->find("eight bits")->divergence.measured());
        QVERIFY(!found->find("new"));
        // Without the reference nothing is compared with it.
        QVERIFY(!store.find({{"eight bits", "w|int8"}}));
        QVERIFY(!store.find({}));
    }

    void aNewMeasurementReplacesItsLanesAndKeepsTheOthers() {
        QTemporaryDir folder;
        const QualityStore store(folder.filePath(QStringLiteral("quality.json")).toStdString());
        QVERIFY(store.keep(report()));
        QualityReport again = report();
        again.lanes = {lane("exact", "w|f32", 4.25, false), lane("fp8", "w|fp8", 5, true)};
        QVERIFY(store.keep(again));
        const auto found = store.find({{"exact", "w|f32"}, {"coarse", "w|int8"}, {"fp8", "w|fp8"}});
        QVERIFY(found);
        QCOMPARE(found->lanes.size(), std::size_t(3));
        QCOMPARE(found->find("exact")->perplexity.value, 4.25);
        QCOMPARE(found->find("coarse")->perplexity.value, 4.5);
    }

    void theNewestTextIsFoundAndOldOnesGo() {
        QTemporaryDir folder;
        const QualityStore store(folder.filePath(QStringLiteral("quality.json")).toStdString());
        for (std::size_t i = 0; i < QualityStore::most_entries + 5; ++i) QVERIFY(store.keep(report(std::to_string(i))));
        const auto found = store.find({{"exact", "w|f32"}});
        QVERIFY(found);
        QCOMPARE(found->text_hash, std::to_string(QualityStore::most_entries + 4));
    }

    void whatIsNotCompleteIsNotKept() {
        QTemporaryDir folder;
        const QualityStore store(folder.filePath(QStringLiteral("quality.json")).toStdString());
        QualityReport cancelled = report();
        cancelled.state = QualityReport::State::cancelled;
        QVERIFY(store.keep(cancelled));
        QVERIFY(!store.find({{"exact", "w|f32"}}));
        QualityReport failed = report();
        failed.lanes[1].failure = "its logits are not finite";
        QVERIFY(store.keep(failed));
        const auto found = store.find({{"exact", "w|f32"}, {"coarse", "w|int8"}});
        QVERIFY(found);
        QCOMPARE(found->lanes.size(), std::size_t(1));
    }

    void aLaneLikeTheReferenceKeepsItsComparison() {
        QTemporaryDir folder;
        const QualityStore store(folder.filePath(QStringLiteral("quality.json")).toStdString());
        QualityReport twins = report();
        twins.lanes.push_back(lane("twin", "w|f32", 4, true));
        QVERIFY(store.keep(twins));
        const auto found = store.find({{"exact", "w|f32"}, {"twin", "w|f32"}});
        QVERIFY(found);
        QVERIFY(!found->find("exact")->divergence.measured());
        QVERIFY(found->find("twin")->divergence.measured());
    }

    void aDamagedFileIsAnEmptyStore() {
        QTemporaryDir folder;
        const QString path = folder.filePath(QStringLiteral("quality.json"));
        const QualityStore store(path.toStdString());
        for (const char* content : {"", "{", "[1, 2]", R"({"measurements": 5})", R"({"measurements": [1, {"lanes": 7}, {"lanes": [3]}]})",
                                    R"({"measurements": [{"reference_key": "w|f32", "lanes": [{"key": "w|f32"}]}]})"}) {
            QFile file(path);
            QVERIFY(file.open(QIODevice::WriteOnly));
            file.write(content);
            file.close();
            QVERIFY2(!store.find({{"exact", "w|f32"}}), content);
            QVERIFY2(static_cast<bool>(store.keep(report())), content);
            QVERIFY2(store.find({{"exact", "w|f32"}}).has_value(), content);
        }
        QVERIFY(QualityStore("").keep(report()));
        QVERIFY(!QualityStore("").find({{"exact", "w|f32"}}));
    }

    void figuresThatWereNotMeasuredAreNull() {
        const nlohmann::json document = json_of(report());
        QVERIFY(document.at("lanes").at(0).at("divergence").is_null());
        QVERIFY(document.at("lanes").at(0).at("divergence_p99").is_null());
        QCOMPARE(document.at("lanes").at(1).at("divergence").at("value").get<double>(), 0.25);
        QCOMPARE(document.at("origin").get<std::string>(), std::string("measured"));
        const auto back = lane_quality_of(document.at("lanes").at(1));
        QVERIFY(back && *back == report().lanes[1]);
    }
};

QTEST_GUILESS_MAIN(TestQualityStore)
#include "tst_quality_store.moc"
