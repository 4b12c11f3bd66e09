// SPDX-License-Identifier: GPL-3.0-or-later
//
// Single rules of LaneState for sharing, swapping and radix trees, told as events, and what large pools cost. Whole lives
// are compared with a naive model in tst_lane_state.
#include "engine/record/lane_state.h"
#include "engine/record/writer.h"
#include "tests/record/told_events.h"
#include "tests/support/claims.h"
#include "tests/support/stopwatch.h"
#include "tests/support/texts.h"

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

void radixTreeKeepsAndReleases(Check& check) {
    LaneState state(5, 4);
    state.begin_step(3);
    state.apply(told(EventKind::allocate, 0, 1, 0));
    state.apply(told(EventKind::prefill, 0, Event{}.other, 0, 4));
    state.apply(told(EventKind::store, 0, 1, 7, 9));
    state.begin_step(4);
    free_all(state, 0, {1}, Event::flag_held);
    CHECK_THAT(state.blocks()[1].held && state.blocks()[1].cached());
    CHECK_EQUAL(state.cached_blocks(), 1u);
    CHECK_EQUAL(values(state.free_order()), List({2, 3, 4}));  // not among them
    CHECK_EQUAL(state.last_use_of(BlockId(1)), 4u);
    state.apply(told(EventKind::prefix_hit, 1, 1, 0, 4));
    CHECK_THAT(!state.blocks()[1].held && state.blocks()[1].hashed);
    CHECK_EQUAL(state.cached_blocks(), 0u);
    CHECK_EQUAL(state.sequences()[1].computed_tokens, 4u);
    CHECK_EQUAL(state.blocks()[1].born, 3u);
    free_all(state, 1, {1}, Event::flag_held);
    Event evict = told(EventKind::evict, 2, 1);
    evict.flags = Event::flag_released | Event::flag_front;
    state.apply(evict);
    CHECK_EQUAL(values(state.free_order()), List({1, 2, 3, 4}));
    CHECK_THAT(!state.blocks()[1].held && !state.blocks()[1].hashed);
    CHECK_EQUAL(state.blocks()[1].filled, 0u);
    CHECK_EQUAL(state.blocks()[1].born, BlockState::no_step);
    CHECK_EQUAL(state.cached_blocks(), 0u);
}

void replacedBlocksLeaveWithoutTouchingTheTable(Check& check) {
    LaneState state(6, 4);
    state.apply(told(EventKind::allocate, 0, 1, 0));
    state.apply(told(EventKind::prefill, 0, Event{}.other, 0, 4));
    state.apply(told(EventKind::store, 0, 1, 7, 9));
    state.apply(told(EventKind::allocate, 1, 2, 0));
    state.apply(told(EventKind::allocate, 1, 3, 1));
    state.apply(told(EventKind::prefill, 1, Event{}.other, 0, 5));
    Event hit = told(EventKind::prefix_hit, 1, 1, 0, 0);  // the tree has it
    hit.cause = Cause::duplicate_owner;
    state.apply(hit);
    CHECK_EQUAL(values(state.table(SequenceId(1))), List({1, 3}));
    CHECK_EQUAL(state.blocks()[2].owners, 1u);
    free_all(state, 1, {2}, Event::flag_front);
    CHECK_EQUAL(values(state.table(SequenceId(1))), List({1, 3}));
    CHECK_EQUAL(values(state.free_order()), List({2, 4, 5}));
    CHECK_EQUAL(state.sequences()[1].computed_tokens, 5u);
    CHECK_THAT(state.owners_of(BlockId(1)) == std::vector<SequenceId>({SequenceId(0), SequenceId(1)}));
    CHECK_EQUAL(state.saved_blocks(), std::uint64_t{1});
}

void swappedSequencesComeBackInEitherOrder(Check& check) {
    for (const bool resumes_first : {true, false}) {
        LaneState state(6, 4);
        for (std::uint32_t i = 0; i < 2; ++i) state.apply(told(EventKind::allocate, 0, i + 1, i));
        state.apply(told(EventKind::prefill, 0, Event{}.other, 0, 7));
        state.apply(told(EventKind::preempt, 0));
        for (std::uint32_t i = 0; i < 2; ++i) state.apply(told(EventKind::swap_out, 0, i + 1, i, i == 0 ? 4 : 3));
        CHECK_EQUAL(state.sequences()[0].status, SequenceStatus::swapped);
        CHECK_EQUAL(state.host_blocks(), 2u);
        free_all(state, 0, {2, 1}, Event::flag_front);
        CHECK_EQUAL(state.used_blocks(), 0u);
        Event resume = told(EventKind::resume, 0, Event{}.other, Event{}.other, 7);
        resume.cause = Cause::swapped_in;
        if (resumes_first) state.apply(resume);
        state.begin_step(9);
        state.apply(told(EventKind::swap_in, 0, 4, 0, 4));
        state.apply(told(EventKind::swap_in, 0, 3, 1, 3));
        if (!resumes_first) state.apply(resume);
        CHECK_EQUAL(values(state.table(SequenceId(0))), List({4, 3}));
        CHECK_EQUAL(state.sequences()[0].computed_tokens, 7u);
        CHECK_EQUAL(state.sequences()[0].status, SequenceStatus::running);
        CHECK_EQUAL(state.blocks()[3].filled, 3u);
        CHECK_EQUAL(state.blocks()[3].born, 9u);
        CHECK_EQUAL(state.host_blocks(), 0u);
    }
}

// Block 1 is the null block by the time the second block is full; its hash is the parent all the same.
void storesChainAcrossTheWindow(Check& check) {
    LaneState state(6, 4);
    state.apply(told(EventKind::allocate, 0, 1, 0));
    state.apply(told(EventKind::prefill, 0, Event{}.other, 0, 4));
    state.apply(told(EventKind::store, 0, 1, 1, 2));
    CHECK_EQUAL(state.blocks()[1].hash, std::uint64_t{0x100000002});
    CHECK_EQUAL(state.blocks()[1].parent_hash, std::uint64_t{0});
    state.apply(told(EventKind::allocate, 0, 2, 1));
    state.apply(told(EventKind::null_block, 0, 1, 0));
    free_all(state, 0, {1}, 0);
    state.apply(told(EventKind::prefill, 0, Event{}.other, 4, 4));
    state.apply(told(EventKind::store, 0, 2, 3, 4));
    CHECK_EQUAL(state.blocks()[2].parent_hash, std::uint64_t{0x100000002});
}

void forksOfTheWaitingWait(Check& check) {
    LaneState state(6, 4);
    state.apply(told(EventKind::admit, 0));
    state.apply(told(EventKind::fork, 1, Event{}.other, 0, 0));
    CHECK_EQUAL(state.sequences()[1].status, SequenceStatus::running);
    state.apply(told(EventKind::preempt, 0));
    state.apply(told(EventKind::fork, 2, Event{}.other, 0, 0));
    CHECK_EQUAL(state.sequences()[2].status, SequenceStatus::preempted);
}

// A sequence of 100,000 blocks and 15 forks of it, which give the blocks back first one first: searching a table or asking
// every owner would take minutes.
void costDoesNotGrowWithTableAndOwners(Check& check) {
    constexpr std::uint32_t length = 100000;
    LaneState state(1000000, 16);
    Stopwatch timer;
    for (std::uint32_t i = 0; i < length; ++i) state.apply(told(EventKind::allocate, 0, i + 1, i));
    state.apply(told(EventKind::prefill, 0, Event{}.other, 0, length * 16));
    for (std::uint32_t fork = 1; fork < 16; ++fork) state.apply(told(EventKind::fork, fork, Event{}.other, 0, length * 16));
    CHECK_EQUAL(state.saved_blocks(), std::uint64_t{15} * length);
    CHECK_EQUAL(state.token_slots(), std::uint64_t{16} * length);
    for (std::uint32_t id = 0; id < 16; ++id)
        for (std::uint32_t block = 1; block <= length; ++block)
            state.apply(told(EventKind::free, id, block, 15 - id));
    CHECK_EQUAL(state.used_blocks(), 0u);
    CHECK_THAT(state.holders().empty());
    check.note(printed("1,600,000 entries made and left in %lld ms", timer.milliseconds()));
    CHECK_THAT(timer.milliseconds() < 30000);
}

void keyFramesOfALargePoolAreCheap(Check& check) {
    LaneInfo info;
    info.blocks = 1000000;
    info.block_size = 16;
    RecordingWriter writer("large", 0);
    LaneWriter& lane = writer.add_lane(info, nullptr);
    writer.lanes_complete();
    CHECK_THAT(lane.state().made_bytes() < 200000);  // a fresh pool is one page of each kind, many times
    for (std::uint32_t step = 0; step < 400; ++step) {
        lane.begin_step();
        for (std::uint32_t i = 0; i < 100; ++i) lane.event(told(EventKind::allocate, step, step * 100 + i + 1, i));
        for (std::uint32_t i = 100; i-- > 0;) lane.event(told(EventKind::free, step, step * 100 + i + 1, 0));
        lane.end_step({});
    }
    const std::uint64_t events = lane.record().events().bytes();
    const std::uint64_t bytes = lane.record().memory_bytes() - events;
    check.note(printed("key frames of %llu bytes for events of %llu", static_cast<unsigned long long>(bytes),
                       static_cast<unsigned long long>(events)));
    CHECK_THAT(bytes < 8 * events);
    Stopwatch timer;
    for (std::size_t step = 0; step < 400; step += 10) CHECK_EQUAL(lane.record().state_after(step).step(), std::uint32_t(step));
    check.note(printed("a seek takes %lld us", timer.nanoseconds() / 40000));
    CHECK_THAT(timer.milliseconds() < 4000);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(radixTreeKeepsAndReleases));
    claims.add(CLAIM(replacedBlocksLeaveWithoutTouchingTheTable));
    claims.add(CLAIM(swappedSequencesComeBackInEitherOrder));
    claims.add(CLAIM(storesChainAcrossTheWindow));
    claims.add(CLAIM(forksOfTheWaitingWait));
    claims.add(CLAIM(costDoesNotGrowWithTableAndOwners));
    claims.add(CLAIM(keyFramesOfALargePoolAreCheap));
    return claims.rows();
}
