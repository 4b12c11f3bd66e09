// SPDX-License-Identifier: GPL-3.0-or-later
//
// The synthetic recordings must agree with themselves: whoever tests a view with them relies on it.
#include "engine/record/describe.h"
#include "engine/record/lane_state.h"
#include "engine/record/results.h"
#include "tests/support/claims.h"
#include "tests/support/demo_recording.h"

#include <cmath>
#include <map>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

// Made once: with attention it takes a while under a sanitizer.
const std::shared_ptr<const Recording>& whole() {
    static const auto recording = demo_recording();
    return recording;
}

void sameOptionsGiveTheSameRecording(Check& check) {
    const auto& first = whole();
    const auto second = demo_recording();
    CHECK_EQUAL(summary_json(*first), summary_json(*second));
    CHECK_EQUAL(events_csv(*first), events_csv(*second));
    CHECK_EQUAL(steps_csv(*first), steps_csv(*second));
}

void countersAgreeWithTheState(Check& check) {
    const auto& recording = whole();
    for (const auto& lane : recording->lanes()) {
        CHECK_EQUAL(lane->step_count(), std::size_t{200});
        LaneState state(lane->info().blocks, lane->info().block_size);
        for (std::size_t s = 0; s < lane->step_count(); ++s) {
            const StepRecord& step = lane->step(s);
            std::uint32_t used = 0;  // before release: most within the step
            for (std::uint64_t e = step.events.begin; e < step.events.end; ++e) {
                state.apply(lane->events()[e]);
                used = std::max(used, state.used_blocks());
            }
            if (step.events.size() > 0 && lane->info().kv_cache) CHECK_EQUAL(step.used_blocks, used);
            CHECK_EQUAL(step.computed_tokens, std::uint64_t{step.prefill_tokens} + step.decode_tokens);
            std::uint64_t stage_time = 0;
            const LogRange range = lane->stages_of(step.step.value);
            for (std::uint64_t i = range.begin; i < range.end; ++i)
                stage_time += lane->stages()[i].duration_ns;
            CHECK_THAT(stage_time <= step.duration_ns);
        }
        if (lane->info().kv_cache)
            CHECK_EQUAL(state.used_blocks() + state.free_order().size(), std::size_t{lane->info().blocks - 1});
    }
}

void attentionRowsSumToOne(Check& check) {
    const auto& recording = whole();
    for (const auto& lane : recording->lanes()) {
        CHECK_THAT(lane->attention().size() > 1000);
        for (std::size_t i = 0; i < lane->attention().size(); i += 37) {
            const AttentionRow& row = lane->attention()[i];
            CHECK_EQUAL(row.key_count, row.position + 1);
            double sum = 0;
            for (std::uint32_t key = 0; key < row.key_count; ++key)
                sum += static_cast<double>(lane->attention_weights()[row.weights_begin + key]);
            CHECK_THAT(std::abs(sum - 1.0) < 1e-5);
        }
    }
}

void probabilitiesAreOrderedAndBelowOne(Check& check) {
    const auto& recording = whole();
    const LaneRecord& lane = *recording->lanes().front();
    for (std::size_t t = 0; t < lane.tokens().size(); ++t) {
        const TokenRecord& token = lane.tokens()[t];
        if (token.source == TokenRecord::prompt) continue;
        CHECK_EQUAL(int{token.alternative_count}, 10);
        float sum = 0;
        for (std::uint64_t a = 0; a < 10; ++a) {
            const Alternative& one = lane.alternatives()[token.alternatives_begin + a];
            sum += one.probability;
            if (a > 0) CHECK_THAT(one.logit < lane.alternatives()[token.alternatives_begin + a - 1].logit);
        }
        CHECK_THAT(sum < 1.0f);
        CHECK_EQUAL(lane.alternatives()[token.alternatives_begin + token.rank].token, token.token);
    }
}

void hasOneOfEveryKindOfRequest(Check& check) {
    const auto& recording = whole();
    const LaneRecord& lane = *recording->lanes().front();
    const auto times = all_request_times(*recording, lane, lane.step_count() - 1);
    CHECK_EQUAL(times.size(), std::size_t{5});
    CHECK_EQUAL(times[0].finish_reason, "length");
    CHECK_EQUAL(times[1].finish_reason, std::string());
    CHECK_EQUAL(times[2].finish_reason, "length");
    CHECK_THAT(times[2].queue_ms.value() > times[0].queue_ms.value());
    CHECK_EQUAL(times[3].finish_reason, "rejected");
    CHECK_THAT(!times[4].queue_ms);  // still waits
    CHECK_EQUAL(lane.step(lane.step_count() - 1).waiting, 1u);
    CHECK_EQUAL(recording->phase(), Phase::paused);
}

void lanesWithEqualWeightsGiveEqualTokens(Check& check) {
    const auto& recording = whole();
    std::map<std::pair<std::uint32_t, std::uint32_t>, TokenId> tokens;
    const LaneRecord& cached = *recording->lanes()[1];
    const LaneRecord& uncached = *recording->lanes()[3];
    for (std::size_t t = 0; t < cached.tokens().size(); ++t)
        tokens[{cached.tokens()[t].sequence.value, cached.tokens()[t].position}] = cached.tokens()[t].token;
    for (std::size_t t = 0; t < uncached.tokens().size(); ++t) {
        const TokenRecord& token = uncached.tokens()[t];
        const auto same = tokens.find({token.sequence.value, token.position});
        if (same != tokens.end()) CHECK_EQUAL(token.token, same->second);
    }
}

void uncachedLaneMayStopEarlier(Check& check) {
    DemoOptions options;
    options.uncached_steps = 30;
    options.steps = 60;
    const auto recording = demo_recording(options);
    CHECK_EQUAL(recording->lanes()[0]->step_count(), std::size_t{60});
    CHECK_EQUAL(recording->lanes()[3]->step_count(), std::size_t{30});
}

void emptyRecordingHasLanesAndNoSteps(Check& check) {
    const auto recording = demo_empty_recording();
    CHECK_EQUAL(recording->lanes().size(), std::size_t{4});
    for (const auto& lane : recording->lanes()) CHECK_EQUAL(lane->step_count(), std::size_t{0});
    CHECK_EQUAL(recording->phase(), Phase::paused);
    CHECK_THAT(!summary_json(*recording).empty());
    CHECK_THAT(!trace_json(*recording, 1000000).empty());
    CHECK_THAT(!blocks_json(*recording).empty());
}

void sessionGrowsStepByStep(Check& check) {
    DemoOptions options;
    options.steps = 3;
    DemoSession session(options);
    CHECK_THAT(session.step());
    CHECK_EQUAL(session.recording()->lanes().front()->step_count(), std::size_t{1});
    CHECK_THAT(session.step());
    CHECK_THAT(!session.step());
    CHECK_THAT(!session.step());
    CHECK_EQUAL(session.recording()->lanes().front()->step_count(), std::size_t{3});
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(sameOptionsGiveTheSameRecording));
    claims.add(CLAIM(countersAgreeWithTheState));
    claims.add(CLAIM(attentionRowsSumToOne));
    claims.add(CLAIM(probabilitiesAreOrderedAndBelowOne));
    claims.add(CLAIM(hasOneOfEveryKindOfRequest));
    claims.add(CLAIM(lanesWithEqualWeightsGiveEqualTokens));
    claims.add(CLAIM(uncachedLaneMayStopEarlier));
    claims.add(CLAIM(emptyRecordingHasLanesAndNoSteps));
    claims.add(CLAIM(sessionGrowsStepByStep));
    return claims.rows();
}
