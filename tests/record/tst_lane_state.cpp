// SPDX-License-Identifier: GPL-3.0-or-later
#include <QTest>

#include "engine/record/lane_state.h"
#include "engine/record/writer.h"
#include "tests/record/told_events.h"
#include "naive_pool.h"

using namespace kvloupe;

namespace {

// Empty if the states say the same; else what differs.
QString difference(const LaneState& a, const LaneState& b) {
    if (a.free_order() != b.free_order()) return "free order";
    if (a.used_blocks() != b.used_blocks()) return "used blocks";
    if (a.sequences().size() != b.sequences().size()) return "number of sequences";
    for (std::size_t i = 0; i < a.sequences().size(); ++i) {
        const SequenceState &x = a.sequences()[i], &y = b.sequences()[i];
        if (x.status != y.status || x.prompt_tokens != y.prompt_tokens || x.computed_tokens != y.computed_tokens ||
            x.output_tokens != y.output_tokens || x.table != y.table || x.group_tables != y.group_tables ||
            x.host_blocks != y.host_blocks)
            return QString("sequence %1").arg(i);
    }
    for (std::size_t i = 0; i < a.blocks().size(); ++i) {
        const BlockState &x = a.blocks()[i], &y = b.blocks()[i];
        if (x.owners != y.owners || x.hashed != y.hashed || x.first_owner != y.first_owner || x.logical != y.logical ||
            x.filled != y.filled || x.held != y.held || x.group != y.group || x.born != y.born ||
            x.last_use != y.last_use || x.hash != y.hash || x.parent_hash != y.parent_hash)
            return QString("block %1").arg(i);
    }
    return {};
}

QString difference(const LaneState& state, const NaivePool& model, const NaiveOptions& options) {
    const List order(model.free_order().begin(), model.free_order().end());
    if (values(state.free_order()) != order) return "free order";
    std::uint32_t used = 0, cached = 0;
    std::uint64_t filled = 0, saved = 0;
    for (std::uint32_t block = 1; block < options.blocks; ++block) {
        const BlockState& one = state.blocks()[block];
        const QString name = QString("block %1: ").arg(block);
        const std::uint32_t owners = model.owners(block);
        const bool hashed = model.hashed().count(block) > 0;
        if (one.owners != owners) return name + QString("%1 owners, not %2").arg(one.owners).arg(owners);
        if (one.hashed != hashed) return name + "hashed";
        if (one.held != (model.held().count(block) > 0)) return name + "held";
        if (one.filled != model.filled(block))
            return name + QString("filled %1, not %2").arg(one.filled).arg(model.filled(block));
        if (hashed && one.hash != model.hashed().at(block).hash) return name + "hash";
        if (hashed && one.parent_hash != model.hashed().at(block).parent) return name + "parent hash";
        if (!hashed && (one.hash != 0 || one.parent_hash != 0)) return name + "hash without one";
        if (one.born != model.born(block)) return name + QString("born %1, not %2").arg(one.born).arg(model.born(block));
        if (state.last_use_of(BlockId(block)) != model.last_use(block)) return name + "last use";
        used += owners > 0;
        cached += owners == 0 && hashed;
        filled += owners > 0 ? one.filled : 0;
        saved += owners > 0 ? owners - 1 : 0;
        if ((owners > 0) != one.first_owner.valid()) return name + "owner without ownership";
        const std::vector<SequenceId> list = state.owners_of(BlockId(block));
        if (list.size() != owners) return name + QString("%1 owners are listed").arg(list.size());
        for (const SequenceId owner : list) {
            const auto& table = model.sequences().at(owner.value).tables[one.group];
            if (std::find(table.begin(), table.end(), block) == table.end()) return name + "does not belong to its owner";
        }
        if (owners == 0) continue;
        const auto& table = model.sequences().at(one.first_owner.value).tables[one.group];
        if (one.logical >= table.size() || table[one.logical] != block) return name + "is not where its owner has it";
    }
    if (state.used_blocks() != used || state.cached_blocks() != cached) return "used or cached blocks";
    if (state.token_slots() != filled || state.saved_blocks() != saved) return "token slots or saved blocks";
    std::uint32_t host = 0;
    std::size_t holders = 0;
    for (const auto& [id, sequence] : model.sequences()) {
        const QString name = QString("sequence %1: ").arg(id);
        if (id >= state.sequences().size()) return name + "missing";
        const SequenceState& one = state.sequences()[id];
        if (one.status != sequence.status) return name + "status";
        if (one.computed_tokens != sequence.computed)
            return name + QString("computed %1, not %2").arg(one.computed_tokens).arg(sequence.computed);
        if (one.output_tokens != sequence.output) return name + "output";
        if (one.host_blocks != sequence.host) return name + "host blocks";
        host += sequence.host;
        bool holds = false;
        for (std::uint8_t group = 0; group < options.groups; ++group) {
            if (values(state.table(SequenceId(id), group)) != sequence.tables[group])
                return name + QString("table of group %1").arg(group);
            holds = holds || !sequence.tables[group].empty();
        }
        holders += holds;
    }
    if (state.host_blocks() != host) return "host blocks";
    if (state.holders().size() != holders) return "holders";
    return {};
}

}  // namespace

class TestLaneState : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void freeQueueStartsInOrderWithoutTheNullBlock();
    void freedBlocksGoToHeadOrTailAsVllmDoes();
    void lastOwnerFreesTheBlock();
    void copyOnWriteSwapsTheTableEntry();
    void forkSharesBlocksUpToItsPosition();
    void uncachedLaneTracksSequencesOnly();
    void eventsBeyondThePoolAreIgnored();
    void agreesWithANaiveModelOnRandomLives_data();
    void agreesWithANaiveModelOnRandomLives();
    void stateAfterEqualsFullReplayAtEveryStep();
};

void TestLaneState::freeQueueStartsInOrderWithoutTheNullBlock() {
    const LaneState state(5, 16);
    QCOMPARE(values(state.free_order()), List({1, 2, 3, 4}));
    QCOMPARE(values(state.free_order(2)), List({1, 2}));
    QCOMPARE(state.used_blocks(), 0u);
    QVERIFY(LaneState(1, 16).free_order().empty());
}

// Oracles V1 to V4 of CACHE_SEMANTICS, told as events.
void TestLaneState::freedBlocksGoToHeadOrTailAsVllmDoes() {
    for (const bool prepends : {true, false}) {
        LaneState state(11, 16);
        for (std::uint32_t i = 0; i < 4; ++i) state.apply(told(EventKind::allocate, 0, i + 1, i));
        for (std::uint32_t block = 1; block < 4; ++block) state.apply(told(EventKind::store, Event{}.other, block));
        for (std::uint32_t block = 1; block < 4; ++block)
            state.apply(told(EventKind::prefix_hit, 1, block, Event{}.other, 16));
        state.apply(told(EventKind::allocate, 1, 5, 3));
        QCOMPARE(state.blocks()[1].owners, 2u);
        QCOMPARE(state.free_order().size(), std::size_t{5});
        free_all(state, 0, {4}, prepends ? Event::flag_front : 0);
        free_all(state, 0, {3, 2, 1}, 0);
        QCOMPARE(state.blocks()[1].owners, 1u);
        free_all(state, 1, {5}, prepends ? Event::flag_front : 0);
        free_all(state, 1, {3, 2, 1}, 0);
        QCOMPARE(values(state.free_order()), prepends ? List({5, 4, 6, 7, 8, 9, 10, 3, 2, 1})
                                                      : List({6, 7, 8, 9, 10, 4, 5, 3, 2, 1}));
        QCOMPARE(state.used_blocks(), 0u);
    }
}

void TestLaneState::lastOwnerFreesTheBlock() {
    LaneState state(4, 4);
    state.apply(told(EventKind::allocate, 0, 1, 0));
    state.apply(told(EventKind::prefill, 0, Event{}.other, 0, 3));
    state.apply(told(EventKind::fork, 1, Event{}.other, 0, 2));
    QCOMPARE(state.blocks()[1].owners, 2u);
    QCOMPARE(state.blocks()[1].filled, 3u);
    free_all(state, 0, {1}, Event::flag_front);
    QCOMPARE(state.blocks()[1].owners, 1u);
    QCOMPARE(state.blocks()[1].first_owner, SequenceId(1));
    QCOMPARE(state.blocks()[1].filled, 2u);  // what the owner left has written
    QVERIFY(state.sequences()[0].table.empty());
    free_all(state, 1, {1}, Event::flag_front);
    QCOMPARE(values(state.free_order()), List({1, 2, 3}));
    QCOMPARE(state.blocks()[1].filled, 0u);
}

void TestLaneState::copyOnWriteSwapsTheTableEntry() {
    LaneState state(6, 4);
    state.apply(told(EventKind::allocate, 0, 1, 0));
    state.apply(told(EventKind::allocate, 0, 2, 1));
    state.apply(told(EventKind::prefill, 0, Event{}.other, 0, 7));
    state.apply(told(EventKind::fork, 1, Event{}.other, 0, 6));
    state.apply(told(EventKind::copy_on_write, 1, 2, 3, 2));
    QCOMPARE(values(state.sequences()[1].table), List({1, 3}));
    QCOMPARE(values(state.sequences()[0].table), List({1, 2}));
    QCOMPARE(state.blocks()[2].owners, 1u);
    QCOMPARE(state.blocks()[2].filled, 3u);
    QCOMPARE(state.blocks()[3].owners, 1u);
    QCOMPARE(state.blocks()[3].filled, 2u);
    QCOMPARE(values(state.free_order()), List({4, 5}));
}

void TestLaneState::forkSharesBlocksUpToItsPosition() {
    LaneState state(6, 4);
    for (std::uint32_t i = 0; i < 3; ++i) state.apply(told(EventKind::allocate, 0, i + 1, i));
    state.apply(told(EventKind::prefill, 0, Event{}.other, 0, 12));
    state.apply(told(EventKind::fork, 1, Event{}.other, 0, 5));
    QCOMPARE(values(state.sequences()[1].table), List({1, 2}));
    QCOMPARE(state.sequences()[1].computed_tokens, 5u);
    QCOMPARE(state.blocks()[3].owners, 1u);
    QCOMPARE(state.used_blocks(), 3u);
}

void TestLaneState::uncachedLaneTracksSequencesOnly() {
    LaneState state(0, 0);
    state.apply(told(EventKind::arrive, 0, Event{}.other, Event{}.other, 9));
    state.apply(told(EventKind::admit, 0));
    state.apply(told(EventKind::prefill, 0, Event{}.other, 0, 9));
    state.apply(told(EventKind::prefill, 0, Event{}.other, 0, 10));
    QCOMPARE(state.sequences()[0].prompt_tokens, 9u);
    QCOMPARE(state.sequences()[0].computed_tokens, 10u);
    QVERIFY(state.sequences()[0].table.empty());
    QVERIFY(state.free_order().empty());
    state.apply(told(EventKind::finish, 0, Event{}.other, Event{}.other, 2));
    QCOMPARE(state.sequences()[0].status, SequenceStatus::finished);
    QCOMPARE(state.sequences()[0].output_tokens, 2u);
}

void TestLaneState::eventsBeyondThePoolAreIgnored() {
    LaneState state(3, 4);
    state.apply(told(EventKind::allocate, 0, 7, 0));
    state.apply(told(EventKind::allocate, 0, 0, 0));
    state.apply(told(EventKind::free, 0, 1, 0));
    state.apply(told(EventKind::copy_on_write, 0, 1, 9, 2));
    state.apply(told(EventKind::fork, 1, Event{}.other, 8, 3));
    state.apply(told(EventKind::evict, Event{}.other, 3));
    QCOMPARE(values(state.free_order()), List({1, 2}));
    QCOMPARE(state.used_blocks(), 0u);
}

void TestLaneState::agreesWithANaiveModelOnRandomLives_data() {
    QTest::addColumn<unsigned>("blocks");
    QTest::addColumn<unsigned>("blockSize");
    QTest::addColumn<unsigned>("groups");
    QTest::addColumn<bool>("radix");
    QTest::newRow("crowded") << 12u << 4u << 1u << false;
    QTest::newRow("roomy") << 60u << 4u << 1u << false;
    QTest::newRow("one slot per block") << 40u << 1u << 1u << false;
    QTest::newRow("block size 7") << 30u << 7u << 1u << false;
    QTest::newRow("block size 16") << 25u << 16u << 1u << false;
    QTest::newRow("two groups") << 50u << 4u << 2u << false;
    QTest::newRow("three groups, crowded") << 30u << 4u << 3u << false;
    QTest::newRow("radix tree") << 30u << 4u << 1u << true;
    QTest::newRow("radix tree, roomy") << 80u << 2u << 1u << true;
}

void TestLaneState::agreesWithANaiveModelOnRandomLives() {
    QFETCH(unsigned, blocks);
    QFETCH(unsigned, blockSize);
    QFETCH(unsigned, groups);
    QFETCH(bool, radix);
    std::vector<int> kinds(event_kind_count, 0);
    for (unsigned seed = 1; seed <= 2; ++seed) {
        const NaiveOptions options{blocks, blockSize, seed, 300, static_cast<std::uint8_t>(groups), radix};
        NaivePool model(options);
        LaneState state(blocks, blockSize);
        for (std::uint32_t step = 0; step < 500; ++step) {
            state.begin_step(step);
            for (const Event& one : model.step()) {
                ++kinds[static_cast<std::size_t>(one.kind)];
                state.apply(one);
            }
            const QString wrong = difference(state, model, options);
            QVERIFY2(wrong.isEmpty(), qPrintable(QString("seed %1, after step %2: %3").arg(seed).arg(step).arg(wrong)));
        }
    }
    // The life was rich enough to show something.
    for (const EventKind kind :
         {EventKind::allocate, EventKind::free, EventKind::fork, EventKind::store, EventKind::evict, EventKind::preempt,
          EventKind::prefix_hit, EventKind::finish, EventKind::swap_out, EventKind::swap_in, EventKind::null_block})
        QVERIFY2(kinds[static_cast<std::size_t>(kind)] > 0, name_of(kind).data());
    if (blockSize > 1) QVERIFY(kinds[static_cast<std::size_t>(EventKind::copy_on_write)] > 0);
}

void TestLaneState::stateAfterEqualsFullReplayAtEveryStep() {
    LaneInfo info;
    info.blocks = 200;
    info.block_size = 4;
    RecordingWriter writer("replay", 0);
    LaneWriter& lane = writer.add_lane(info, nullptr);
    writer.lanes_complete();
    NaivePool model({200, 4, 11, 2000, 2, false});
    constexpr std::size_t steps = 6000;
    for (std::size_t step = 0; step < steps; ++step) {
        lane.begin_step();
        for (const Event& one : model.step()) lane.event(one);
        lane.end_step({});
    }
    const LaneRecord& record = lane.record();
    QVERIFY(record.events().size() > 2 * 4096);  // several key frames
    QVERIFY(record.memory_bytes() > record.events().bytes());
    LaneState replay(200, 4);
    for (std::size_t step = 0; step < steps; ++step) {
        replay.begin_step(static_cast<std::uint32_t>(step));
        for (std::uint64_t e = record.step(step).events.begin; e < record.step(step).events.end; ++e)
            replay.apply(record.events()[e]);
        if (step % 29 != 0 && step + 1 < steps) continue;  // each costs up to a key-frame distance
        const QString wrong = difference(record.state_after(step), replay);
        QVERIFY2(wrong.isEmpty(), qPrintable(QString("after step %1: %2").arg(step).arg(wrong)));
    }
    QVERIFY(difference(lane.state(), replay).isEmpty());
}

QTEST_GUILESS_MAIN(TestLaneState)
#include "tst_lane_state.moc"
