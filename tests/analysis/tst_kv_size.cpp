// SPDX-License-Identifier: GPL-3.0-or-later
//
// Golden numbers of the cache's arithmetic: FORMATS 2.3, 3.8 and 3.10, CACHE_SEMANTICS 0.
#include "engine/analysis/kv_size.h"
#include "tests/support/claims.h"

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

ModelConfig shape_of(std::uint32_t layers, std::uint32_t query_heads, std::uint32_t kv_heads, std::uint32_t head_dim) {
    ModelConfig config;
    config.layers = layers;
    config.query_heads = query_heads;
    config.kv_heads = kv_heads;
    config.head_dim = head_dim;
    config.make_uniform();
    return config;
}

CachePrecision both(DType dtype) { return {KvFormat::of(dtype), KvFormat::of(dtype)}; }

std::vector<KvLayerSize> layers_of(Check& check, const ModelConfig& config, const CachePrecision& precision,
                                   std::uint32_t gpus = 1) {
    auto layers = kv_layers(config, precision, gpus);
    if (!succeeded(check, layers, "kv_layers", __FILE__, __LINE__)) return {};
    return *layers;
}

struct Precision {
    DType keys, values;
    std::uint64_t bytes;
};
Cases<Precision> precisions() {
    Cases<Precision> cases;
    // Llama-3-8B, 32 x 8 x 128: rows of 128 values, CACHE_SEMANTICS 0; int4 has a step and a minimum in f16 (4 B) and
    // KIVI 2 x 2 B per 32 values, FORMATS 3.8: 3.0 and 5.0 bits per element.
    const std::uint64_t rows = 2 * 32 * 8;
    cases.add("f32", {DType::f32, DType::f32, rows * 512});
    cases.add("f16", {DType::f16, DType::f16, 131072});
    cases.add("bf16", {DType::bf16, DType::bf16, 131072});
    cases.add("fp8_e4m3", {DType::fp8_e4m3, DType::fp8_e4m3, rows * 128});
    cases.add("fp8_e5m2", {DType::fp8_e5m2, DType::fp8_e5m2, rows * 128});
    cases.add("int8", {DType::int8, DType::int8, rows * 132});
    cases.add("int4", {DType::int4, DType::int4, rows * 68});
    cases.add("kivi2", {DType::kivi2, DType::kivi2, rows * 128 * 3 / 8});
    cases.add("kivi4", {DType::kivi4, DType::kivi4, rows * 128 * 5 / 8});
    cases.add("q8_0", {DType::q8_0, DType::q8_0, 69632});
    cases.add("q5_1", {DType::q5_1, DType::q5_1, rows * 96});
    cases.add("q5_0", {DType::q5_0, DType::q5_0, rows * 88});
    cases.add("q4_1", {DType::q4_1, DType::q4_1, rows * 80});
    cases.add("q4_0", {DType::q4_0, DType::q4_0, 36864});
    cases.add("q8_0 keys, f16 values", {DType::q8_0, DType::f16, 69632 / 2 + 65536});
    cases.add("f16 keys, int8 values", {DType::f16, DType::int8, 65536 + rows / 2 * 132});
    return cases;
}
void precisionsScaleByTheirRows(Check& check, const Precision& row) {
    const auto layers = layers_of(check, shape_of(32, 32, 8, 128), {KvFormat::of(row.keys), KvFormat::of(row.values)});
    CHECK_EQUAL(kv_bytes_per_token(layers), row.bytes);
    CHECK_EQUAL(kv_bytes(layers, 128 * 1024), 128 * 1024 * row.bytes);
}

// As a run takes them: groups of the largest number that divides 32 and the heads.
void kivisGroupsFitNarrowHeads(Check& check) {
    const auto bytes = [&](std::uint32_t head_dim, DType type) { return kv_bytes_per_token(layers_of(check, shape_of(2, 8, 4, head_dim), both(type))); };
    CHECK_EQUAL(bytes(16, DType::kivi2), std::uint64_t{2 * 2 * 4 * (16 / 4 + 16 / 16 * 4)});
    CHECK_EQUAL(bytes(80, DType::kivi4), std::uint64_t{2 * 2 * 4 * (80 / 2 + 80 / 16 * 4)});
    CHECK_EQUAL(bytes(64, DType::kivi2), std::uint64_t{2 * 2 * 4 * (64 / 4 + 64 / 32 * 4)});
}

void fp8KeepsOneScalePerPlaneBesideTheTokens(Check& check) {
    const auto layers = layers_of(check, shape_of(32, 32, 8, 128), both(DType::fp8_e4m3));
    CHECK_EQUAL(kv_fixed_bytes(layers), std::uint64_t{2 * 32 * 4});
    CHECK_EQUAL(kv_fixed_bytes(layers_of(check, shape_of(32, 32, 8, 128), both(DType::f16))), std::uint64_t{0});
}

void jointScalesAreStoredOnce(Check& check) {
    CachePrecision joint = both(DType::int8);
    joint.keys.scale = joint.values.scale = KvScale::joint;
    CHECK_EQUAL(kv_bytes_per_token(layers_of(check, shape_of(32, 32, 8, 128), joint)),
                std::uint64_t{32 * 8 * (128 + 128 + 4)});
}

// KIVI, R = 128: tokens beyond the last multiple of it lie in f16.
void theNewestTokensOfKiviAreInHalfPrecision(Check& check) {
    const auto layers = layers_of(check, shape_of(2, 8, 4, 64), both(DType::kivi2));
    const std::uint64_t quantised = 2 * 2 * 4 * 64 * 3 / 8, half = 2 * 2 * 4 * 64 * 2;
    CHECK_EQUAL(kv_bytes(layers, 1), half);
    CHECK_EQUAL(kv_bytes(layers, 127), 127 * half);
    CHECK_EQUAL(kv_bytes(layers, 128), 128 * quantised);
    CHECK_EQUAL(kv_bytes(layers, 300), 256 * quantised + 44 * half);
}

void vllmOracleOfEightGibibytes(Check& check) {
    CHECK_EQUAL(kv_bytes(layers_of(check, shape_of(32, 32, 32, 128), {}), 16384), std::uint64_t{8} << 30);
}

// One 16-token block of Llama-3.1-8B over all layers is 2 MiB; a page of 2 MiB holds 1,024 tokens of one of its planes
// and one of 64 KiB 32 (vAttention, FORMATS 3.10).
void pagesHoldThePublishedTokens(Check& check) {
    const auto layers = layers_of(check, shape_of(32, 32, 8, 128), {});
    CHECK_EQUAL(kv_bytes(layers, 16), std::uint64_t{2} << 20);
    CHECK_EQUAL((std::uint64_t{2} << 20) / plane_bytes(layers[0].keys, 1), std::uint64_t{1024});
    CHECK_EQUAL((std::uint64_t{64} << 10) / plane_bytes(layers[0].values, 1), std::uint64_t{32});
}

// Mistral-7B's rolling buffer: 8 times less at 32,768 tokens (arXiv 2310.06825, section 2).
void aWindowKeepsItsTokens(Check& check) {
    ModelConfig mistral = shape_of(32, 32, 8, 128);
    for (LayerShape& layer : mistral.layer_shapes) layer.window = 4096;
    const auto layers = layers_of(check, mistral, {});
    CHECK_EQUAL(kv_bytes(layers, 32768), std::uint64_t{536870912});
    CHECK_EQUAL(kv_bytes(layers, 4096), std::uint64_t{536870912});
    CHECK_EQUAL(kv_bytes(layers, 4095), std::uint64_t{4095} * 131072);
    CHECK_EQUAL(kv_bytes_per_token(layers), std::uint64_t{131072});
    ModelConfig chunked = shape_of(1, 1, 1, 8);
    chunked.layer_shapes[0].chunk = 4;
    CHECK_EQUAL(kv_bytes(layers_of(check, chunked, {}), 9), std::uint64_t{4 * 32});
}

void layersMayDifferInTheirHeads(Check& check) {
    ModelConfig config = shape_of(3, 8, 8, 16);
    config.layer_shapes[1].kv_heads = 2;
    config.layer_shapes[2].kv_heads = 1;
    CHECK_EQUAL(kv_bytes_per_token(layers_of(check, config, {})), std::uint64_t{2 * (8 + 2 + 1) * 16 * 2});
}

void aLatentIsOneRowForAllHeadsAndOnAllGpus(Check& check) {
    ModelConfig config = shape_of(61, 128, 128, 192);
    config.latent = {1536, 512, 128, 64, 128};
    CHECK_EQUAL(kv_bytes_per_token(layers_of(check, config, {})), std::uint64_t{70272});
    CHECK_EQUAL(kv_bytes_per_token(layers_of(check, config, {}, 8)), std::uint64_t{70272});
    CHECK_EQUAL(kv_bytes_per_token(layers_of(check, config, both(DType::int8))), std::uint64_t{61 * (512 + 4 + 64 + 4)});
    CHECK_EQUAL(kv_bytes_per_token(layers_of(check, config, both(DType::q8_0))),
                std::uint64_t{61 * (512 + 64) / 32 * 34});
}

struct Division {
    std::uint32_t query_heads, kv_heads, gpus, expected;
};
Cases<Division> divisions() {
    Cases<Division> cases;
    cases.add("8 KV heads on 1 GPU", {64, 8, 1, 8});
    cases.add("8 KV heads on 2 GPUs", {64, 8, 2, 4});
    cases.add("8 KV heads on 8 GPUs", {64, 8, 8, 1});
    cases.add("8 KV heads on 16 GPUs: each twice", {64, 8, 16, 1});
    cases.add("one KV head on 4 GPUs: everywhere", {32, 1, 4, 1});
    cases.add("3 KV heads on 2 GPUs: the middle one twice", {12, 3, 2, 2});
    cases.add("3 KV heads on 3 GPUs", {9, 3, 3, 1});
    cases.add("5 KV heads on 2 GPUs, two query heads each", {10, 5, 2, 3});
    return cases;
}
void kvHeadsAreDividedAndElseReplicated(Check& check, const Division& row) {
    CHECK_EQUAL(kv_heads_per_gpu(row.query_heads, row.kv_heads, row.gpus), row.expected);
}

void llama70BOnEightGpus(Check& check) {
    CHECK_EQUAL(kv_bytes_per_token(layers_of(check, shape_of(80, 64, 8, 128), {}, 8)), std::uint64_t{40960});
    CHECK_EQUAL(kv_bytes_per_token(layers_of(check, shape_of(80, 64, 8, 128), {}, 16)), std::uint64_t{40960});
}

void headsThatDoNotDivideAreRefused(Check& check) {
    const auto refused = kv_layers(shape_of(48, 25, 25, 64), {}, 2);
    CHECK_THAT(!refused);
    CHECK_OR_SAY(refused.error().sentence.find("25 query heads") != std::string::npos, refused.error().message());
    const auto packs = kv_layers(shape_of(1, 1, 1, 48), both(DType::q8_0), 1);
    CHECK_THAT(!packs);
    CHECK_OR_SAY(packs.error().sentence.find("q8_0") != std::string::npos, packs.error().message());
}

// A converted model's layers keep latents of their own widths, without a rotary key beside them.
void latentsOfDifferentWidthsAreAddedUp(Check& check) {
    ModelConfig config = shape_of(3, 8, 8, 16);
    config.make_latents({64, 10, 5});
    CHECK_EQUAL(kv_bytes_per_token(layers_of(check, config, {})), std::uint64_t{(64 + 10 + 5) * 2});
}

void firstStagesGetOneLayerMore(Check& check) {
    CHECK_THAT((pipeline_stages(80, 4) == std::vector<std::uint32_t>{20, 20, 20, 20}));
    CHECK_THAT((pipeline_stages(7, 3) == std::vector<std::uint32_t>{3, 2, 2}));
    CHECK_THAT((pipeline_stages(61, 4) == std::vector<std::uint32_t>{16, 15, 15, 15}));
    CHECK_THAT((pipeline_stages(3, 3) == std::vector<std::uint32_t>{1, 1, 1}));
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(precisionsScaleByTheirRows), precisions());
    claims.add(CLAIM(kivisGroupsFitNarrowHeads));
    claims.add(CLAIM(fp8KeepsOneScalePerPlaneBesideTheTokens));
    claims.add(CLAIM(jointScalesAreStoredOnce));
    claims.add(CLAIM(theNewestTokensOfKiviAreInHalfPrecision));
    claims.add(CLAIM(vllmOracleOfEightGibibytes));
    claims.add(CLAIM(pagesHoldThePublishedTokens));
    claims.add(CLAIM(aWindowKeepsItsTokens));
    claims.add(CLAIM(layersMayDifferInTheirHeads));
    claims.add(CLAIM(aLatentIsOneRowForAllHeadsAndOnAllGpus));
    claims.add(CLAIM(kvHeadsAreDividedAndElseReplicated), divisions());
    claims.add(CLAIM(llama70BOnEightGpus));
    claims.add(CLAIM(headsThatDoNotDivideAreRefused));
    claims.add(CLAIM(latentsOfDifferentWidthsAreAddedUp));
    claims.add(CLAIM(firstStagesGetOneLayerMore));
    return claims.rows();
}
