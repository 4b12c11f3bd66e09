// SPDX-License-Identifier: GPL-3.0-or-later
#include <QTest>

#include "engine/record/describe.h"
#include "engine/record/writer.h"
#include "tests/support/demo_recording.h"
#include "tests/support/demo_sharing.h"

using namespace kvloupe;

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

}  // namespace

class TestRequestTimes : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void timesComeFromEventsAndStepEnds();
    void forksCountFromTheStartOfTheirStep();
    void samplesAndBeamsCountFromTheArrivalOfTheirRequest_data();
    void samplesAndBeamsCountFromTheArrivalOfTheirRequest();
    void timesOfOneAndOfAllAgree();
    void rejectionGivesItsReason();
};

// a arrives in step 0, is admitted in step 1, samples in steps 2, 3 and 5.
void TestRequestTimes::timesComeFromEventsAndStepEnds() {
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
    QVERIFY(!times(0).queue_ms);
    QCOMPARE(times(1).queue_ms.value(), 11.0);
    QVERIFY(!times(1).time_to_first_token_ms);
    QCOMPARE(times(2).time_to_first_token_ms.value(), 30.0);  // 2 ms to 32 ms
    QVERIFY(times(2).inter_token_ms.empty());
    QCOMPARE(times(6).inter_token_ms, std::vector<double>({11.0, 22.0}));
    QCOMPARE(times(6).output_tokens, 3u);
    QCOMPARE(times(4).finish_reason, std::string());
    QCOMPARE(times(6).finish_reason, std::string("stop"));
}

void TestRequestTimes::timesOfOneAndOfAllAgree() {
    DemoOptions options;
    options.attention = false;
    for (const auto& recording : {demo_recording(options), demo_sharing_recording()}) {
        for (const auto& lane : recording->lanes()) {
            const std::size_t last = lane->step_count() - 1;
            const auto all = all_request_times(*recording, *lane, last);
            QCOMPARE(all.size(), lane->sequences().size());
            for (std::uint32_t i = 0; i < all.size(); ++i) {
                const RequestTimes one = request_times(*recording, *lane, SequenceId(i), last);
                QCOMPARE(one.queue_ms, all[i].queue_ms);
                QCOMPARE(one.time_to_first_token_ms, all[i].time_to_first_token_ms);
                QCOMPARE(one.inter_token_ms, all[i].inter_token_ms);
                QCOMPARE(one.finish_reason, all[i].finish_reason);
                QCOMPARE(one.reason, all[i].reason);
            }
        }
    }
}

// A fork in the middle of step 4 inherits two tokens, and samples in steps 5 and 7.
void TestRequestTimes::forksCountFromTheStartOfTheirStep() {
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
    QVERIFY(!child.queue_ms);
    QCOMPARE(child.time_to_first_token_ms.value(), 10.0);  // step 4, from 44 ms to 54 ms
    QCOMPARE(child.inter_token_ms, std::vector<double>({11.0, 22.0}));
    QCOMPARE(child.output_tokens, 4u);
    QVERIFY(!child.dropped);
    QVERIFY(times.of(0, 7).dropped);
    QVERIFY(!times.of(0, 5).dropped);
}

void TestRequestTimes::samplesAndBeamsCountFromTheArrivalOfTheirRequest_data() {
    QTest::addColumn<EventKind>("kind");
    QTest::addColumn<Cause>("cause");
    QTest::addColumn<std::uint64_t>("forkedIn");
    QTest::addColumn<double>("first");
    // The request arrives at 2 ms, and step 2, with the first token, ends at 32 ms.
    QTest::newRow("sample") << EventKind::fork << Cause::parallel_sampling << std::uint64_t{2} << 30.0;
    QTest::newRow("beam of the first choice") << EventKind::fork << Cause::beam_search << std::uint64_t{2} << 30.0;
    QTest::newRow("beam forked later") << EventKind::fork << Cause::beam_search << std::uint64_t{4} << 30.0;
    QTest::newRow("beam whose parent is preempted") << EventKind::arrive << Cause::beam_search << std::uint64_t{4} << 30.0;
}

void TestRequestTimes::samplesAndBeamsCountFromTheArrivalOfTheirRequest() {
    QFETCH(EventKind, kind);
    QFETCH(Cause, cause);
    QFETCH(std::uint64_t, forkedIn);
    QFETCH(double, first);
    Times times;
    for (std::uint64_t step = 0; step < 6; ++step) {
        times.begin(step);
        if (step == 0) times.event(EventKind::arrive, 0);
        if (step == 1) times.event(EventKind::admit, 0);
        if (step == forkedIn) times.event(kind, 1, kind == EventKind::fork ? 0 : Event{}.other, cause);
        if (step >= 2) times.token(0);
        if (step >= forkedIn) times.token(1);
        times.end(step);
    }
    QCOMPARE(times.of(1, 5).time_to_first_token_ms.value(), first);
    const auto all = all_request_times(*times.writer.recording(), times.lane.record(), 5);
    QCOMPARE(all[1].time_to_first_token_ms.value(), first);
    QVERIFY(!all[1].queue_ms);
}

void TestRequestTimes::rejectionGivesItsReason() {
    DemoOptions options;
    options.attention = false;
    options.one_lane = true;
    const auto recording = demo_recording(options);
    const LaneRecord& lane = *recording->lanes().front();
    const RequestTimes times = request_times(*recording, lane, SequenceId(3), lane.step_count() - 1);
    QCOMPARE(times.finish_reason, std::string("rejected"));
    QVERIFY(times.reason.find("d was rejected because") == 0);
    QVERIFY(!times.queue_ms);
    QCOMPARE(times.output_tokens, 0u);
}

QTEST_GUILESS_MAIN(TestRequestTimes)
#include "tst_request_times.moc"
