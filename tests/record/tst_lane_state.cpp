// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/lane_state.h"
#include "engine/record/writer.h"
#include "naive_pool.h"
#include "tests/record/told_events.h"
#include "tests/support/claims.h"
#include "tests/support/under_sanitizer.h"

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

// Empty if the states say the same; else what differs.
std::string difference(const LaneState& a, const LaneState& b) {
    if (a.free_order() != b.free_order()) return "free order";
    if (a.used_blocks() != b.used_blocks()) return "used blocks";
    if (a.sequences().size() != b.sequences().size()) return "number of sequences";
    for (std::size_t i = 0; i < a.sequences().size(); ++i) {
        const SequenceState &x = a.sequences()[i], &y = b.sequences()[i];
        if (x.status != y.status || x.prompt_tokens != y.prompt_tokens || x.computed_tokens != y.computed_tokens ||
            x.output_tokens != y.output_tokens || x.table != y.table || x.group_tables != y.group_tables ||
            x.host_blocks != y.host_blocks)
            return "sequence " + std::to_string(i);
    }
    for (std::size_t i = 0; i < a.blocks().size(); ++i) {
        const BlockState &x = a.blocks()[i], &y = b.blocks()[i];
        if (x.owners != y.owners || x.hashed != y.hashed || x.first_owner != y.first_owner || x.logical != y.logical ||
            x.filled != y.filled || x.held != y.held || x.group != y.group || x.born != y.born ||
            x.last_use != y.last_use || x.hash != y.hash || x.parent_hash != y.parent_hash)
            return "block " + std::to_string(i);
    }
    return {};
}

std::string difference(const LaneState& state, const NaivePool& model, const NaiveOptions& options) {
    const List order(model.free_order().begin(), model.free_order().end());
    if (values(state.free_order()) != order) return "free order";
    std::uint32_t used = 0, cached = 0;
    std::uint64_t filled = 0, saved = 0;
    for (std::uint32_t block = 1; block < options.blocks; ++block) {
        const BlockState& one = state.blocks()[block];
        const std::string name = "block " + std::to_string(block) + ": ";
        const std::uint32_t owners = model.owners(block);
        const bool hashed = model.hashed().count(block) > 0;
        if (one.owners != owners) return name + std::to_string(one.owners) + " owners, not " + std::to_string(owners);
        if (one.hashed != hashed) return name + "hashed";
        if (one.held != (model.held().count(block) > 0)) return name + "held";
        if (one.filled != model.filled(block))
            return name + "filled " + std::to_string(one.filled) + ", not " + std::to_string(model.filled(block));
        if (hashed && one.hash != model.hashed().at(block).hash) return name + "hash";
        if (hashed && one.parent_hash != model.hashed().at(block).parent) return name + "parent hash";
        if (!hashed && (one.hash != 0 || one.parent_hash != 0)) return name + "hash without one";
        if (one.born != model.born(block)) return name + "born " + std::to_string(one.born) + ", not " + std::to_string(model.born(block));
        if (state.last_use_of(BlockId(block)) != model.last_use(block)) return name + "last use";
        used += owners > 0;
        cached += owners == 0 && hashed;
        filled += owners > 0 ? one.filled : 0;
        saved += owners > 0 ? owners - 1 : 0;
        if ((owners > 0) != one.first_owner.valid()) return name + "owner without ownership";
        const std::vector<SequenceId> list = state.owners_of(BlockId(block));
        if (list.size() != owners) return name + std::to_string(list.size()) + " owners are listed";
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
        const std::string name = "sequence " + std::to_string(id) + ": ";
        if (id >= state.sequences().size()) return name + "missing";
        const SequenceState& one = state.sequences()[id];
        if (one.status != sequence.status) return name + "status";
        if (one.computed_tokens != sequence.computed)
            return name + "computed " + std::to_string(one.computed_tokens) + ", not " + std::to_string(sequence.computed);
        if (one.output_tokens != sequence.output) return name + "output";
        if (one.host_blocks != sequence.host) return name + "host blocks";
        host += sequence.host;
        bool holds = false;
        for (std::uint8_t group = 0; group < options.groups; ++group) {
            if (values(state.table(SequenceId(id), group)) != sequence.tables[group])
                return name + "table of group " + std::to_string(group);
            holds = holds || !sequence.tables[group].empty();
        }
        holders += holds;
    }
    if (state.host_blocks() != host) return "host blocks";
    if (state.holders().size() != holders) return "holders";
    return {};
}

void freeQueueStartsInOrderWithoutTheNullBlock(Check& check) {
    const LaneState state(5, 16);
    CHECK_EQUAL(values(state.free_order()), List({1, 2, 3, 4}));
    CHECK_EQUAL(values(state.free_order(2)), List({1, 2}));
    CHECK_EQUAL(state.used_blocks(), 0u);
    CHECK_THAT(LaneState(1, 16).free_order().empty());
}

// Oracles V1 to V4 of CACHE_SEMANTICS, told as events.
void freedBlocksGoToHeadOrTailAsVllmDoes(Check& check) {
    for (const bool prepends : {true, false}) {
        LaneState state(11, 16);
        for (std::uint32_t i = 0; i < 4; ++i) state.apply(told(EventKind::allocate, 0, i + 1, i));
        for (std::uint32_t block = 1; block < 4; ++block) state.apply(told(EventKind::store, Event{}.other, block));
        for (std::uint32_t block = 1; block < 4; ++block)
            state.apply(told(EventKind::prefix_hit, 1, block, Event{}.other, 16));
        state.apply(told(EventKind::allocate, 1, 5, 3));
        CHECK_EQUAL(state.blocks()[1].owners, 2u);
        CHECK_EQUAL(state.free_order().size(), std::size_t{5});
        free_all(state, 0, {4}, prepends ? Event::flag_front : 0);
        free_all(state, 0, {3, 2, 1}, 0);
        CHECK_EQUAL(state.blocks()[1].owners, 1u);
        free_all(state, 1, {5}, prepends ? Event::flag_front : 0);
        free_all(state, 1, {3, 2, 1}, 0);
        CHECK_EQUAL(values(state.free_order()), prepends ? List({5, 4, 6, 7, 8, 9, 10, 3, 2, 1})
                                                      : List({6, 7, 8, 9, 10, 4, 5, 3, 2, 1}));
        CHECK_EQUAL(state.used_blocks(), 0u);
    }
}

void lastOwnerFreesTheBlock(Check& check) {
    LaneState state(4, 4);
    state.apply(told(EventKind::allocate, 0, 1, 0));
    state.apply(told(EventKind::prefill, 0, Event{}.other, 0, 3));
    state.apply(told(EventKind::fork, 1, Event{}.other, 0, 2));
    CHECK_EQUAL(state.blocks()[1].owners, 2u);
    CHECK_EQUAL(state.blocks()[1].filled, 3u);
    free_all(state, 0, {1}, Event::flag_front);
    CHECK_EQUAL(state.blocks()[1].owners, 1u);
    CHECK_EQUAL(state.blocks()[1].first_owner, SequenceId(1));
    CHECK_EQUAL(state.blocks()[1].filled, 2u);  // what the owner left has written
    CHECK_THAT(state.sequences()[0].table.empty());
    free_all(state, 1, {1}, Event::flag_front);
    CHECK_EQUAL(values(state.free_order()), List({1, 2, 3}));
    CHECK_EQUAL(state.blocks()[1].filled, 0u);
}

void copyOnWriteSwapsTheTableEntry(Check& check) {
    LaneState state(6, 4);
    state.apply(told(EventKind::allocate, 0, 1, 0));
    state.apply(told(EventKind::allocate, 0, 2, 1));
    state.apply(told(EventKind::prefill, 0, Event{}.other, 0, 7));
    state.apply(told(EventKind::fork, 1, Event{}.other, 0, 6));
    state.apply(told(EventKind::copy_on_write, 1, 2, 3, 2));
    CHECK_EQUAL(values(state.sequences()[1].table), List({1, 3}));
    CHECK_EQUAL(values(state.sequences()[0].table), List({1, 2}));
    CHECK_EQUAL(state.blocks()[2].owners, 1u);
    CHECK_EQUAL(state.blocks()[2].filled, 3u);
    CHECK_EQUAL(state.blocks()[3].owners, 1u);
    CHECK_EQUAL(state.blocks()[3].filled, 2u);
    CHECK_EQUAL(values(state.free_order()), List({4, 5}));
}

void forkSharesBlocksUpToItsPosition(Check& check) {
    LaneState state(6, 4);
    for (std::uint32_t i = 0; i < 3; ++i) state.apply(told(EventKind::allocate, 0, i + 1, i));
    state.apply(told(EventKind::prefill, 0, Event{}.other, 0, 12));
    state.apply(told(EventKind::fork, 1, Event{}.other, 0, 5));
    CHECK_EQUAL(values(state.sequences()[1].table), List({1, 2}));
    CHECK_EQUAL(state.sequences()[1].computed_tokens, 5u);
    CHECK_EQUAL(state.blocks()[3].owners, 1u);
    CHECK_EQUAL(state.used_blocks(), 3u);
}

void uncachedLaneTracksSequencesOnly(Check& check) {
    LaneState state(0, 0);
    state.apply(told(EventKind::arrive, 0, Event{}.other, Event{}.other, 9));
    state.apply(told(EventKind::admit, 0));
    state.apply(told(EventKind::prefill, 0, Event{}.other, 0, 9));
    state.apply(told(EventKind::prefill, 0, Event{}.other, 0, 10));
    CHECK_EQUAL(state.sequences()[0].prompt_tokens, 9u);
    CHECK_EQUAL(state.sequences()[0].computed_tokens, 10u);
    CHECK_THAT(state.sequences()[0].table.empty());
    CHECK_THAT(state.free_order().empty());
    state.apply(told(EventKind::finish, 0, Event{}.other, Event{}.other, 2));
    CHECK_EQUAL(state.sequences()[0].status, SequenceStatus::finished);
    CHECK_EQUAL(state.sequences()[0].output_tokens, 2u);
}

void eventsBeyondThePoolAreIgnored(Check& check) {
    LaneState state(3, 4);
    state.apply(told(EventKind::allocate, 0, 7, 0));
    state.apply(told(EventKind::allocate, 0, 0, 0));
    state.apply(told(EventKind::free, 0, 1, 0));
    state.apply(told(EventKind::copy_on_write, 0, 1, 9, 2));
    state.apply(told(EventKind::fork, 1, Event{}.other, 8, 3));
    state.apply(told(EventKind::evict, Event{}.other, 3));
    CHECK_EQUAL(values(state.free_order()), List({1, 2}));
    CHECK_EQUAL(state.used_blocks(), 0u);
}

struct AgreesWithANaiveModelOnRandomLivesCase {
    unsigned blocks, blockSize, groups;
    bool radix;
};
Cases<AgreesWithANaiveModelOnRandomLivesCase> agreesWithANaiveModelOnRandomLives_cases() {
    Cases<AgreesWithANaiveModelOnRandomLivesCase> cases;
    cases.add("crowded", {12u, 4u, 1u, false});
    cases.add("roomy", {60u, 4u, 1u, false});
    cases.add("one slot per block", {40u, 1u, 1u, false});
    cases.add("block size 7", {30u, 7u, 1u, false});
    cases.add("block size 16", {25u, 16u, 1u, false});
    cases.add("two groups", {50u, 4u, 2u, false});
    cases.add("three groups, crowded", {30u, 4u, 3u, false});
    cases.add("radix tree", {30u, 4u, 1u, true});
    cases.add("radix tree, roomy", {80u, 2u, 1u, true});
    return cases;
}
void agreesWithANaiveModelOnRandomLives(Check& check, const AgreesWithANaiveModelOnRandomLivesCase& row) {
    std::vector<int> kinds(event_kind_count, 0);
    for (unsigned seed = 1; seed <= 2; ++seed) {
        const NaiveOptions options{row.blocks, row.blockSize, seed, 300, static_cast<std::uint8_t>(row.groups), row.radix};
        NaivePool model(options);
        LaneState state(row.blocks, row.blockSize);
        for (std::uint32_t step = 0; step < (under_sanitizer ? 250 : 500); ++step) {
            state.begin_step(step);
            for (const Event& one : model.step()) {
                ++kinds[static_cast<std::size_t>(one.kind)];
                state.apply(one);
            }
            const std::string wrong = difference(state, model, options);
            CHECK_OR_SAY(wrong.empty(), "seed " + std::to_string(seed) + ", after step " + std::to_string(step) + ": " + wrong);
        }
    }
    // The life was rich enough to show something.
    for (const EventKind kind :
         {EventKind::allocate, EventKind::free, EventKind::fork, EventKind::store, EventKind::evict, EventKind::preempt,
          EventKind::prefix_hit, EventKind::finish, EventKind::swap_out, EventKind::swap_in, EventKind::null_block})
        CHECK_OR_SAY(kinds[static_cast<std::size_t>(kind)] > 0, name_of(kind));
    if (row.blockSize > 1) CHECK_THAT(kinds[static_cast<std::size_t>(EventKind::copy_on_write)] > 0);
}

void stateAfterEqualsFullReplayAtEveryStep(Check& check) {
    LaneInfo info;
    info.blocks = 200;
    info.block_size = 4;
    RecordingWriter writer("replay", 0);
    LaneWriter& lane = writer.add_lane(info, nullptr);
    writer.lanes_complete();
    NaivePool model({200, 4, 11, 2000, 2, false});
    constexpr std::size_t steps = under_sanitizer ? 2500 : 6000;
    for (std::size_t step = 0; step < steps; ++step) {
        lane.begin_step();
        for (const Event& one : model.step()) lane.event(one);
        lane.end_step({});
    }
    const LaneRecord& record = lane.record();
    CHECK_THAT(record.events().size() > 2 * 4096);  // several key frames
    CHECK_THAT(record.memory_bytes() > record.events().bytes());
    LaneState replay(200, 4);
    for (std::size_t step = 0; step < steps; ++step) {
        replay.begin_step(static_cast<std::uint32_t>(step));
        for (std::uint64_t e = record.step(step).events.begin; e < record.step(step).events.end; ++e)
            replay.apply(record.events()[e]);
        if (step % 29 != 0 && step + 1 < steps) continue;  // each costs up to a key-frame distance
        const std::string wrong = difference(record.state_after(step), replay);
        CHECK_OR_SAY(wrong.empty(), "after step " + std::to_string(step) + ": " + wrong);
    }
    CHECK_THAT(difference(lane.state(), replay).empty());
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(freeQueueStartsInOrderWithoutTheNullBlock));
    claims.add(CLAIM(freedBlocksGoToHeadOrTailAsVllmDoes));
    claims.add(CLAIM(lastOwnerFreesTheBlock));
    claims.add(CLAIM(copyOnWriteSwapsTheTableEntry));
    claims.add(CLAIM(forkSharesBlocksUpToItsPosition));
    claims.add(CLAIM(uncachedLaneTracksSequencesOnly));
    claims.add(CLAIM(eventsBeyondThePoolAreIgnored));
    claims.add(CLAIM(agreesWithANaiveModelOnRandomLives), agreesWithANaiveModelOnRandomLives_cases());
    claims.add(CLAIM(stateAfterEqualsFullReplayAtEveryStep));
    return claims.rows();
}
