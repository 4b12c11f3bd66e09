// SPDX-License-Identifier: GPL-3.0-or-later
#include <QTest>

#include "engine/record/figures.h"
#include "engine/record/gpu_table.h"
#include "tests/support/demo_recording.h"

using namespace kvloupe;

class TestFigures : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void formulaNamesItsFactors();
    void predictionIsTokensTimesBytesPerToken();
    void uncachedDecodingComputesTheTriangle();
    void percentileInterpolatesBetweenRanks_data();
    void percentileInterpolatesBetweenRanks();
    void linearFitFindsTheLine();
    void wastedShareLeavesFreeAndCachedOut();
    void stepTimeIsSplitByTokens();
    void uncachedRecomputationCountsAsDecoding();
    void gpuTableHoldsTheDataSheets();
};

void TestFigures::formulaNamesItsFactors() {
    LaneInfo info;
    info.cache_dtype = "f16";
    info.layers = 30;
    info.kv_heads = 3;
    info.head_dim = 64;
    info.bytes_per_token = 23040;  // SmolLM2-135M
    QCOMPARE(QString::fromStdString(kv_formula(info)),
             QString::fromUtf8("2 × 30 layers × 3 KV heads × 64 values × 2 B = 23,040 B per token"));
    info.kv_heads = 1;
    info.layers = 1;
    info.bytes_per_token = 256;
    QCOMPARE(QString::fromStdString(kv_formula(info)),
             QString::fromUtf8("2 × 1 layer × 1 KV head × 64 values × 2 B = 256 B per token"));
    info.cache_dtype = "q8_0";
    info.bytes_per_token = 136;
    QCOMPARE(kv_formula(info), std::string("136 B per token"));
    info.kv_cache = false;
    QCOMPARE(kv_formula(info), std::string("no KV cache"));
}

void TestFigures::predictionIsTokensTimesBytesPerToken() {
    LaneInfo info;
    info.bytes_per_token = 640;  // stories260K
    QCOMPARE(predicted_kv_bytes(info, 200), std::uint64_t{128000});
    info.kv_cache = false;
    QCOMPARE(predicted_kv_bytes(info, 200), std::uint64_t{0});
}

void TestFigures::uncachedDecodingComputesTheTriangle() {
    for (std::uint64_t prompt : {1u, 5u, 37u}) {
        for (std::uint64_t outputs : {0u, 1u, 2u, 100u}) {
            std::uint64_t cached = outputs > 0 ? prompt : 0, uncached = 0;
            for (std::uint64_t i = 0; i < outputs; ++i) {
                if (i > 0) ++cached;
                uncached += prompt + i;
            }
            QCOMPARE(cached_tokens(prompt, outputs), cached);
            QCOMPARE(uncached_tokens(prompt, outputs), uncached);
        }
    }
    QCOMPARE(uncached_tokens(1, 500), std::uint64_t{500 * 501 / 2});
}

void TestFigures::percentileInterpolatesBetweenRanks_data() {
    QTest::addColumn<double>("p");
    QTest::addColumn<double>("value");
    // numpy.percentile([40, 10, 30, 20], p)
    QTest::newRow("lowest") << 0.0 << 10.0;
    QTest::newRow("median") << 50.0 << 25.0;
    QTest::newRow("95") << 95.0 << 38.5;
    QTest::newRow("highest") << 100.0 << 40.0;
    QTest::newRow("beyond") << 120.0 << 40.0;
}

void TestFigures::percentileInterpolatesBetweenRanks() {
    QFETCH(double, p);
    QFETCH(double, value);
    const std::vector<double> values = {40, 10, 30, 20};
    QCOMPARE(percentile(values, p).value(), value);
    QCOMPARE(percentile(std::vector<double>{7}, p).value(), 7.0);
    QVERIFY(!percentile({}, p));
}

void TestFigures::linearFitFindsTheLine() {
    const std::vector<double> x = {0, 1, 2, 3, 4};
    const auto exact = linear_fit(x, std::vector<double>{3, 5, 7, 9, 11});
    QVERIFY(exact.has_value());
    QCOMPARE(exact->slope, 2.0);
    QCOMPARE(exact->intercept, 3.0);
    QCOMPARE(exact->r_squared, 1.0);
    const auto noisy = linear_fit(x, std::vector<double>{0, 2, 1, 3, 4});
    QCOMPARE(noisy->slope, 0.9);
    QVERIFY(qAbs(noisy->intercept - 0.2) < 1e-12);
    QVERIFY(qAbs(noisy->r_squared - 0.81) < 1e-12);
    QVERIFY(!linear_fit(std::vector<double>{1}, std::vector<double>{1}));
    QVERIFY(!linear_fit(std::vector<double>{2, 2}, std::vector<double>{1, 3}));
}

void TestFigures::wastedShareLeavesFreeAndCachedOut() {
    SlotCounts counts;
    QVERIFY(!wasted_share(counts));
    counts.free = 100;
    counts.cached = 50;
    QVERIFY(!wasted_share(counts));
    // PagedAttention, figure 3: A holds 7 + 1 tokens, 2 reserved, 2,038 never used; B 3 + 1, 1, 507.
    counts.token = 12;
    counts.reserved = 3;
    counts.internal = 2545;
    QCOMPARE(wasted_share(counts).value(), 2548.0 / 2560.0);
}

void TestFigures::stepTimeIsSplitByTokens() {
    RecordingWriter writer("t", 0);
    LaneWriter& lane = writer.add_lane({}, nullptr);
    const auto step = [&](std::uint64_t ms, std::uint32_t prefill, std::uint32_t decode) {
        writer.set_time(0);
        lane.begin_step();
        writer.set_time(ms * 1000000);
        StepRecord counters;
        counters.prefill_tokens = prefill;
        counters.decode_tokens = decode;
        lane.end_step(counters);
    };
    step(10, 30, 0);
    step(8, 3, 1);
    step(5, 0, 2);
    step(50, 0, 0);  // idle
    const TimeSplit split = time_split(lane.record(), 4);
    QCOMPARE(split.prefill_ms, 16.0);
    QCOMPARE(split.decode_ms, 7.0);
    QCOMPARE(split.decode_tokens, std::uint64_t{3});
    QCOMPARE(time_split(lane.record(), 1).decode_ms, 0.0);
}

void TestFigures::uncachedRecomputationCountsAsDecoding() {
    LaneInfo info;
    info.kv_cache = false;
    RecordingWriter writer("t", 0);
    LaneWriter& lane = writer.add_lane(info, nullptr);
    for (std::uint32_t step = 0; step < 3; ++step) {
        writer.set_time(0);
        lane.begin_step();
        Event event;
        event.sequence = SequenceId(0);
        event.kind = EventKind::prefill;
        event.cause = step == 0 ? Cause::whole_prompt : Cause::no_kv_cache;
        event.tokens = step == 0 ? 10 : 9 + step;
        event.other = 0;
        lane.event(event);
        writer.set_time((10 + step) * 1000000);
        StepRecord counters;
        counters.prefill_tokens = event.tokens;
        counters.decode_tokens = step == 0 ? 0 : 1;
        lane.end_step(counters);
    }
    const TimeSplit split = time_split(lane.record(), 3);
    QCOMPARE(split.prefill_ms, 10.0);
    QCOMPARE(split.decode_ms, 23.0);
    QCOMPARE(split.decode_tokens, std::uint64_t{2});
}

void TestFigures::gpuTableHoldsTheDataSheets() {
    QCOMPARE(gpu_table().size(), std::size_t{3});
    const GpuEntry* a100 = find_gpu("A100 SXM");
    QVERIFY(a100);
    QCOMPARE(a100->memory_bytes, std::uint64_t{85899345920});
    QCOMPARE(a100->bandwidth, 2.039e12);
    QCOMPARE(qRound(a100->bf16_flops / a100->bandwidth * 10), 1530);  // ridge 153.0 FLOP per byte
    QCOMPARE(qRound(find_gpu("H100 SXM")->bf16_flops / find_gpu("H100 SXM")->bandwidth * 10), 2952);
    QCOMPARE(find_gpu("H200 SXM")->memory_bytes, std::uint64_t{141000000000});
    QVERIFY(!find_gpu("abacus"));
}

QTEST_GUILESS_MAIN(TestFigures)
#include "tst_figures.moc"
