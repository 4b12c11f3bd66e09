// SPDX-License-Identifier: GPL-3.0-or-later
//
// Memory snapshots of PyTorch: the lane says after each action what the allocator's model (make_memory_snapshots.py) says; a pickle
// that is more than data is refused by name.
#include "engine/record/kvt_writer.h"
#include "engine/record/lane_state.h"
#include "engine/record/memory_snapshot.h"
#include "engine/record/open_recording.h"
#include "engine/record/results.h"
#include "tests/support/claims.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/texts.h"

#include <nlohmann/json.hpp>

using namespace kvloupe;
using namespace kvloupe::test;
using Json = nlohmann::json;

namespace {

const std::string snapshots = KVLOUPE_SOURCE_DIR "/tests/fixtures/snapshots/";

Cases<int> protocols() {
    Cases<int> cases;
    for (const int protocol : {2, 3, 4, 5}) cases.add("protocol " + std::to_string(protocol), protocol);
    return cases;
}

void everyActionLeavesWhatTheAllocatorHad(Check& check, int protocol) {
    const auto stored = open_recording(snapshots + "protocol" + std::to_string(protocol) + ".pickle");
    CHECK_THAT(stored);
    if (!stored) return;
    const Json expected = Json::parse(read_file(snapshots + "expected.json"));
    CHECK_EQUAL(stored->recording->lanes().size(), std::size_t{1});
    const LaneRecord& lane = *stored->recording->lanes()[0];
    CHECK_EQUAL(lane.info().name, "cuda:0");
    CHECK_EQUAL(lane.step_count(), expected.size());
    if (lane.step_count() != expected.size()) return;
    const std::uint64_t slots = std::uint64_t{lane.info().blocks - 1} * lane.info().block_size;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        const StepRecord& step = lane.step(i);
        CHECK_EQUAL(step.kv_bytes, expected[i]["allocated"].get<std::uint64_t>());
        CHECK_EQUAL(step.slots.token, expected[i]["asked_slots"].get<std::uint64_t>());
        CHECK_EQUAL(std::uint64_t{step.running}, expected[i]["live"].get<std::uint64_t>());
        CHECK_EQUAL((step.slots.token + step.slots.internal + step.slots.external) * 512, expected[i]["reserved"].get<std::uint64_t>());
        CHECK_EQUAL(step.slots.token + step.slots.internal + step.slots.external + step.slots.free, slots);
        CHECK_EQUAL(lane.state_after(i).used_blocks(), step.used_blocks);
    }
}

// Each live allocation holds one run of cells, and no cell that belongs to another of at least a cell.
void allocationsAreRunsOfCells(Check& check) {
    SnapshotOptions options;
    options.max_cells = 2000;  // cells of several blocks' size, so that small ones share
    const auto stored = memory_snapshot(read_file(snapshots + "protocol4.pickle"), "x.pickle", options);
    CHECK_THAT(stored);
    if (!stored) return;
    const LaneRecord& lane = *stored->recording->lanes()[0];
    CHECK_THAT(lane.info().blocks <= 2001 && lane.info().block_bytes >= 1024 && lane.info().block_bytes % 512 == 0);
    const LaneState state = lane.state_after(lane.step_count() - 1);
    std::size_t shared = 0;
    for (const std::uint32_t sequence : state.holders()) {
        const TableState& table = state.table(SequenceId(sequence));
        for (std::size_t i = 1; i < table.size(); ++i) CHECK_EQUAL(table[i].value, table[i - 1].value + 1);
        for (std::size_t i = 1; i + 1 < table.size(); ++i) CHECK_EQUAL(state.blocks()[table[i].value].owners, 1u);
        shared += state.blocks()[table[0].value].owners > 1;
    }
    CHECK_EQUAL(state.holders().size(), std::size_t{lane.step(lane.step_count() - 1).running});
    CHECK_THAT(shared > 0);
    CHECK_THAT(contains(lane.info().notes.front(), std::to_string(lane.info().block_bytes)));
}

void sitesTimesAndMemoryThatRanOutAreTold(Check& check) {
    const auto stored = open_recording(snapshots + "protocol5.pickle");
    CHECK_THAT(stored);
    if (!stored) return;
    const LaneRecord& lane = *stored->recording->lanes()[0];
    std::vector<std::string> sites;
    for (std::size_t i = 0; i < stored->recording->requests().size(); ++i) sites.push_back(stored->recording->requests()[i].id);
    CHECK_THAT(contains(sites, "attention (model.py:19)"));
    std::size_t refused = 0;
    for (std::size_t i = 0; i < lane.events().size(); ++i) {
        const Event& event = lane.events()[i];
        if (event.kind != EventKind::refuse) continue;
        ++refused;
        CHECK_THAT(contains(lane.strings()[event.detail.value], "943718400 bytes were asked for, the device had 3145728 free"));
        CHECK_EQUAL(stored->recording->requests()[lane.sequences()[event.sequence.value].request.value].id, "loss (model.py:14)");
    }
    CHECK_EQUAL(refused, std::size_t{1});
    CHECK_EQUAL(lane.step(2).start_ns - lane.step(1).start_ns, std::uint64_t{37000});
    CHECK_THAT(contains(events_csv(*stored->recording), "out of memory"));
}

void anOldSnapshotHasItsEndAlone(Check& check) {
    const auto stored = open_recording(snapshots + "old.pickle");
    CHECK_THAT(stored);
    if (!stored) return;
    const LaneRecord& lane = *stored->recording->lanes()[0];
    CHECK_EQUAL(lane.info().name, "cuda:1");
    CHECK_EQUAL(lane.step_count(), std::size_t{1});
    CHECK_EQUAL(lane.step(0).kv_bytes, std::uint64_t{2048});
    const LaneState state = lane.state_after(0);
    CHECK_THAT(state.blocks()[1].owners == 1 && state.blocks()[2].owners == 1 && state.blocks()[3].owners == 0);
    CHECK_THAT(state.blocks()[4095].owners == 1 && state.blocks()[4096].owners == 1);
}

void aSnapshotIsSavedAsARecording(Check& check) {
    const TemporaryFolder folder;
    const auto stored = open_recording(snapshots + "protocol4.pickle");
    CHECK_THAT(stored);
    KvtOptions options;
    options.path = folder.file("snapshot.kvt");
    CHECK_THAT(write_kvt(stored->recording, options));
    CHECK_EQUAL(check_kvt(options.path), std::vector<std::string>{});
    const auto again = open_recording(options.path);
    CHECK_THAT(again);
    if (again) CHECK_THAT(steps_csv(*again->recording) == steps_csv(*stored->recording));
}

struct Refused {
    std::string bytes, sentence;
};

Cases<Refused> refused_pickles() {
    Cases<Refused> cases;
    const std::string whole = read_file(snapshots + "protocol4.pickle");
    cases.add("code", {read_file(snapshots + "code.pickle"), "GLOBAL"});
    cases.add("a class by GLOBAL", {std::string("\x80\x02}q\x00" "cos\nsystem\nq\x01.", 19), "GLOBAL"});
    cases.add("a call", {std::string("\x80\x02}R.", 5), "REDUCE"});
    cases.add("cut off", {whole.substr(0, whole.size() / 2), "cut off"});
    cases.add("nothing", {"", "cut off"});
    cases.add("not a snapshot", {std::string("\x80\x02}.", 4), "no list 'segments'"});
    cases.add("text", {"once upon a time", "OBJ"});
    cases.add("empty", {std::string("\x80\x02}X\x08\x00\x00\x00segments]s.", 19), "is empty"});
    return cases;
}

void whatIsNoSnapshotIsRefusedInWords(Check& check, const Refused& refused) {
    const auto stored = memory_snapshot(refused.bytes, "x.pickle");
    CHECK_THAT(!stored);
    if (stored) return;
    CHECK_OR_SAY(contains(stored.error().message(), refused.sentence), stored.error().message());
    CHECK_THAT(stored.error().sentence.rfind("x.pickle: ", 0) == 0);
}

// No byte of it is worth more than a sentence.
void aDamagedSnapshotHarmsNothing(Check& check) {
    const std::string whole = read_file(snapshots + "protocol4.pickle");
    std::size_t refused = 0;
    for (std::size_t at = 0; at < whole.size(); at += 251) {
        std::string bytes = whole;
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << at % 8));
        const auto stored = memory_snapshot(bytes, "x.pickle", {10'000, 100'000, 1000});
        if (!stored) ++refused;
        else if (const LaneRecord& lane = *stored->recording->lanes()[0]; lane.step_count() > 0) (void)lane.state_after(lane.step_count() - 1);
    }
    CHECK_THAT(refused > 5);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(everyActionLeavesWhatTheAllocatorHad), protocols());
    claims.add(CLAIM(allocationsAreRunsOfCells));
    claims.add(CLAIM(sitesTimesAndMemoryThatRanOutAreTold));
    claims.add(CLAIM(anOldSnapshotHasItsEndAlone));
    claims.add(CLAIM(aSnapshotIsSavedAsARecording));
    claims.add(CLAIM(whatIsNoSnapshotIsRefusedInWords), refused_pickles());
    claims.add(CLAIM(aDamagedSnapshotHarmsNothing));
    return claims.rows();
}
