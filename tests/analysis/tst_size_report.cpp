// SPDX-License-Identifier: GPL-3.0-or-later
//
// A whole size: cache, weights, activations, GPUs, in numbers and words.
#include "engine/analysis/size_cases.h"
#include "engine/analysis/size_report.h"
#include "engine/analysis/size_text.h"
#include "tests/analysis/known_models_file.h"
#include "tests/support/texts.h"

#include <cmath>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

constexpr std::uint64_t gibibyte = std::uint64_t{1} << 30;

std::shared_ptr<const SizeReport> report_of(Check& check, const std::string& name, const SizeRequest& request) {
    const auto model = known_model(check, name);
    if (!model) return nullptr;
    auto report = size_report(*model, request);
    if (!succeeded(check, report, "size_report", __FILE__, __LINE__)) return nullptr;
    return std::make_shared<const SizeReport>(std::move(*report));
}

std::string line_of(const SizeReport& report, std::string_view label) {
    for (const SizeLine& line : size_lines(report))
        if (line.label == label) return line.text;
    return {};
}

// A converted model (late rotation) keeps no rotary key beside its latents, and none is spoken of.
void latentsOfAConversionAreSaidWithoutARotaryKey(Check& check) {
    const auto known = known_model(check, "Llama-3.1-8B");
    if (!known) return;
    SizedModel model = *known;
    model.config.make_latents(std::vector<std::uint32_t>(model.config.layers, 512));
    const auto report = size_report(model, {});
    CHECK_RESULT(report);
    CHECK_EQUAL(line_of(*report, "KV per token"), "32 layers × 512 latent values × 2 B = 32,768 B");
    CHECK_OR_SAY(contains(size_lines(*report).front().text, "over a latent of at most 512 values"), size_lines(*report).front().text);
}

struct Everyday {
    std::size_t index;
    double gibibytes;
};
Cases<Everyday> everyday_sizes() {
    Cases<Everyday> cases;
    const double expected[] = {0.5, 4, 2.5, 16, 8, 64, 8};
    for (std::size_t i = 0; i < size_cases().size(); ++i) cases.add(std::string(size_cases()[i].title), {i, expected[i]});
    return cases;
}
void everydayCasesAreExact(Check& check, const Everyday& row) {
    CHECK_EQUAL(size_cases().size(), std::size_t{7});
    const SizeCase& each = size_cases()[row.index];
    const auto report = report_of(check, std::string(each.model), each.request());
    if (!report) return;
    CHECK_EQUAL(report->kv_bytes, static_cast<std::uint64_t>(row.gibibytes * gibibyte));
}

struct Variant {
    std::uint32_t kv_heads;
    double at_4k, at_8k, at_128k;  // GiB
    double attention;              // parameters, billions
};
Cases<Variant> variants() {
    Cases<Variant> cases;
    cases.add("MHA", {32, 2, 4, 64, 2.147});
    cases.add("GQA-8", {8, 0.5, 1, 16, 1.342});
    cases.add("GQA-4", {4, 0.25, 0.5, 8, 1.208});
    cases.add("MQA", {1, 0.0625, 0.125, 2, 1.107});
    return cases;
}
// 32 layers of 32 query heads x 128.
void fewerKvHeadsCostLess(Check& check, const Variant& row) {
    SizeRequest request;
    request.kv_heads = row.kv_heads;
    for (const auto& [context, gibibytes] :
         {std::pair(4096, row.at_4k), std::pair(8192, row.at_8k), std::pair(131072, row.at_128k)}) {
        request.context = static_cast<std::uint64_t>(context);
        const auto report = report_of(check, "Llama-3.1-8B", request);
        if (!report) return;
        CHECK_EQUAL(report->kv_bytes, static_cast<std::uint64_t>(gibibytes * gibibyte));
        const double attention = static_cast<double>(count_parameters(report->model.config).attention()) / 1e9;
        CHECK_EQUAL(std::llround(attention * 1000), std::llround(row.attention * 1000));
    }
}

void everyFactorIsNamed(Check& check) {
    const auto gqa = report_of(check, "Llama-3.1-8B", {});
    if (!gqa) return;
    CHECK_EQUAL(line_of(*gqa, "KV per token"), "2 × 32 layers × 8 KV heads × 128 values × 2 B = 131,072 B (128 KiB)");
    CHECK_EQUAL(line_of(*gqa, "KV of a sequence"), "4,096 tokens × 131,072 B = 536,870,912 B (512 MiB)");
    CHECK_EQUAL(line_of(*gqa, "Weights"),
                "8,030,261,248 parameters (from the shape) × 2 B (bf16) = 16,060,522,496 B (14.96 GiB)");
    CHECK_EQUAL(
        line_of(*gqa, "Activations"),
        "2,048 rows × (2 × 4,096 hidden + 43,008 of the feed-forward part) × 2 B + 256 rows × 128,256 logits × 4 B = "
        "341,049,344 B (325.2 MiB), an estimate");
    SizeRequest mixed;
    mixed.precision = {KvFormat::of(DType::int8), KvFormat::of(DType::q4_0)};
    const auto quantised = report_of(check, "Llama-3.1-8B", mixed);
    if (!quantised) return;
    CHECK_EQUAL(line_of(*quantised, "KV per token"),
                "32 layers × (K: 8 KV heads × 132 B (128 values in int8, 4 B of scales) + V: 8 KV heads × 72 B (128 "
                "values in q4_0)) = "
                "52,224 B");
    const auto mla = report_of(check, "DeepSeek-V2", {});
    if (!mla) return;
    CHECK_EQUAL(line_of(*mla, "KV per token"), "60 layers × (512 latent + 64 rotary values) × 2 B = 69,120 B");
    SizeRequest narrow;
    narrow.precision = {KvFormat::of(DType::q8_0), KvFormat::of(DType::q8_0)};
    const auto packed = report_of(check, "stories260K", narrow);
    if (!packed) return;
    CHECK_EQUAL(line_of(*packed, "KV per token"),
                "2 × 5 layers × 1 row of 4 KV heads × 34 B (32 values in q8_0) = 340 B");
}

void windowsStandApart(Check& check) {
    SizeRequest request;
    request.context = 32768;
    const auto report = report_of(check, "Gemma-3-1B", request);
    if (!report) return;
    CHECK_EQUAL(report->kv_bytes_per_token, std::uint64_t{26624});
    CHECK_EQUAL(report->kv_bytes, std::uint64_t{145752064});
    const std::vector<SizeFactor> factors = size_factors(report->layers);
    CHECK_EQUAL(factors.size(), std::size_t{2});
    CHECK_EQUAL(factors[0].formula, "2 × 22 layers × 1 KV head × 256 values × 2 B");
    CHECK_EQUAL(factors[1].layers, 4u);
    std::string all;
    for (const SizeLine& line : size_lines(*report)) all += line.label + ": " + line.text + "\n";
    CHECK_OR_SAY(contains(all, "22 layers keep 512 tokens, the window: 11,534,336 B"), all);
    CHECK_OR_SAY(contains(all, "4 layers keep 32,768 tokens: 134,217,728 B"), all);
}

void tensorParallelDividesHeadsAndWeights(Check& check) {
    SizeRequest request;
    request.context = 8192;
    request.parallel.tensor = 8;
    const auto report = report_of(check, "Llama-3-70B", request);
    if (!report) return;
    CHECK_EQUAL(report->stages.size(), std::size_t{1});
    CHECK_EQUAL(report->stages[0].kv_bytes_per_token, std::uint64_t{40960});
    CHECK_EQUAL(report->kv_bytes, 5 * gibibyte / 2);
    CHECK_EQUAL(report->kv_bytes_per_gpu() * 8, report->kv_bytes);
    CHECK_EQUAL(report->weight_bytes, std::uint64_t{70553706496} * 2);
    // All divide by 8 but the norms: (2 x 80 + 1) x 8,192 stand on every GPU.
    CHECK_EQUAL(report->weight_bytes_per_gpu(), (std::uint64_t{70553706496} - 161 * 8192) / 8 * 2 + 161 * 8192 * 2);
}

void aLatentIsReplicatedAndSaidToBe(Check& check) {
    SizeRequest request;
    request.parallel.tensor = 8;
    const auto report = report_of(check, "DeepSeek-V3", request);
    if (!report) return;
    CHECK_EQUAL(report->kv_bytes_per_gpu(), report->kv_bytes);
    CHECK_OR_SAY(contains(line_of(*report, "Note"), "latent"), line_of(*report, "Note"));
}

void stagesHoldTheirLayersAndEnds(Check& check) {
    SizeRequest request;
    request.parallel.pipeline = 3;  // 32 layers: 11, 11, 10
    const auto report = report_of(check, "Llama-3.1-8B", request);
    if (!report) return;
    CHECK_EQUAL(report->stages.size(), std::size_t{3});
    CHECK_EQUAL(report->stages[0].layers, 11u);
    CHECK_EQUAL(report->stages[2].layers, 10u);
    CHECK_EQUAL(report->stages[2].first_layer, 22u);
    std::uint64_t parameters = 0, cache = 0;
    for (const StageSize& stage : report->stages) {
        parameters += stage.parameters;
        cache += stage.kv_bytes;
    }
    CHECK_EQUAL(parameters, std::uint64_t{8030261248});
    CHECK_EQUAL(cache, report->kv_bytes);
    CHECK_EQUAL(report->kv_bytes_per_gpu(), std::uint64_t{4096} * 11 * 4096);
    CHECK_EQUAL(report->stages[0].activation.logit_rows, std::uint64_t{0});
    CHECK_EQUAL(report->stages[2].activation.logit_rows, std::uint64_t{256});
    // A tied output stands on the last stage a second time.
    const auto tied = report_of(check, "Llama-3.2-1B", request);
    if (!tied) return;
    std::uint64_t with_copy = 0;
    for (const StageSize& stage : tied->stages) with_copy += stage.parameters;
    CHECK_EQUAL(with_copy, tied->parameters + std::uint64_t{128256} * 2048);
}

void sequencesFitBesideWeightsAndActivations(Check& check) {
    SizeRequest request;
    request.context = 8192;
    request.gpu = find_gpu("H100 SXM");
    const auto report = report_of(check, "Llama-3.1-8B", request);
    if (!report) return;
    CHECK_EQUAL(report->usable_bytes, std::uint64_t{77309411328});
    // (77,309,411,328 - 16,060,522,496 - 341,049,344) / 2^30 = 56.7
    CHECK_EQUAL(*report->sequences_that_fit, std::uint64_t{56});
    request.parallel = {1, 2};
    const auto two = report_of(check, "Llama-3.1-8B", request);
    if (!two) return;
    CHECK_EQUAL(*two->sequences_that_fit, std::min(*two->stages[0].sequences, *two->stages[1].sequences));
    request.parallel = {};
    const auto large = report_of(check, "Llama-3-70B", request);
    if (!large) return;
    CHECK_EQUAL(*large->sequences_that_fit, std::uint64_t{0});
    CHECK_OR_SAY(contains(line_of(*large, "H100 SXM"), "do not fit"), line_of(*large, "H100 SXM"));
}

// FORMATS 3.13: Llama-3-8B bf16 on an H200 takes 3.35 ms per token, 0.895 ms more per 32,768 cached tokens.
void decodeBoundIsOneReadOfEverything(Check& check) {
    const GpuEntry& gpu = *find_gpu("H200 SXM");
    CHECK_EQUAL(std::lround(decode_bound_seconds(gpu, 16060522496, 0) * 1e5), 335);
    CHECK_EQUAL(std::lround(decode_bound_seconds(gpu, 0, std::uint64_t{32768} * 131072) * 1e6), 895);
}

// PagedAttention, table 1: 12 GB of cache are 15.7K slots of OPT-13B, whose parameters take 26 GB.
void opt13BFillsAnA100(Check& check) {
    const auto report = report_of(check, "OPT-13B", {});
    if (!report) return;
    CHECK_EQUAL(12 * gibibyte / report->kv_bytes_per_token, std::uint64_t{15728});
    CHECK_EQUAL(std::lround(static_cast<double>(report->weight_bytes) / 1e9), 26);
}

struct Refused {
    const char* model;
    SizeRequest request;
    const char* named;
};
Cases<Refused> refusals() {
    Cases<Refused> cases;
    const auto add = [&cases](const char* name, const char* model, const char* named, void (*change)(SizeRequest&)) {
        SizeRequest request;
        change(request);
        cases.add(name, {model, request, named});
    };
    add("context 0", "GPT-2", "context of 0", [](SizeRequest& r) { r.context = 0; });
    add("batch 0", "GPT-2", "batch of 0", [](SizeRequest& r) { r.batch = 0; });
    add("utilization 0", "GPT-2", "utilization", [](SizeRequest& r) { r.utilization = 0; });
    add("utilization above 1", "GPT-2", "utilization", [](SizeRequest& r) { r.utilization = 1.01; });
    add("utilization NaN", "GPT-2", "utilization", [](SizeRequest& r) { r.utilization = std::nan(""); });
    add("more GPUs than heads", "GPT-2", "13 GPUs", [](SizeRequest& r) { r.parallel.tensor = 13; });
    add("heads that do not divide", "GPT-2 XL", "25 query heads", [](SizeRequest& r) { r.parallel.tensor = 2; });
    add("more stages than layers", "GPT-2", "13 stages", [](SizeRequest& r) { r.parallel.pipeline = 13; });
    add("KV heads that do not divide", "GPT-2", "5 KV heads", [](SizeRequest& r) { r.kv_heads = 5; });
    add("KV heads of a latent", "DeepSeek-V2", "latent", [](SizeRequest& r) { r.kv_heads = 8; });
    add("beyond 64 bits", "OPT-175B", "larger than any memory", [](SizeRequest& r) {
        r.context = 1000000000;
        r.batch = 1000000;
    });
    add("a precision that no cache is kept in", "stories260K", "q4_k", [](SizeRequest& r) {
        r.precision = {KvFormat::of(DType::q4_k), KvFormat::of(DType::q4_k)};
    });
    return cases;
}
void whatCannotBeIsOneSentence(Check& check, const Refused& row) {
    const auto model = known_model(check, row.model);
    if (!model) return;
    const auto report = size_report(*model, row.request);
    CHECK_THAT(!report);
    CHECK_OR_SAY(contains(report.error().message(), row.named), report.error().message());
}

void bytesAreShownInTheirUnit(Check& check) {
    CHECK_EQUAL(short_bytes(640), "640 B");
    CHECK_EQUAL(short_bytes(std::uint64_t{5} << 29), "2.5 GiB");
    CHECK_EQUAL(short_bytes(1023 * 1024), "1023 KiB");
    CHECK_EQUAL(exact_bytes(69120), "69,120 B");
    CHECK_EQUAL(exact_bytes(131072), "131,072 B (128 KiB)");
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(latentsOfAConversionAreSaidWithoutARotaryKey));
    claims.add(CLAIM(everydayCasesAreExact), everyday_sizes());
    claims.add(CLAIM(fewerKvHeadsCostLess), variants());
    claims.add(CLAIM(everyFactorIsNamed));
    claims.add(CLAIM(windowsStandApart));
    claims.add(CLAIM(tensorParallelDividesHeadsAndWeights));
    claims.add(CLAIM(aLatentIsReplicatedAndSaidToBe));
    claims.add(CLAIM(stagesHoldTheirLayersAndEnds));
    claims.add(CLAIM(sequencesFitBesideWeightsAndActivations));
    claims.add(CLAIM(decodeBoundIsOneReadOfEverything));
    claims.add(CLAIM(opt13BFillsAnA100));
    claims.add(CLAIM(whatCannotBeIsOneSentence), refusals());
    claims.add(CLAIM(bytesAreShownInTheirUnit));
    return claims.rows();
}
