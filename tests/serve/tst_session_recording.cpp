// SPDX-License-Identifier: GPL-3.0-or-later
//
// What a session records on request: breakpoints, attention rows, stages; and that it can be read while it is written.
#include "tests/serve/support.h"
#include "tests/support/claims.h"
#include "tests/support/texts.h"

#include <atomic>
#include <thread>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

struct BreakpointsStopTheWindowAndAreNotedByARunCase {
    std::string breakpoint;
    int stopsAfterSteps;
    std::string says;
};
Cases<BreakpointsStopTheWindowAndAreNotedByARunCase> breakpointsStopTheWindowAndAreNotedByARun_cases() {
    Cases<BreakpointsStopTheWindowAndAreNotedByARunCase> cases;
    cases.add("step", {std::string(R"({"step": 2})"), 3, "step 2"});
    cases.add("event", {std::string(R"({"on": "finish"})"), 4, "b ended"});
    cases.add("event of a request", {std::string(R"({"on": "finish", "request": "a"})"), 9, "a ended"});
    cases.add("block", {std::string(R"({"block": 3, "on": "allocate"})"), 1, "block 3"});
    cases.add("block given back", {std::string(R"({"block": 3, "on": "free"})"), 4, "block 3"});
    cases.add("token", {std::string(R"({"token": 45, "request": "a"})"), 6, "token 45"});
    cases.add("used blocks", {std::string(R"({"used_blocks": 4})"), 3, "4 blocks are in use"});
    cases.add("lane", {std::string(R"({"step": 1, "lane": "cached"})"), 2, "'cached'"});
    return cases;
}
void breakpointsStopTheWindowAndAreNotedByARun(Check& check, const BreakpointsStopTheWindowAndAreNotedByARunCase& row) {
    const std::string rest = R"("lanes": [{"cache": {"block_size": 4, "blocks": 20}}], "breakpoints": [)" + row.breakpoint +
                            R"(], "requests": [)" + request("a", 5, 9) + "," + request("b", 3, 4) + "]";
    auto s = session(rest);
    s->run();
    s->wait();
    CHECK_EQUAL(int(s->recording()->lane(lane0).step_count()), row.stopsAfterSteps);
    if (row.stopsAfterSteps < 9) {
        CHECK_EQUAL(int(s->recording()->phase()), int(Phase::paused));
        CHECK_OR_SAY(contains(s->recording()->reason(), row.says), s->recording()->reason());
    }
    s->reset();
    CHECK_RESULT(s->run_to_end());
    CHECK_EQUAL(s->recording()->lane(lane0).step_count(), std::size_t(9));
    CHECK_THAT(!s->breakpoint_notes().empty());  // a later step may hold it again
    CHECK_OR_SAY(contains(s->breakpoint_notes()[0], row.says), s->breakpoint_notes()[0]);
    s->set_breakpoints({});
    s->reset();
    s->run();
    s->wait();
    CHECK_EQUAL(int(s->recording()->phase()), int(Phase::finished));
    CHECK_THAT(s->breakpoint_notes().empty());
}

void watchedHeadsGiveARowPerPosition(Check& check) {
    SessionOptions given = options();
    given.default_attention = std::vector<AttentionWatch>{{1, {2}}, {77, {}}};  // what the model lacks is left out
    auto s = session(R"("lanes": [{"cache": {"block_size": 4, "dtype": "f32"}}, {"name": "uncached", "kv_cache": false}], "requests": [)" + request("a", 5, 4) + "]", std::move(given));
    CHECK_RESULT(s->run_to_end());
    for (const std::uint32_t id : {0u, 1u}) {
        const LaneRecord& lane = s->recording()->lane(LaneId{id});
        CHECK_EQUAL(lane.attention().size(), std::size_t(8));
        for (std::uint32_t i = 0; i < 8; ++i) {
            const AttentionRow& row = lane.attention()[i];
            CHECK_EQUAL(row.position, i);
            CHECK_EQUAL(row.key_count, i + 1);
            CHECK_EQUAL(int(row.layer), 1);
            CHECK_EQUAL(int(row.head), 2);
            double sum = 0;
            for (std::uint32_t k = 0; k < row.key_count; ++k) {
                const float weight = lane.attention_weights()[row.weights_begin + k];
                CHECK_THAT(weight >= 0);
                sum += double(weight);
                const AttentionRow& first = s->recording()->lane(lane0).attention()[i];
                CHECK_THAT(std::fabs(weight - s->recording()->lane(lane0).attention_weights()[first.weights_begin + k]) < 1e-5f);
            }
            CHECK_THAT(std::fabs(sum - 1) < 1e-5);
        }
    }
    s->set_watch({{0, {}}});
    CHECK_EQUAL(s->watch().size(), std::size_t(1));
    s->reset();
    CHECK_RESULT(s->run_to_end());
    CHECK_EQUAL(s->recording()->lane(lane0).attention().size(), std::size_t(8 * 4));
}

void stagesAreMeasuredEveryNthStep(Check& check) {
    auto s = session(R"("record": {"stages_every": 3}, "requests": [)" + request("a", 5, 7) + "]");
    CHECK_RESULT(s->run_to_end());
    const LaneRecord& lane = s->recording()->lane(lane0);
    for (std::size_t i = 0; i < 7; ++i) CHECK_EQUAL(lane.stages_of(i).size() > 0, i % 3 == 0);
    // 2 layers of 9 stages each, and schedule, embed, output norm, logits, sample.
    CHECK_EQUAL(lane.stages_of(3).size(), std::uint64_t(23));
    std::uint64_t flops = 0;
    for (std::uint64_t i = lane.stages_of(3).begin; i < lane.stages_of(3).end; ++i) {
        const StageRecord& stage = lane.stages()[i];
        CHECK_EQUAL(stage.calls, 1u);
        if (stage.kind == StageKind::down) CHECK_EQUAL(stage.flops, std::uint64_t(2 * 32 * 64));
        if (stage.kind == StageKind::attention) CHECK_EQUAL(stage.flops, std::uint64_t(4 * 8 * 32));  // 8 keys, 4 heads of 8
        flops += stage.flops;
    }
    CHECK_THAT(flops > 2 * 288 * 32);
}

void howOftenStagesAreMeasuredCanBeChangedWhileItRuns(Check& check) {
    auto s = session(R"("requests": [)" + request("a", 5, 30) + "]");
    CHECK_EQUAL(s->stages_every(), 1u);
    const auto measured = [&s](std::size_t step) { return s->recording()->lane(lane0).stages_of(step).size() > 0; };
    const auto steps = [&s](std::uint32_t every, std::uint32_t count) {
        s->set_stages_every(every);
        s->step(count);
        s->wait();
    };
    steps(1, 3);
    steps(0, 5);
    steps(5, 12);
    CHECK_EQUAL(s->stages_every(), 5u);
    for (std::size_t step = 0; step < 20; ++step)
        CHECK_EQUAL(measured(step), step < 3 || (step >= 8 && step % 5 == 0));
    s->reset();  // as it was set, not as the scenario says
    s->step(6);
    s->wait();
    for (std::size_t step = 0; step < 6; ++step) CHECK_EQUAL(measured(step), step % 5 == 0);
}

// Under ThreadSanitizer this is the test that a reader needs no lock.
void aReaderSeesOnlyWholeStepsWhileTheWorkerRuns(Check& check) {
    auto s = session(R"("lanes": [{"cache": {"block_size": 4, "blocks": 200}}, {"name": "uncached", "kv_cache": false}], "requests": [)" +
                     request("a", 5, 120) + "," + request("b", 30, 60, ", \"arrival_step\": 5") + "]");
    std::atomic<bool> done{false};
    std::atomic<int> bad{0};
    std::thread reader([&] {
        std::uint64_t seen = 0;
        while (!done) {
            const auto recording = s->recording();
            const Phase phase = recording->phase();
            for (const auto& lane : recording->lanes()) {
                const std::size_t count = lane->step_count();
                if (count == 0) continue;
                const StepRecord& step = lane->step(count - 1);
                const LaneState state = lane->state_after(count - 1);
                std::uint64_t slots = step.slots.token + step.slots.cached + step.slots.reserved + step.slots.internal + step.slots.external + step.slots.free;
                if (lane->info().kv_cache && slots != 199 * 4) ++bad;
                for (std::uint64_t i = step.events.begin; i < step.events.end; ++i)
                    seen += describe_cause(*recording, *lane, lane->events()[i]).size();
                for (std::uint64_t i = step.tokens.begin; i < step.tokens.end; ++i) seen += lane->tokens()[i].rank;
                seen += state.used_blocks();
            }
            seen += recording->reason().size() + std::size_t(phase) + recording->memory_bytes();
        }
        if (seen == 0) ++bad;
    });
    s->run();
    s->step(3);
    for (int i = 0; i < 5; ++i) {
        const std::string id = "s" + std::to_string(i);
        CHECK_RESULT(s->submit(submitted(id.data(), 3 + i, 10)));
        s->set_watch({{0, {0}}});
    }
    s->cancel("s3");
    s->wait();
    s->reset();
    s->run();
    s->wait();
    done = true;
    reader.join();
    CHECK_EQUAL(int(bad), 0);
    CHECK_EQUAL(s->recording()->lane(lane0).step_count(), std::size_t(120));
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(breakpointsStopTheWindowAndAreNotedByARun), breakpointsStopTheWindowAndAreNotedByARun_cases());
    claims.add(CLAIM(watchedHeadsGiveARowPerPosition));
    claims.add(CLAIM(stagesAreMeasuredEveryNthStep));
    claims.add(CLAIM(howOftenStagesAreMeasuredCanBeChangedWhileItRuns));
    claims.add(CLAIM(aReaderSeesOnlyWholeStepsWhileTheWorkerRuns));
    return claims.rows();
}
