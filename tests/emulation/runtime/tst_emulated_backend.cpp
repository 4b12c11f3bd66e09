// SPDX-License-Identifier: GPL-3.0-or-later
//
// The CUDA backend over an emulated card: every operation against the double reference and the CPU; what a step may not do;
// that nothing is left behind.
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/device_query.h"
#include "tests/emulation/runtime/emulated_runtime.h"
#include "tests/support/backend_rows.h"
#include "tests/support/mini_pass.h"

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

cuda::CudaOptions small_options() {
    cuda::CudaOptions options;
    options.ceiling_bytes = 1 << 16;
    options.ceiling_matrix = 16;
    options.expanded_bytes = 2048;  // quantised matrices are expanded in several pieces
    return options;
}

Result<std::unique_ptr<Backend>> fresh_backend() {
    const std::string alive = emulation::set_up_runtime({});
    if (!alive.empty()) return Error{"the row before left behind " + alive, ""};
    return cuda::make_cuda_backend(0, small_options());
}

// After the first steps of a shape nothing is allocated, and a step waits once, where its logits are read.
void quiet_steps(Check& check) {
    auto backend = fresh_backend();
    CHECK_THAT(bool(backend));
    for (const DType type : {DType::f16, DType::q8_0}) {
        std::string why;
        auto pass = MiniPass::make(**backend, type, why);
        CHECK_THAT(pass != nullptr);
        for (const std::uint64_t owner : {0, 5})
            for (const std::uint32_t rows : {1u, 10u}) {
                const auto step = [&](std::uint32_t before) { return pass->run(pass->batch(2, before, rows), owner).problem; };
                for (std::uint32_t before = 33; before < 36; ++before) CHECK_EQUAL(step(before), std::string());
                for (std::uint32_t before = 36; before < 48; ++before) {
                    emulation::start_counting();
                    CHECK_EQUAL(step(before), std::string());
                    const emulation::RuntimeCounts counts = emulation::runtime_counts();
                    CHECK_EQUAL(counts.allocations, 0u);
                    CHECK_EQUAL(counts.frees, 0u);
                    // Reading into pageable memory waits by itself, then the stream is waited for.
                    CHECK_THAT(counts.waits <= 2);
                    // The batch goes up in one copy; the logits and the counters of the caches come down.
                    CHECK_EQUAL(counts.copies, 3u);
                    CHECK_EQUAL(counts.graph_launches, owner == 0 ? 0u : 1u);
                    if (owner != 0) CHECK_EQUAL(counts.launches, 0u);
                }
            }
    }
}

void quiet_summaries(Check& check) {
    auto backend = fresh_backend();
    CHECK_THAT(bool(backend));
    auto logits = upload(**backend, random_floats(2000, 1));
    std::vector<LogitSummary> out(2);
    const std::vector<TokenId> asked{4, -1};
    for (int i = 0; i < 3; ++i) {
        emulation::start_counting();
        CHECK_THAT(bool((*backend)->summarise(*logits, 1000, asked, out)));
        if (i == 0) continue;
        CHECK_EQUAL(emulation::runtime_counts().allocations, 0u);
        CHECK_EQUAL(emulation::runtime_counts().waits, 1u);
    }
}

void bounded_graphs(Check& check) {
    auto backend = fresh_backend();
    CHECK_THAT(bool(backend));
    std::string why;
    auto pass = MiniPass::make(**backend, DType::f32, why);
    CHECK_THAT(pass != nullptr);
    const Batch batch = pass->batch(1, 20, 1);
    for (std::uint64_t owner = 1; owner <= 50; ++owner)
        for (int i = 0; i < 3; ++i) CHECK_EQUAL(pass->run(batch, owner).problem, std::string());
    CHECK_THAT(pass->run(batch, 50).replayed);
    CHECK_THAT(pass->run(batch, 25).replayed);
    CHECK_THAT(!pass->run(batch, 1).replayed);  // the least recently used went
}

void ranges_nest(Check& check) {
    auto backend = fresh_backend();
    CHECK_THAT(bool(backend));
    std::string why;
    auto pass = MiniPass::make(**backend, DType::f32, why);
    CHECK_THAT(pass != nullptr);
    (void)emulation::take_ranges();
    Batch batch = pass->batch(2, 0, 3);
    batch.requests = "a, b";
    CHECK_EQUAL(pass->run(batch, 0).problem, std::string());
    const emulation::Ranges ranges = emulation::take_ranges();
    const auto stage = [](const char* depth, StageKind kind) { return depth + std::string(name_of(kind)); };
    const std::vector<std::string> expected{"requests: a, b",
                                            " step: 2 sequences, 6 rows",
                                            stage("  ", StageKind::embed),
                                            "  layer 0",
                                            stage("   ", StageKind::attention_norm),
                                            stage("   ", StageKind::qkv),
                                            stage("   ", StageKind::rotary_store),
                                            stage("   ", StageKind::attention),
                                            stage("   ", StageKind::attention_out),
                                            stage("  ", StageKind::output_norm),
                                            stage("  ", StageKind::logits)};
    CHECK_THAT(ranges.balanced);
    CHECK_EQUAL(ranges.names.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK_EQUAL(ranges.names[i], expected[i]);
}

void ceilings(Check& check) {
    auto backend = fresh_backend();
    CHECK_THAT(bool(backend));
    const std::uint64_t before = (*backend)->memory().activations;
    std::stop_source stopped;
    stopped.request_stop();
    CHECK_EQUAL((*backend)->measure_ceilings(stopped.get_token()).matrix_rate, 0.0);
    const Ceilings measured = (*backend)->measure_ceilings({});
    CHECK_THAT(measured.read_bandwidth > 0 && measured.copy_bandwidth > 0 && measured.matrix_rate > 0);
    CHECK_THAT(measured.matrix_type == DType::f16);
    CHECK_EQUAL(measured.measured_on.size(), std::size_t{10});
    CHECK_THAT((*backend)->measure_ceilings({}) == measured);
    CHECK_EQUAL((*backend)->memory().activations, before);
}

// What is counted is what the runtime gave out, and all of it comes back.
void accounts(Check& check) {
    auto backend = fresh_backend();
    CHECK_THAT(bool(backend));
    {
        std::string why;
        auto pass = MiniPass::make(**backend, DType::q4_1, why);
        CHECK_THAT(pass != nullptr);
        auto host = (*backend)->host_blocks(pass->cache(), 5);
        CHECK_THAT(bool(host));
        for (std::uint32_t rows : {1u, 12u, 1u}) CHECK_EQUAL(pass->run(pass->batch(3, 8, rows), 9).problem, std::string());
        const MemoryCounters memory = (*backend)->memory();
        CHECK_EQUAL(memory.weights + memory.kv_cache + memory.activations, emulation::device_bytes_alive());
        CHECK_THAT(emulation::pinned_bytes_alive() >= memory.host_blocks);
        const DeviceInfo info = (*backend)->info();
        CHECK_THAT(info.own_memory);
        // The driver's pages: what it says is taken is never less than what is counted.
        CHECK_THAT(info.memory_bytes - info.free_bytes >= emulation::device_bytes_alive());
    }
    (*backend).reset();
    CHECK_EQUAL(emulation::device_bytes_alive(), 0u);
    CHECK_EQUAL(emulation::pinned_bytes_alive(), 0u);
    CHECK_EQUAL(emulation::set_up_runtime({}), std::string());
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    BackendSubject subject;
    subject.make = fresh_backend;
    std::vector<Row> rows{
        {"steps of a known shape allocate nothing and wait once", quiet_steps},
        {"summaries of logits allocate nothing after the first and wait once", quiet_summaries},
        {"the number of recorded passes is bounded", bounded_graphs},
        {"ranges for Nsight nest step, layer, stage under their own names", ranges_nest},
        {"ceilings are measured, kept, and give their memory back", ceilings},
        {"counted bytes are the bytes that were taken, and all are given back", accounts},
    };
    append(rows, operation_rows(subject));
    append(rows, attention_rows(subject));
    append(rows, cache_rows(subject));
    append(rows, pass_rows(subject));
    return rows;
}
