// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/cpu_cache.h"
#include "tests/kernels/support.h"
#include "tests/support/claims.h"
#include "tests/support/texts.h"

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

KvCacheShape shape_of(DType k, DType v) { return KvCacheShape::uniform(3, 5, 4, 2, 8, k, v); }

// The row of a head in a slot of that shape.
std::byte* row_at(const cpu::CpuPlane& of, std::uint32_t slot, std::uint32_t head) { return of.codes(slot / 4, head, slot % 4); }

// (blocks, kv_heads, block_size, head_dim): the rows of a head in a block are contiguous.
void rowsLieByBlockThenHeadThenSlot(Check& check) {
    cpu::Counters counters;
    auto made = cpu::CpuKvCache::make(shape_of(DType::f16, DType::f16), Purpose::kv_cache, counters);
    const auto& cache = static_cast<const cpu::CpuKvCache&>(**made);
    for (std::uint32_t block = 0; block < 5; ++block)
        for (std::uint32_t head = 0; head < 2; ++head)
            for (std::uint32_t slot = 0; slot < 4; ++slot)
                CHECK_EQUAL(cache.keys(1).codes(block, head, slot) - cache.keys(1).blocks, std::ptrdiff_t(((block * 2 + head) * 4 + slot) * 8 * 2));
}

void bytesAreThoseOfTheShape(Check& check) {
    for (DType k : float_types)
        for (DType v : float_types) {
            auto backend = cpu_backend(1);
            const std::uint64_t expected = 3 * (row_bytes(k, 5 * 4 * 2 * 8) + row_bytes(v, 5 * 4 * 2 * 8));
            {
                auto cache = backend->kv_cache(shape_of(k, v), Purpose::kv_cache);
                CHECK_EQUAL((*cache)->bytes(), expected);
                CHECK_EQUAL(backend->memory().kv_cache, expected);
                CHECK_EQUAL(backend->memory().activations, 0u);
                auto scratch = backend->kv_cache(shape_of(k, v), Purpose::activations);
                CHECK_EQUAL(backend->memory().activations, expected);
                CHECK_EQUAL(backend->memory().kv_cache, expected);
            }
            CHECK_EQUAL(backend->memory().kv_cache, 0u);
            CHECK_EQUAL(backend->memory().activations, 0u);
        }
}

void buffersAreCountedAndTakenOffAgain(Check& check) {
    auto backend = cpu_backend(1);
    {
        auto a = backend->buffer(1000, Purpose::activations), b = backend->buffer(24, Purpose::activations);
        CHECK_EQUAL((*a)->bytes(), 1000u);
        CHECK_EQUAL(backend->memory().activations, 1024u);
        auto moved = std::move(*a);
        CHECK_EQUAL(backend->memory().activations, 1024u);
    }
    CHECK_EQUAL(backend->memory().activations, 0u);
}

void weightsAreViewsAndCostNothing(Check& check) {
    auto backend = cpu_backend(1);
    const StoredMatrix matrix(DType::q4_1, 64, 64, 1);
    const std::uint64_t before = backend->memory().weights;
    auto weight = backend->weight(matrix.tensor());
    CHECK_EQUAL((*weight)->bytes(), 64u * 40u);
    CHECK_EQUAL((*weight)->rows(), 64u);
    CHECK_EQUAL((*weight)->cols(), 64u);
    CHECK_EQUAL((*weight)->dtype(), DType::q4_1);
    CHECK_EQUAL(backend->memory().weights, before);
}

void copiesTheOwnedSlotsOfABlockAndNoOthers(Check& check) {
    cpu::Counters counters;
    for (DType k : float_types)
        for (DType v : float_types)
            for (std::uint32_t tokens : {0u, 1u, 3u, 4u}) {
                auto made = cpu::CpuKvCache::make(shape_of(k, v), Purpose::kv_cache, counters);
                auto& cache = static_cast<cpu::CpuKvCache&>(**made);
                const std::uint64_t elements = 5 * 4 * 2 * 8;
                for (std::uint32_t layer = 0; layer < 3; ++layer)
                    for (auto [base, type] : {std::pair{cache.keys(layer).blocks, k}, std::pair{cache.values(layer).blocks, v}})
                        for (std::uint64_t i = 0; i < row_bytes(type, elements); ++i) base[i] = std::byte(std::uint8_t(i * 31 + layer));
                const std::byte* const keys = cache.keys(2).blocks;
                std::vector<std::byte> before(keys, keys + row_bytes(k, elements));
                cache.copy_block(1, 4, tokens);
                for (std::uint32_t block = 0; block < 5; ++block)
                    for (std::uint32_t head = 0; head < 2; ++head)
                        for (std::uint32_t slot = 0; slot < 4; ++slot) {
                            const bool copied = block == 4 && slot < tokens;
                            const std::byte* to = row_at(cache.keys(2), block * 4 + slot, head);
                            const std::byte* from = copied ? row_at(cache.keys(2), 4 + slot, head) : to;
                            CHECK_THAT(std::memcmp(to, before.data() + (from - keys), row_bytes(k, 8)) == 0);
                        }
            }
}

// Out, overwritten, and in again at another place: the owned slots are as they were, no other slot is touched.
struct ABlockComesBackFromTheHostAsItWasCase {
    int type_k, type_v;
};
Cases<ABlockComesBackFromTheHostAsItWasCase> aBlockComesBackFromTheHostAsItWas_cases() {
    Cases<ABlockComesBackFromTheHostAsItWasCase> cases;
    for (DType k : float_types)
        for (DType v : float_types) cases.add(printed("%s, %s", name_of(k).data(), name_of(v).data()), {int(k), int(v)});
    return cases;
}
void aBlockComesBackFromTheHostAsItWas(Check& check, const ABlockComesBackFromTheHostAsItWasCase& given) {
    const DType k = DType(given.type_k), v = DType(given.type_v);
    auto backend = cpu_backend(1);
    auto made = backend->kv_cache(shape_of(k, v), Purpose::kv_cache);
    auto& cache = static_cast<cpu::CpuKvCache&>(**made);
    {
        auto host = backend->host_blocks(cache, 3);
        CHECK_EQUAL((*host)->count(), 3u);
        const std::uint64_t expected = 3 * 3 * (row_bytes(k, 4 * 2 * 8) + row_bytes(v, 4 * 2 * 8));
        CHECK_EQUAL((*host)->bytes(), expected);
        CHECK_EQUAL(backend->memory().host_blocks, expected);
        for (std::uint32_t tokens : {1u, 3u, 4u}) {
            const auto each = [&](auto&& f) {
                for (std::uint32_t layer = 0; layer < 3; ++layer)
                    for (std::uint32_t slot = 0; slot < 20; ++slot)
                        for (std::uint32_t head = 0; head < 2; ++head) {
                            f(row_at(cache.keys(layer), slot, head), row_bytes(k, 8), int(slot), int(layer * 2 + head));
                            f(row_at(cache.values(layer), slot, head), row_bytes(v, 8), int(slot), int(layer * 2 + head + 100));
                        }
            };
            each([](std::byte* row, std::uint64_t bytes, int slot, int salt) { std::memset(row, slot * 7 + salt, bytes); });
            backend->swap_out(cache, 2, **host, 0, 4);
            backend->swap_out(cache, 1, **host, 2, tokens);
            backend->swap_out(cache, 3, **host, 1, 4);
            backend->poison_block(cache, 1);
            backend->swap_in(cache, 4, **host, 2, tokens);
            each([&](std::byte* row, std::uint64_t bytes, int slot, int salt) {
                const bool moved = slot >= 16 && slot < 16 + int(tokens);
                const int value = slot / 4 == 1 ? 0xFF : (moved ? slot - 12 : slot) * 7 + salt;
                for (std::uint64_t i = 0; i < bytes; ++i) CHECK_EQUAL(row[i], std::byte(std::uint8_t(value)));
            });
        }
    }
    CHECK_EQUAL(backend->memory().host_blocks, 0u);
}

void hostBlocksBeyondAnyMemoryAreRefused(Check& check) {
    auto backend = cpu_backend(1);
    auto cache = backend->kv_cache(KvCacheShape::uniform(1u << 16, 2, 1, 1, 8, DType::f32, DType::f32), Purpose::activations);
    CHECK_THAT(bool(cache));
    auto host = backend->host_blocks(**cache, 0xFFFFFFFF);
    CHECK_THAT(!host && !host.error().sentence.empty() && !host.error().hint.empty());
    CHECK_EQUAL(backend->memory().host_blocks, 0u);
}

struct ValuesBeyondThePrecisionsRangeAreCountedCase {
    int type_k, type_v;
    std::uint64_t expected;
};
Cases<ValuesBeyondThePrecisionsRangeAreCountedCase> valuesBeyondThePrecisionsRangeAreCounted_cases() {
    Cases<ValuesBeyondThePrecisionsRangeAreCountedCase> cases;
    cases.add("f16", {int(DType::f16), int(DType::f16), std::uint64_t(3 + 2)});
    cases.add("keys only", {int(DType::f16), int(DType::f32), std::uint64_t(3)});
    cases.add("bf16", {int(DType::bf16), int(DType::bf16), std::uint64_t(0)});
    cases.add("f32", {int(DType::f32), int(DType::f32), std::uint64_t(0)});
    return cases;
}
void valuesBeyondThePrecisionsRangeAreCounted(Check& check, const ValuesBeyondThePrecisionsRangeAreCountedCase& row) {
    auto backend = cpu_backend(2);
    auto cache = backend->kv_cache(shape_of(DType(row.type_k), DType(row.type_v)), Purpose::kv_cache);
    std::uint32_t blocks = 0;
    const Batch batch = make_batch({{0, 3}}, 4, 1, blocks);
    std::vector<float> k = random_floats(3 * 16, 1), v = random_floats(3 * 16, 2);
    k[0] = 65504;  // the largest of f16
    k[5] = 65520;  // the first that rounds to infinity
    k[17] = -1e30f;
    k[40] = 3.3e38f;
    k[41] = std::numeric_limits<float>::infinity();  // was infinite before
    v[9] = -65520;
    v[30] = 1e6f;
    v[31] = std::numeric_limits<float>::quiet_NaN();
    auto q = upload(*backend, random_floats(3 * 16, 3)), k_buffer = upload(*backend, k), v_buffer = upload(*backend, v);
    CHECK_THAT(bool(backend->begin_batch(batch)));
    CHECK_EQUAL((*cache)->overflowed_values(), 0u);
    for (std::uint64_t call = 1; call <= 2; ++call) {
        backend->rotary_store(*q, *k_buffer, *v_buffer, {2, 2, 8, 0, false, 1}, {10000, 0, RotaryLayout::half_split}, **cache, 1);
        CHECK_EQUAL((*cache)->overflowed_values(), call * row.expected);
    }
}

void poisonFillsOneBlockOfAllLayersWithNan(Check& check) {
    cpu::Counters counters;
    for (DType type : float_types) {
        auto made = cpu::CpuKvCache::make(shape_of(type, type), Purpose::kv_cache, counters);
        auto& cache = static_cast<cpu::CpuKvCache&>(**made);
        for (std::uint32_t layer = 0; layer < 3; ++layer)
            for (std::byte* base : {cache.keys(layer).blocks, cache.values(layer).blocks}) std::memset(base, 0, row_bytes(type, 320));
        cache.poison_block(2);
        cache.poison_block(0);  // the null block too
        for (std::uint32_t layer = 0; layer < 3; ++layer)
            for (std::byte* base : {cache.keys(layer).blocks, cache.values(layer).blocks}) {
                std::vector<float> all(320);
                cpu::expand_row(type, base, 320, all.data());
                for (std::size_t i = 0; i < 320; ++i) CHECK_EQUAL(std::isnan(all[i]), i / 64 == 2 || i / 64 == 0);
            }
    }
}

struct ShapesThatHoldNothingOrTooMuchAreRefusedCase {
    std::uint32_t layers, blocks, block_size;
    int type;
};
Cases<ShapesThatHoldNothingOrTooMuchAreRefusedCase> shapesThatHoldNothingOrTooMuchAreRefused_cases() {
    Cases<ShapesThatHoldNothingOrTooMuchAreRefusedCase> cases;
    const std::uint32_t most = 0xFFFFFFFF;
    cases.add("no layer", {0u, 4u, 16u, int(DType::f16)});
    cases.add("no block", {1u, 0u, 16u, int(DType::f16)});
    cases.add("no slot", {1u, 4u, 0u, int(DType::f16)});
    cases.add("a precision of weights alone", {1u, 4u, 16u, int(DType::q6_k)});
    cases.add("more than 64 bits", {3u, most, most, int(DType::f32)});
    cases.add("more than any memory", {1u, most, 4096u, int(DType::f16)});
    return cases;
}
void shapesThatHoldNothingOrTooMuchAreRefused(Check& check, const ShapesThatHoldNothingOrTooMuchAreRefusedCase& row) {
    auto backend = cpu_backend(1);
    auto cache = backend->kv_cache(KvCacheShape::uniform(row.layers, row.blocks, row.block_size, 8, 128, DType(row.type), DType::f16), Purpose::kv_cache);
    CHECK_THAT(!cache);
    CHECK_THAT(!cache.error().sentence.empty() && !cache.error().hint.empty());
    CHECK_EQUAL(backend->memory().kv_cache, 0u);
}

void weightsThatCannotBeUsedAreRefused(Check& check) {
    auto backend = cpu_backend(1);
    const StoredMatrix matrix(DType::f32, 4, 48, 1);
    Tensor tensor = matrix.tensor("blk.0.ffn_up.weight");
    tensor.dtype = DType::q4_0;  // 48 is no multiple of 32
    const auto uneven = backend->weight(tensor);
    CHECK_THAT(!uneven && uneven.error().sentence.find("blk.0.ffn_up.weight") != std::string::npos);
    tensor.data = nullptr;
    CHECK_THAT(!backend->weight(tensor));
    tensor = matrix.tensor();
    tensor.rows = std::uint64_t{1} << 40;
    CHECK_THAT(!backend->weight(tensor));
}

void aBatchThatContradictsItselfIsRefused(Check& check) {
    auto backend = cpu_backend(1);
    std::uint32_t blocks = 0;
    const Batch good = make_batch({{0, 2}, {3, 1}}, 4, 1, blocks);
    CHECK_THAT(bool(backend->begin_batch(good)));
    Batch bad = good;
    bad.slots.pop_back();
    CHECK_THAT(!backend->begin_batch(bad));
    bad = good;
    bad.sequences[1].table_begin = 7;
    CHECK_THAT(!backend->begin_batch(bad));
    bad = good;
    bad.sequences.pop_back();
    CHECK_THAT(!backend->begin_batch(bad));
    bad = good;
    bad.logit_rows = {3};
    CHECK_THAT(!backend->begin_batch(bad));
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(rowsLieByBlockThenHeadThenSlot));
    claims.add(CLAIM(bytesAreThoseOfTheShape));
    claims.add(CLAIM(buffersAreCountedAndTakenOffAgain));
    claims.add(CLAIM(weightsAreViewsAndCostNothing));
    claims.add(CLAIM(copiesTheOwnedSlotsOfABlockAndNoOthers));
    claims.add(CLAIM(aBlockComesBackFromTheHostAsItWas), aBlockComesBackFromTheHostAsItWas_cases());
    claims.add(CLAIM(hostBlocksBeyondAnyMemoryAreRefused));
    claims.add(CLAIM(valuesBeyondThePrecisionsRangeAreCounted), valuesBeyondThePrecisionsRangeAreCounted_cases());
    claims.add(CLAIM(poisonFillsOneBlockOfAllLayersWithNan));
    claims.add(CLAIM(shapesThatHoldNothingOrTooMuchAreRefused), shapesThatHoldNothingOrTooMuchAreRefused_cases());
    claims.add(CLAIM(weightsThatCannotBeUsedAreRefused));
    claims.add(CLAIM(aBatchThatContradictsItselfIsRefused));
    return claims.rows();
}
