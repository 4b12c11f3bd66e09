// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/scalar.h"
#include "tests/kernels/support.h"
#include "tests/support/claims.h"
#include "tests/support/texts.h"

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

const std::int64_t targets[] = {HWY_AVX3, HWY_AVX2, HWY_SSE4, HWY_STATIC_TARGET};
bool runs_here(std::int64_t target) { return target == HWY_STATIC_TARGET || (hwy::SupportedTargets() & target) != 0; }

// The value of a binary16 by its definition (IEEE 754, 3.4).
double half_value(unsigned bits) {
    const int exponent = int(bits >> 10 & 31);
    const double magnitude = exponent == 0 ? std::ldexp(double(bits & 1023), -24) : std::ldexp(double(1024 + (bits & 1023)), exponent - 25);
    return bits & 0x8000 ? -magnitude : magnitude;
}

Batch plain_batch(std::vector<TokenId> tokens, std::vector<std::uint32_t> positions) {
    Batch batch;
    batch.tokens = std::move(tokens);
    batch.positions = std::move(positions);
    for (std::uint32_t row = 0; row < batch.rows(); ++row) {
        batch.slots.push_back(row);
        batch.sequences.push_back({row, 1, batch.positions[row], 0, 1});
    }
    batch.block_tables = {0};
    return batch;
}

void everyHalfExpandsExactly(Check& check) {
    for (std::int64_t target : targets) {
        if (!runs_here(target)) continue;
        const UseTarget use(target);
        std::vector<std::uint16_t> halves(65536);
        for (unsigned i = 0; i < 65536; ++i) halves[i] = std::uint16_t(i);
        std::vector<float> f16(65536), bf16(65536);
        cpu::expand_row(DType::f16, reinterpret_cast<const std::byte*>(halves.data()), 65536, f16.data());
        cpu::expand_row(DType::bf16, reinterpret_cast<const std::byte*>(halves.data()), 65536, bf16.data());
        for (unsigned i = 0; i < 65536; ++i) {
            if ((i & 0x7C00) != 0x7C00) CHECK_EQUAL(double(f16[i]), half_value(i));
            std::uint32_t wide;
            std::memcpy(&wide, &bf16[i], 4);
            if ((i & 0x7F80) != 0x7F80) CHECK_EQUAL(wide, i << 16);
        }
    }
}

// Every half, and the values halfway between two of them, which go to the even one; beyond the range: infinity.
void narrowingRoundsToTheNearestEven(Check& check) {
    for (std::int64_t target : targets) {
        if (!runs_here(target)) continue;
        const UseTarget use(target);
        std::vector<float> values;
        std::vector<std::uint16_t> expected;
        for (unsigned i = 0; i < 0x7BFF; ++i) {
            const float low = float(half_value(i)), high = float(half_value(i + 1)), middle = (low + high) / 2;
            for (float value : {low, std::nextafter(middle, 0.0f), middle, std::nextafter(middle, 1e9f)}) {
                values.push_back(value);
                expected.push_back(std::uint16_t(value < middle ? i : value > middle ? i + 1 : i % 2 == 0 ? i : i + 1));
                values.push_back(-value);
                expected.push_back(std::uint16_t(expected.back() | 0x8000));
            }
        }
        for (float big : {65520.0f, 1e20f, std::numeric_limits<float>::infinity()}) values.push_back(big), expected.push_back(0x7C00);
        std::vector<std::uint16_t> out(values.size());
        cpu::narrow_row(DType::f16, values.data(), values.size(), reinterpret_cast<std::byte*>(out.data()));
        for (std::size_t i = 0; i < out.size(); ++i)
            if (out[i] != expected[i]) FAIL_ROW(printed("%.12g became %x, not %x", double(values[i]), unsigned{out[i]}, unsigned{expected[i]}));
    }
}

void narrowingToBf16RoundsToTheNearestEven(Check& check) {
    std::vector<float> values;
    std::vector<std::uint16_t> expected;
    for (std::uint32_t high = 1; high < 0x7F7F; high += 3)
        for (std::uint32_t low : {0u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu}) {
            const std::uint32_t bits = high << 16 | low;
            float value;
            std::memcpy(&value, &bits, 4);
            values.push_back(value);
            expected.push_back(std::uint16_t(low < 0x8000 ? high : low > 0x8000 ? high + 1 : high % 2 == 0 ? high : high + 1));
        }
    std::vector<std::uint16_t> out(values.size());
    cpu::narrow_row(DType::bf16, values.data(), values.size(), reinterpret_cast<std::byte*>(out.data()));
    CHECK_EQUAL(out, expected);
}

void countsTheFiniteValuesThatBecomeInfinite(Check& check) {
    std::vector<float> values;
    for (std::uint32_t around : {0x477FE000u, 0x477FF000u, 0x7F7F0000u, 0x7F7F8000u, 0x7F800000u, 0x7FC00000u, 0u, 0x3F800000u})
        for (std::uint32_t bits = around - std::min(around, 40u); bits < around + 40; ++bits)
            for (std::uint32_t sign : {0u, 0x80000000u}) {
                const std::uint32_t word = bits | sign;
                std::memcpy(&values.emplace_back(), &word, 4);
            }
    values.push_back(1);  // no multiple of any vector
    for (DType type : float_types) {
        std::vector<std::byte> out(row_bytes(type, values.size()));
        std::vector<float> back(values.size());
        const std::uint64_t counted = cpu::narrow_row(type, values.data(), values.size(), out.data());
        cpu::expand_row(type, out.data(), values.size(), back.data());
        std::uint64_t expected = 0;
        for (std::size_t i = 0; i < values.size(); ++i) expected += std::isfinite(values[i]) && std::isinf(back[i]) ? 1u : 0u;
        CHECK_EQUAL(counted, expected);
        CHECK_EQUAL(expected == 0, type == DType::f32);
    }
}

void nanStaysNanWhenNarrowed(Check& check) {
    const std::vector<float> nans(33, std::numeric_limits<float>::quiet_NaN());
    for (DType type : {DType::f16, DType::bf16}) {
        std::vector<std::uint16_t> out(33);
        std::vector<float> back(33);
        cpu::narrow_row(type, nans.data(), 33, reinterpret_cast<std::byte*>(out.data()));
        cpu::expand_row(type, reinterpret_cast<const std::byte*>(out.data()), 33, back.data());
        CHECK_THAT(std::all_of(back.begin(), back.end(), [](float v) { return std::isnan(v); }));
    }
}

void embedsEveryStoredFormAtAnyAlignment(Check& check) {
    for (DType type : all_types)
        for (std::size_t shift : {0u, 1u}) {
            const StoredMatrix table(type, 50, 96, 3, shift);
            auto backend = cpu_backend(2);
            auto weight = backend->weight(table.tensor());
            const std::vector<TokenId> tokens = {0, 49, 7, 7};
            auto out = upload(*backend, std::vector<float>(4 * 96, std::numeric_limits<float>::quiet_NaN()));
            CHECK_THAT(bool(backend->begin_batch(plain_batch(tokens, {0, 1, 2, 3}))));
            backend->embed(**weight, *out);
            std::vector<float> expected(4 * 96);
            cpu::scalar::embed(table.packed(), tokens, expected.data());
            CHECK_THAT(relative_difference(download(*backend, *out, 4 * 96), expected, expected.size()) < 2e-7);
        }
}

void aTokenOutsideTheVocabularyEmbedsAsNan(Check& check) {
    const StoredMatrix table(DType::f32, 5, 32, 3);
    auto backend = cpu_backend(1);
    auto weight = backend->weight(table.tensor());
    auto out = upload(*backend, std::vector<float>(64));
    CHECK_THAT(bool(backend->begin_batch(plain_batch({5, -1}, {0, 1}))));
    backend->embed(**weight, *out);
    for (float value : download(*backend, *out, 64)) CHECK_THAT(std::isnan(value));
}

void normEqualsTheScalarTwin(Check& check) {
    for (DType type : all_types)
        for (std::uint32_t width : {32u, 64u, 576u, 2048u})
            for (std::uint32_t rows : {1u, 3u, 40u})
                for (std::size_t shift : {0u, 2u, 3u}) {
                    const StoredMatrix weight(type, 1, width, 5, shift);
                    std::vector<float> factors(width);
                    cpu::expand_row(type, weight.data(), width, factors.data());
                    const std::vector<float> in = random_floats(rows * width, 6, 3);
                    auto backend = cpu_backend(2);
                    auto on_device = backend->weight(weight.tensor());
                    auto from = upload(*backend, in);
                    auto out = upload(*backend, std::vector<float>(in.size(), std::numeric_limits<float>::quiet_NaN()));
                    backend->rms_norm(*from, **on_device, 1e-5f, rows, *out);
                    std::vector<float> expected(in.size());
                    cpu::scalar::rms_norm(in, factors, 1e-5f, expected.data());
                    CHECK_THAT(relative_difference(download(*backend, *out, in.size()), expected, in.size()) < 3e-7);
                }
}

void normWorksInPlaceAndOnOddWidths(Check& check) {
    for (std::uint64_t width : {1u, 5u, 17u, 33u, 100u}) {
        std::vector<float> x = random_floats(width, 1), factors = random_floats(width, 2), expected(width);
        cpu::scalar::rms_norm(x, factors, 1e-6f, expected.data());
        cpu::rms_norm_row(x.data(), factors.data(), 1e-6f, width, x.data());
        CHECK_THAT(relative_difference(x, expected, width) < 3e-7);
    }
}

void siluEqualsTheScalarTwin(Check& check) {
    for (std::int64_t target : targets) {
        if (!runs_here(target)) continue;
        const UseTarget use(target);
        for (std::size_t count : {1u, 15u, 16u, 33u, 1536u}) {
            std::vector<float> gate = random_floats(count, 1, 8), expected = gate;
            const std::vector<float> up = random_floats(count, 2);
            cpu::silu_multiply_row(gate.data(), up.data(), count);
            cpu::scalar::gate_multiply(Activation::silu, expected, up);
            for (std::size_t i = 0; i < count; ++i)
                CHECK_THAT(std::abs(gate[i] - expected[i]) <= 1e-6f * std::abs(expected[i]) + 1e-30f);
        }
        std::vector<float> far = {-1e30f, -200, -88, -87, 87, 88, 200, 1e30f, 0}, expected = far;
        const std::vector<float> ones(far.size(), 1.0f);
        cpu::silu_multiply_row(far.data(), ones.data(), far.size());
        cpu::scalar::gate_multiply(Activation::silu, expected, ones);
        for (std::size_t i = 1; i < far.size(); ++i) CHECK_THAT(std::abs(far[i] - expected[i]) <= 1e-6f * std::abs(expected[i]) + 1e-30f);
        std::vector<float> nan(17, std::numeric_limits<float>::quiet_NaN());
        cpu::silu_multiply_row(nan.data(), std::vector<float>(17, 1.0f).data(), 17);
        for (float value : nan) CHECK_THAT(std::isnan(value));
    }
}

struct RotationEqualsTheScalarTwinAndTheCacheHoldsWhatWasRotatedCase {
    int layout, head_dim, rotary_dim, type;
};
Cases<RotationEqualsTheScalarTwinAndTheCacheHoldsWhatWasRotatedCase> rotationEqualsTheScalarTwinAndTheCacheHoldsWhatWasRotated_cases() {
    Cases<RotationEqualsTheScalarTwinAndTheCacheHoldsWhatWasRotatedCase> cases;
    for (RotaryLayout layout : {RotaryLayout::adjacent, RotaryLayout::half_split})
        for (auto [dim, rotary] : {std::pair{8, 8}, {64, 64}, {64, 16}, {80, 20}, {96, 96}, {128, 64}, {256, 256}, {16, 0}})
            for (DType type : float_types)
                cases.add(printed("%s, %d of %d, %s", layout == RotaryLayout::adjacent ? "adjacent" : "half-split", rotary, dim, name_of(type).data()), {int(layout), dim, rotary, int(type)});
    return cases;
}
void rotationEqualsTheScalarTwinAndTheCacheHoldsWhatWasRotated(Check& check, const RotationEqualsTheScalarTwinAndTheCacheHoldsWhatWasRotatedCase& row) {
    const RotaryShape rotary{10000, std::uint32_t(row.rotary_dim), RotaryLayout(row.layout)};
    const std::uint32_t d = std::uint32_t(row.head_dim), block_size = 7;
    std::uint32_t blocks = 0;
    // Positions up to 100,000: angles must not lose precision with distance.
    Batch batch = make_batch({{0, 3}, {20, 2}, {99998, 2}}, block_size, 3, blocks);
    const std::size_t rows = batch.rows();
    // Two query heads on one KV head. Attention of a one-token context returns V, of two equal keys their mean; here
    // the stored K and V are read back through copy and attention elsewhere, so compare the rotated rows and V.
    std::vector<float> q = random_floats(rows * 2 * d, 1), k = random_floats(rows * d, 2);
    const std::vector<float> v = random_floats(rows * d, 3);
    auto backend = cpu_backend(2);
    auto cache = backend->kv_cache(KvCacheShape::uniform(1, blocks, block_size, 1, d, DType(row.type), DType(row.type)), Purpose::kv_cache);
    CHECK_THAT(bool(cache));
    auto q_buffer = upload(*backend, q), k_buffer = upload(*backend, k), v_buffer = upload(*backend, v);
    CHECK_THAT(bool(backend->begin_batch(batch)));
    backend->rotary_store(*q_buffer, *k_buffer, *v_buffer, {2, 1, d, 0, false, 1}, rotary, **cache, 0);
    cpu::scalar::rotate(q.data(), batch.positions, 2, d, rotary);
    cpu::scalar::rotate(k.data(), batch.positions, 1, d, rotary);
    CHECK_THAT(relative_difference(download(*backend, *q_buffer, q.size()), q, q.size()) < 2e-7);
    const std::vector<float> rotated = download(*backend, *k_buffer, k.size());
    CHECK_THAT(relative_difference(rotated, k, k.size()) < 2e-7);

    // A query of zeros over a context of one token returns that token's V as stored.
    Batch one;
    one.tokens = {0};
    one.positions = {0};
    one.slots = {batch.slots[0]};
    one.block_tables = {batch.block_tables[0]};
    one.sequences = {{0, 1, 0, 0, 1}};
    auto zeros = upload(*backend, std::vector<float>(2 * d));
    auto out = upload(*backend, std::vector<float>(2 * d));
    CHECK_THAT(bool(backend->begin_batch(one)));
    backend->attention(*zeros, {2, 1, d, 0, false, 1}, **cache, 0, *out, nullptr);
    const std::vector<float> stored = download(*backend, *out, d);
    for (std::uint32_t i = 0; i < d; ++i) {
        std::byte bytes[4];
        cpu::scalar::store_element(DType(row.type), bytes, 0, v[i]);
        CHECK_EQUAL(double(stored[i]), cpu::scalar::element(DType(row.type), bytes, 0));
    }
}

void gathersRowsInTheOrderAskedFor(Check& check) {
    auto backend = cpu_backend(1);
    const std::vector<float> in = random_floats(6 * 10, 1);
    auto from = upload(*backend, in), out = upload(*backend, std::vector<float>(40));
    const std::vector<std::uint32_t> rows = {5, 0, 5, 2};
    backend->gather_rows(*from, rows, 10, *out);
    std::vector<float> expected(40);
    cpu::scalar::gather_rows(in.data(), rows, 10, expected.data());
    CHECK_EQUAL(download(*backend, *out, 40), expected);
}

void readingMoreThanABufferHoldsIsAnError(Check& check) {
    auto backend = cpu_backend(1);
    auto buffer = backend->buffer(16, Purpose::activations);
    std::vector<float> five(5);
    CHECK_THAT(!backend->read(**buffer, five));
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(everyHalfExpandsExactly));
    claims.add(CLAIM(narrowingRoundsToTheNearestEven));
    claims.add(CLAIM(narrowingToBf16RoundsToTheNearestEven));
    claims.add(CLAIM(countsTheFiniteValuesThatBecomeInfinite));
    claims.add(CLAIM(nanStaysNanWhenNarrowed));
    claims.add(CLAIM(embedsEveryStoredFormAtAnyAlignment));
    claims.add(CLAIM(aTokenOutsideTheVocabularyEmbedsAsNan));
    claims.add(CLAIM(normEqualsTheScalarTwin));
    claims.add(CLAIM(normWorksInPlaceAndOnOddWidths));
    claims.add(CLAIM(siluEqualsTheScalarTwin));
    claims.add(CLAIM(rotationEqualsTheScalarTwinAndTheCacheHoldsWhatWasRotated), rotationEqualsTheScalarTwinAndTheCacheHoldsWhatWasRotated_cases());
    claims.add(CLAIM(gathersRowsInTheOrderAskedFor));
    claims.add(CLAIM(readingMoreThanABufferHoldsIsAnError));
    return claims.rows();
}
