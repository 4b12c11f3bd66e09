// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/cpu_cache.h"
#include "kernels/cpu/kv_quantise.h"
#include "tests/kernels/support.h"
#include "tests/support/backend_rows.h"
#include "tests/support/format_cases.h"

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

struct FormatGiven {
    KvFormat format;
};
using FormatCases = Cases<FormatGiven>;

FormatCases each_format() {
    FormatCases cases;
    for (const KvFormat& format : all_formats()) cases.add(text_of(format), {format});
    return cases;
}

FormatCase case_of(const KvFormat& format, std::uint32_t head_dim = 64) {
    return {format, format, head_dim, 16, {{0, 1}, {300, 1}, {0, 9}, {250, 3}}};
}

void threadsDoNotChangeABit(Check& check, const FormatGiven& given) {
    std::vector<float> first;
    for (const unsigned threads : {1u, 2u, 3u}) {
        auto backend = cpu_backend(threads);
        FilledCache filled(*backend, case_of(given.format));
        CHECK_EQUAL(filled.problem(), std::string());
        const std::vector<float> got = filled.attend();
        if (first.empty()) first = got;
        CHECK_THAT(!got.empty() && got == first);
    }
}

void everyInstructionSetComputesTheSame(Check& check, const FormatGiven& given) {
    for (std::int64_t target : {std::int64_t(HWY_AVX3), std::int64_t(HWY_AVX2), std::int64_t(HWY_SSE4), std::int64_t(HWY_STATIC_TARGET)}) {
        if (target != HWY_STATIC_TARGET && (hwy::SupportedTargets() & target) == 0) continue;
        const UseTarget use(target);
        for (const std::uint32_t head_dim : {16u, 64u, 80u}) {
            if (given.format.rotate && head_dim == 80) continue;
            auto backend = cpu_backend(2);
            FilledCache filled(*backend, case_of(given.format, head_dim));
            CHECK_EQUAL(filled.problem(), std::string());
            const std::vector<float> got = filled.attend();
            CHECK_BELOW(relative_difference(got, filled.expected(), got.size()), given.format.rotate ? 1e-3 : 1e-5);
        }
    }
}

// Probed weights are those of the turned, quantised keys.
void watchedHeadsSeeTheStoredKeys(Check& check, const FormatGiven& given) {
    auto backend = cpu_backend(2);
    const FormatCase c = case_of(given.format);
    FilledCache filled(*backend, c);
    CHECK_EQUAL(filled.problem(), std::string());
    const std::size_t count = std::size_t{filled.batch().rows()} * c.query_heads * c.head_dim;
    const std::vector<float> queries = random_floats(count, 1);
    auto q = upload(*backend, queries), out = upload(*backend, std::vector<float>(count));
    CHECK_THAT(bool(backend->begin_batch(filled.batch())));
    AttentionProbe probe;
    probe.heads = {3};
    backend->attention(*q, filled.shape(), filled.cache(), 1, *out, &probe);
    std::vector<float> keys;
    for (std::uint32_t block = 0; block < filled.blocks(); ++block)
        for (std::uint32_t head = 0; head < c.kv_heads; ++head) {
            const std::vector<float> rows = filled.kept(KvPart::keys, block, head);
            keys.insert(keys.end(), rows.begin(), rows.end());
        }
    const cpu::scalar::CacheView view{reinterpret_cast<std::byte*>(keys.data()), DType::f32, c.block_size, c.kv_heads, c.head_dim};
    for (std::uint32_t s = 0; s < filled.batch().sequences.size(); ++s) {
        const auto want = cpu::scalar::attention_weights(filled.batch(), queries.data(), filled.shape(), view, {s, 0, 3});
        const std::vector<float>& got = probe.weights[0][filled.batch().sequences[s].first_row];
        CHECK_EQUAL(got.size(), want.size());
        CHECK_BELOW(relative_difference(got, want, want.size()), given.format.rotate ? 1e-3 : 1e-5);
    }
}

// All that a cache allocates is what its planes say, to the byte: blocks, scales beside them, pages.
void everyByteIsCounted(Check& check, const FormatGiven& given) {
    auto backend = cpu_backend(1);
    KvCacheShape shape = KvCacheShape::uniform(3, 5, 16, 2, 64, DType::f16, DType::f16);
    for (KvLayerShape& layer : shape.layers) layer.keys = layer.values = given.format;
    shape.layers[2].values = KvFormat::of(DType::f16);
    if (given.format.scale == KvScale::joint) shape.layers[2].keys = KvFormat::of(DType::f16);
    shape.residual_pages = 4;
    std::uint64_t expected = 0;
    for (const KvLayerShape& layer : shape.layers)
        for (const KvPlane& plane : {*layer.key_plane(16), *layer.value_plane(16)})
            expected += 5 * plane.block_bytes + plane.fixed_bytes + 4 * plane.residual_page_bytes;
    {
        auto cache = backend->kv_cache(shape, Purpose::kv_cache);
        CHECK_THAT(bool(cache));
        CHECK_EQUAL((*cache)->bytes(), expected);
        CHECK_EQUAL(backend->memory().kv_cache, expected);
    }
    CHECK_EQUAL(backend->memory().kv_cache, 0u);
}

// Q4: H / sqrt(n) on queries and keys leaves their product as it is, and is its own inverse.
void hadamardKeepsProducts(Check& check) {
    for (const std::uint32_t size : {1u, 2u, 16u, 64u, 128u, 512u}) {
        std::vector<float> q = random_floats(size, size), k = random_floats(size, size + 1);
        const std::vector<float> before = q, twin = cpu::scalar::turned(q);
        const auto product = [&] {
            double sum = 0;
            for (std::uint32_t i = 0; i < size; ++i) sum += double(q[i]) * double(k[i]);
            return sum;
        };
        const double plain = product();
        cpu::hadamard(q.data(), size);
        cpu::hadamard(k.data(), size);
        CHECK_BELOW(relative_difference(q, twin, size), 1e-6);
        CHECK_BELOW(std::abs(product() - plain), 1e-4);
        cpu::hadamard(q.data(), size);
        CHECK_BELOW(relative_difference(q, before, size), 1e-6);
    }
}

void cachesThatContradictThemselvesAreRefused(Check& check) {
    auto backend = cpu_backend(1);
    const auto refused = [&](auto&& spoil) {
        KvCacheShape shape = KvCacheShape::uniform(2, 4, 16, 2, 64, DType::f16, DType::f16);
        spoil(shape);
        auto made = backend->kv_cache(shape, Purpose::kv_cache);
        return !made && !made.error().sentence.empty() && !made.error().hint.empty() && backend->memory().kv_cache == 0;
    };
    CHECK_THAT(refused([](KvCacheShape& s) { s.layers[1].keys = with_scale(DType::int8, KvScale::joint); }));
    CHECK_THAT(refused([](KvCacheShape& s) {
        s.layers[1].keys = with_scale(DType::int8, KvScale::joint);
        s.layers[1].values = with_scale(DType::int4, KvScale::joint);
    }));
    CHECK_THAT(refused([](KvCacheShape& s) { s.layers[0].keys = in_groups(DType::kivi2, 16); }));  // no pages
    CHECK_THAT(refused([](KvCacheShape& s) { s.residual_pages = 3, s.layers[0].keys = in_groups(DType::kivi2, 12); }));
    CHECK_THAT(refused([](KvCacheShape& s) { s.residual_pages = 3, s.layers[0].values = in_groups(DType::kivi2, 2); }));
    CHECK_THAT(refused([](KvCacheShape& s) { s.layers[0].keys = with_scale(DType::int8, KvScale::tensor); }));
    CHECK_THAT(refused([](KvCacheShape& s) { s.layers[0].key_dim = 80, s.layers[0].keys.rotate = true; }));
    CHECK_THAT(refused([](KvCacheShape& s) { s.layers[0].key_dim = 2048, s.layers[0].keys.rotate = true; }));
    CHECK_THAT(refused([](KvCacheShape& s) { s.layers[0].key_dim = 24, s.layers[0].keys = KvFormat::of(DType::q4_0); }));
    CHECK_THAT(refused([](KvCacheShape& s) { s.layers[0].place = 7; }));
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    std::vector<Row> all = format_rows({[] { return cpu::make_cpu_backend(2); }, false, false, "cpu"});
    Claims claims;
    claims.add(CLAIM(threadsDoNotChangeABit), each_format());
    claims.add(CLAIM(everyInstructionSetComputesTheSame), each_format());
    claims.add(CLAIM(watchedHeadsSeeTheStoredKeys), each_format());
    claims.add(CLAIM(everyByteIsCounted), each_format());
    claims.add(CLAIM(hadamardKeepsProducts));
    claims.add(CLAIM(cachesThatContradictThemselvesAreRefused));
    append(all, claims.rows());
    return all;
}
