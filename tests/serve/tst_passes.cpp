// SPDX-License-Identifier: GPL-3.0-or-later
//
// Passes that a backend records and replays give the same as passes that are run, and are never replayed over other
// buffers, another cache or half a pass.
#include "engine/serve/decoder.h"
#include "tests/serve/replaying_backend.h"
#include "tests/serve/support.h"
#include "tests/support/claims.h"

#include <algorithm>
#include <set>
#include <utility>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

SessionOptions replaying(const std::shared_ptr<Passes>& passes, Logits* tapped) {
    SessionOptions given = options(tapped);
    given.make_backend = [passes](const std::string& device) -> Result<std::unique_ptr<Backend>> {
        auto real = make_backend(BackendOptions{device, 2});
        if (!real) return real.error();
        return std::unique_ptr<Backend>(std::make_unique<ReplayingBackend>(std::move(*real), passes));
    };
    return given;
}

// A decode batch of one row over a table of one block.
Batch one_row(TokenId token, std::uint32_t position) {
    Batch batch;
    batch.tokens = {token};
    batch.positions = {position};
    batch.slots = {16 + std::uint64_t{position}};
    batch.block_tables = {1};
    Batch::Sequence sequence;
    sequence.rows = 1;
    sequence.first_position = position;
    sequence.table_size = 1;
    batch.sequences = {sequence};
    batch.logit_rows = {0};
    return batch;
}

void replayedPassesGiveTheSameLogits(Check& check) {
    // Everything that changes a pass's shape: arrivals, ends, forks and swaps between passes, a window, no cache.
    const std::string work = R"("record": {"stages_every": 5, "attention": []},
        "lanes": [{"name": "plain", "cache": {"block_size": 4, "blocks": 60}},
                  {"name": "window", "cache": {"block_size": 4, "blocks": 60, "window": 6, "sinks": 2}},
                  {"name": "none", "kv_cache": false}],
        "actions": [{"at_step": 4, "do": "fork", "request": "a", "as": "c"}],
        "requests": [)" + request("a", 5, 20) + "," + request("b", 9, 14, ", \"arrival_step\": 3") + "]";
    const auto passes = std::make_shared<Passes>();
    Logits run, expected;
    auto s = session(work, replaying(passes, &run));
    CHECK_RESULT(s->run_to_end());
    auto plain = session(work, options(&expected));
    CHECK_RESULT(plain->run_to_end());
    CHECK_THAT(expected.size() > 100);
    CHECK_THAT(run == expected);
    CHECK_EQUAL(passes->open, 0);
    CHECK_THAT(passes->replayed > 20);
    CHECK_THAT(passes->recorded < passes->replayed);
    CHECK_THAT(passes->operations_outside > 0);  // of the steps with stage marks
}

void aStepWithMarksOrProbesIsNotAPass(Check& check) {
    for (const char* record : {R"("record": {"attention": []}, )", R"("record": {"stages_every": 1000, "attention": [{"layer": 1}]}, )"}) {
        const auto passes = std::make_shared<Passes>();
        auto s = session(std::string(record) + R"("requests": [)" + request("a", 5, 6) + "]", replaying(passes, nullptr));
        CHECK_RESULT(s->run_to_end());
        CHECK_EQUAL(passes->owners.size(), std::size_t(0));
        CHECK_THAT(passes->operations_outside > 0);
    }
}

void lanesHaveOwnersOfTheirOwnAndGrowthTakesANewOne(Check& check) {
    const auto passes = std::make_shared<Passes>();
    auto s = session(R"("record": {"stages_every": 1000, "attention": []}, "lanes": [{"name": "x"}, {"name": "y"}], "requests": [)" +
                         request("a", 3, 12) + "," + request("b", 20, 12, ", \"arrival_step\": 5") + "]",
                     replaying(passes, nullptr));
    CHECK_RESULT(s->run_to_end());
    // Step 0 is measured. Each lane: one owner until b comes, whose prompt needs more rows, another one from then on.
    CHECK_EQUAL(std::set(passes->owners.begin(), passes->owners.end()).size(), std::size_t(4));
    for (std::size_t i = 0; i + 2 < passes->owners.size(); i += 2) CHECK_THAT(passes->owners[i] != passes->owners[i + 1]);
}

void halfAPassIsNeverReplayed(Check& check) {
    const auto passes = std::make_shared<Passes>();
    auto made = replaying(passes, nullptr).make_backend("cpu");
    CHECK_RESULT(made);
    auto model = load_model(fixtures + "tiny-gqa");
    CHECK_RESULT(model);
    auto device = DeviceModel::create(*model, std::shared_ptr<Backend>(std::move(*made)));
    CHECK_RESULT(device);
    const ModelConfig& config = (*model)->config;
    const KvCacheShape shape = KvCacheShape::uniform(config.layers, 2, 16, config.kv_heads, config.head_dim, DType::f32, DType::f32);
    auto cache = (*device)->backend->kv_cache(shape, Purpose::kv_cache);
    CHECK_RESULT(cache);
    Decoder decoder(*device);
    CHECK_RESULT(decoder.reserve(1, 1));

    std::stop_source source;
    passes->on_operation = [&](int operation) { if (operation == 3) source.request_stop(); };  // in the first layer
    ForwardOptions stopping;
    stopping.stop = source.get_token();
    const auto half = decoder.forward(one_row(5, 0), **cache, stopping);
    CHECK_RESULT(half);
    CHECK_THAT(half->stopped);
    CHECK_EQUAL(passes->open, 0);
    passes->on_operation = nullptr;
    for (int run = 0; run < 2; ++run) {
        const auto whole = decoder.forward(one_row(5, 0), **cache, {});
        CHECK_RESULT(whole);
        CHECK_EQUAL(passes->replayed, run);
        Decoder fresh(*device);
        CHECK_RESULT(fresh.reserve(1, 1));
        ForwardOptions measured;
        measured.measure = true;  // no pass
        const auto expected = fresh.forward(one_row(5, 0), **cache, measured);
        CHECK_RESULT(expected);
        CHECK_THAT(std::equal(whole->logits.begin(), whole->logits.end(), expected->logits.begin(), expected->logits.end()));
    }
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(replayedPassesGiveTheSameLogits));
    claims.add(CLAIM(aStepWithMarksOrProbesIsNotAPass));
    claims.add(CLAIM(lanesHaveOwnersOfTheirOwnAndGrowthTakesANewOne));
    claims.add(CLAIM(halfAPassIsNeverReplayed));
    return claims.rows();
}
