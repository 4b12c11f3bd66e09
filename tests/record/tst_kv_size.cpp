// SPDX-License-Identifier: GPL-3.0-or-later
//
// Golden numbers: FORMATS 3.1 and 3.13, CACHE_SEMANTICS 0.
#include "engine/analysis/kv_size.h"
#include "tests/support/claims.h"

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

struct BytesPerTokenEqualThePublishedCase {
    unsigned layers, heads, size;
    std::uint64_t bytes;
};
Cases<BytesPerTokenEqualThePublishedCase> bytesPerTokenEqualThePublished_cases() {
    Cases<BytesPerTokenEqualThePublishedCase> cases;
    const auto row = [&](const char* name, unsigned layers, unsigned heads, unsigned size, std::uint64_t bytes) {
        cases.add(name, {layers, heads, size, bytes});
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
    return cases;
}
void bytesPerTokenEqualThePublished(Check& check, const BytesPerTokenEqualThePublishedCase& row) {
    ModelConfig config;
    config.layers = row.layers;
    config.kv_heads = row.heads;
    config.head_dim = row.size;
    const KvShape shape = kv_shape(config, DType::f16, DType::f16);
    CHECK_EQUAL(std::uint64_t{kv_bytes_per_token(shape)}, row.bytes);
    CHECK_EQUAL(std::uint64_t{kv_bytes_per_token(kv_shape(config, DType::bf16, DType::bf16))}, row.bytes);
    CHECK_EQUAL(std::uint64_t{kv_bytes(shape, 1000)}, 1000 * row.bytes);
}

struct PrecisionsScaleByTheirRowsCase {
    int dtype;
    std::uint64_t bytes;
};
Cases<PrecisionsScaleByTheirRowsCase> precisionsScaleByTheirRows_cases() {
    Cases<PrecisionsScaleByTheirRowsCase> cases;
    // Llama-3-8B; FORMATS 2.3.
    cases.add("f32", {static_cast<int>(DType::f32), std::uint64_t{262144}});
    cases.add("q8_0", {static_cast<int>(DType::q8_0), std::uint64_t{69632}});
    cases.add("q4_0", {static_cast<int>(DType::q4_0), std::uint64_t{36864}});
    return cases;
}
void precisionsScaleByTheirRows(Check& check, const PrecisionsScaleByTheirRowsCase& row) {
    const auto type = static_cast<DType>(row.dtype);
    CHECK_EQUAL(std::uint64_t{kv_bytes_per_token({32, 8, 128, type, type})}, row.bytes);
    CHECK_EQUAL(std::uint64_t{kv_bytes_per_token({32, 8, 128, type, DType::f16})}, row.bytes / 2 + 65536);
}

void vllmOracleOfEightGibibytes(Check& check) {
    CHECK_EQUAL(kv_bytes({32, 32, 128, DType::f16, DType::f16}, 16384), std::uint64_t{8} << 30);
}

void wholeBlocksAreHeld(Check& check) {
    CHECK_EQUAL(blocks_for(0, 16), std::uint64_t{0});
    CHECK_EQUAL(blocks_for(1, 16), std::uint64_t{1});
    CHECK_EQUAL(blocks_for(16, 16), std::uint64_t{1});
    CHECK_EQUAL(blocks_for(17, 16), std::uint64_t{2});
    // One block of Llama-3.1-8B over all layers is 2 MiB.
    const KvShape shape{32, 8, 128, DType::f16, DType::f16};
    CHECK_EQUAL(paged_kv_bytes(shape, 3, 16), std::uint64_t{2} << 20);
}

// PagedAttention, table 1, says 15.7K slots for OPT-13B with 12 GB of cache.
void sequencesFitBesideTheWeights(Check& check) {
    GpuEntry gpu;
    gpu.memory_bytes = std::uint64_t{12} << 30;
    CHECK_EQUAL(sequences_that_fit(gpu, 1.0, 0, 819200), std::uint64_t{15728});
    CHECK_EQUAL(sequences_that_fit(gpu, 1.0, gpu.memory_bytes, 1), std::uint64_t{0});
    CHECK_EQUAL(sequences_that_fit(gpu, 0.5, 0, std::uint64_t{1} << 30), std::uint64_t{6});
    CHECK_EQUAL(sequences_that_fit(gpu, 1.0, 0, 0), std::uint64_t{0});
}

void decodeBoundIsOneReadOfEverything(Check& check) {
    // Llama-3-8B bf16 on an H200: 3.35 ms per token, 0.895 ms more per 32,768 cached tokens.
    const GpuEntry& gpu = *find_gpu("H200 SXM");
    const std::uint64_t cache = kv_bytes({32, 8, 128, DType::bf16, DType::bf16}, 32768);
    CHECK_EQUAL(std::lround(decode_bound_seconds(gpu, 16060000000, 0) * 1e5), 335);
    CHECK_EQUAL(std::lround(decode_bound_seconds(gpu, 0, cache) * 1e6), 895);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(bytesPerTokenEqualThePublished), bytesPerTokenEqualThePublished_cases());
    claims.add(CLAIM(precisionsScaleByTheirRows), precisionsScaleByTheirRows_cases());
    claims.add(CLAIM(vllmOracleOfEightGibibytes));
    claims.add(CLAIM(wholeBlocksAreHeld));
    claims.add(CLAIM(sequencesFitBesideTheWeights));
    claims.add(CLAIM(decodeBoundIsOneReadOfEverything));
    return claims.rows();
}
