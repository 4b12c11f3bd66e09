// SPDX-License-Identifier: GPL-3.0-or-later
//
// Golden numbers: FORMATS 3.1 and 3.13, CACHE_SEMANTICS 0.
#include <QTest>

#include "engine/analysis/kv_size.h"

using namespace kvloupe;

class TestKvSize : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void bytesPerTokenEqualThePublished_data();
    void bytesPerTokenEqualThePublished();
    void precisionsScaleByTheirRows_data();
    void precisionsScaleByTheirRows();
    void vllmOracleOfEightGibibytes();
    void wholeBlocksAreHeld();
    void sequencesFitBesideTheWeights();
    void decodeBoundIsOneReadOfEverything();
};

void TestKvSize::bytesPerTokenEqualThePublished_data() {
    QTest::addColumn<unsigned>("layers");
    QTest::addColumn<unsigned>("heads");
    QTest::addColumn<unsigned>("size");
    QTest::addColumn<quint64>("bytes");
    const auto row = [](const char* name, unsigned layers, unsigned heads, unsigned size, quint64 bytes) {
        QTest::newRow(name) << layers << heads << size << bytes;
    };
    row("OPT-13B", 40, 40, 128, 819200);
    row("OPT-175B", 96, 96, 128, 4718592);
    row("GPT-2 XL", 48, 25, 64, 307200);
    row("Llama-2-7B", 32, 32, 128, 524288);
    row("Llama-2-70B", 80, 8, 128, 327680);
    row("Llama-3-8B", 32, 8, 128, 131072);
    row("Llama-3.1-405B", 126, 8, 128, 516096);
    row("Llama-3.2-1B", 16, 8, 64, 32768);
    row("Qwen2.5-0.5B", 24, 2, 64, 12288);
    row("Qwen3-4B", 36, 8, 128, 147456);
    row("SmolLM2-135M", 30, 3, 64, 23040);
    row("stories260K", 5, 4, 8, 640);
}

void TestKvSize::bytesPerTokenEqualThePublished() {
    QFETCH(unsigned, layers);
    QFETCH(unsigned, heads);
    QFETCH(unsigned, size);
    QFETCH(quint64, bytes);
    ModelConfig config;
    config.layers = layers;
    config.kv_heads = heads;
    config.head_dim = size;
    const KvShape shape = kv_shape(config, DType::f16, DType::f16);
    QCOMPARE(quint64{kv_bytes_per_token(shape)}, bytes);
    QCOMPARE(quint64{config.kv_bytes_per_token(DType::bf16)}, bytes);
    QCOMPARE(quint64{kv_bytes(shape, 1000)}, 1000 * bytes);
}

void TestKvSize::precisionsScaleByTheirRows_data() {
    QTest::addColumn<int>("dtype");
    QTest::addColumn<quint64>("bytes");
    // Llama-3-8B; FORMATS 2.3.
    QTest::newRow("f32") << static_cast<int>(DType::f32) << quint64{262144};
    QTest::newRow("q8_0") << static_cast<int>(DType::q8_0) << quint64{69632};
    QTest::newRow("q4_0") << static_cast<int>(DType::q4_0) << quint64{36864};
}

void TestKvSize::precisionsScaleByTheirRows() {
    QFETCH(int, dtype);
    QFETCH(quint64, bytes);
    const auto type = static_cast<DType>(dtype);
    QCOMPARE(quint64{kv_bytes_per_token({32, 8, 128, type, type})}, bytes);
    QCOMPARE(quint64{kv_bytes_per_token({32, 8, 128, type, DType::f16})}, bytes / 2 + 65536);
}

void TestKvSize::vllmOracleOfEightGibibytes() {
    QCOMPARE(kv_bytes({32, 32, 128, DType::f16, DType::f16}, 16384), std::uint64_t{8} << 30);
}

void TestKvSize::wholeBlocksAreHeld() {
    QCOMPARE(blocks_for(0, 16), std::uint64_t{0});
    QCOMPARE(blocks_for(1, 16), std::uint64_t{1});
    QCOMPARE(blocks_for(16, 16), std::uint64_t{1});
    QCOMPARE(blocks_for(17, 16), std::uint64_t{2});
    // One block of Llama-3.1-8B over all layers is 2 MiB.
    const KvShape shape{32, 8, 128, DType::f16, DType::f16};
    QCOMPARE(paged_kv_bytes(shape, 3, 16), std::uint64_t{2} << 20);
}

// PagedAttention, table 1, says 15.7K slots for OPT-13B with 12 GB of cache.
void TestKvSize::sequencesFitBesideTheWeights() {
    GpuEntry gpu;
    gpu.memory_bytes = std::uint64_t{12} << 30;
    QCOMPARE(sequences_that_fit(gpu, 1.0, 0, 819200), std::uint64_t{15728});
    QCOMPARE(sequences_that_fit(gpu, 1.0, gpu.memory_bytes, 1), std::uint64_t{0});
    QCOMPARE(sequences_that_fit(gpu, 0.5, 0, std::uint64_t{1} << 30), std::uint64_t{6});
    QCOMPARE(sequences_that_fit(gpu, 1.0, 0, 0), std::uint64_t{0});
}

void TestKvSize::decodeBoundIsOneReadOfEverything() {
    // Llama-3-8B bf16 on an H200: 3.35 ms per token, 0.895 ms more per 32,768 cached tokens.
    const GpuEntry& gpu = *find_gpu("H200 SXM");
    const std::uint64_t cache = kv_bytes({32, 8, 128, DType::bf16, DType::bf16}, 32768);
    QCOMPARE(qRound(decode_bound_seconds(gpu, 16060000000, 0) * 1e5), 335);
    QCOMPARE(qRound(decode_bound_seconds(gpu, 0, cache) * 1e6), 895);
}

QTEST_GUILESS_MAIN(TestKvSize)
#include "tst_kv_size.moc"
