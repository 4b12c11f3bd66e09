// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/figures.h"
#include "engine/record/gpu_table.h"
#include "tests/support/claims.h"
#include "tests/support/demo_recording.h"

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

void formulaNamesItsFactors(Check& check) {
    LaneInfo info;
    info.cache_dtype = "f16";
    info.layers = 30;
    info.kv_heads = 3;
    info.head_dim = 64;
    info.bytes_per_token = 23040;  // SmolLM2-135M
    CHECK_EQUAL(kv_formula(info),
                "2 × 30 layers × 3 KV heads × 64 values × 2 B = 23,040 B per token");
    info.kv_heads = 1;
    info.layers = 1;
    info.bytes_per_token = 256;
    CHECK_EQUAL(kv_formula(info),
                "2 × 1 layer × 1 KV head × 64 values × 2 B = 256 B per token");
    info.cache_dtype = "q8_0";
    info.bytes_per_token = 136;
    CHECK_EQUAL(kv_formula(info), "136 B per token");
    info.kv_cache = false;
    CHECK_EQUAL(kv_formula(info), "no KV cache");
}

LayerInfo layer_of(const KvFormat& keys, const KvFormat& values, double key_bytes, double value_bytes) {
    LayerInfo layer;
    layer.kv_heads = 2;
    layer.key_dim = layer.value_dim = 32;
    layer.keys = keys;
    layer.values = values;
    layer.key_bytes_per_token = key_bytes;
    layer.value_bytes_per_token = value_bytes;
    return layer;
}

void formulaSaysWhatEachKindOfLayerKeeps(Check& check) {
    LaneInfo info;
    info.cache_dtype = "mixed";
    info.bytes_per_token = 3 * 2 * 70 + 256;
    info.layer_infos.assign(3, layer_of(KvFormat::of(DType::int8), KvFormat::of(DType::q8_0), 72, 68));
    info.layer_infos.push_back(layer_of(KvFormat::of(DType::f16), KvFormat::of(DType::f16), 128, 128));
    CHECK_EQUAL(kv_formula(info), "3 layers × 2 KV heads × (36 B K + 34 B V) + 1 layer × 2 KV heads × (64 B K + 64 B V) = 676 B per token");
    LayerInfo latent = layer_of(KvFormat::of(DType::bf16), KvFormat::of(DType::bf16), 1024, 128);
    latent.latent = true;
    latent.key_dim = 512;
    latent.value_dim = 64;
    info.cache_dtype = "bf16";
    info.layers = 27;
    info.bytes_per_token = 31'104;  // DeepSeek-V2-Lite
    info.layer_infos.assign(27, latent);
    CHECK_EQUAL(kv_formula(info), "27 layers × (512 + 64 values) × 2 B = 31,104 B per token");
}

void aSequenceBehindAWindowKeepsTheWindow(Check& check) {
    LaneInfo info;
    info.block_size = 16;
    info.layer_infos.assign(4, layer_of(KvFormat::of(DType::f16), KvFormat::of(DType::f16), 128, 128));
    for (std::uint32_t i = 0; i < 3; ++i) info.layer_infos[i].window = 100;
    info.layer_infos[2].sinks = 4;
    for (std::uint32_t i = 0; i < 4; ++i) {
        info.layer_infos[i].group = i;  // all share one place
        info.bytes_per_token += 256;
    }
    CHECK_EQUAL(predicted_sequence_bytes(info, 50), std::uint64_t(4 * 50 * 256));
    CHECK_EQUAL(predicted_sequence_bytes(info, 1'000), std::uint64_t((100 + 100 + 104 + 1'000) * 256));
    CHECK_EQUAL(predicted_kv_bytes(info, 1'000), std::uint64_t(4 * 1'000 * 256));
    CHECK_EQUAL(predicted_slot_bytes(info), std::uint64_t(256));
    info.layer_infos[0].window = 0;
    info.layer_infos[0].chunk = 64;
    CHECK_EQUAL(info.layer_infos[0].kept_tokens(64), std::uint64_t(64));
    CHECK_EQUAL(info.layer_infos[0].kept_tokens(65), std::uint64_t(1));
}

void predictionIsTokensTimesBytesPerToken(Check& check) {
    LaneInfo info;
    info.bytes_per_token = 640;  // stories260K
    CHECK_EQUAL(predicted_kv_bytes(info, 200), std::uint64_t{128000});
    info.kv_cache = false;
    CHECK_EQUAL(predicted_kv_bytes(info, 200), std::uint64_t{0});
}

void uncachedDecodingComputesTheTriangle(Check& check) {
    for (std::uint64_t prompt : {1u, 5u, 37u}) {
        for (std::uint64_t outputs : {0u, 1u, 2u, 100u}) {
            std::uint64_t cached = outputs > 0 ? prompt : 0, uncached = 0;
            for (std::uint64_t i = 0; i < outputs; ++i) {
                if (i > 0) ++cached;
                uncached += prompt + i;
            }
            CHECK_EQUAL(cached_tokens(prompt, outputs), cached);
            CHECK_EQUAL(uncached_tokens(prompt, outputs), uncached);
        }
    }
    CHECK_EQUAL(uncached_tokens(1, 500), std::uint64_t{500 * 501 / 2});
}

struct PercentileInterpolatesBetweenRanksCase {
    double p, value;
};
Cases<PercentileInterpolatesBetweenRanksCase> percentileInterpolatesBetweenRanks_cases() {
    Cases<PercentileInterpolatesBetweenRanksCase> cases;
    // numpy.percentile([40, 10, 30, 20], p)
    cases.add("lowest", {0.0, 10.0});
    cases.add("median", {50.0, 25.0});
    cases.add("95", {95.0, 38.5});
    cases.add("highest", {100.0, 40.0});
    cases.add("beyond", {120.0, 40.0});
    return cases;
}
void percentileInterpolatesBetweenRanks(Check& check, const PercentileInterpolatesBetweenRanksCase& row) {
    const std::vector<double> values = {40, 10, 30, 20};
    CHECK_CLOSE(percentile(values, row.p).value(), row.value);
    CHECK_EQUAL(percentile(std::vector<double>{7}, row.p).value(), 7.0);
    CHECK_THAT(!percentile({}, row.p));
}

void linearFitFindsTheLine(Check& check) {
    const std::vector<double> x = {0, 1, 2, 3, 4};
    const auto exact = linear_fit(x, std::vector<double>{3, 5, 7, 9, 11});
    CHECK_THAT(exact.has_value());
    CHECK_CLOSE(exact->slope, 2.0);
    CHECK_CLOSE(exact->intercept, 3.0);
    CHECK_CLOSE(exact->r_squared, 1.0);
    const auto noisy = linear_fit(x, std::vector<double>{0, 2, 1, 3, 4});
    CHECK_CLOSE(noisy->slope, 0.9);
    CHECK_THAT(std::abs(noisy->intercept - 0.2) < 1e-12);
    CHECK_THAT(std::abs(noisy->r_squared - 0.81) < 1e-12);
    CHECK_THAT(!linear_fit(std::vector<double>{1}, std::vector<double>{1}));
    CHECK_THAT(!linear_fit(std::vector<double>{2, 2}, std::vector<double>{1, 3}));
}

void wastedShareLeavesFreeAndCachedOut(Check& check) {
    SlotCounts counts;
    CHECK_THAT(!wasted_share(counts));
    counts.free = 100;
    counts.cached = 50;
    CHECK_THAT(!wasted_share(counts));
    // PagedAttention, figure 3: A holds 7 + 1 tokens, 2 reserved, 2,038 never used; B 3 + 1, 1, 507.
    counts.token = 12;
    counts.reserved = 3;
    counts.internal = 2545;
    CHECK_EQUAL(wasted_share(counts).value(), 2548.0 / 2560.0);
}

void stepTimeIsSplitByTokens(Check& check) {
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
    CHECK_EQUAL(split.prefill_ms, 16.0);
    CHECK_EQUAL(split.decode_ms, 7.0);
    CHECK_EQUAL(split.decode_tokens, std::uint64_t{3});
    CHECK_EQUAL(time_split(lane.record(), 1).decode_ms, 0.0);
}

void uncachedRecomputationCountsAsDecoding(Check& check) {
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
    CHECK_EQUAL(split.prefill_ms, 10.0);
    CHECK_EQUAL(split.decode_ms, 23.0);
    CHECK_EQUAL(split.decode_tokens, std::uint64_t{2});
}

void gpuTableHoldsTheDataSheets(Check& check) {
    CHECK_EQUAL(gpu_table().size(), std::size_t{3});
    const GpuEntry* a100 = find_gpu("A100 SXM");
    CHECK_THAT(a100);
    CHECK_EQUAL(a100->memory_bytes, std::uint64_t{85899345920});
    CHECK_EQUAL(a100->bandwidth, 2.039e12);
    CHECK_EQUAL(std::lround(a100->bf16_flops / a100->bandwidth * 10), 1530);  // ridge 153.0 FLOP per byte
    CHECK_EQUAL(std::lround(find_gpu("H100 SXM")->bf16_flops / find_gpu("H100 SXM")->bandwidth * 10), 2952);
    CHECK_EQUAL(find_gpu("H200 SXM")->memory_bytes, std::uint64_t{141000000000});
    CHECK_THAT(!find_gpu("abacus"));
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(formulaNamesItsFactors));
    claims.add(CLAIM(formulaSaysWhatEachKindOfLayerKeeps));
    claims.add(CLAIM(aSequenceBehindAWindowKeepsTheWindow));
    claims.add(CLAIM(predictionIsTokensTimesBytesPerToken));
    claims.add(CLAIM(uncachedDecodingComputesTheTriangle));
    claims.add(CLAIM(percentileInterpolatesBetweenRanks), percentileInterpolatesBetweenRanks_cases());
    claims.add(CLAIM(linearFitFindsTheLine));
    claims.add(CLAIM(wastedShareLeavesFreeAndCachedOut));
    claims.add(CLAIM(stepTimeIsSplitByTokens));
    claims.add(CLAIM(uncachedRecomputationCountsAsDecoding));
    claims.add(CLAIM(gpuTableHoldsTheDataSheets));
    return claims.rows();
}
