// SPDX-License-Identifier: GPL-3.0-or-later
#include <QTest>

#include "engine/record/pool_figures.h"
#include "engine/record/recount.h"
#include "engine/record/writer.h"
#include "tests/support/demo_sharing.h"

using namespace kvloupe;

namespace {

Event told(EventKind kind, std::uint32_t sequence, std::uint32_t block, std::uint32_t other, std::uint32_t tokens = 0) {
    Event one;
    one.kind = kind;
    one.sequence = SequenceId(sequence);
    if (block > 0) one.block = BlockId(block);
    one.other = other;
    one.tokens = tokens;
    return one;
}

}  // namespace

class TestPoolFigures : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void freeRunsAreCountedByLength();
    void cachedBlocksJoinRunsOnlyAsUnowned();
    void sharesAreMeansOverARange();
    void sharingSavesOwnersBeyondTheFirst();
    void aSharedBlockIsWastedByOneOwnerOnly();
    void wasteSumsToWhatTheRecountSays();
    void hitRateIsHitTokensByQueriedTokens();
};

// Of the blocks 1 … 15, blocks 4, 6, 7 and 12 are owned: runs 1-3, 5, 8-11, 13-15.
void TestPoolFigures::freeRunsAreCountedByLength() {
    LaneState state(16, 4);
    std::uint32_t logical = 0;
    for (const std::uint32_t block : {4u, 6u, 7u, 12u}) state.apply(told(EventKind::allocate, 0, block, logical++));
    const FreeRuns runs = free_runs(state);
    QCOMPARE(runs.free[0], 1u);  // 5
    QCOMPARE(runs.free[1], 2u);  // 1-3, 13-15
    QCOMPARE(runs.free[2], 1u);  // 8-11
    QCOMPARE(runs.free[3], 0u);
    QVERIFY(runs.unowned == runs.free);
    QCOMPARE(runs.free_blocks, 11u);
    QCOMPARE(runs.longest_free, 4u);
    QCOMPARE(runs.scatter().value(), 1.0 - 4.0 / 11.0);
    const FreeRuns fresh = free_runs(LaneState(16, 4));
    QCOMPARE(fresh.free[3], 1u);
    QCOMPARE(fresh.scatter().value(), 0.0);
    QVERIFY(!free_runs(LaneState()).scatter());
}

void TestPoolFigures::cachedBlocksJoinRunsOnlyAsUnowned() {
    LaneState state(8, 4);
    state.apply(told(EventKind::allocate, 0, 3, 0));
    state.apply(told(EventKind::prefill, 0, 0, 0, 4));
    state.apply(told(EventKind::store, 0, 3, 1, 2));
    state.apply(told(EventKind::free, 0, 3, 0));
    const FreeRuns runs = free_runs(state);
    QCOMPARE(runs.cached_blocks, 1u);
    QCOMPARE(runs.free_blocks, 6u);
    QCOMPARE(runs.longest_free, 4u);     // 4-7
    QCOMPARE(runs.longest_unowned, 7u);  // 1-7
    QCOMPARE(runs.free[1], 1u);          // 1-2
    QCOMPARE(runs.unowned[2], 1u);
}

void TestPoolFigures::sharesAreMeansOverARange() {
    const std::vector<SlotCounts> slots = {{0, 0, 0, 0, 0, 40}, {10, 5, 5, 0, 10, 10}, {30, 0, 0, 10, 0, 0}};
    const SlotShares all = mean_shares(slots, 0, 3).value();
    QCOMPARE(all.token, 40.0 / 120.0);
    QCOMPARE(all.free, 50.0 / 120.0);
    QCOMPARE(all.token + all.cached + all.reserved + all.internal + all.external + all.free, 1.0);
    QCOMPARE(mean_shares(slots, 1, 2)->external, 0.25);
    QCOMPARE(mean_shares(slots, 2, 99)->internal, 0.25);
    QVERIFY(!mean_shares(slots, 1, 1));
    QVERIFY(!mean_shares({}, 0, 5));
}

void TestPoolFigures::sharingSavesOwnersBeyondTheFirst() {
    LaneInfo info;
    info.block_bytes = 1000;
    LaneState state(8, 4);
    state.apply(told(EventKind::allocate, 0, 1, 0));
    state.apply(told(EventKind::allocate, 0, 2, 1));
    state.apply(told(EventKind::prefill, 0, 0, 0, 7));
    state.apply(told(EventKind::fork, 1, 0, 0, 7));
    state.apply(told(EventKind::fork, 2, 0, 0, 4));
    const SharingSavings savings = sharing_savings(info, state);
    QCOMPARE(savings.blocks, std::uint64_t{3});
    QCOMPARE(savings.bytes, std::uint64_t{3000});
    QCOMPARE(savings.shared_blocks, 2u);
    QCOMPARE(savings.most_owners, 3u);
    QCOMPARE(state.used_blocks(), 2u);  // 5 entries in 2 blocks
}

// Block 2 holds 3 slots of sequence 0, of which its fork 1 owns 1; 0 will write one slot more.
void TestPoolFigures::aSharedBlockIsWastedByOneOwnerOnly() {
    LaneState state(8, 4);
    for (std::uint32_t i = 0; i < 3; ++i) state.apply(told(EventKind::allocate, 0, i + 1, i));
    state.apply(told(EventKind::prefill, 0, 0, 0, 7));
    state.apply(told(EventKind::fork, 1, 0, 0, 5));
    const auto waste = wasted_slots(state, std::vector<std::uint64_t>{9, 6});
    QCOMPARE(waste.size(), std::size_t{1});
    QCOMPARE(waste[0].sequence, SequenceId(0));
    QCOMPARE(waste[0].later, std::uint64_t{2});  // positions 7 and 8
    QCOMPARE(waste[0].never, std::uint64_t{3});  // the rest of block 3
    const auto unknown = wasted_slots(state, {});
    QCOMPARE(unknown[0].later, std::uint64_t{0});
    QCOMPARE(unknown[0].never, std::uint64_t{5});
}

void TestPoolFigures::wasteSumsToWhatTheRecountSays() {
    DemoSharingOptions options;
    for (const char* name : {"pow2", "grow", "static"}) options.lanes.emplace_back(name);
    const auto recording = demo_sharing_recording(options);
    for (const auto& lane : recording->lanes()) {
        const std::size_t steps = lane->step_count();
        const Recount counted = recount(*recording, *lane, steps);
        const std::vector<std::uint64_t> written = written_in_the_end(*recording, *lane, steps);
        std::size_t compared = 0;
        for (std::size_t s = 0; s < steps; ++s) {
            const StepRecord& step = lane->step(s);
            // Where nobody ended, the state after the step is that of the counters.
            const LaneState state = lane->state_after(s);
            if (state.used_blocks() != step.used_blocks || state.token_slots() != step.slots.token) continue;
            std::uint64_t later = 0, never = 0, before = UINT64_MAX;
            for (const SequenceWaste& one : wasted_slots(state, written)) {
                QVERIFY(one.slots() <= before);
                before = one.slots();
                later += one.later;
                never += one.never;
            }
            const QByteArray where = (lane->info().name + ", step " + std::to_string(s)).c_str();
            // The rounding of regions to powers of two is external there, and belongs to the sequence here.
            const SlotCounts& slots_now = counted.slots[s];
            const std::uint64_t unwritten = slots_now.reserved + slots_now.internal;
            if (lane->info().policy.kind == "paged")
                QVERIFY2(later == slots_now.reserved && later + never == unwritten, where.constData());
            else
                QVERIFY2(later >= slots_now.reserved && later + never >= unwritten && later + never <= unwritten + slots_now.external,
                         where.constData());
            ++compared;
        }
        QVERIFY(compared > steps / 2);
    }
}

void TestPoolFigures::hitRateIsHitTokensByQueriedTokens() {
    RecordingWriter writer("hits", 0);
    LaneWriter& lane = writer.add_lane({}, nullptr);
    writer.lanes_complete();
    for (const auto& [queried, hit] : {std::pair{0u, 0u}, {20u, 9u}, {80u, 16u}}) {
        lane.begin_step();
        StepRecord counters;
        counters.queried_tokens = queried;
        counters.hit_tokens = hit;
        counters.preempted_queried_tokens = 50;
        lane.end_step(counters);
    }
    QVERIFY(!hit_rate(lane.record(), 0, 1));
    QCOMPARE(hit_rate(lane.record(), 0, 2).value(), 0.45);
    QCOMPARE(hit_rate(lane.record(), 0, 99).value(), 0.25);
}

QTEST_GUILESS_MAIN(TestPoolFigures)
#include "tst_pool_figures.moc"
