// SPDX-License-Identifier: GPL-3.0-or-later
#include <QTest>

#include "engine/record/recount.h"
#include "tests/support/demo_recording.h"

using namespace kvloupe;

namespace {

Event make(EventKind kind, Cause cause, std::uint32_t block, std::uint32_t other, std::uint32_t tokens) {
    Event event;
    event.kind = kind;
    event.cause = cause;
    event.sequence = SequenceId(0);
    if (block > 0) event.block = BlockId(block);
    event.other = other;
    event.tokens = tokens;
    return event;
}

}  // namespace

class TestRecount : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void slotsNeverWrittenBecomeInternalOnceTheSequenceEnded();
    void peakCountsMomentsWithinAStep();
    void livingSequencesKeepTheirPrediction();
    void sumsStayAsRecorded();
};

// Prompt 5, up to 20 new tokens, block size 16: written are at most 24 slots. It stops after 3 outputs: 7 slots.
void TestRecount::slotsNeverWrittenBecomeInternalOnceTheSequenceEnded() {
    LaneInfo info;
    info.blocks = 4;
    info.block_size = 16;
    RecordingWriter writer("t", 0);
    LaneWriter& lane = writer.add_lane(info, nullptr);
    RequestInfo request;
    request.id = "a";
    request.prompt = {1, 2, 3, 4, 5};
    request.max_new_tokens = 20;
    writer.add_request(request);
    lane.add_sequence({RequestId(0), SequenceId::none(), 0});
    for (std::uint32_t step = 0; step < 3; ++step) {
        lane.begin_step();
        if (step == 0) {
            lane.event(make(EventKind::arrive, Cause::arrival_step_reached, 0, Event{}.other, 5));
            lane.event(make(EventKind::admit, Cause::fits_beside_running, 0, Event{}.other, 5));
            lane.event(make(EventKind::allocate, Cause::first_slot_of_block, 1, 0, 0));
            lane.event(make(EventKind::prefill, Cause::whole_prompt, 0, 0, 5));
        } else {
            lane.event(make(EventKind::decode, Cause::next_token, 0, 4 + step, 1));
        }
        if (step == 2) {
            lane.event(make(EventKind::finish, Cause::end_of_sequence, 0, Event{}.other, 3));
            Event release = make(EventKind::free, Cause::sequence_finished, 1, 0, 0);
            release.flags = Event::flag_front;
            lane.event(release);
        }
        StepRecord counters;
        counters.used_blocks = 1;
        counters.slots.token = 5 + step;
        counters.slots.reserved = 16 - 5 - step;  // the prediction: the block will be filled
        counters.slots.free = 32;
        lane.end_step(counters);
    }
    const Recording& recording = *writer.recording();
    const Recount whole = recount(recording, lane.record(), 3);
    for (std::uint32_t step = 0; step < 3; ++step) {
        QCOMPARE(whole.slots[step].token, std::uint64_t{5} + step);
        QCOMPARE(whole.slots[step].reserved, std::uint64_t{2} - step);  // up to the 7 slots really written
        QCOMPARE(whole.slots[step].internal, std::uint64_t{9});
    }
    QCOMPARE(whole.peak_used_blocks, 1u);
    // While it lived, the prediction stood.
    const Recount alive = recount(recording, lane.record(), 2);
    QCOMPARE(alive.slots[1].reserved, std::uint64_t{10});
    QCOMPARE(alive.slots[1].internal, std::uint64_t{0});
}

void TestRecount::peakCountsMomentsWithinAStep() {
    LaneInfo info;
    info.blocks = 8;
    info.block_size = 4;
    RecordingWriter writer("t", 0);
    LaneWriter& lane = writer.add_lane(info, nullptr);
    lane.add_sequence({});
    lane.begin_step();
    for (std::uint32_t i = 0; i < 3; ++i) lane.event(make(EventKind::allocate, Cause::none, i + 1, i, 0));
    lane.event(make(EventKind::free, Cause::block_needed, 3, 0, 0));
    StepRecord counters;
    counters.used_blocks = 2;
    lane.end_step(counters);
    QCOMPARE(recount(*writer.recording(), lane.record(), 1).peak_used_blocks, 3u);
}

void TestRecount::livingSequencesKeepTheirPrediction() {
    DemoOptions options;
    options.attention = false;
    options.one_lane = true;
    options.steps = 50;  // nobody has ended yet
    const auto recording = demo_recording(options);
    const LaneRecord& lane = *recording->lanes().front();
    const Recount counted = recount(*recording, lane, lane.step_count());
    for (std::size_t s = 0; s < lane.step_count(); ++s) {
        QCOMPARE(counted.slots[s].reserved, lane.step(s).slots.reserved);
        QCOMPARE(counted.slots[s].internal, lane.step(s).slots.internal);
    }
}

void TestRecount::sumsStayAsRecorded() {
    DemoOptions options;
    options.attention = false;
    options.steps = 1000;
    const auto recording = demo_recording(options);
    for (const auto& lane : recording->lanes()) {
        const Recount counted = recount(*recording, *lane, lane->step_count());
        QCOMPARE(counted.slots.size(), lane->step_count());
        std::uint32_t peak = 0;
        for (std::size_t s = 0; s < lane->step_count(); ++s) {
            const SlotCounts& slots_now = counted.slots[s];
            const std::uint64_t sum = slots_now.token + slots_now.cached + slots_now.reserved + slots_now.internal +
                                      slots_now.external + slots_now.free;
            const LaneInfo& info = lane->info();
            QCOMPARE(sum, info.kv_cache ? std::uint64_t{info.blocks - 1} * info.block_size : 0);
            peak = std::max(peak, lane->step(s).used_blocks);
        }
        QCOMPARE(counted.peak_used_blocks, peak);
    }
}

QTEST_GUILESS_MAIN(TestRecount)
#include "tst_recount.moc"
