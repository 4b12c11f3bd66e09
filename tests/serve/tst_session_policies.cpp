// SPDX-License-Identifier: GPL-3.0-or-later
//
// Accounting lanes, contiguous pools, priorities, static batches and a shorter context at the level of a session.
#include "tests/serve/support.h"
#include "tests/support/claims.h"

#include <set>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

std::unique_ptr<Session> accounting(const std::string& rest) {
    auto made = Session::create(scenario("{\"version\": 1, \"model\": \"none\", " + rest + "}"), {});
    if (!made) throw std::runtime_error(made.error().message());
    return std::move(*made);
}

void contiguousPoolsAreMadeLargeEnoughForTheirRegions(Check& check) {
    for (const char* reserve : {"max", "pow2", "oracle", "grow"}) {
        auto s = session("\"lanes\": [{\"cache\": {\"kind\": \"contiguous\", \"reserve\": \"" + std::string(reserve) + "\"}}], \"requests\": [" + request("a", 30, 13) + "," + request("b", 9, 30) + "]");
        CHECK_RESULT(s->run_to_end());
        for (const char* id : {"a", "b"}) CHECK_EQUAL(times(*s->recording(), lane0, id).finish_reason, "length");
        CHECK_THAT(all(*s->recording(), EventKind::preempt).empty());
    }
}

void anAccountingLaneDoesTheSameWithoutAModel(Check& check) {
    const std::string rest = R"("block_size": 4, "blocks": 13)";
    const std::string requests = R"("requests": [)" + request("a", 10, 20) + "," + request("b", 10, 20) + R"(, {"id": "c", "prompt_tokens": [1, 2, 3, 4, 5], "output_tokens": [1, 2, 3, 4, 5, 6, 7, 8], "arrival_step": 3}],
                                "actions": [{"at_step": 5, "do": "fork", "request": "a", "as": "f"}])";
    auto without = accounting(R"("lanes": [{"cache": {)" + rest + R"(, "bytes_per_token": 100}}], )" + requests);
    auto with = session(R"("lanes": [{"cache": {)" + rest + "}}], " + requests);
    CHECK_RESULT(without->run_to_end());
    CHECK_RESULT(with->run_to_end());
    const LaneRecord& a = without->recording()->lane(lane0);
    const LaneRecord& b = with->recording()->lane(lane0);
    CHECK_EQUAL(a.step_count(), b.step_count());
    CHECK_EQUAL(a.events().size(), b.events().size());
    for (std::uint64_t i = 0; i < a.events().size(); ++i) {
        Event x = a.events()[i], y = b.events()[i];
        CHECK_EQUAL(int(x.kind), int(y.kind));
        CHECK_EQUAL(x.sequence.value, y.sequence.value);
        CHECK_EQUAL(x.block.value, y.block.value);
        CHECK_EQUAL(x.other, y.other);
    }
    CHECK_THAT(!all(*without->recording(), EventKind::preempt).empty());
    CHECK_EQUAL(a.info().bytes_per_token, std::uint64_t(100));
    CHECK_EQUAL(a.step(2).kv_bytes, std::uint64_t(a.step(2).used_blocks) * 400);
    CHECK_EQUAL(a.info().attention_variant, "none");
    CHECK_EQUAL(a.info().policy.kind, "paged");
    CHECK_THAT(without->model(lane0) == nullptr);
}

void anAccountingLaneMakesTokensThatNobodyShares(Check& check) {
    auto s = accounting(R"("requests": [{"id": "a", "prompt_tokens": [1], "max_new_tokens": 5}, {"id": "b", "prompt_tokens": [1], "max_new_tokens": 5, "n": 2}])");
    CHECK_EQUAL(s->recording()->lane(lane0).info().blocks, 1024u);
    RequestOptions more;
    more.id = "c";
    more.prompt_tokens = std::vector<TokenId>{1};
    more.max_new_tokens = 5;
    CHECK_RESULT(s->submit(more));
    CHECK_RESULT(s->run_to_end());
    std::set<TokenId> seen;
    for (const char* name : {"a", "b.0", "b.1", "c"}) {
        const auto tokens = outputs(*s->recording(), lane0, name);
        CHECK_EQUAL(tokens.size(), std::size_t(5));
        seen.insert(tokens.begin(), tokens.end());
    }
    CHECK_EQUAL(seen.size(), std::size_t(20));
    more.id = "text";
    more.prompt_tokens.reset();
    more.prompt = "Hello";
    const auto refused = s->submit(more);
    CHECK_THAT(!refused);
    CHECK_THAT(refused.error().sentence.find("no tokenizer") != std::string::npos);
}

void priorityLetsALaterRequestOvertake(Check& check) {
    auto s = accounting(R"("lanes": [{"cache": {"block_size": 4, "blocks": 60}, "scheduler": {"policy": "priority", "max_num_seqs": 1}}], "requests": [)" +
                        request("a", 4, 4) + "," + request("b", 4, 4, R"(, "priority": 5)") + "," + request("c", 4, 4, R"(, "priority": -1, "arrival_step": 2)") + "]");
    CHECK_RESULT(s->run_to_end());
    CHECK_EQUAL(all(*s->recording(), EventKind::finish), (std::vector<std::string>{"3: finish a", "7: finish c", "11: finish b"}));
}

void aStaticBatchKeepsItsBlocksUntilItEnds(Check& check) {
    auto s = accounting(R"("lanes": [{"cache": {"block_size": 4, "blocks": 60}, "scheduler": {"batching": "static", "max_num_seqs": 2}}], "requests": [)" +
                        request("a", 4, 2) + "," + request("b", 9, 6) + "," + request("c", 4, 2) + "]");
    CHECK_RESULT(s->run_to_end());
    const Recording& recording = *s->recording();
    const LaneRecord& lane = recording.lane(lane0);
    CHECK_EQUAL(all(recording, EventKind::finish), (std::vector<std::string>{"1: finish a", "5: finish b", "7: finish c"}));
    CHECK_THAT(all(recording, EventKind::free).at(0).starts_with("5: "));
    CHECK_EQUAL(lane.step(3).running, 1u);
    CHECK_EQUAL(lane.state_after(3).used_blocks(), lane.step(3).used_blocks);
    CHECK_THAT(lane.step(3).slots.internal > 0);           // what a holds and will never write
    CHECK_EQUAL(lane.state_after(lane.step_count() - 1).used_blocks(), 0u);
}

void aShorterContextRejects(Check& check) {
    auto s = session(R"("lanes": [{"cache": {"max_model_len": 20}}], "requests": [)" + request("a", 10, 12) + "," + request("b", 10, 11) + "]");
    CHECK_RESULT(s->run_to_end());
    CHECK_EQUAL(times(*s->recording(), lane0, "a").finish_reason, "rejected");
    CHECK_EQUAL(times(*s->recording(), lane0, "b").finish_reason, "length");
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(contiguousPoolsAreMadeLargeEnoughForTheirRegions));
    claims.add(CLAIM(anAccountingLaneDoesTheSameWithoutAModel));
    claims.add(CLAIM(anAccountingLaneMakesTokensThatNobodyShares));
    claims.add(CLAIM(priorityLetsALaterRequestOvertake));
    claims.add(CLAIM(aStaticBatchKeepsItsBlocksUntilItEnds));
    claims.add(CLAIM(aShorterContextRejects));
    return claims.rows();
}
