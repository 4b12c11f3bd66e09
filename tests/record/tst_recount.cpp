// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/lane_state.h"
#include "engine/record/recount.h"
#include "tests/support/claims.h"
#include "tests/support/demo_recording.h"
#include "tests/support/demo_sharing.h"
#include "tests/support/stopwatch.h"
#include "tests/support/texts.h"

#include <map>

using namespace kvloupe;
using namespace kvloupe::test;

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

// Slots that will be written, slot by slot: not written by any owner, but by one of them before it ends.
std::uint64_t reserved_slots(const LaneState& state, const std::vector<std::uint64_t>& written) {
    const std::uint64_t size = state.block_size();
    std::map<std::uint64_t, int> slots;  // slot: 1 will be written, 2 is written
    for (const std::uint32_t id : state.holders()) {
        for (std::uint32_t group = 0; group < state.groups(); ++group) {
            const TableState& table = state.table(SequenceId(id), static_cast<std::uint8_t>(group));
            for (std::uint64_t position = 0; position < table.size() * size; ++position) {
                if (table[position / size] == null_block_id) continue;
                int& slot = slots[table[position / size].value * size + position % size];
                if (position < state.sequences()[id].computed_tokens) slot = 2;
                else if (position < written[id]) slot = std::max(slot, 1);
            }
        }
    }
    std::uint64_t reserved = 0;
    for (const auto& [slot, what] : slots) reserved += what == 1;
    return reserved;
}

// Prompt 5, up to 20 new tokens, block size 16: written are at most 24 slots. It stops after 3 outputs: 7 slots.
void slotsNeverWrittenBecomeInternalOnceTheSequenceEnded(Check& check) {
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
        CHECK_EQUAL(whole.slots[step].token, std::uint64_t{5} + step);
        CHECK_EQUAL(whole.slots[step].reserved, std::uint64_t{2} - step);  // up to the 7 slots really written
        CHECK_EQUAL(whole.slots[step].internal, std::uint64_t{9});
    }
    CHECK_EQUAL(whole.peak_used_blocks, 1u);
    // While it lived, the prediction stood.
    const Recount alive = recount(recording, lane.record(), 2);
    CHECK_EQUAL(alive.slots[1].reserved, std::uint64_t{10});
    CHECK_EQUAL(alive.slots[1].internal, std::uint64_t{0});
}

void peakCountsMomentsWithinAStep(Check& check) {
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
    CHECK_EQUAL(recount(*writer.recording(), lane.record(), 1).peak_used_blocks, 3u);
}

void livingSequencesKeepTheirPrediction(Check& check) {
    DemoOptions options;
    options.attention = false;
    options.one_lane = true;
    options.steps = 50;  // nobody has ended yet
    const auto recording = demo_recording(options);
    const LaneRecord& lane = *recording->lanes().front();
    const Recount counted = recount(*recording, lane, lane.step_count());
    for (std::size_t s = 0; s < lane.step_count(); ++s) {
        CHECK_EQUAL(counted.slots[s].reserved, lane.step(s).slots.reserved);
        CHECK_EQUAL(counted.slots[s].internal, lane.step(s).slots.internal);
    }
}

void sumsStayAsRecorded(Check& check) {
    DemoOptions options;
    options.attention = false;
    options.steps = 1000;
    const auto recording = demo_recording(options);
    for (const auto& lane : recording->lanes()) {
        const Recount counted = recount(*recording, *lane, lane->step_count());
        CHECK_EQUAL(counted.slots.size(), lane->step_count());
        std::uint32_t peak = 0;
        for (std::size_t s = 0; s < lane->step_count(); ++s) {
            const SlotCounts& slots_now = counted.slots[s];
            const std::uint64_t sum = slots_now.token + slots_now.cached + slots_now.reserved + slots_now.internal +
                                      slots_now.external + slots_now.free;
            const LaneInfo& info = lane->info();
            CHECK_EQUAL(sum, info.kv_cache ? std::uint64_t{info.blocks - 1} * info.block_size : 0);
            peak = std::max(peak, lane->step(s).used_blocks);
        }
        CHECK_EQUAL(counted.peak_used_blocks, peak);
    }
}

// Slot by slot, on lanes that share, copy, null, swap and reserve.
void sharedSlotsCountOnce(Check& check) {
    DemoSharingOptions options;
    for (const char* name : {"pow2", "grow", "static"}) options.lanes.emplace_back(name);
    const auto recording = demo_sharing_recording(options);
    for (const auto& lane : recording->lanes()) {
        const std::size_t steps = lane->step_count();
        const Recount counted = recount(*recording, *lane, steps);
        std::vector<std::uint64_t> written(lane->sequences().size(), 0);
        for (std::size_t i = 0; i < written.size(); ++i) {  // a prediction for those that live
            const RequestInfo& request = recording->requests()[lane->sequences()[i].request.value];
            written[i] = request.prompt.size() + request.max_new_tokens - 1;
        }
        LaneState computed(0, 0);
        for (std::size_t e = 0; e < lane->events().size(); ++e) {
            const Event& event = lane->events()[e];
            computed.apply(event);
            if (event.kind == EventKind::finish)
                written[event.sequence.value] = computed.sequences()[event.sequence.value].computed_tokens;
        }
        LaneState state(lane->info().blocks, lane->info().block_size);
        bool differs = false;
        for (std::size_t s = 0; s < steps; ++s) {
            const LogRange events = lane->step(s).events;
            std::uint64_t e = events.begin;
            for (; e < events.end; ++e) {
                const Event& event = lane->events()[e];
                if (event.kind == EventKind::finish && event.cause == Cause::forced_tokens_used_up) break;
                state.apply(event);
            }
            const std::string where = lane->info().name + ", step " + std::to_string(s);
            // A region that grows has asked for what it needs now; the rest of its chunk is external, whoever writes it later.
            const SlotCounts& recorded = lane->step(s).slots;
            const std::uint64_t reserved = std::min(reserved_slots(state, written), recorded.reserved + recorded.internal);
            CHECK_OR_SAY(counted.slots[s].reserved == reserved, (where + ": " + std::to_string(counted.slots[s].reserved) + ", not " + std::to_string(reserved)));
            differs = differs || counted.slots[s].reserved != lane->step(s).slots.reserved;
            for (; e < events.end; ++e) state.apply(lane->events()[e]);
        }
        CHECK_THAT(differs || lane->info().name != "paged");  // one was cancelled, and never wrote what it might have written
    }
}

void aMillionTokensTakeOnePass(Check& check) {
    DemoSharingOptions options = DemoSharingOptions::large(1500, 200000);
    const auto recording = demo_sharing_recording(options);
    const LaneRecord& lane = *recording->lanes().front();
    std::uint64_t tokens = 0;
    for (std::size_t s = 0; s < lane.step_count(); ++s) tokens += lane.step(s).computed_tokens;
    CHECK_THAT(tokens > 1000000);
    Stopwatch timer;
    const Recount counted = recount(*recording, lane, lane.step_count());
    check.note(printed("%llu tokens, %llu events, %zu sequences recounted in %lld ms", static_cast<unsigned long long>(tokens),
                       static_cast<unsigned long long>(lane.events().size()), lane.sequences().size(),
                       timer.milliseconds()));
    CHECK_THAT(counted.peak_used_blocks > 1000);
    CHECK_THAT(timer.milliseconds() < 60000);  // far above what it takes; a quadratic pass would exceed it
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(slotsNeverWrittenBecomeInternalOnceTheSequenceEnded));
    claims.add(CLAIM(peakCountsMomentsWithinAStep));
    claims.add(CLAIM(livingSequencesKeepTheirPrediction));
    claims.add(CLAIM(sumsStayAsRecorded));
    claims.add(CLAIM(sharedSlotsCountOnce));
    claims.add(CLAIM(aMillionTokensTakeOnePass));
    return claims.rows();
}
