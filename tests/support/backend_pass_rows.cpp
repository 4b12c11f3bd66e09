// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/cpu_backend.h"
#include "tests/support/backend_rows.h"
#include "tests/support/mini_pass.h"

namespace kvloupe::test {

namespace {

struct Prepared {
    std::unique_ptr<Backend> backend;
    std::unique_ptr<MiniPass> pass;  // destroyed before the backend
};

Prepared prepare(const BackendSubject& subject, DType type, Check& check) {
    Prepared prepared;
    prepared.backend = make_subject(subject, check);
    if (!prepared.backend) return prepared;
    std::string why;
    prepared.pass = MiniPass::make(*prepared.backend, type, why);
    if (!prepared.pass) check.fail(why, __FILE__, __LINE__);
    return prepared;
}

// A prompt of 20, then one token after another.
std::vector<std::vector<float>> generate(MiniPass& pass, std::uint64_t owner, std::uint32_t sequences, int& replayed, std::string& problem) {
    std::vector<std::vector<float>> logits;
    const auto step = [&](const Batch& batch) {
        MiniPass::Step done = pass.run(batch, owner);
        if (problem.empty()) problem = done.problem;
        replayed += done.replayed ? 1 : 0;
        logits.push_back(std::move(done.logits));
    };
    step(pass.batch(sequences, 0, 20));
    for (std::uint32_t position = 20; position < 50; ++position) step(pass.batch(sequences, position, 1));
    return logits;
}

void replay_row(const BackendSubject& subject, DType type, Check& check) {
    const Prepared prepared = prepare(subject, type, check);
    MiniPass* const pass = prepared.pass.get();
    if (pass == nullptr) return;
    for (const std::uint32_t sequences : {1u, 3u}) {
        int none = 0, replayed = 0;
        std::string problem;
        const auto plain = generate(*pass, 0, sequences, none, problem);
        const auto recorded = generate(*pass, 42, sequences, replayed, problem);
        CHECK_EQUAL(problem, std::string());
        CHECK_EQUAL(none, 0);
        // Contexts 21..32 and 33..50 are passes of two shapes (powers of two), the tables add some: most steps replay.
        CHECK_THAT(replayed >= 15);
        CHECK_THAT(plain == recorded);
        for (const auto& logits : recorded)
            for (float logit : logits) CHECK_THAT(std::isfinite(logit));
    }
}

void reference_row(const BackendSubject& subject, DType type, Check& check) {
    const Prepared prepared = prepare(subject, type, check);
    MiniPass* const pass = prepared.pass.get();
    if (pass == nullptr) return;
    auto cpu = cpu::make_cpu_backend(2);
    CHECK_THAT(bool(cpu));
    std::string why;
    auto reference = MiniPass::make(**cpu, type, why);
    CHECK_THAT(reference != nullptr);
    int replayed = 0;
    std::string problem;
    const auto got = generate(*pass, 7, 2, replayed, problem);
    const auto want = generate(*reference, 0, 2, replayed, problem);
    CHECK_EQUAL(problem, std::string());
    for (std::size_t step = 0; step < want.size(); ++step)
        CHECK_BELOW(relative_difference(got[step], want[step], want[step].size()), type == DType::bf16 ? 6e-2 : 1e-2);
}

void forget_row(const BackendSubject& subject, Check& check) {
    const Prepared prepared = prepare(subject, DType::f16, check);
    MiniPass* const pass = prepared.pass.get();
    if (pass == nullptr) return;
    const auto same = [&](std::uint64_t owner) { return pass->run(pass->batch(2, 30, 1), owner).replayed; };
    CHECK_THAT(!same(1));  // runs
    CHECK_THAT(!same(1));  // is recorded
    CHECK_THAT(same(1));
    CHECK_THAT(!same(2));  // another owner's operations may be others
    CHECK_THAT(same(1));
    CHECK_THAT(!pass->run(pass->batch(3, 30, 1), 1).replayed);  // another shape
    pass->spare().reset();                                      // memory that a pass might name
    CHECK_THAT(!same(1));
    CHECK_THAT(!same(1));
    CHECK_THAT(same(1));
}

void stages_row(const BackendSubject& subject, Check& check) {
    const Prepared prepared = prepare(subject, DType::f16, check);
    MiniPass* const pass = prepared.pass.get();
    if (pass == nullptr) return;
    Backend* const backend = prepared.backend.get();
    const Batch batch = pass->batch(2, 0, 10);
    std::vector<std::uint64_t> sets;
    for (int i = 0; i < 3; ++i) {
        CHECK_THAT(bool(backend->begin_batch(batch)));
        sets.push_back(backend->start_timing());
        pass->issue(batch, true);
        CHECK_THAT(bool(backend->synchronise()));
    }
    CHECK_THAT(sets[1] == sets[0] + 1 && sets[2] == sets[1] + 1);
    const std::vector<StageKind> order{StageKind::embed, StageKind::attention_norm, StageKind::qkv, StageKind::rotary_store,
                                       StageKind::attention, StageKind::attention_out, StageKind::output_norm, StageKind::logits};
    for (const std::uint64_t set : {sets[1], sets[2]}) {  // the newest two are kept, in any order of reading
        const auto timings = backend->timings(set);
        CHECK_EQUAL(timings.size(), order.size());
        std::uint64_t sum = 0;
        for (std::size_t i = 0; i < order.size(); ++i) {
            CHECK_THAT(timings[i].kind == order[i]);
            CHECK_EQUAL(timings[i].layer, order[i] == StageKind::embed || i >= 6 ? StageRecord::no_layer : std::uint16_t{0});
            sum += timings[i].duration_ns;
        }
        CHECK_THAT(sum > 0);
    }
}

}  // namespace

std::vector<Row> pass_rows(const BackendSubject& subject) {
    std::vector<Row> rows;
    for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::q8_0}) {
        const std::string name(name_of(type));
        rows.push_back({"a replayed pass computes what an issued one does, bit for bit: " + name + " weights",
                        [=](Check& check) { replay_row(subject, type, check); }});
        rows.push_back({"a pass equals the CPU's: " + name + " weights", [=](Check& check) { reference_row(subject, type, check); }});
    }
    rows.push_back({"passes are kept by owner and shape, and forgotten with the memory they name",
                    [=](Check& check) { forget_row(subject, check); }});
    rows.push_back({"stages are timed in order, two sets at a time", [=](Check& check) { stages_row(subject, check); }});
    return rows;
}

}  // namespace kvloupe::test
