// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/scalar.h"
#include "tests/kernels/support.h"
#include "tests/support/claims.h"
#include "tests/support/texts.h"

#include <map>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

AttentionShape attention_shape(std::uint32_t query_heads, std::uint32_t kv_heads, std::uint32_t head_dim, float scale) {
    AttentionShape shape;
    shape.query_heads = query_heads;
    shape.kv_heads = kv_heads;
    shape.head_dim = head_dim;
    shape.scale = scale;
    return shape;
}

struct Case {
    std::vector<Piece> pieces;
    std::uint32_t query_heads = 4, kv_heads = 2, head_dim = 16, block_size = 16;
    DType k = DType::f16, v = DType::f16;
};

// K and V of every token by sequence, position and head, whatever block they are put into.
std::vector<float> token_rows(const Case& c, std::uint32_t sequence, std::uint32_t tokens, unsigned salt) {
    return random_floats(std::size_t{tokens} * c.kv_heads * c.head_dim, 100 * sequence + salt);
}

struct Run {
    std::vector<float> out;
    std::vector<double> expected;
    AttentionProbe probe;
    Batch batch;
    double largest_probe_difference = 0;
};

// Fills the cache through rotary_store (with a rotary dimension of 0: no rotation), then attends.
Run run(const Case& c, unsigned threads, unsigned seed, bool compare) {
    Run result;
    auto backend = cpu_backend(threads);
    std::uint32_t blocks = 0;
    result.batch = make_batch(c.pieces, c.block_size, seed, blocks);
    const KvCacheShape shape = KvCacheShape::uniform(2, blocks, c.block_size, c.kv_heads, c.head_dim, c.k, c.v);
    auto cache = backend->kv_cache(shape, Purpose::kv_cache);
    for (std::uint32_t b = 0; b < blocks; ++b) backend->poison_block(**cache, b);
    const AttentionShape attention = attention_shape(c.query_heads, c.kv_heads, c.head_dim, 1.0f / std::sqrt(float(c.head_dim)));

    std::vector<std::byte> key_bytes(row_bytes(c.k, std::uint64_t{blocks} * c.kv_heads * c.block_size * c.head_dim), std::byte{0xFF});
    std::vector<std::byte> value_bytes(row_bytes(c.v, std::uint64_t{blocks} * c.kv_heads * c.block_size * c.head_dim), std::byte{0xFF});
    const cpu::scalar::CacheView keys{key_bytes.data(), c.k, c.block_size, c.kv_heads, c.head_dim};
    const cpu::scalar::CacheView values{value_bytes.data(), c.v, c.block_size, c.kv_heads, c.head_dim};
    for (std::uint32_t s = 0; s < result.batch.sequences.size(); ++s) {
        const Batch::Sequence& sequence = result.batch.sequences[s];
        const std::uint32_t tokens = sequence.first_position + sequence.rows;
        const std::vector<float> k = token_rows(c, s, tokens, 1), v = token_rows(c, s, tokens, 2);
        Batch fill;
        fill.block_tables = result.batch.block_tables;
        fill.sequences = {{0, tokens, 0, sequence.table_begin, sequence.table_size}};
        for (std::uint32_t t = 0; t < tokens; ++t) {
            fill.tokens.push_back(0);
            fill.positions.push_back(t);
            const std::uint64_t block = result.batch.block_tables[sequence.table_begin + t / c.block_size];
            fill.slots.push_back(block * c.block_size + t % c.block_size);
        }
        auto q = upload(*backend, std::vector<float>(std::size_t{tokens} * c.query_heads * c.head_dim));
        auto k_buffer = upload(*backend, k);
        auto v_buffer = upload(*backend, v);
        if (!backend->begin_batch(fill)) return result;
        backend->rotary_store(*q, *k_buffer, *v_buffer, attention, {10000, 0, RotaryLayout::half_split}, **cache, 1);
        cpu::scalar::store(k.data(), fill.slots, keys);
        cpu::scalar::store(v.data(), fill.slots, values);
    }
    const std::size_t count = std::size_t{result.batch.rows()} * c.query_heads * c.head_dim;
    const std::vector<float> q = random_floats(count, 77);
    auto q_buffer = upload(*backend, q);
    auto out = upload(*backend, std::vector<float>(count + 16, std::numeric_limits<float>::quiet_NaN()));
    result.probe.heads = {0, c.query_heads - 1};
    if (!backend->begin_batch(result.batch)) return result;
    backend->attention(*q_buffer, attention, **cache, 1, *out, &result.probe);
    result.out = download(*backend, *out, count + 16);
    for (std::size_t i = count; i < count + 16; ++i)
        if (!std::isnan(result.out[i])) return {};  // wrote behind its end
    result.out.resize(count);
    if (!compare) return result;
    result.expected.resize(count);
    cpu::scalar::attention(result.batch, q.data(), attention, keys, values, result.expected.data());
    for (std::uint32_t s = 0; s < result.batch.sequences.size(); ++s)
        for (std::uint32_t r = 0; r < result.batch.sequences[s].rows; ++r)
            for (std::size_t h = 0; h < 2; ++h) {
                const auto want = cpu::scalar::attention_weights(result.batch, q.data(), attention, keys, {s, r, result.probe.heads[h]});
                const auto& got = result.probe.weights[h][result.batch.sequences[s].first_row + r];
                if (got.size() != want.size()) return {};
                for (std::size_t t = 0; t < want.size(); ++t)
                    result.largest_probe_difference = std::max(result.largest_probe_difference, std::abs(double(got[t]) - want[t]));
            }
    return result;
}

struct EqualsTheScalarTwinCase {
    int type_k, type_v, head_dim, query_heads, kv_heads;
};
Cases<EqualsTheScalarTwinCase> equalsTheScalarTwin_cases() {
    Cases<EqualsTheScalarTwinCase> cases;
    for (DType k : float_types)
        for (int head_dim : {8, 16, 64, 80, 96, 128, 256, 12, 1})
            for (auto [queries, kv] : {std::pair{1, 1}, {4, 4}, {6, 2}, {9, 3}, {8, 1}, {20, 1}, {5, 1}})
                cases.add(printed("%s, %d values, %d query heads, %d KV heads", name_of(k).data(), head_dim, queries, kv), {int(k), int(k == DType::f16 ? DType::f32 : k == DType::f32 ? DType::bf16 : DType::f16), head_dim, queries, kv});
    return cases;
}
void equalsTheScalarTwin(Check& check, const EqualsTheScalarTwinCase& row) {
    // One decode, one decode across tile borders, one prefill, one chunk of a prefill.
    Case c{{{0, 1}, {300, 1}, {0, 21}, {250, 9}}, std::uint32_t(row.query_heads), std::uint32_t(row.kv_heads), std::uint32_t(row.head_dim), 16, DType(row.type_k), DType(row.type_v)};
    const Run first = run(c, 1, 5, true);
    CHECK_THAT(!first.out.empty());
    const double difference = relative_difference(first.out, first.expected, first.out.size());
    CHECK_BELOW(difference, 2e-6);
    CHECK_BELOW(first.largest_probe_difference, 2e-6);
    for (unsigned threads : {2u, 3u}) {
        const Run other = run(c, threads, 5, false);
        CHECK_EQUAL(other.out, first.out);
        CHECK_EQUAL(other.probe.weights, first.probe.weights);
    }
}

struct BlockSizeDoesNotChangeABitCase {
    int length, rows;
};
Cases<BlockSizeDoesNotChangeABitCase> blockSizeDoesNotChangeABit_cases() {
    Cases<BlockSizeDoesNotChangeABitCase> cases;
    for (int length : {1, 6, 7, 8, 15, 16, 17, 255, 256, 257, 511, 512, 513, 1030})
        for (int rows : {1, 2, 37})
            if (rows <= length) cases.add(printed("%d tokens, %d rows", length, rows), {length, rows});
    return cases;
}
void blockSizeDoesNotChangeABit(Check& check, const BlockSizeDoesNotChangeABitCase& row) {
    std::vector<float> first;
    for (std::uint32_t block_size : {1u, 7u, 16u, 256u, std::uint32_t(row.length)})
        for (unsigned threads : {1u, 2u, 3u}) {
            Case c{{{std::uint32_t(row.length - row.rows), std::uint32_t(row.rows)}}, 6, 2, 24, block_size, DType::f16, DType::bf16};
            const Run result = run(c, threads, block_size + threads, first.empty());
            if (first.empty()) {
                const double difference = relative_difference(result.out, result.expected, result.out.size());
                CHECK_BELOW(difference, 2e-6);
                first = result.out;
            }
            CHECK_THAT(!result.out.empty());
            CHECK_EQUAL(result.out, first);
        }
}

// The rows of a prefill give what decoding token by token gives.
void aRowIsTheSameInPrefillAndInDecode(Check& check) {
    Case whole{{{0, 300}}, 6, 2, 64, 16, DType::f16, DType::f16};
    const Run prefill = run(whole, 2, 1, false);
    const std::size_t width = 6 * 64;
    // The same queries: random_floats(count) with one seed is the same stream, so row 0 of a decode has row 0's query.
    Case one{{{0, 1}}, 6, 2, 64, 7, DType::f16, DType::f16};
    const Run decode = run(one, 1, 2, false);
    CHECK_THAT(std::equal(decode.out.begin(), decode.out.end(), prefill.out.begin()));
    CHECK_EQUAL(prefill.out.size(), 300 * width);
}

void everyInstructionSetComputesTheSame(Check& check) {
    for (std::int64_t target : {std::int64_t(HWY_AVX3), std::int64_t(HWY_AVX2), std::int64_t(HWY_SSE4), std::int64_t(HWY_STATIC_TARGET)}) {
        if (target != HWY_STATIC_TARGET && (hwy::SupportedTargets() & target) == 0) continue;
        const UseTarget use(target);
        for (DType type : float_types)
            for (std::uint32_t head_dim : {8u, 20u, 64u}) {
                const Run result = run({{{280, 3}, {0, 5}}, 6, 2, head_dim, 16, type, type}, 2, 3, true);
                const double difference = relative_difference(result.out, result.expected, result.out.size());
                CHECK_BELOW(difference, 2e-6);
            }
    }
}

// Slots beyond a row's own position hold NaN (poisoned or not yet seen): they must not touch it, not even times zero.
void tokensThatARowDoesNotSeeDoNotTouchIt(Check& check) {
    auto backend = cpu_backend(2);
    std::uint32_t blocks = 0;
    const Batch batch = make_batch({{0, 5}}, 4, 1, blocks);
    auto cache = backend->kv_cache(KvCacheShape::uniform(1, blocks, 4, 1, 16, DType::f32, DType::f32), Purpose::kv_cache);
    for (std::uint32_t b = 0; b < blocks; ++b) backend->poison_block(**cache, b);
    std::vector<float> k = random_floats(5 * 16, 1), v = random_floats(5 * 16, 2);
    for (int i = 0; i < 16; ++i) v[std::size_t(3 * 16 + i)] = std::numeric_limits<float>::quiet_NaN();
    auto q_buffer = upload(*backend, random_floats(5 * 32, 3));
    auto k_buffer = upload(*backend, k), v_buffer = upload(*backend, v);
    auto out = upload(*backend, std::vector<float>(5 * 32));
    const AttentionShape shape = attention_shape(2, 1, 16, 0.25f);
    CHECK_THAT(bool(backend->begin_batch(batch)));
    backend->rotary_store(*q_buffer, *k_buffer, *v_buffer, shape, {10000, 0, RotaryLayout::half_split}, **cache, 0);
    backend->attention(*q_buffer, shape, **cache, 0, *out, nullptr);
    const std::vector<float> result = download(*backend, *out, 5 * 32);
    for (std::size_t i = 0; i < result.size(); ++i) CHECK_EQUAL(std::isfinite(result[i]), i < 3 * 32);
}

void aQueryThatIsNotFiniteSpoilsItsOwnRowOnly(Check& check) {
    auto backend = cpu_backend(1);
    std::uint32_t blocks = 0;
    const Batch batch = make_batch({{0, 4}, {0, 2}}, 16, 1, blocks);
    auto cache = backend->kv_cache(KvCacheShape::uniform(1, blocks, 16, 1, 8, DType::f16, DType::f16), Purpose::kv_cache);
    std::vector<float> q = random_floats(6 * 8, 3);
    q[2 * 8 + 1] = std::numeric_limits<float>::quiet_NaN();
    auto q_buffer = upload(*backend, q), k_buffer = upload(*backend, random_floats(48, 1)), v_buffer = upload(*backend, random_floats(48, 2));
    auto out = upload(*backend, std::vector<float>(48));
    const AttentionShape shape = attention_shape(1, 1, 8, 0.3f);
    CHECK_THAT(bool(backend->begin_batch(batch)));
    backend->rotary_store(*q_buffer, *k_buffer, *v_buffer, shape, {10000, 0, RotaryLayout::half_split}, **cache, 0);
    backend->attention(*q_buffer, shape, **cache, 0, *out, nullptr);
    const std::vector<float> result = download(*backend, *out, 48);
    for (std::size_t i = 0; i < 48; ++i) CHECK_EQUAL(std::isfinite(result[i]), i / 8 != 2);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(equalsTheScalarTwin), equalsTheScalarTwin_cases());
    claims.add(CLAIM(blockSizeDoesNotChangeABit), blockSizeDoesNotChangeABit_cases());
    claims.add(CLAIM(aRowIsTheSameInPrefillAndInDecode));
    claims.add(CLAIM(everyInstructionSetComputesTheSame));
    claims.add(CLAIM(tokensThatARowDoesNotSeeDoNotTouchIt));
    claims.add(CLAIM(aQueryThatIsNotFiniteSpoilsItsOwnRowOnly));
    return claims.rows();
}
