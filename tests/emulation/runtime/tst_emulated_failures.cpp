// SPDX-License-Identifier: GPL-3.0-or-later
//
// What a card can do to us: too old, too full, lost in the middle. One sentence each, nothing aborts, nothing leaks.
#include "engine/serve/session.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/device_query.h"
#include "tests/emulation/runtime/emulated_runtime.h"
#include "tests/support/backend_rows.h"
#include "tests/support/mini_pass.h"

using namespace kvloupe;
using namespace kvloupe::test;
using emulation::RuntimeSetup;

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

void absent_cards(Check& check) {
    const auto none_of = [](auto&& change) {
        RuntimeSetup setup;
        change(setup);
        emulation::set_up_runtime(setup);
        return cuda::list_cards();
    };
    cuda::CardList list = none_of([](RuntimeSetup& s) { s.driver = 12020; });
    CHECK_THAT(contains(list.none, "12.2") && contains(list.none, "13.0") && contains(list.none, "older"));
    list = none_of([](RuntimeSetup& s) { s.cards = 0; });
    CHECK_THAT(contains(list.none, "no CUDA device"));
    list = none_of([](RuntimeSetup& s) { s.cards_error = cudaErrorUnknown; });
    CHECK_THAT(contains(list.none, "unknown error"));
    CHECK_THAT(!cuda::make_cuda_backend(0, {}));
    list = none_of([](RuntimeSetup& s) { s.major = 7, s.minor = 5, s.cards = 2, s.name = "Old Card"; });
    CHECK_EQUAL(list.none, std::string());
    CHECK_EQUAL(list.cards.size(), std::size_t{2});
    CHECK_THAT(contains(list.cards[1].refusal, "7.5") && contains(list.cards[1].refusal, "8.0"));
    const auto refused = cuda::make_cuda_backend(1, {});
    CHECK_THAT(!refused && contains(refused.error().sentence, "Old Card") && contains(refused.error().sentence, "7.5"));
    CHECK_THAT(!cuda::make_cuda_backend(2, {}) && !cuda::make_cuda_backend(-1, {}));
    list = none_of([](RuntimeSetup&) {});
    CHECK_THAT(list.cards.size() == 1 && list.cards[0].refusal.empty());
    CHECK_THAT(contains(list.cards[0].detail, "9.0") && contains(list.cards[0].detail, "13.0"));
    CHECK_THAT(list.cards[0].memory_bytes > 0 && list.cards[0].free_bytes == list.cards[0].memory_bytes);
}

void full_card(Check& check) {
    RuntimeSetup setup;
    setup.memory = std::uint64_t{96} << 20;
    emulation::set_up_runtime(setup);
    auto backend = cuda::make_cuda_backend(0, {});
    CHECK_THAT(bool(backend));
    KvCacheShape shape = KvCacheShape::uniform(4, 4096, 16, 2, 128, DType::f16, DType::f16);
    const auto refused = (*backend)->kv_cache(shape, Purpose::kv_cache);
    CHECK_THAT(!refused);
    CHECK_THAT(contains(refused.error().sentence, "Emulated GPU") && contains(refused.error().sentence, "256.0 MiB wanted") &&
               contains(refused.error().sentence, "96.0 MiB free"));
    const std::string words = "the largest pool that fits has ";
    const std::size_t at = refused.error().sentence.find(words);
    CHECK_THAT(at != std::string::npos);
    const auto most = static_cast<std::uint32_t>(std::stoul(refused.error().sentence.substr(at + words.size())));
    CHECK_THAT(most > 100 && most < 4096);
    CHECK_THAT(contains(refused.error().hint, std::to_string(most)));
    shape.blocks = most;
    {
        const auto fits = (*backend)->kv_cache(shape, Purpose::kv_cache);  // and it does
        CHECK_THAT(bool(fits));
        const auto weight = (*backend)->weight(StoredMatrix(DType::f32, 4096, 1024, 1).tensor("blk.7.ffn_up.weight"));
        CHECK_THAT(!weight && contains(weight.error().sentence, "blk.7.ffn_up.weight") && contains(weight.error().sentence, "16.0 MiB"));
        CHECK_THAT(!(*backend)->buffer(std::uint64_t{1} << 40, Purpose::activations));
    }
    shape.blocks = most + most / 8;
    CHECK_THAT(!(*backend)->kv_cache(shape, Purpose::kv_cache));
    shape.blocks = most;
    CHECK_THAT(bool((*backend)->kv_cache(shape, Purpose::kv_cache)));  // a refusal is no fault: the card goes on
    auto small = (*backend)->kv_cache(KvCacheShape::uniform(1, 2, 16, 1, 32, DType::f16, DType::f16), Purpose::kv_cache);
    CHECK_THAT(bool(small));
    const auto host = (*backend)->host_blocks(**small, 0x7FFFFFFF);
    CHECK_THAT(!host && contains(host.error().sentence, "main memory"));
    emulation::use_elsewhere(setup.memory);  // somebody else has taken the rest
    const auto nothing = (*backend)->kv_cache(shape, Purpose::kv_cache);
    CHECK_THAT(!nothing && contains(nothing.error().sentence, "not even a small pool"));
    const auto too_full = cuda::make_cuda_backend(0, {});
    CHECK_THAT(!too_full && contains(too_full.error().sentence, "workspace"));
}

// Memory that ends within a step fails that step alone.
void full_in_a_step(Check& check) {
    emulation::set_up_runtime({});
    auto backend = cuda::make_cuda_backend(0, {});
    CHECK_THAT(bool(backend));
    std::string why;
    auto pass = MiniPass::make(**backend, DType::f16, why);
    CHECK_THAT(pass != nullptr);
    emulation::use_elsewhere(std::uint64_t{1} << 30);
    const std::string problem = pass->run(pass->batch(2, 0, 12), 0).problem;  // wants scratch for narrowed activations
    CHECK_THAT(contains(problem, "Not enough memory") && contains(problem, "activations of a product"));
    emulation::use_elsewhere(0);
    CHECK_EQUAL(pass->run(pass->batch(2, 0, 12), 0).problem, std::string());
}

// One life of a backend with passes, a swap, a summary, timers. Returns the first problem, "" if none.
std::string life(std::vector<std::string>& problems) {
    auto made = cuda::make_cuda_backend(0, {});
    if (!made) return made.error().message();
    Backend& backend = **made;
    std::string why;
    auto pass = MiniPass::make(backend, DType::q4_0, why);
    if (!pass) return why;
    const auto note = [&](const std::string& problem) {
        if (!problem.empty()) problems.push_back(problem);
    };
    auto host = backend.host_blocks(pass->cache(), 2);
    for (std::uint32_t rows : {10u, 1u, 1u, 1u}) note(pass->run(pass->batch(2, 10, rows), 3).problem);
    backend.copy_block(pass->cache(), 1, 2, 5);
    if (host) {
        backend.swap_out(pass->cache(), 1, **host, 1, 8);
        backend.swap_in(pass->cache(), 3, **host, 1, 8);
    } else {
        note(host.error().message());
    }
    backend.poison_block(pass->cache(), 4);
    std::vector<LogitSummary> summaries(2);
    const std::vector<TokenId> asked{1, 2};
    if (auto done = backend.summarise(pass->logits(), MiniPass::vocabulary, asked, summaries); !done) note(done.error().message());
    const std::uint64_t set = backend.start_timing();
    if (auto begun = backend.begin_batch(pass->batch(1, 5, 1)); !begun) note(begun.error().message());
    pass->issue(pass->batch(1, 5, 1), true);
    (void)backend.timings(set);
    (void)backend.measure_ceilings([] {
        std::stop_source stop;
        stop.request_stop();
        return stop.get_token();
    }());
    if (auto done = backend.synchronise(); !done) note(done.error().message());
    (void)backend.info();
    return {};
}

void lost_anywhere(Check& check) {
    emulation::set_up_runtime({});
    std::vector<std::string> none;
    CHECK_EQUAL(life(none), std::string());
    CHECK_THAT(none.empty());
    const std::uint64_t calls = emulation::runtime_counts().calls;
    CHECK_THAT(calls > 200);
    int stuck = 0;
    for (std::uint64_t at = 1; at <= calls; at += at < 60 ? 1 : 7) {
        emulation::set_up_runtime({});
        emulation::fail_from_call(at, cudaErrorECCUncorrectable);
        std::vector<std::string> problems;
        const std::string start = life(problems);
        if (!start.empty()) problems.insert(problems.begin(), start);
        // Lost in the last destructors: nobody is left to be told.
        if (problems.empty()) CHECK_THAT(at + 120 > calls);
        for (const std::string& problem : problems) CHECK_EQUAL(problem, problems.front());  // one sentence, always the same
        if (!problems.empty() && start.empty()) {
            ++stuck;
            CHECK_THAT(contains(problems.front(), "cuda:0 (Emulated GPU) failed in ") && contains(problems.front(), "ECC") &&
                       contains(problems.front(), "'cpu'"));
        }
        CHECK_EQUAL(emulation::device_bytes_alive(), 0u);
        CHECK_EQUAL(emulation::pinned_bytes_alive(), 0u);
    }
    CHECK_THAT(stuck > 10);
}

void failed_kernel(Check& check) {
    emulation::set_up_runtime({});
    auto backend = cuda::make_cuda_backend(0, {});
    CHECK_THAT(bool(backend));
    std::string why;
    auto pass = MiniPass::make(**backend, DType::f16, why);
    CHECK_THAT(pass != nullptr);
    emulation::fail_in_work(5, cudaErrorIllegalAddress);  // asynchronous: the launch itself was fine
    const std::string first = pass->run(pass->batch(2, 0, 4), 0).problem;
    CHECK_THAT(contains(first, "illegal memory access"));
    emulation::fail_from_call(0, cudaSuccess);  // even if the runtime forgot it
    CHECK_EQUAL(pass->run(pass->batch(2, 0, 4), 0).problem, first);
    const auto buffer = (*backend)->buffer(16, Purpose::activations);
    CHECK_THAT(!buffer && buffer.error().message() == first);
}

// The lane that lost its card fails with that sentence; its neighbour on the CPU and the session live on.
void session_survives(Check& check) {
    emulation::set_up_runtime({});
    const std::string text =
        "{\"version\": 1, \"lanes\": [{\"name\": \"cpu\", \"device\": \"cpu\"}, {\"name\": \"card\", \"device\": \"cuda:0\"}],"
        " \"requests\": [{\"id\": \"a\", \"prompt_tokens\": [41, 42, 43], \"max_new_tokens\": 8}]}";
    auto scenario = parse_scenario(std::as_bytes(std::span(text.data(), text.size())), "test.json");
    CHECK_THAT(bool(scenario));
    scenario->model = KVLOUPE_SOURCE_DIR "/tests/fixtures/tiny-gqa";
    SessionOptions options;
    options.make_backend = [](const std::string& device) {
        return device == "cpu" ? cpu::make_cpu_backend(1) : cuda::make_cuda_backend(0, {});
    };
    options.find_model = [](const std::string& path) { return load_model(path); };
    auto session = Session::create(*scenario, options);
    CHECK_THAT(bool(session));
    (*session)->step(3);
    (*session)->wait();
    emulation::fail_from_call(20, cudaErrorLaunchFailure);
    const auto ended = (*session)->run_to_end();
    const auto recording = (*session)->recording();
    const std::string said = ended ? "" : ended.error().message();
    check.note("the session says: " + said);
    CHECK_THAT(recording->lane(LaneId{0}).step_count() >= 3);
    CHECK_THAT(ended || contains(said, "Emulated GPU"));
    emulation::fail_from_call(0, cudaSuccess);
    // The same scenario on the CPU, without a restart.
    for (LaneOptions& lane : scenario->lanes) lane.device = "cpu";
    auto again = Session::create(*scenario, options);
    CHECK_THAT(bool(again));
    CHECK_THAT(bool((*again)->run_to_end()));
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    return {
        {"why there is no usable card is said in words", absent_cards},
        {"a full card is said with the sizes and the largest pool that fits", full_card},
        {"memory that ends within a step fails that step alone", full_in_a_step},
        {"a card lost at any call gives one sentence and leaves nothing behind", lost_anywhere},
        {"a kernel that fails later gives the same sentence from then on", failed_kernel},
        {"a session outlives a lost card", session_survives},
    };
}
