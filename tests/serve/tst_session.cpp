// SPDX-License-Identifier: GPL-3.0-or-later
//
// What a step is (contract, section 3), commands while running, waiting and rejected requests. Model: a tiny fixture, so
// that token ids alone matter.
#include "tests/serve/support.h"
#include "tests/support/claims.h"
#include "tests/support/texts.h"

#include <thread>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

void aStepIsWhatTheContractSays(Check& check) {
    auto s = session(R"("lanes": [{"cache": {"block_size": 4, "blocks": 10}}], "requests": [)" + request("a", 3, 3) + "]");
    CHECK_EQUAL(int(s->recording()->phase()), int(Phase::paused));
    CHECK_EQUAL(s->recording()->lane(lane0).step_count(), std::size_t(0));
    s->step();
    s->wait();
    const Recording& recording = *s->recording();
    const LaneRecord& lane = recording.lane(lane0);
    CHECK_EQUAL(events(recording, lane0, 0), (std::vector<std::string>{"arrive a", "admit a", "allocate a 1", "prefill a"}));
    // The first output token is sampled by the step that computes the last prompt token, and not yet written.
    CHECK_EQUAL(lane.step(0).tokens.size(), std::uint64_t(4));
    CHECK_EQUAL(lane.step(0).slots.token, std::uint64_t(3));
    CHECK_EQUAL(lane.step(0).slots.reserved, std::uint64_t(1));
    CHECK_EQUAL(int(recording.phase()), int(Phase::paused));
    CHECK_RESULT(s->run_to_end());
    CHECK_EQUAL(lane.step_count(), std::size_t(3));
    CHECK_EQUAL(events(recording, lane0, 1), (std::vector<std::string>{"store a 1", "decode a"}));  // its first block is full now
    CHECK_EQUAL(events(recording, lane0, 2), (std::vector<std::string>{"allocate a 2", "decode a", "finish a", "free a 2", "free a 1"}));
    // At the end of the forward pass, before release; the last output token is never written.
    CHECK_EQUAL(lane.step(2).used_blocks, 2u);
    CHECK_EQUAL(lane.step(2).slots.token, std::uint64_t(5));
    CHECK_EQUAL(lane.step(2).slots.internal, std::uint64_t(3));
    CHECK_EQUAL(lane.step(2).slots.reserved, std::uint64_t(0));
    CHECK_EQUAL(int(recording.phase()), int(Phase::finished));
    CHECK_EQUAL(times(recording, lane0, "a").finish_reason, "length");
}

void aRequestThatEndsWithItsFirstTokenNeverWritesIt(Check& check) {
    auto s = session(R"("lanes": [{"cache": {"block_size": 4, "blocks": 2}}], "requests": [)" + request("a", 4, 1) + "]");
    CHECK_RESULT(s->run_to_end());
    const LaneRecord& lane = s->recording()->lane(lane0);
    CHECK_EQUAL(lane.step_count(), std::size_t(1));
    CHECK_EQUAL(lane.step(0).computed_tokens, std::uint64_t(4));
    CHECK_EQUAL(outputs(*s->recording(), lane0, "a").size(), std::size_t(1));
}

void idleStepsCountAndTheLastStepEndsTheLastRequest(Check& check) {
    auto s = session(R"("requests": [)" + request("late", 2, 2, ", \"arrival_step\": 6") + "," + request("early", 2, 2, ", \"arrival_step\": 1") + "]");
    CHECK_RESULT(s->run_to_end());
    const Recording& recording = *s->recording();
    CHECK_EQUAL(recording.lane(lane0).step_count(), std::size_t(8));
    for (const std::size_t idle : {0, 3, 4, 5}) CHECK_EQUAL(events(recording, lane0, idle), std::vector<std::string>{});
    CHECK_THAT(contains(events(recording, lane0, 1), "arrive early"));
    CHECK_THAT(contains(events(recording, lane0, 6), "arrive late"));
    CHECK_THAT(contains(events(recording, lane0, 7), "finish late"));
    CHECK_EQUAL(recording.lane(lane0).step(3).waiting, 0u);
}

void theYoungerGivesWayAndGoesOnWithTheSameTokens(Check& check) {
    // 5 usable blocks of 4; each needs 2, then 3: in the third step the second gives its blocks up.
    const std::string requests = R"("requests": [)" + request("a", 6, 5) + R"(, {"id": "b", "prompt_tokens": [7, 8, 9, 10, 11, 12], "max_new_tokens": 5}])";
    auto undisturbed = session(requests);
    CHECK_RESULT(undisturbed->run_to_end());
    auto s = session(R"("lanes": [{"cache": {"block_size": 4, "blocks": 6}}], )" + requests);
    CHECK_RESULT(s->run_to_end());
    const Recording& recording = *s->recording();
    const LaneRecord& lane = recording.lane(lane0);
    CHECK_EQUAL(lane.step(2).waiting, 0u);
    CHECK_THAT(contains(events(recording, lane0, 3), "preempt b"));
    CHECK_THAT(!contains(events(recording, lane0, 3), "resume b"));
    CHECK_EQUAL(lane.step(3).waiting, 1u);
    CHECK_THAT(contains(events(recording, lane0, 4), "finish a"));
    CHECK_THAT(contains(events(recording, lane0, 5), "resume b"));
    CHECK_EQUAL(lane.step(5).preempted_queried_tokens, std::uint64_t(9));
    CHECK_EQUAL(lane.step(5).queried_tokens, std::uint64_t(0));
    CHECK_EQUAL(outputs(recording, lane0, "b"), outputs(*undisturbed->recording(), lane0, "b"));
}

void whatWaitsSaysOnceWhy(Check& check) {
    auto s = session(R"("lanes": [{"cache": {"block_size": 4, "blocks": 6}}], "requests": [)" + request("a", 14, 5) + R"(, {"id": "b", "prompt_tokens": [7, 8, 9, 10, 11, 12], "output_tokens": [1, 1, 1, 1, 1]}])");
    CHECK_RESULT(s->run_to_end());
    CHECK_THAT(contains(events(*s->recording(), lane0, 0), "refuse b"));
    CHECK_THAT(!contains(events(*s->recording(), lane0, 1), "refuse b"));
    CHECK_EQUAL(times(*s->recording(), lane0, "b").finish_reason, "length");
}

struct WhatCanNeverRunIsRejectedAndTheOthersRunCase {
    int prompt, output;
    std::string says;
};
Cases<WhatCanNeverRunIsRejectedAndTheOthersRunCase> whatCanNeverRunIsRejectedAndTheOthersRun_cases() {
    Cases<WhatCanNeverRunIsRejectedAndTheOthersRunCase> cases;
    cases.add("larger than the pool", {30, 12, "41 slots"});
    cases.add("larger than the context", {250, 8, "context"});
    return cases;
}
void whatCanNeverRunIsRejectedAndTheOthersRun(Check& check, const WhatCanNeverRunIsRejectedAndTheOthersRunCase& row) {
    auto s = session(R"("lanes": [{"cache": {"block_size": 4, "blocks": 11}}], "requests": [)" + request("big", row.prompt, row.output) + "," + request("b", 3, 2) + "]");
    CHECK_RESULT(s->run_to_end());
    const RequestTimes big = times(*s->recording(), lane0, "big");
    CHECK_EQUAL(big.finish_reason, "rejected");
    CHECK_OR_SAY(contains(big.reason, row.says), big.reason);
    CHECK_EQUAL(times(*s->recording(), lane0, "b").finish_reason, "length");
}

void automaticBlocksHoldWhatTheRequestsCanUse(Check& check) {
    auto s = session(R"("lanes": [{"cache": {"block_size": 4}}, {"name": "one at a time", "cache": {"block_size": 4}, "scheduler": {"max_num_seqs": 1}}],
                        "requests": [)" + request("a", 6, 5) + "," + request("b", 3, 2) + "]");
    CHECK_EQUAL(s->recording()->lane(lane0).info().blocks, 1u + 3u + 1u);
    CHECK_EQUAL(s->recording()->lane(LaneId{1}).info().blocks, 1u + 3u);
    CHECK_RESULT(s->run_to_end());
    CHECK_EQUAL(s->recording()->lane(lane0).step(0).waiting, 0u);
    CHECK_EQUAL(s->recording()->lane(LaneId{1}).step(0).waiting, 1u);
}

void cancellingFreesTheBlocks(Check& check) {
    auto s = session(R"("lanes": [{"cache": {"block_size": 4, "blocks": 30}}], "requests": [)" + request("a", 6, 50) + "," + request("b", 6, 4) + "," +
                     request("never", 6, 4, ", \"arrival_step\": 40") + R"(], "actions": [{"at_step": 2, "do": "cancel", "request": "never"}])");
    s->step(2);
    s->wait();
    s->cancel("a");
    s->cancel("nobody");
    CHECK_RESULT(s->run_to_end());
    const Recording& recording = *s->recording();
    const std::vector<std::string> third = events(recording, lane0, 2);
    CHECK_THAT(third.size() >= 4);
    CHECK_EQUAL(std::vector<std::string>(third.begin(), third.begin() + 4),
                (std::vector<std::string>{"finish never", "finish a", "free a 2", "free a 1"}));
    CHECK_EQUAL(times(recording, lane0, "a").finish_reason, "cancelled");
    CHECK_EQUAL(times(recording, lane0, "never").finish_reason, "cancelled");
    CHECK_EQUAL(times(recording, lane0, "b").finish_reason, "length");
    CHECK_EQUAL(outputs(recording, lane0, "a").size(), std::size_t(2));
    CHECK_EQUAL(recording.lane(lane0).step_count(), std::size_t(4));
}

void submittedRequestsArriveInTheNextStepOfAllLanes(Check& check) {
    auto s = session(R"("lanes": [{"cache": {"blocks": 40}}, {"name": "uncached", "kv_cache": false}], "requests": [)" + request("a", 3, 4) + "]");
    s->step(2);
    s->wait();
    CHECK_RESULT(s->submit(submitted("b", 5, 3)));
    CHECK_THAT(!s->submit(submitted("b", 5, 3)));                 // the id is taken
    CHECK_THAT(!s->submit(submitted("", 5, 3)));
    CHECK_THAT(!s->submit(submitted("c", 0, 3)));                 // no tokens
    RequestOptions outside = submitted("d", 1, 1);
    outside.prompt_tokens = std::vector<TokenId>{288};
    const auto refused = s->submit(outside);
    CHECK_THAT(!refused);
    CHECK_THAT(contains(refused.error().message(), "288"));
    CHECK_RESULT(s->run_to_end());
    for (const std::uint32_t lane : {0u, 1u}) {
        CHECK_THAT(contains(events(*s->recording(), LaneId{lane}, 2), "arrive b"));
        CHECK_EQUAL(s->recording()->lane(LaneId{lane}).step_count(), std::size_t(5));
    }
    // After the end too: the session goes on.
    CHECK_EQUAL(int(s->recording()->phase()), int(Phase::finished));
    CHECK_RESULT(s->submit(submitted("e", 4, 2)));
    s->wait();
    CHECK_EQUAL(int(s->recording()->phase()), int(Phase::paused));
    s->run();
    s->wait();
    CHECK_EQUAL(int(s->recording()->phase()), int(Phase::finished));
    CHECK_EQUAL(s->recording()->requests()[2].arrival_step, 5u);
    CHECK_EQUAL(times(*s->recording(), LaneId{1}, "e").finish_reason, "length");
}

void lanesOfDifferentLengthMeetAgainAtASubmit(Check& check) {
    auto s = session(R"("lanes": [{"name": "fast", "cache": {"blocks": 40}},
                                 {"name": "slow", "cache": {"blocks": 40}, "scheduler": {"max_num_batched_tokens": 2}}], "requests": [)" + request("a", 20, 2) + "]");
    CHECK_RESULT(s->run_to_end());
    CHECK_EQUAL(s->recording()->lane(lane0).step_count(), std::size_t(2));
    CHECK_EQUAL(s->recording()->lane(LaneId{1}).step_count(), std::size_t(11));
    CHECK_RESULT(s->submit(submitted("b", 1, 1)));
    CHECK_RESULT(s->run_to_end());
    for (const std::uint32_t lane : {0u, 1u}) {
        CHECK_EQUAL(s->recording()->lane(LaneId{lane}).step_count(), std::size_t(12));
        CHECK_THAT(contains(events(*s->recording(), LaneId{lane}, 11), "finish b"));
    }
}

void resetStartsTheScenarioAgainInANewRecording(Check& check) {
    auto s = session(R"("requests": [)" + request("a", 3, 4) + "]");
    CHECK_RESULT(s->submit(submitted("b", 2, 2)));
    CHECK_RESULT(s->run_to_end());
    const auto before = s->recording();
    const std::vector<TokenId> tokens = outputs(*before, lane0, "a");
    s->reset();
    s->wait();
    CHECK_EQUAL(s->generation(), std::uint64_t(1));
    CHECK_THAT(s->recording() != before);
    CHECK_EQUAL(s->recording()->lane(lane0).step_count(), std::size_t(0));
    CHECK_EQUAL(before->lane(lane0).step_count(), std::size_t(6));  // who still reads it can; b waited for the only block
    CHECK_RESULT(s->submit(submitted("b", 2, 2)));              // its id is free again
    CHECK_RESULT(s->run_to_end());
    CHECK_EQUAL(outputs(*s->recording(), lane0, "a"), tokens);
    CHECK_EQUAL(s->recording()->requests().size(), std::size_t(2));
}

void pauseStopsARunAndRunGoesOn(Check& check) {
    auto s = session(R"("requests": [)" + request("a", 3, 240) + "]");
    s->run();
    while (s->recording()->lane(lane0).step_count() < 3) std::this_thread::yield();
    s->pause();
    s->wait();
    const std::size_t reached = s->recording()->lane(lane0).step_count();
    CHECK_THAT(reached >= 3);
    if (reached < 240) CHECK_EQUAL(int(s->recording()->phase()), int(Phase::paused));
    s->step(2);
    s->wait();
    CHECK_EQUAL(s->recording()->lane(lane0).step_count(), std::min<std::size_t>(reached + 2, 240));
    s->run();
    s->wait();
    CHECK_EQUAL(s->recording()->lane(lane0).step_count(), std::size_t(240));
    CHECK_EQUAL(int(s->recording()->phase()), int(Phase::finished));
}

void anUncachedLaneStopsAtItsLimitAndCatchesUp(Check& check) {
    Scenario wanted = scenario(R"({"version": 1, "device": "cpu", "lanes": [{"cache": {"blocks": 40}}, {"kv_cache": false}], "requests": [)" + request("a", 4, 30) + "]}");
    wanted.model = fixtures + "tiny-gqa";
    wanted.lanes[1].uncached_limit = 10;
    auto made = Session::create(wanted, options());
    CHECK_RESULT(made);
    Session& s = **made;
    s.run();
    s.wait();
    const Recording& recording = *s.recording();
    CHECK_EQUAL(recording.lane(lane0).step_count(), std::size_t(30));
    CHECK_EQUAL(recording.lane(LaneId{1}).step_count(), std::size_t(6));
    CHECK_EQUAL(int(recording.phase()), int(Phase::paused));
    CHECK_OR_SAY(contains(recording.reason(), "limit of 10"), recording.reason());
    s.continue_uncached(8);
    s.run();
    s.wait();
    CHECK_EQUAL(recording.lane(LaneId{1}).step_count(), std::size_t(14));
    CHECK_RESULT(s.run_to_end());
    CHECK_EQUAL(recording.lane(LaneId{1}).step_count(), std::size_t(30));
    CHECK_THAT(!std::isnan(recording.lane(LaneId{1}).step(29).logit_difference));
    CHECK_EQUAL(int(recording.phase()), int(Phase::finished));
}

struct WhatIsWrongWithASessionIsSaidBeforeItStartsCase {
    std::string rest, says;
};
Cases<WhatIsWrongWithASessionIsSaidBeforeItStartsCase> whatIsWrongWithASessionIsSaidBeforeItStarts_cases() {
    Cases<WhatIsWrongWithASessionIsSaidBeforeItStartsCase> cases;
    cases.add("token", {std::string(R"("requests": [{"id": "a", "prompt_tokens": [1, 288]}])"), "token 288"});
    cases.add("forced token",
              {std::string(R"("requests": [{"id": "a", "prompt_tokens": [1], "output_tokens": [300]}])"), "token 300"});
    cases.add("no tokens", {std::string(R"("requests": [{"id": "a", "prompt_tokens": []}])"), "has no tokens"});
    cases.add("layer", {std::string(R"("requests": [], "record": {"attention": [{"layer": 2}]})"), "no layer 2"});
    cases.add("head",
              {std::string(R"("requests": [], "record": {"attention": [{"layer": 0, "heads": [4]}]})"), "no query head 4"});
    cases.add("memory",
              {std::string(R"("requests": [], "lanes": [{"cache": {"blocks": 10000000, "block_size": 1048576}}])"), "10000000 blocks"});
    cases.add("model",
              {std::string(R"("requests": [], "lanes": [{"model": "/nonexistent/model.gguf"}])"), "/nonexistent/model.gguf"});
    cases.add("device", {std::string(R"("requests": [], "lanes": [{"device": "cuda:77"}])"), "cuda"});
    return cases;
}
void whatIsWrongWithASessionIsSaidBeforeItStarts(Check& check, const WhatIsWrongWithASessionIsSaidBeforeItStartsCase& row) {
    Scenario wanted = scenario("{\"version\": 1, \"device\": \"cpu\", " + row.rest + "}");
    wanted.model = fixtures + "tiny-gqa";
    const auto made = Session::create(wanted, options());
    CHECK_THAT(!made);
    CHECK_OR_SAY(contains(made.error().message(), row.says), made.error().message());
}

void aSessionWithoutRequestsWaitsForThem(Check& check) {
    auto s = session(R"("requests": [])");
    s->step();
    s->wait();
    CHECK_EQUAL(int(s->recording()->phase()), int(Phase::finished));
    CHECK_RESULT(s->submit(submitted("a", 100, 20)));
    CHECK_RESULT(s->run_to_end());
    CHECK_EQUAL(times(*s->recording(), lane0, "a").finish_reason, "length");
}

void aSessionMayBeDestroyedInTheMiddleOfARun(Check&) {
    for (int i = 0; i < 5; ++i) {
        auto s = session(R"("requests": [)" + request("a", 3, 240) + "]");
        s->run();
        while (s->recording()->lane(lane0).step_count() == 0) std::this_thread::yield();
    }
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(aStepIsWhatTheContractSays));
    claims.add(CLAIM(aRequestThatEndsWithItsFirstTokenNeverWritesIt));
    claims.add(CLAIM(idleStepsCountAndTheLastStepEndsTheLastRequest));
    claims.add(CLAIM(theYoungerGivesWayAndGoesOnWithTheSameTokens));
    claims.add(CLAIM(whatWaitsSaysOnceWhy));
    claims.add(CLAIM(whatCanNeverRunIsRejectedAndTheOthersRun), whatCanNeverRunIsRejectedAndTheOthersRun_cases());
    claims.add(CLAIM(automaticBlocksHoldWhatTheRequestsCanUse));
    claims.add(CLAIM(cancellingFreesTheBlocks));
    claims.add(CLAIM(submittedRequestsArriveInTheNextStepOfAllLanes));
    claims.add(CLAIM(lanesOfDifferentLengthMeetAgainAtASubmit));
    claims.add(CLAIM(resetStartsTheScenarioAgainInANewRecording));
    claims.add(CLAIM(pauseStopsARunAndRunGoesOn));
    claims.add(CLAIM(anUncachedLaneStopsAtItsLimitAndCatchesUp));
    claims.add(CLAIM(whatIsWrongWithASessionIsSaidBeforeItStarts), whatIsWrongWithASessionIsSaidBeforeItStarts_cases());
    claims.add(CLAIM(aSessionWithoutRequestsWaitsForThem));
    claims.add(CLAIM(aSessionMayBeDestroyedInTheMiddleOfARun));
    return claims.rows();
}
