// SPDX-License-Identifier: GPL-3.0-or-later
//
// What the views of a profile calculate: what bounds a stage, which layers stand out, the line through decode times, where
// names stand beside points, which steps have stages.
#include <QObject>  // first: moc 6.4 stumbles over libstdc++ when <compare> comes first

#include "tests/views/profile_fixture.h"
#include "views/data_sheet.h"
#include "views/roofline_points.h"
#include "views/stage_bound.h"
#include "views/staged_steps.h"
#include "views/step_profile.h"
#include "views/token_fit.h"
#include "views/zoom_range.h"

#include <QTest>

#include <cmath>

using namespace kvloupe;

namespace {

constexpr double tolerance = 1e-9;

bool near(double a, double b, double relative = tolerance) {
    return std::abs(a - b) <= relative * std::max(std::abs(a), std::abs(b));
}

Ceilings ceilings(double bandwidth, double rate) {
    Ceilings result;
    result.read_bandwidth = bandwidth;
    result.matrix_rate = rate;
    return result;
}

std::vector<std::uint16_t> outliersOf(const Recording& recording) {
    std::vector<std::uint16_t> layers;
    const auto profile = readProfile(recording.lane(LaneId(0)), 30);
    for (const ProfiledLayer& layer : profile->layers)
        if (layer.outlier) layers.push_back(layer.layer);
    return layers;
}

std::optional<TokenFit> fitOf(const std::vector<DecodePoint>& points) {
    return fitDecode(contextBins(points, context_ranges));
}

std::vector<DecodePoint> lineOf(double fixed, double slope, std::uint32_t from, std::uint32_t count) {
    std::vector<DecodePoint> points;
    for (std::uint32_t i = 0; i < count; ++i)
        points.push_back({static_cast<int>(i), 1, from + i, fixed + slope * (from + i)});
    return points;
}

}  // namespace

class TestProfileMath : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void ratesAreBytesAndFlopsOverTime() {
        const StageBound bound = bound_of({2000, 160'000, 320'000}, ceilings(100e9, 1e12));
        QVERIFY(near(bound.bytes_per_second, 80e9));
        QVERIFY(near(bound.flops_per_second, 160e9));
        QVERIFY(near(bound.flops_per_byte, 2));
        QVERIFY(near(bound.of_memory, 0.8));
        QVERIFY(near(bound.of_compute, 0.16));
        QVERIFY(near(bound.share, 0.8));
    }

    void theRidgeDividesMemoryFromCompute() {
        const Ceilings both = ceilings(100e9, 1e12);
        QVERIFY(near(ridge_of(both), 10));
        // Both on the roofline: left of the ridge the slope, right of it the roof.
        QCOMPARE(bound_of({1000, 100'000, 500'000}, both).limit, StageLimit::memory);
        QCOMPARE(bound_of({1000, 50'000, 1'000'000}, both).limit, StageLimit::compute);
        QVERIFY(near(attainable(5, both), 500e9));
        QVERIFY(near(attainable(20, both), 1e12));
        QCOMPARE(attainable(5, Ceilings{}), 0.0);
    }

    void belowThirtyPercentOfBothIsLatency() {
        const Ceilings both = ceilings(100e9, 1e12);
        QCOMPARE(bound_of({1000, 29'900, 100}, both).limit, StageLimit::latency);
        QCOMPARE(bound_of({1000, 30'100, 100}, both).limit, StageLimit::memory);
        QCOMPARE(bound_of({1000, 100, 301'000}, both).limit, StageLimit::compute);
        QCOMPARE(bound_of({1000, 0, 0}, both).limit, StageLimit::latency);  // it does take time
    }

    void whatWasNotMeasuredIsNotClaimed() {
        QCOMPARE(bound_of({1000, 100'000, 0}, Ceilings{}).limit, StageLimit::unknown);
        QCOMPARE(bound_of({0, 100'000, 10}, ceilings(100e9, 1e12)).limit, StageLimit::unknown);
        QCOMPARE(bound_of({1000, 90'000, 10}, ceilings(100e9, 0)).limit, StageLimit::memory);
        QCOMPARE(bound_of({1000, 10'000, 10}, ceilings(100e9, 0)).limit, StageLimit::unknown);  // latency, or compute
        QCOMPARE(bound_of({1000, 100'000, 10}, ceilings(0, 0)).of_memory, 0.0);
    }

    void aStepsStagesLieEndToEndAndTheRestBehindThem() {
        ProfileOptions options;
        options.between_ns = 12'345;
        const auto recording = ProfileRecording::make(options);
        const auto profile = readProfile(recording->lane(LaneId(0)), 5);
        QVERIFY(profile);
        QCOMPARE(profile->stages.size(), std::size_t{2 + 30 * 9 + 3});
        QCOMPARE(profile->layers.size(), std::size_t{30});
        double at = 0;
        for (const ProfiledStage& stage : profile->stages) {
            QCOMPARE(stage.beginNs, at);
            at = stage.endNs();
        }
        QCOMPARE(profile->stagesNs, at);
        QCOMPARE(profile->betweenNs(), 12'345.0);
        QCOMPARE(profile->wholeNs(), static_cast<double>(profile->record.duration_ns));
        QVERIFY(profile->decodes());
        QVERIFY(!readProfile(recording->lane(LaneId(0)), 0)->decodes());
        for (std::size_t i = 0; i < profile->stages.size(); ++i) {
            QCOMPARE(profile->stageAt((profile->stages[i].beginNs + profile->stages[i].endNs()) / 2), i);
            const ProfiledLayer* layer = profile->layerOf(i);
            QCOMPARE(layer ? layer->layer : StageRecord::no_layer, profile->stages[i].record.layer);
        }
        QCOMPARE(profile->stageAt(at + 1), profile->stages.size());
    }

    void stagesThatAddUpToMoreThanTheStepLeaveNothingBetween() {
        RecordingWriter writer("late", 1 << 16);
        writer.set_time(0);
        LaneWriter& lane = writer.add_lane({}, std::make_shared<VocabularyText>());
        writer.lanes_complete();
        lane.begin_step();
        StageRecord stage;
        stage.kind = StageKind::logits;
        stage.calls = 1;
        stage.duration_ns = 5000;
        lane.stages(0, std::vector{stage});
        writer.set_time(4000);
        lane.end_step({});
        const auto profile = readProfile(writer.recording()->lane(LaneId(0)), 0);
        QCOMPARE(profile->betweenNs(), 0.0);
        QCOMPARE(profile->wholeNs(), 5000.0);
    }

    void theSlowLayerIsTheOutlierAndAttentionTheReason() {
        const auto recording = ProfileRecording::make();
        const auto profile = readProfile(recording->lane(LaneId(0)), 30);
        for (const ProfiledLayer& layer : profile->layers) QCOMPARE(layer.outlier, layer.layer == 17);
        const ProfiledLayer& slow = profile->layers[17];
        QVERIFY(slow.reason == StageKind::attention);
        QVERIFY2(std::abs(slow.aboveNs - 10'000) < 1000, qPrintable(QString::number(slow.aboveNs)));
        QVERIFY(outlierText(slow).endsWith(QStringLiteral("above the median layer: attention")));
    }

    void anEvenStepHasNoOutlier() {
        ProfileOptions options;
        options.slow_layer = -1;
        const auto even = ProfileRecording::make(options);
        QVERIFY(outliersOf(*even).empty());
        // Less than 5 % of the layer's time: too little to mark, however alike the others are.
        options.slow_layer = 3;
        options.slow_ns = 3000;
        const auto little = ProfileRecording::make(options);
        const auto profile = readProfile(little->lane(LaneId(0)), 60);
        QVERIFY(profile->medianLayerNs * 0.05 > 3500);
        for (const ProfiledLayer& layer : profile->layers) QVERIFY(!layer.outlier);
        // Three layers have no median worth the name.
        options.layers = 3;
        options.slow_layer = 1;
        options.slow_ns = 1'000'000;
        const auto few = ProfileRecording::make(options);
        QVERIFY(outliersOf(*few).empty());
    }

    void theNearestEarlierStepWithStagesIsFound() {
        ProfileOptions options;
        options.stages_every = 12;
        const auto recording = ProfileRecording::make(options);
        const LaneRecord& lane = recording->lane(LaneId(0));
        for (int step = 0; step < 64; ++step) QCOMPARE(readProfile(lane, step)->step, step / 12 * 12);
        QCOMPARE(otherStepText(*readProfile(lane, 40)), QStringLiteral("step 40 has no stages; showing step 36"));
        QCOMPARE(otherStepText(*readProfile(lane, 36)), QString());
        QVERIFY(!stagedAtOrBefore(lane, -1));
        QVERIFY(cadenceText(lane, 40).contains(QStringLiteral("one step of 12")));
        QCOMPARE(cadenceText(lane, 5), QString());
        StagedSteps staged;
        staged.advance(recording, LaneId(0));
        QVERIFY(staged.decodeStep(40) == 36 && staged.prefillStep(40) == 0);
        QVERIFY(!staged.decodeStep(11) && staged.prefillStep(11) == 0);
    }

    void stagesThatComeLateAreFoundOnceTheyAreThere() {
        RecordingWriter writer("late", 1 << 16);
        LaneWriter& lane = writer.add_lane({}, std::make_shared<VocabularyText>());
        writer.lanes_complete();
        StageRecord stage;
        stage.kind = StageKind::qkv;
        stage.layer = 0;
        stage.calls = 1;
        stage.duration_ns = 10;
        StepRecord decode;
        decode.decode_tokens = 1;
        StagedSteps staged;
        const auto step = [&](int late) {
            lane.begin_step();
            if (late >= 0) lane.stages(static_cast<std::uint64_t>(late), std::vector{stage});
            lane.end_step(decode);
            staged.advance(writer.recording(), LaneId(0));
        };
        step(-1);
        QVERIFY(!staged.decodeStep(0) && !readProfile(lane.record(), 0));
        step(0);  // those of step 0 come with step 1
        QVERIFY(staged.decodeStep(1) == 0 && readProfile(lane.record(), 1)->step == 0);
        step(1);
        QVERIFY(staged.decodeStep(2) == 1 && staged.decodeStep(1) == 1 && staged.decodeStep(0) == 0);
    }

    void aLineIsFoundAgain() {
        const auto points = lineOf(3'000'000, 265, 300, 5000);
        const auto fit = fitOf(points);
        QVERIFY(fit);
        QVERIFY(near(fit->nsPerToken, 265, 1e-6));
        QVERIFY(near(fit->fixedNs, 3'000'000, 1e-6));
        QVERIFY(fit->r2 > 0.999999);
        QVERIFY(fit->residualNs < 1);
        QVERIFY(fit->least >= 300 && fit->least < 330);
        QVERIFY(fit->most <= 5299 && fit->most > 5270);
    }

    void interruptedStepsDoNotTiltTheLine() {
        auto points = lineOf(3'000'000, 265, 300, 2000);
        for (std::size_t i = 1500; i < points.size(); i += 3) points[i].ns += 20'000'000;  // a third of the last ones
        const auto fit = fitOf(points);
        QVERIFY(near(fit->nsPerToken, 265, 0.01));
        QVERIFY(near(fit->fixedNs, 3'000'000, 0.01));
    }

    void tooLittleIsNoLine() {
        QVERIFY(!fitOf({}));
        QVERIFY(!fitOf(lineOf(100, 1, 10, fewest_decode_steps - 1)));
        std::vector<DecodePoint> same(100, DecodePoint{0, 1, 64, 1000});
        QVERIFY(!fitOf(same));
        QVERIFY(fitOf(lineOf(100, 1, 10, 16)));
    }

    void aSlopeThatKeysAndValuesCannotMakeIsDoubted() {
        const auto good = fitOf(lineOf(3'000'000, 265, 256, 400));
        QVERIFY(doubtOf(*good, std::nullopt) == FitDoubt::none);
        const double growth = good->nsPerToken * (good->most - good->least);
        QVERIFY(doubtOf(*good, growth) == FitDoubt::none);
        QVERIFY(doubtOf(*good, growth * 0.51) == FitDoubt::none);
        QVERIFY(doubtOf(*good, growth * 0.49) == FitDoubt::aboveAttention);
        QVERIFY(doubtOf(*good, -growth) == FitDoubt::aboveAttention);
        QVERIFY(doubtOf(*fitOf(lineOf(3'000'000, -265, 256, 400)), std::nullopt) == FitDoubt::falling);
        QVERIFY(doubtOf(*fitOf(lineOf(-678'000, 2650, 300, 400)), std::nullopt) == FitDoubt::belowZero);
        auto scattered = lineOf(3'000'000, 1, 256, 400);
        for (std::size_t i = 0; i < scattered.size(); ++i) scattered[i].ns += (i * 7919 % 101) * 30'000.0;
        QVERIFY(fitOf(scattered)->r2 < least_r2);
        QVERIFY(doubtOf(*fitOf(scattered), std::nullopt) == FitDoubt::scattered);
        QVERIFY(near(*attentionGrowthOf(*good, lineOf(1000, 12, 256, 400)), 12 * (good->most - good->least), 1e-6));
        QVERIFY(!attentionGrowthOf(*good, lineOf(1000, 12, 256, 4)));
    }

    void rangesHoldEveryStepOnce() {
        const auto points = lineOf(0, 1, 7, 1000);
        for (const std::size_t most : {1, 7, 64, 1000, 4000}) {
            std::size_t steps = 0;
            double before = -1;
            const auto bins = contextBins(points, most);
            QVERIFY(bins.size() <= most);
            for (const ContextBin& bin : bins) {
                steps += bin.steps;
                QVERIFY(bin.context > before);
                before = bin.context;
            }
            QCOMPARE(steps, points.size());
        }
        QCOMPARE(contextBins(points, 4000).size(), std::size_t{1000});
        QCOMPARE(contextBins(std::vector<DecodePoint>{{0, 1, 5, 1}, {1, 1, 5, 9}, {2, 1, 5, 2}}, 10).front().ns, 2.0);
    }

    void thePredictionMeetsTheFitAtTheShortestContext() {
        const auto fit = fitOf(lineOf(3'000'000, 265, 256, 4000));
        const auto predicted = predictDecode(*fit, 200e6, 23'040, 96e9);
        QVERIFY(near(predicted->at(fit->least), fit->at(fit->least), 1e-6));
        QVERIFY(near(predicted->at(4096) - predicted->at(96), 4000 * 23'040 / 96e9 * 1e9, 1e-6));
        // Weights that ask for more than was measured: nothing is left over, and nothing negative.
        QCOMPARE(predictDecode(*fit, 2000e6, 23'040, 96e9)->fixedNs, 0.0);
        QVERIFY(!predictDecode(*fit, 200e6, 23'040, 0));
    }

    void pointsSumTheLayersOfAKind() {
        const auto recording = ProfileRecording::make();
        const LaneRecord& lane = recording->lane(LaneId(0));
        QStringList without;
        const auto points = rooflinePoints(lane, 12, true, profileCeilings(), &without);
        QCOMPARE(without, (QStringList{QStringLiteral("schedule"), QStringLiteral("embed")}));
        for (const RooflinePoint& point : points) {
            StageWork work;
            std::uint64_t calls = 0;
            const LogRange range = lane.stages_of(12);
            for (std::uint64_t i = range.begin; i < range.end; ++i) {
                const StageRecord& stage = lane.stages()[i];
                if (stage.kind != point.kind) continue;
                work.duration_ns += stage.duration_ns, work.bytes += stage.bytes, work.flops += stage.flops;
                calls += stage.calls;
            }
            QCOMPARE(point.work.duration_ns, work.duration_ns);
            QCOMPARE(point.work.bytes, work.bytes);
            QCOMPARE(point.work.flops, work.flops);
            QCOMPARE(point.calls, calls);
        }
        QCOMPARE(points.size(), std::size_t{12});
    }

    void namesNeverOverlap() {
        std::vector<QRectF> anchors;
        std::vector<std::vector<QSizeF>> sizes;
        for (int i = 0; i < 14; ++i) {  // a crowd
            anchors.emplace_back(100 + i % 4 * 22, 80 + i / 4 * 15, 9, 9);
            sizes.push_back({{90.0 + i * 5, 27}, {40, 14}});
        }
        const std::vector<QRectF> obstacles{{60, 70, 20, 100}, {0, 0, 400, 20}};
        const QRectF area(0, 0, 400, 240);
        const auto tags = placeTags(anchors, sizes, area, obstacles);
        int placed = 0;
        for (std::size_t i = 0; i < tags.size(); ++i) {
            if (tags[i].box.isEmpty()) continue;
            ++placed;
            QVERIFY(area.contains(tags[i].box));
            QCOMPARE(tags[i].box.size(), sizes[i][tags[i].variant]);
            for (std::size_t k = 0; k < i; ++k) QVERIFY(!tags[i].box.intersects(tags[k].box));
            for (const QRectF& other : anchors) QVERIFY(!tags[i].box.intersects(other));
            for (const QRectF& other : obstacles) QVERIFY(!tags[i].box.intersects(other));
        }
        QVERIFY2(placed >= 6, qPrintable(QString::number(placed)));
    }

    void closePointsShareAName() {
        const auto clusters = rooflineClusters({{0, 0}, {100, 0}, {8, 0}, {16, 0}, {103, 3}}, 10);
        QCOMPARE(clusters.size(), std::size_t{2});
        QCOMPARE(clusters[0], (std::vector<std::size_t>{0, 2, 3}));
        QCOMPARE(clusters[1], (std::vector<std::size_t>{1, 4}));
    }

    void dataSheetsAreThoseOfTheDevice_data() {
        QTest::addColumn<QString>("device");
        QTest::addColumn<QString>("entry");
        QTest::newRow("H100") << "NVIDIA H100 80GB HBM3, 132 SMs" << "H100 SXM";
        QTest::newRow("A100") << "NVIDIA A100-SXM4-80GB" << "A100 SXM";
        QTest::newRow("H200") << "NVIDIA H200" << "H200 SXM";
        QTest::newRow("A100 40 GB") << "NVIDIA A100-SXM4-40GB" << "";
        QTest::newRow("H100 PCIe") << "NVIDIA H100 PCIe" << "";
        QTest::newRow("GH200") << "NVIDIA GH200 480GB" << "";
        QTest::newRow("CPU") << "CPU, 2 threads" << "";
    }

    void dataSheetsAreThoseOfTheDevice() {
        QFETCH(QString, device);
        QFETCH(QString, entry);
        const GpuEntry* found = find_card(device.toStdString());
        QCOMPARE(found ? QString::fromUtf8(found->name.data(), static_cast<qsizetype>(found->name.size())) : QString(),
                 entry);
        QCOMPARE(dataSheetText(found).isEmpty(), entry.isEmpty());
    }

    void aZoomStaysInsideTheWhole() {
        ZoomRange zoom;
        const ZoomRange::Range whole{0, 100};
        QCOMPARE(zoom.of(whole), whole);
        zoom.zoom(0.5, 20, 0, whole, 1);
        QCOMPARE(zoom.of(whole), (ZoomRange::Range{10, 60}));
        zoom.zoom(1, 0, -500, whole, 1);
        QCOMPARE(zoom.of(whole), (ZoomRange::Range{0, 50}));
        const QVariant state = zoom.state();
        zoom.zoom(1e-9, 25, 0, whole, 4);
        QCOMPARE(zoom.of(whole).second - zoom.of(whole).first, 4.0);
        zoom.setState(state);
        QCOMPARE(zoom.of(whole), (ZoomRange::Range{0, 50}));
        QCOMPARE(zoom.of({0, 20}), (ZoomRange::Range{0, 20}));  // the whole shrank
        zoom.zoom(10, 0, 0, whole, 1);
        QVERIFY(!zoom.zoomed() && !zoom.state().isValid());
    }
};

QTEST_APPLESS_MAIN(TestProfileMath)
#include "tst_profile_math.moc"
