// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/describe.h"
#include "engine/record/writer.h"
#include "tests/support/claims.h"
#include "tests/support/demo_recording.h"
#include "tests/support/demo_sharing.h"

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

// Steps of 10 ms with 1 ms between them, whose events happen 2 ms after their beginning. Sequence 1 is a child of 0.
struct Times {
    static constexpr std::uint64_t ms = 1000000;
    RecordingWriter writer{"times", 0};
    LaneWriter& lane = writer.add_lane({}, nullptr);

    Times() {
        writer.lanes_complete();
        RequestInfo request;
        request.id = "a";
        writer.add_request(request);
        lane.add_sequence({RequestId(0), SequenceId::none(), 0});
        lane.add_sequence({RequestId(0), SequenceId(0), 5, 3, "a.1"});
    }
    void begin(std::uint64_t step) {
        writer.set_time(step * 11 * ms);
        lane.begin_step();
        writer.set_time(step * 11 * ms + 2 * ms);
    }
    void event(EventKind kind, std::uint32_t sequence, std::uint32_t other = Event{}.other, Cause cause = Cause::none) {
        Event event;
        event.kind = kind;
        event.cause = cause;
        event.sequence = SequenceId(sequence);
        event.other = other;
        lane.event(event);
    }
    void token(std::uint32_t sequence, TokenRecord::Source source = TokenRecord::sampled) {
        TokenRecord token;
        token.sequence = SequenceId(sequence);
        token.source = source;
        lane.token(token);
    }
    void end(std::uint64_t step) {
        writer.set_time(step * 11 * ms + 10 * ms);
        lane.end_step({});
    }
    RequestTimes of(std::uint32_t sequence, std::size_t last) const {
        return request_times(*writer.recording(), lane.record(), SequenceId(sequence), last);
    }
};

// a arrives in step 0, is admitted in step 1, samples in steps 2, 3 and 5.
void timesComeFromEventsAndStepEnds(Check& check) {
    Times steps;
    for (std::uint64_t step = 0; step < 7; ++step) {
        steps.begin(step);
        if (step == 0) steps.event(EventKind::arrive, 0);
        if (step == 1) steps.event(EventKind::admit, 0);
        if (step == 2 || step == 3 || step == 5) steps.token(0, step == 3 ? TokenRecord::forced : TokenRecord::sampled);
        if (step == 5) steps.event(EventKind::finish, 0, Event{}.other, Cause::end_of_sequence);
        steps.end(step);
    }
    const auto times = [&](std::size_t last) { return steps.of(0, last); };
    CHECK_THAT(!times(0).queue_ms);
    CHECK_EQUAL(times(1).queue_ms.value(), 11.0);
    CHECK_THAT(!times(1).time_to_first_token_ms);
    CHECK_EQUAL(times(2).time_to_first_token_ms.value(), 30.0);  // 2 ms to 32 ms
    CHECK_THAT(times(2).inter_token_ms.empty());
    CHECK_EQUAL(times(6).inter_token_ms, std::vector<double>({11.0, 22.0}));
    CHECK_EQUAL(times(6).output_tokens, 3u);
    CHECK_EQUAL(times(4).finish_reason, std::string());
    CHECK_EQUAL(times(6).finish_reason, "stop");
}

// A fork in the middle of step 4 inherits two tokens, and samples in steps 5 and 7.
void forksCountFromTheStartOfTheirStep(Check& check) {
    Times times;
    for (std::uint64_t step = 0; step < 8; ++step) {
        times.begin(step);
        if (step == 0) times.event(EventKind::arrive, 0);
        if (step == 1) times.event(EventKind::admit, 0);
        if (step == 2 || step == 3) times.token(0);
        if (step == 4) {
            times.event(EventKind::fork, 1, 0);
            times.token(1);
            times.token(1);
        }
        if (step == 5 || step == 7) times.token(1);
        if (step == 6) times.event(EventKind::finish, 0, Event{}.other, Cause::beam_dropped);
        times.end(step);
    }
    const RequestTimes child = times.of(1, 7);
    CHECK_THAT(!child.queue_ms);
    CHECK_EQUAL(child.time_to_first_token_ms.value(), 10.0);  // step 4, from 44 ms to 54 ms
    CHECK_EQUAL(child.inter_token_ms, std::vector<double>({11.0, 22.0}));
    CHECK_EQUAL(child.output_tokens, 4u);
    CHECK_THAT(!child.dropped);
    CHECK_THAT(times.of(0, 7).dropped);
    CHECK_THAT(!times.of(0, 5).dropped);
}

struct SamplesAndBeamsCountFromTheArrivalOfTheirRequestCase {
    EventKind kind;
    Cause cause;
    std::uint64_t forkedIn;
    double first;
};
Cases<SamplesAndBeamsCountFromTheArrivalOfTheirRequestCase> samplesAndBeamsCountFromTheArrivalOfTheirRequest_cases() {
    Cases<SamplesAndBeamsCountFromTheArrivalOfTheirRequestCase> cases;
    // The request arrives at 2 ms, and step 2, with the first token, ends at 32 ms.
    cases.add("sample", {EventKind::fork, Cause::parallel_sampling, std::uint64_t{2}, 30.0});
    cases.add("beam of the first choice", {EventKind::fork, Cause::beam_search, std::uint64_t{2}, 30.0});
    cases.add("beam forked later", {EventKind::fork, Cause::beam_search, std::uint64_t{4}, 30.0});
    cases.add("beam whose parent is preempted", {EventKind::arrive, Cause::beam_search, std::uint64_t{4}, 30.0});
    return cases;
}
void samplesAndBeamsCountFromTheArrivalOfTheirRequest(Check& check, const SamplesAndBeamsCountFromTheArrivalOfTheirRequestCase& row) {
    Times times;
    for (std::uint64_t step = 0; step < 6; ++step) {
        times.begin(step);
        if (step == 0) times.event(EventKind::arrive, 0);
        if (step == 1) times.event(EventKind::admit, 0);
        if (step == row.forkedIn) times.event(row.kind, 1, row.kind == EventKind::fork ? 0 : Event{}.other, row.cause);
        if (step >= 2) times.token(0);
        if (step >= row.forkedIn) times.token(1);
        times.end(step);
    }
    CHECK_EQUAL(times.of(1, 5).time_to_first_token_ms.value(), row.first);
    const auto all = all_request_times(*times.writer.recording(), times.lane.record(), 5);
    CHECK_EQUAL(all[1].time_to_first_token_ms.value(), row.first);
    CHECK_THAT(!all[1].queue_ms);
}

void timesOfOneAndOfAllAgree(Check& check) {
    DemoOptions options;
    options.attention = false;
    for (const auto& recording : {demo_recording(options), demo_sharing_recording()}) {
        for (const auto& lane : recording->lanes()) {
            const std::size_t last = lane->step_count() - 1;
            const auto all = all_request_times(*recording, *lane, last);
            CHECK_EQUAL(all.size(), lane->sequences().size());
            for (std::uint32_t i = 0; i < all.size(); ++i) {
                const RequestTimes one = request_times(*recording, *lane, SequenceId(i), last);
                CHECK_EQUAL(one.queue_ms, all[i].queue_ms);
                CHECK_EQUAL(one.time_to_first_token_ms, all[i].time_to_first_token_ms);
                CHECK_EQUAL(one.inter_token_ms, all[i].inter_token_ms);
                CHECK_EQUAL(one.finish_reason, all[i].finish_reason);
                CHECK_EQUAL(one.reason, all[i].reason);
            }
        }
    }
}

void rejectionGivesItsReason(Check& check) {
    DemoOptions options;
    options.attention = false;
    options.one_lane = true;
    const auto recording = demo_recording(options);
    const LaneRecord& lane = *recording->lanes().front();
    const RequestTimes times = request_times(*recording, lane, SequenceId(3), lane.step_count() - 1);
    CHECK_EQUAL(times.finish_reason, "rejected");
    CHECK_THAT(times.reason.find("d was rejected because") == 0);
    CHECK_THAT(!times.queue_ms);
    CHECK_EQUAL(times.output_tokens, 0u);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(timesComeFromEventsAndStepEnds));
    claims.add(CLAIM(forksCountFromTheStartOfTheirStep));
    claims.add(CLAIM(samplesAndBeamsCountFromTheArrivalOfTheirRequest), samplesAndBeamsCountFromTheArrivalOfTheirRequest_cases());
    claims.add(CLAIM(timesOfOneAndOfAllAgree));
    claims.add(CLAIM(rejectionGivesItsReason));
    return claims.rows();
}
