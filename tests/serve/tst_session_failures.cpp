// SPDX-License-Identifier: GPL-3.0-or-later
//
// A step that fails says why, ends the requests it cannot go on with, and leaves the session usable.
#include "tests/serve/failing_backend.h"
#include "tests/serve/support.h"
#include "tests/support/claims.h"
#include "tests/support/texts.h"

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

std::unique_ptr<Session> failing(const std::string& rest, const std::shared_ptr<Sabotage>& sabotage) {
    SessionOptions given = options();
    given.make_backend = [sabotage](const std::string& device) -> Result<std::unique_ptr<Backend>> {
        auto real = make_backend(BackendOptions{device, 2});
        if (!real) return real.error();
        return std::unique_ptr<Backend>(std::make_unique<FailingBackend>(std::move(*real), sabotage));
    };
    return session(rest, std::move(given));
}

const char* const three_requests_head = R"("lanes": [{"cache": {"block_size": 4, "blocks": 40}}], "requests": [)";

struct ABackendErrorEndsTheRequestsOfTheStepCase {
    std::string where, says;
};
Cases<ABackendErrorEndsTheRequestsOfTheStepCase> aBackendErrorEndsTheRequestsOfTheStep_cases() {
    Cases<ABackendErrorEndsTheRequestsOfTheStepCase> cases;
    cases.add("begin_batch", {"begin_batch", "fell off the bus"});
    cases.add("read", {"read", "answered with an error"});
    return cases;
}
void aBackendErrorEndsTheRequestsOfTheStep(Check& check, const ABackendErrorEndsTheRequestsOfTheStepCase& row) {
    auto sabotage = std::make_shared<Sabotage>();
    auto s = failing(three_requests_head + request("a", 3, 8) + "," + request("b", 5, 8) + "," + request("late", 2, 3, ", \"arrival_step\": 5") + "]", sabotage);
    (row.where == "read" ? sabotage->read : sabotage->begin_batch) = 3;
    s->run();
    s->wait();
    const Recording& recording = *s->recording();
    // The window stops and says why.
    CHECK_EQUAL(int(recording.phase()), int(Phase::paused));
    CHECK_OR_SAY(contains(recording.reason(), row.says), recording.reason());
    CHECK_THAT(recording.reason().find("Step 3 of lane 'cached'") != std::string::npos);
    CHECK_EQUAL(recording.lane(lane0).step_count(), std::size_t(4));  // the failing step stands in the recording
    CHECK_THAT(!recording.lane(lane0).failure().empty());
    for (const char* id : {"a", "b"}) {
        CHECK_EQUAL(times(recording, lane0, id).finish_reason, "failed");
        CHECK_THAT(contains(times(recording, lane0, id).reason, row.says));
        CHECK_EQUAL(outputs(recording, lane0, id).size(), std::size_t(3));
    }
    CHECK_EQUAL(recording.lane(lane0).state_after(3).used_blocks(), 0u);
    // The session goes on with what can run.
    CHECK_RESULT(s->submit(submitted("new", 4, 3)));
    CHECK_RESULT(s->run_to_end());
    CHECK_EQUAL(times(recording, lane0, "late").finish_reason, "length");
    CHECK_EQUAL(times(recording, lane0, "new").finish_reason, "length");
    CHECK_THAT(recording.lane(lane0).failure().empty());
    s->reset();
    CHECK_RESULT(s->run_to_end());
    CHECK_EQUAL(times(*s->recording(), lane0, "a").finish_reason, "length");
}

void aLostDeviceTakesItsLaneDownAndNoOther(Check& check) {
    const auto sabotage = std::make_shared<Sabotage>();
    SessionOptions given = options();
    given.make_backend = [sabotage](const std::string& device) -> Result<std::unique_ptr<Backend>> {
        auto real = make_backend(BackendOptions{"cpu", 2});
        if (!real || device == "cpu") return real;
        return std::unique_ptr<Backend>(std::make_unique<FailingBackend>(std::move(*real), sabotage));
    };
    auto s = session(R"("lanes": [{"name": "card", "device": "cuda:0", "cache": {"block_size": 4, "blocks": 40}},
                                  {"name": "host", "cache": {"block_size": 4, "blocks": 40}}],
                        "requests": [)" + request("a", 3, 8) + "," + request("late", 3, 4, ", \"arrival_step\": 6") + "]", std::move(given));
    s->step(3);
    s->wait();
    sabotage->lost = true;
    s->run();
    s->wait();
    const Recording& recording = *s->recording();
    CHECK_EQUAL(int(recording.phase()), int(Phase::paused));
    const std::string says = recording.reason();
    CHECK_EQUAL(says, "Step 3 of lane 'card' failed: the device is lost. Choose another one.");
    CHECK_THAT(!s->run_to_end());  // it says so at the end too
    // All that was recorded is there, and the lane on the other device has done its work.
    CHECK_EQUAL(outputs(recording, lane0, "a").size(), std::size_t(3));
    for (const char* id : {"a", "late"}) {
        CHECK_EQUAL(times(recording, lane0, id).finish_reason, "failed");
        CHECK_EQUAL(times(recording, LaneId{1}, id).finish_reason, "length");
    }
    CHECK_EQUAL(recording.lane(lane0).state_after(recording.lane(lane0).step_count() - 1).used_blocks(), 0u);
    CHECK_RESULT(s->submit(submitted("more", 3, 2)));
    CHECK_THAT(!s->run_to_end());
    CHECK_EQUAL(times(recording, LaneId{1}, "more").finish_reason, "length");
}

void aRunWhoseRequestsFailedSaysSo(Check& check) {
    auto sabotage = std::make_shared<Sabotage>();
    auto s = failing(three_requests_head + request("a", 3, 8) + "]", sabotage);
    sabotage->begin_batch = 2;
    const auto ran = s->run_to_end();
    CHECK_THAT(!ran);
    CHECK_THAT(contains(ran.error().message(), "fell off the bus"));
    CHECK_EQUAL(int(s->recording()->phase()), int(Phase::failed));
}

void noMemoryForAStepFailsItAndNotTheProgram(Check& check) {
    auto sabotage = std::make_shared<Sabotage>();
    auto s = failing(three_requests_head + request("a", 3, 2) + "]", sabotage);
    sabotage->buffers = 0;
    CHECK_THAT(!s->run_to_end());
    CHECK_THAT(times(*s->recording(), lane0, "a").reason.find("no memory") != std::string::npos);
    CHECK_RESULT(s->submit(submitted("b", 3, 2)));
    CHECK_RESULT(s->run_to_end());
    CHECK_EQUAL(times(*s->recording(), lane0, "b").finish_reason, "length");
}

struct NotFiniteLogitsNameTheFirstLayerCase {
    bool cached;
    int layer;
};
Cases<NotFiniteLogitsNameTheFirstLayerCase> notFiniteLogitsNameTheFirstLayer_cases() {
    Cases<NotFiniteLogitsNameTheFirstLayerCase> cases;
    for (const int layer : {0, 1}) {
        cases.add(printed("cached, layer %d", layer), {true, layer});
        cases.add(printed("uncached, layer %d", layer), {false, layer});
    }
    return cases;
}
void notFiniteLogitsNameTheFirstLayer(Check& check, const NotFiniteLogitsNameTheFirstLayerCase& row) {
    auto sabotage = std::make_shared<Sabotage>();
    sabotage->nan_layer = row.layer;
    sabotage->nan_row_token = 42;  // the third forced token of a, so the step that computes it
    const std::string lane = row.cached ? R"({"name": "x", "cache": {"blocks": 40}})" : R"({"name": "x", "kv_cache": false})";
    auto s = failing("\"lanes\": [" + lane + R"(], "requests": [)" + request("a", 2, 8) + "]", sabotage);
    s->run();
    s->wait();
    const Recording& recording = *s->recording();
    CHECK_EQUAL(times(recording, lane0, "a").finish_reason, "failed");
    const std::string says = recording.reason();
    CHECK_OR_SAY(contains(says, "layer " + std::to_string(row.layer) + ", in its attention half"), says);
    CHECK_OR_SAY(contains(says, "request 'a'"), says);
    CHECK_EQUAL(outputs(recording, lane0, "a").size(), std::size_t(3));  // no token was sampled from that step
    CHECK_EQUAL(recording.lane(lane0).step_count(), std::size_t(4));
    sabotage->nan_layer = -1;
    s->reset();
    CHECK_RESULT(s->run_to_end());
    CHECK_EQUAL(times(*s->recording(), lane0, "a").finish_reason, "length");
}

void requestsWithFiniteLogitsGoOn(Check& check) {
    // Without a cache every sequence is a batch of its own, so that only the one with the token fails.
    auto sabotage = std::make_shared<Sabotage>();
    sabotage->nan_layer = 1;
    sabotage->nan_row_token = 99;
    auto s = failing(R"("lanes": [{"kv_cache": false}], "requests": [{"id": "bad", "prompt_tokens": [5, 99], "max_new_tokens": 3}, )" + request("good", 3, 4) + "]", sabotage);
    s->run();
    s->wait();
    CHECK_EQUAL(int(s->recording()->phase()), int(Phase::paused));
    CHECK_EQUAL(outputs(*s->recording(), lane0, "good").size(), std::size_t(0));
    s->run();
    s->wait();
    const Recording& recording = *s->recording();
    CHECK_EQUAL(times(recording, lane0, "bad").finish_reason, "failed");
    CHECK_EQUAL(times(recording, lane0, "good").finish_reason, "length");
    CHECK_EQUAL(recording.lane(lane0).step_count(), std::size_t(5));  // the failed step was repeated for the good one
}

void aSourceThatFailsIsAnErrorOfCreate(Check& check) {
    SessionOptions given = options();
    given.find_model = [](const std::string&) -> Result<std::shared_ptr<const Model>> { return Error{"no such model", "Look elsewhere."}; };
    const auto made = Session::create(scenario(R"({"version": 1, "requests": []})"), std::move(given));
    CHECK_THAT(!made);
    CHECK_EQUAL(made.error().message(), std::string("Lane 'cached': no such model. Look elsewhere."));
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(aBackendErrorEndsTheRequestsOfTheStep), aBackendErrorEndsTheRequestsOfTheStep_cases());
    claims.add(CLAIM(aLostDeviceTakesItsLaneDownAndNoOther));
    claims.add(CLAIM(aRunWhoseRequestsFailedSaysSo));
    claims.add(CLAIM(noMemoryForAStepFailsItAndNotTheProgram));
    claims.add(CLAIM(notFiniteLogitsNameTheFirstLayer), notFiniteLogitsNameTheFirstLayer_cases());
    claims.add(CLAIM(requestsWithFiniteLogitsGoOn));
    claims.add(CLAIM(aSourceThatFailsIsAnErrorOfCreate));
    return claims.rows();
}
