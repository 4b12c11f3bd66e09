// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/lane_state.h"
#include "engine/record/writer.h"
#include "tests/support/claims.h"

#include <atomic>
#include <cmath>
#include <thread>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

LaneInfo small_lane() {
    LaneInfo info;
    info.name = "lane";
    info.blocks = 8;
    info.block_size = 4;
    return info;
}

Event decode(std::uint32_t sequence, std::uint32_t position) {
    Event event;
    event.kind = EventKind::decode;
    event.sequence = SequenceId(sequence);
    event.other = position;
    event.tokens = 1;
    return event;
}

void stepsNameRangesWithoutGaps(Check& check) {
    RecordingWriter writer("t", 1 << 20);
    LaneWriter& lane = writer.add_lane(small_lane(), nullptr);
    writer.lanes_complete();
    for (std::uint32_t step = 0; step < 5; ++step) {
        CHECK_EQUAL(lane.next_step(), std::size_t{step});
        lane.begin_step();
        for (std::uint32_t i = 0; i < step; ++i) lane.event(decode(0, i));
        TokenRecord token;
        token.position = step;
        lane.token(token);
        lane.stages(step, {{StageRecord{}}});
        lane.end_step({});
    }
    const LaneRecord& record = *writer.recording()->lanes().front();
    CHECK_EQUAL(record.step_count(), std::size_t{5});
    for (std::uint32_t step = 0; step < 5; ++step) {
        CHECK_EQUAL(record.step(step).step, StepId(step));
        CHECK_EQUAL(record.step(step).events.size(), std::uint64_t{step});
        CHECK_EQUAL(record.step(step).tokens.begin, std::uint64_t{step});
        CHECK_EQUAL(record.stages_of(step).end, std::uint64_t{step} + 1);
        if (step > 0) CHECK_EQUAL(record.step(step).events.begin, record.step(step - 1).events.end);
    }
}

void eventsBetweenStepsBelongToTheNext(Check& check) {
    RecordingWriter writer("t", 0);
    LaneWriter& lane = writer.add_lane(small_lane(), nullptr);
    lane.begin_step();
    lane.end_step({});
    lane.event(decode(0, 3));
    lane.begin_step();
    lane.event(decode(0, 4));
    lane.end_step({});
    const LaneRecord& record = lane.record();
    CHECK_EQUAL(record.step(0).events.size(), std::uint64_t{0});
    CHECK_EQUAL(record.step(1).events.size(), std::uint64_t{2});
    CHECK_EQUAL(record.events()[0].offset_ns, 0u);
    CHECK_EQUAL(record.state_after(0).sequences().size(), std::size_t{0});
    CHECK_EQUAL(record.state_after(1).sequences()[0].computed_tokens, 5u);
}

void stepTimesAreMeasured(Check& check) {
    RecordingWriter writer("t", 0);
    LaneWriter& lane = writer.add_lane(small_lane(), nullptr);
    const std::uint64_t before = writer.elapsed_ns();
    lane.begin_step();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    lane.event(decode(0, 0));
    lane.end_step({});
    const StepRecord& step = lane.record().step(0);
    CHECK_THAT(step.start_ns >= before);
    CHECK_THAT(step.duration_ns >= 2000000);
    CHECK_THAT(lane.record().events()[0].offset_ns >= 2000000);
    CHECK_THAT(lane.record().events()[0].offset_ns <= step.duration_ns);
    CHECK_THAT(lane.elapsed_ns() >= step.start_ns + step.duration_ns);
}

void setTimeReplacesTheClock(Check& check) {
    RecordingWriter writer("t", 0);
    LaneWriter& lane = writer.add_lane(small_lane(), nullptr);
    writer.set_time(1000);
    lane.begin_step();
    writer.set_time(1300);
    lane.event(decode(0, 0));
    writer.set_time(2500);
    lane.end_step({});
    CHECK_EQUAL(lane.record().step(0).start_ns, std::uint64_t{1000});
    CHECK_EQUAL(lane.record().step(0).duration_ns, std::uint64_t{1500});
    CHECK_EQUAL(lane.record().events()[0].offset_ns, 300u);
    CHECK_EQUAL(writer.elapsed_ns(), std::uint64_t{2500});
}

void atMostTenAlternativesAreKept(Check& check) {
    RecordingWriter writer("t", 0);
    LaneWriter& lane = writer.add_lane(small_lane(), nullptr);
    std::vector<Alternative> alternatives(14);
    for (std::size_t i = 0; i < alternatives.size(); ++i) alternatives[i].token = static_cast<TokenId>(i);
    lane.begin_step();
    lane.token({});
    lane.token({}, alternatives);
    lane.token({}, std::span(alternatives).first(3));
    lane.end_step({});
    const LaneRecord& record = lane.record();
    CHECK_EQUAL(int{record.tokens()[0].alternative_count}, 0);
    CHECK_EQUAL(int{record.tokens()[1].alternative_count}, 10);
    CHECK_EQUAL(int{record.tokens()[2].alternative_count}, 3);
    CHECK_EQUAL(record.tokens()[2].alternatives_begin, std::uint64_t{10});
    CHECK_EQUAL(record.alternatives()[12].token, 2);
}

void attentionRowsBeyondTheBudgetAreCountedNotKept(Check& check) {
    const std::vector<float> weights = {0.25f, 0.25f, 0.5f};
    const std::uint64_t row_size = sizeof(AttentionRow) + weights.size() * sizeof(float);
    RecordingWriter writer("t", 2 * row_size + 5);
    LaneWriter& lane = writer.add_lane(small_lane(), nullptr);
    writer.lanes_complete();
    lane.begin_step();
    AttentionRow row;
    row.layer = 1;
    row.head = 2;
    row.position = 2;
    CHECK_THAT(lane.attention_row(row, weights));
    CHECK_THAT(lane.attention_row(row, weights));
    CHECK_THAT(!lane.attention_row(row, weights));
    CHECK_THAT(!lane.attention_row(row, weights));
    lane.end_step({});
    const LaneRecord& record = lane.record();
    CHECK_EQUAL(record.attention().size(), std::size_t{2});
    CHECK_EQUAL(record.dropped_attention_rows(), std::uint64_t{2});
    CHECK_EQUAL(record.step(0).attention.size(), std::uint64_t{2});
    CHECK_EQUAL(record.attention()[1].key_count, 3u);
    CHECK_EQUAL(record.attention()[1].weights_begin, std::uint64_t{3});
    for (std::size_t i = 0; i < weights.size(); ++i) CHECK_EQUAL(record.attention_weights()[3 + i], weights[i]);
}

void budgetIsDividedAmongLanes(Check& check) {
    const std::vector<float> weights(100, 0.01f);
    const std::uint64_t row_size = sizeof(AttentionRow) + weights.size() * sizeof(float);
    RecordingWriter writer("t", 4 * row_size);
    writer.add_lane(small_lane(), nullptr);
    writer.add_lane(small_lane(), nullptr);
    writer.lanes_complete();
    for (std::uint32_t i = 0; i < 2; ++i) {
        LaneWriter& lane = writer.lane(LaneId(i));
        lane.begin_step();
        for (int row = 0; row < 5; ++row) lane.attention_row({}, weights);
        lane.end_step({});
        CHECK_EQUAL(lane.record().attention().size(), std::size_t{2});
        CHECK_EQUAL(lane.record().dropped_attention_rows(), std::uint64_t{3});
    }
}

void failedStepIsPublishedWhole(Check& check) {
    RecordingWriter writer("t", 0);
    LaneWriter& lane = writer.add_lane(small_lane(), nullptr);
    CHECK_THAT(lane.record().failure().empty());
    lane.begin_step();
    Event allocate;
    allocate.kind = EventKind::allocate;
    allocate.sequence = SequenceId(0);
    allocate.block = BlockId(1);
    allocate.other = 0;
    lane.event(allocate);
    StepRecord counters;
    counters.used_blocks = 1;
    lane.fail_step(counters, "layer 3 gave logits that are not finite");
    CHECK_EQUAL(lane.record().failure(), "layer 3 gave logits that are not finite");
    CHECK_EQUAL(lane.record().step_count(), std::size_t{1});
    CHECK_EQUAL(lane.record().step(0).events.size(), std::uint64_t{1});
    CHECK_EQUAL(lane.record().state_after(0).used_blocks(), lane.record().step(0).used_blocks);
    // The lane goes on after a reset of its requests: no gap, no overlap.
    allocate.kind = EventKind::free;
    allocate.other = 0;
    lane.event(allocate);
    lane.begin_step();
    lane.end_step({});
    CHECK_EQUAL(lane.record().step(1).events.begin, std::uint64_t{1});
    CHECK_EQUAL(lane.record().state_after(1).used_blocks(), 0u);
}

void stringsAreInternedOnce(Check& check) {
    RecordingWriter writer("t", 0);
    LaneWriter& lane = writer.add_lane(small_lane(), nullptr);
    const StringId one = lane.intern("a reason");
    CHECK_EQUAL(lane.intern("another"), StringId(1));
    CHECK_EQUAL(lane.intern("a reason"), one);
    CHECK_EQUAL(lane.record().strings().size(), std::size_t{2});
    CHECK_EQUAL(lane.record().strings()[one.value], "a reason");
}

void reasonIsSetBeforeThePhase(Check& check) {
    RecordingWriter writer("t", 7);
    const auto recording = writer.recording();
    CHECK_EQUAL(recording->phase(), Phase::loading);
    CHECK_EQUAL(recording->memory_budget_bytes(), std::uint64_t{7});
    std::atomic<bool> wrong{false};
    std::thread reader([&] {
        while (recording->phase() != Phase::failed) std::this_thread::yield();
        if (recording->reason() != "it broke") wrong = true;
    });
    writer.set_phase(Phase::running);
    writer.set_phase(Phase::failed, "it broke");
    reader.join();
    CHECK_THAT(!wrong);
}

// Under ThreadSanitizer this shows that readers need no lock; everywhere it shows that a step is published last.
void readersSeeOnlyWholeSteps(Check& check) {
    constexpr std::uint32_t steps = 6000;
    RecordingWriter writer("t", 1 << 20);
    LaneWriter& lane = writer.add_lane(small_lane(), nullptr);
    writer.lanes_complete();
    const auto recording = writer.recording();
    std::atomic<bool> wrong{false};
    std::thread reader([&] {
        const LaneRecord& record = *recording->lanes().front();
        std::size_t seen = 0;
        while (seen < steps) {
            const std::size_t count = record.step_count();
            if (count == seen) {
                std::this_thread::yield();
                continue;
            }
            for (; seen < count; ++seen) {
                const StepRecord& step = record.step(seen);
                if (step.running != seen || step.events.size() != 2 || step.tokens.size() != 1) wrong = true;
                for (std::uint64_t e = step.events.begin; e < step.events.end; ++e)
                    if (record.events()[e].other != seen) wrong = true;
                const TokenRecord& token = record.tokens()[step.tokens.begin];
                if (token.position != seen || record.alternatives()[token.alternatives_begin].token !=
                                                  static_cast<TokenId>(seen))
                    wrong = true;
            }
            if (record.state_after(count - 1).sequences()[0].computed_tokens != count) wrong = true;
        }
    });
    for (std::uint32_t step = 0; step < steps; ++step) {
        lane.begin_step();
        lane.event(decode(0, step));
        lane.event(decode(0, step));
        TokenRecord token;
        token.position = step;
        const Alternative alternative{static_cast<TokenId>(step), 1.0f, 0.0f};
        lane.token(token, {&alternative, 1});
        StepRecord counters;
        counters.running = step;
        lane.end_step(counters);
    }
    reader.join();
    CHECK_THAT(!wrong);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(stepsNameRangesWithoutGaps));
    claims.add(CLAIM(eventsBetweenStepsBelongToTheNext));
    claims.add(CLAIM(stepTimesAreMeasured));
    claims.add(CLAIM(setTimeReplacesTheClock));
    claims.add(CLAIM(atMostTenAlternativesAreKept));
    claims.add(CLAIM(attentionRowsBeyondTheBudgetAreCountedNotKept));
    claims.add(CLAIM(budgetIsDividedAmongLanes));
    claims.add(CLAIM(failedStepIsPublishedWhole));
    claims.add(CLAIM(stringsAreInternedOnce));
    claims.add(CLAIM(reasonIsSetBeforeThePhase));
    claims.add(CLAIM(readersSeeOnlyWholeSteps));
    return claims.rows();
}
