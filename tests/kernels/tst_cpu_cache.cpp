// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/cpu_cache.h"
#include "tests/kernels/support.h"

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

KvCacheShape shape_of(DType k, DType v) { return {3, 5, 4, 2, 8, k, v}; }

}  // namespace

class TestCpuCache : public QObject {
    Q_OBJECT

private Q_SLOTS:
    // (blocks, kv_heads, block_size, head_dim): the rows of a head in a block are contiguous.
    void rowsLieByBlockThenHeadThenSlot() {
        cpu::Counters counters;
        auto made = cpu::CpuKvCache::make(shape_of(DType::f16, DType::f16), Purpose::kv_cache, counters);
        const auto& cache = static_cast<const cpu::CpuKvCache&>(**made);
        for (std::uint32_t block = 0; block < 5; ++block)
            for (std::uint32_t head = 0; head < 2; ++head)
                for (std::uint32_t slot = 0; slot < 4; ++slot)
                    QCOMPARE(cache.offset(block * 4 + slot, head), std::uint64_t(((block * 2 + head) * 4 + slot) * 8));
        const std::uint32_t table[] = {4, 1, 3};
        std::vector<std::uint64_t> offsets(9);
        cache.offsets(table, 1, 2, 9, offsets.data());
        for (std::uint32_t i = 0; i < 9; ++i) QCOMPARE(offsets[i], cache.offset(table[(i + 2) / 4] * 4 + (i + 2) % 4, 1));
    }

    void bytesAreThoseOfTheShape() {
        for (DType k : float_types)
            for (DType v : float_types) {
                auto backend = cpu_backend(1);
                const std::uint64_t expected = 3 * (row_bytes(k, 5 * 4 * 2 * 8) + row_bytes(v, 5 * 4 * 2 * 8));
                {
                    auto cache = backend->kv_cache(shape_of(k, v), Purpose::kv_cache);
                    QCOMPARE((*cache)->bytes(), expected);
                    QCOMPARE(backend->memory().kv_cache, expected);
                    QCOMPARE(backend->memory().activations, 0u);
                    auto scratch = backend->kv_cache(shape_of(k, v), Purpose::activations);
                    QCOMPARE(backend->memory().activations, expected);
                    QCOMPARE(backend->memory().kv_cache, expected);
                }
                QCOMPARE(backend->memory().kv_cache, 0u);
                QCOMPARE(backend->memory().activations, 0u);
            }
    }

    void buffersAreCountedAndTakenOffAgain() {
        auto backend = cpu_backend(1);
        {
            auto a = backend->buffer(1000, Purpose::activations), b = backend->buffer(24, Purpose::activations);
            QCOMPARE((*a)->bytes(), 1000u);
            QCOMPARE(backend->memory().activations, 1024u);
            auto moved = std::move(*a);
            QCOMPARE(backend->memory().activations, 1024u);
        }
        QCOMPARE(backend->memory().activations, 0u);
    }

    void weightsAreViewsAndCostNothing() {
        auto backend = cpu_backend(1);
        const StoredMatrix matrix(DType::q4_1, 64, 64, 1);
        const std::uint64_t before = backend->memory().weights;
        auto weight = backend->weight(matrix.tensor());
        QCOMPARE((*weight)->bytes(), 64u * 40u);
        QCOMPARE((*weight)->rows(), 64u);
        QCOMPARE((*weight)->cols(), 64u);
        QCOMPARE((*weight)->dtype(), DType::q4_1);
        QCOMPARE(backend->memory().weights, before);
    }

    void copiesTheOwnedSlotsOfABlockAndNoOthers() {
        cpu::Counters counters;
        for (DType k : float_types)
            for (DType v : float_types)
                for (std::uint32_t tokens : {0u, 1u, 3u, 4u}) {
                    auto made = cpu::CpuKvCache::make(shape_of(k, v), Purpose::kv_cache, counters);
                    auto& cache = static_cast<cpu::CpuKvCache&>(**made);
                    const std::uint64_t elements = 5 * 4 * 2 * 8;
                    for (std::uint32_t layer = 0; layer < 3; ++layer)
                        for (auto [base, type] : {std::pair{cache.keys(layer), k}, std::pair{cache.values(layer), v}})
                            for (std::uint64_t i = 0; i < row_bytes(type, elements); ++i) base[i] = std::byte(std::uint8_t(i * 31 + layer));
                    std::vector<std::byte> before(cache.keys(2), cache.keys(2) + row_bytes(k, elements));
                    cache.copy_block(1, 4, tokens);
                    for (std::uint32_t block = 0; block < 5; ++block)
                        for (std::uint32_t head = 0; head < 2; ++head)
                            for (std::uint32_t slot = 0; slot < 4; ++slot) {
                                const bool copied = block == 4 && slot < tokens;
                                const std::uint64_t to = row_bytes(k, cache.offset(block * 4 + slot, head));
                                const std::uint64_t from = copied ? row_bytes(k, cache.offset(4 + slot, head)) : to;
                                QVERIFY(std::memcmp(cache.keys(2) + to, before.data() + from, row_bytes(k, 8)) == 0);
                            }
                }
    }

    // Out, overwritten, and in again at another place: the owned slots are as they were, no other slot is touched.
    void aBlockComesBackFromTheHostAsItWas_data() {
        QTest::addColumn<int>("type_k");
        QTest::addColumn<int>("type_v");
        for (DType k : float_types)
            for (DType v : float_types) QTest::addRow("%s, %s", name_of(k).data(), name_of(v).data()) << int(k) << int(v);
    }
    void aBlockComesBackFromTheHostAsItWas() {
        QFETCH(int, type_k);
        QFETCH(int, type_v);
        const DType k = DType(type_k), v = DType(type_v);
        auto backend = cpu_backend(1);
        auto made = backend->kv_cache(shape_of(k, v), Purpose::kv_cache);
        auto& cache = static_cast<cpu::CpuKvCache&>(**made);
        {
            auto host = backend->host_blocks(cache, 3);
            QCOMPARE((*host)->count(), 3u);
            const std::uint64_t expected = 3 * 3 * (row_bytes(k, 4 * 2 * 8) + row_bytes(v, 4 * 2 * 8));
            QCOMPARE((*host)->bytes(), expected);
            QCOMPARE(backend->memory().host_blocks, expected);
            for (std::uint32_t tokens : {1u, 3u, 4u}) {
                const auto each = [&](auto&& f) {
                    for (std::uint32_t layer = 0; layer < 3; ++layer)
                        for (std::uint32_t slot = 0; slot < 20; ++slot)
                            for (std::uint32_t head = 0; head < 2; ++head) {
                                f(cache.keys(layer) + row_bytes(k, cache.offset(slot, head)), row_bytes(k, 8), int(slot), int(layer * 2 + head));
                                f(cache.values(layer) + row_bytes(v, cache.offset(slot, head)), row_bytes(v, 8), int(slot), int(layer * 2 + head + 100));
                            }
                };
                each([](std::byte* row, std::uint64_t bytes, int slot, int salt) { std::memset(row, slot * 7 + salt, bytes); });
                backend->swap_out(cache, 2, **host, 0, 4);
                backend->swap_out(cache, 1, **host, 2, tokens);
                backend->swap_out(cache, 3, **host, 1, 4);
                backend->poison_block(cache, 1);
                backend->swap_in(cache, 4, **host, 2, tokens);
                each([tokens](std::byte* row, std::uint64_t bytes, int slot, int salt) {
                    const bool moved = slot >= 16 && slot < 16 + int(tokens);
                    const int value = slot / 4 == 1 ? 0xFF : (moved ? slot - 12 : slot) * 7 + salt;
                    for (std::uint64_t i = 0; i < bytes; ++i) QCOMPARE(row[i], std::byte(std::uint8_t(value)));
                });
            }
        }
        QCOMPARE(backend->memory().host_blocks, 0u);
    }

    void hostBlocksBeyondAnyMemoryAreRefused() {
        auto backend = cpu_backend(1);
        auto cache = backend->kv_cache({1u << 16, 2, 1, 1, 8, DType::f32, DType::f32}, Purpose::activations);
        QVERIFY(bool(cache));
        auto host = backend->host_blocks(**cache, 0xFFFFFFFF);
        QVERIFY(!host && !host.error().sentence.empty() && !host.error().hint.empty());
        QCOMPARE(backend->memory().host_blocks, 0u);
    }

    void valuesBeyondThePrecisionsRangeAreCounted_data() {
        QTest::addColumn<int>("type_k");
        QTest::addColumn<int>("type_v");
        QTest::addColumn<quint64>("expected");
        QTest::newRow("f16") << int(DType::f16) << int(DType::f16) << quint64(3 + 2);
        QTest::newRow("keys only") << int(DType::f16) << int(DType::f32) << quint64(3);
        QTest::newRow("bf16") << int(DType::bf16) << int(DType::bf16) << quint64(0);
        QTest::newRow("f32") << int(DType::f32) << int(DType::f32) << quint64(0);
    }
    void valuesBeyondThePrecisionsRangeAreCounted() {
        QFETCH(int, type_k);
        QFETCH(int, type_v);
        QFETCH(quint64, expected);
        auto backend = cpu_backend(2);
        auto cache = backend->kv_cache(shape_of(DType(type_k), DType(type_v)), Purpose::kv_cache);
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
        QVERIFY(bool(backend->begin_batch(batch)));
        QCOMPARE((*cache)->overflowed_values(), 0u);
        for (std::uint64_t call = 1; call <= 2; ++call) {
            backend->rotary_store(*q, *k_buffer, *v_buffer, {2, 2, 8, 1}, {10000, 0, RotaryLayout::half_split}, **cache, 1);
            QCOMPARE((*cache)->overflowed_values(), call * expected);
        }
    }

    void poisonFillsOneBlockOfAllLayersWithNan() {
        cpu::Counters counters;
        for (DType type : float_types) {
            auto made = cpu::CpuKvCache::make(shape_of(type, type), Purpose::kv_cache, counters);
            auto& cache = static_cast<cpu::CpuKvCache&>(**made);
            for (std::uint32_t layer = 0; layer < 3; ++layer)
                for (std::byte* base : {cache.keys(layer), cache.values(layer)}) std::memset(base, 0, row_bytes(type, 320));
            cache.poison_block(2);
            cache.poison_block(0);  // the null block too
            for (std::uint32_t layer = 0; layer < 3; ++layer)
                for (std::byte* base : {cache.keys(layer), cache.values(layer)}) {
                    std::vector<float> all(320);
                    cpu::expand_row(type, base, 320, all.data());
                    for (std::size_t i = 0; i < 320; ++i) QCOMPARE(std::isnan(all[i]), i / 64 == 2 || i / 64 == 0);
                }
        }
    }

    void shapesThatHoldNothingOrTooMuchAreRefused_data() {
        QTest::addColumn<quint32>("layers");
        QTest::addColumn<quint32>("blocks");
        QTest::addColumn<quint32>("block_size");
        QTest::addColumn<int>("type");
        const quint32 most = 0xFFFFFFFF;
        QTest::newRow("no layer") << 0u << 4u << 16u << int(DType::f16);
        QTest::newRow("no block") << 1u << 0u << 16u << int(DType::f16);
        QTest::newRow("no slot") << 1u << 4u << 0u << int(DType::f16);
        QTest::newRow("a packed precision") << 1u << 4u << 16u << int(DType::q8_0);
        QTest::newRow("more than 64 bits") << most << most << most << int(DType::f32);
        QTest::newRow("more than any memory") << 1u << most << 4096u << int(DType::f16);
    }
    void shapesThatHoldNothingOrTooMuchAreRefused() {
        QFETCH(quint32, layers);
        QFETCH(quint32, blocks);
        QFETCH(quint32, block_size);
        QFETCH(int, type);
        auto backend = cpu_backend(1);
        auto cache = backend->kv_cache({layers, blocks, block_size, 8, 128, DType(type), DType::f16}, Purpose::kv_cache);
        QVERIFY(!cache);
        QVERIFY(!cache.error().sentence.empty() && !cache.error().hint.empty());
        QCOMPARE(backend->memory().kv_cache, 0u);
    }

    void weightsThatCannotBeUsedAreRefused() {
        auto backend = cpu_backend(1);
        const StoredMatrix matrix(DType::f32, 4, 48, 1);
        Tensor tensor = matrix.tensor("blk.0.ffn_up.weight");
        tensor.dtype = DType::q4_0;  // 48 is no multiple of 32
        const auto uneven = backend->weight(tensor);
        QVERIFY(!uneven && uneven.error().sentence.find("blk.0.ffn_up.weight") != std::string::npos);
        tensor.data = nullptr;
        QVERIFY(!backend->weight(tensor));
        tensor = matrix.tensor();
        tensor.rows = std::uint64_t{1} << 40;
        QVERIFY(!backend->weight(tensor));
    }

    void aBatchThatContradictsItselfIsRefused() {
        auto backend = cpu_backend(1);
        std::uint32_t blocks = 0;
        const Batch good = make_batch({{0, 2}, {3, 1}}, 4, 1, blocks);
        QVERIFY(bool(backend->begin_batch(good)));
        Batch bad = good;
        bad.slots.pop_back();
        QVERIFY(!backend->begin_batch(bad));
        bad = good;
        bad.sequences[1].table_begin = 7;
        QVERIFY(!backend->begin_batch(bad));
        bad = good;
        bad.sequences.pop_back();
        QVERIFY(!backend->begin_batch(bad));
        bad = good;
        bad.logit_rows = {3};
        QVERIFY(!backend->begin_batch(bad));
    }
};

QTEST_GUILESS_MAIN(TestCpuCache)
#include "tst_cpu_cache.moc"
