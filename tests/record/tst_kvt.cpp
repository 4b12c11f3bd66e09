// SPDX-License-Identifier: GPL-3.0-or-later
//
// Recording files: what was recorded comes back whole; what is no recording is refused in words; what is damaged is told of.
#include "engine/record/file_output.h"
#include "engine/record/kvt_reader.h"
#include "engine/record/kvt_writer.h"
#include "engine/record/results.h"
#include "engine/record/sql_database.h"
#include "tests/record/same_lanes.h"
#include "tests/support/claims.h"
#include "tests/support/demo_recording.h"
#include "tests/support/demo_sharing.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/texts.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

std::vector<std::string> exports(const Recording& recording) {
    std::vector<std::string> all = {summary_json(recording), steps_csv(recording), events_csv(recording)};
    if (recording.lanes()[0]->step_count() > 1000) return all;  // tables of every step: compared in the short ones
    all.push_back(trace_json(recording, 1u << 30));
    all.push_back(blocks_json(recording));
    return all;
}

Cases<std::shared_ptr<const Recording>> recordings() {
    Cases<std::shared_ptr<const Recording>> cases;
    DemoOptions small;
    small.attention = true;
    cases.add("four variants with attention", demo_recording(small));
    cases.add("no step yet", demo_empty_recording());
    cases.add("lanes that share, swap and move", demo_sharing_recording());
    DemoSharingOptions many;
    many.steps = 3000;
    many.blocks = 400;
    many.arrivals = 3;
    many.lanes = {"paged", "windows"};
    cases.add("key frames", demo_sharing_recording(many));
    return cases;
}

void whatWasRecordedComesBack(Check& check, const std::shared_ptr<const Recording>& recording) {
    const TemporaryFolder folder;
    const std::string path = folder.file("run ä%?.kvt");
    CHECK_THAT(write_kvt(recording, options_for(path)));
    const auto stored = open_kvt(path);
    CHECK_THAT(stored);
    if (!stored) return;
    CHECK_THAT(!stored->recovered);
    const Recording& read = *stored->recording;
    CHECK_EQUAL(read.title(), recording->title());
    CHECK_EQUAL(read.lanes().size(), recording->lanes().size());
    CHECK_EQUAL(stored->meta.at("scenario"), "{\"version\": 1}");
    for (std::size_t i = 0; i < read.lanes().size(); ++i) {
        const LaneRecord &a = *recording->lanes()[i], &b = *read.lanes()[i];
        CHECK_EQUAL(b.step_count(), a.step_count());
        same_lanes(check, a, b, a.step_count());
        CHECK_EQUAL(b.damage(), "");
    }
    if (read.lanes()[0]->step_count() > 0) {
        const auto before = exports(*recording), after = exports(read);
        for (std::size_t i = 0; i < before.size(); ++i) CHECK_THAT(before[i] == after[i]);
    }
    CHECK_EQUAL(names_in(folder.path()), (std::vector<std::string>{"run ä%?.kvt"}));  // and reading left nothing
    CHECK_EQUAL(check_kvt(path), std::vector<std::string>{});
}

// Version 1 had the key frames in an index on lane and step, without ids.
void aFileOfVersion1OpensAsBefore(Check& check) {
    const TemporaryFolder folder;
    const std::string path = folder.file("old.kvt");
    const auto recording = one_busy_lane(3000);
    CHECK_THAT(write_kvt(recording, options_for(path)));
    {
        auto database = SqlDatabase::open_to_append(path);
        CHECK_THAT(database && database->execute(
            "BEGIN; CREATE TABLE old(lane INTEGER, step INTEGER, data BLOB, PRIMARY KEY(lane, step)) WITHOUT ROWID;"
            "INSERT INTO old SELECT lane, step, data FROM key_frames; DROP TABLE key_frames; ALTER TABLE old RENAME TO key_frames;"
            "PRAGMA user_version = 1; COMMIT; PRAGMA wal_checkpoint(TRUNCATE); PRAGMA locking_mode = NORMAL; PRAGMA journal_mode = DELETE;"));
    }
    const auto stored = open_kvt(path);
    CHECK_THAT(stored);
    if (!stored) return;
    const LaneRecord &old = *stored->recording->lanes()[0], &own = *recording->lanes()[0];
    CHECK_EQUAL(old.step_count(), own.step_count());
    same_lanes(check, own, old, own.step_count());
    CHECK_EQUAL(check_kvt(path), std::vector<std::string>{});
}

// Whichever way somebody walks, a state is the one that the events lead to.
void everyStepIsReachedFromEveryOther(Check& check) {
    const TemporaryFolder folder;
    const auto recording = one_busy_lane(3000);
    CHECK_THAT(write_kvt(recording, options_for(folder.file("run.kvt"))));
    const auto stored = open_kvt(folder.file("run.kvt"));
    CHECK_THAT(stored);
    if (!stored) return;
    const LaneRecord &file = *stored->recording->lanes()[0], &own = *recording->lanes()[0];
    std::size_t wrong = 0;
    const auto look = [&](std::size_t step) { wrong += LaneStateCode::encode(file.state_after(step)) != LaneStateCode::encode(own.state_after(step)); };
    const std::size_t end = file.step_count();
    for (std::size_t step = end; step-- > end - 900;) look(step);            // backwards over several frames
    for (std::size_t step = end - 900; step < end; ++step) look(step);      // and forwards
    for (std::size_t i = 0; i < 200; ++i) look(i * 7919 % end);              // anywhere
    for (std::size_t i = 0; i < 300; ++i) look((end / 2 + (i * 37) % 91));   // to and fro
    CHECK_EQUAL(wrong, std::size_t{0});
}

void aTakenNameIsRefusedAndKept(Check& check) {
    const TemporaryFolder folder;
    CHECK_THAT(write_file(folder.file("run.kvt"), "precious"));
    const auto recording = demo_recording();
    const auto written = write_kvt(recording, options_for(folder.file("run.kvt")));
    CHECK_THAT(!written);
    CHECK_THAT(contains(written.error().sentence, "there is a file of this name already"));
    CHECK_EQUAL(read_file(folder.file("run.kvt")), "precious");
    const auto nowhere = write_kvt(recording, options_for(folder.file("no/folder/run.kvt")));
    CHECK_THAT(!nowhere);
    CHECK_THAT(contains(nowhere.error().sentence, "no/folder/run.kvt"));
}

struct Bad {
    std::string content;   // of the file; "-": none; "sqlite": another program's database; "newer": of a later version
    std::string sentence;  // that refuses it
};

Cases<Bad> bad_files() {
    Cases<Bad> cases;
    cases.add("no file", {"-", "there is no such file"});
    cases.add("empty", {"", "this is not a recording"});
    cases.add("text", {"once upon a time, there was a key and a value", "this is not a recording"});
    cases.add("a header and no more", {std::string("SQLite format 3\0", 16) + "x", "file"});
    cases.add("another program's", {"sqlite", "this SQLite file is not a recording"});
    cases.add("newer", {"newer", "newer than this program"});
    return cases;
}

void whatIsNoRecordingIsRefusedInWords(Check& check, const Bad& bad) {
    const TemporaryFolder folder;
    const std::string path = folder.file("x.kvt");
    if (bad.content == "sqlite") {
        auto database = SqlDatabase::create(path);
        CHECK_THAT(database && database->execute("CREATE TABLE t(a); PRAGMA journal_mode = DELETE;"));
    } else if (bad.content == "newer") {
        CHECK_THAT(write_kvt(demo_empty_recording(), options_for(path)));
        std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(60);  // user_version, big-endian (SQLite's file format, 1.3)
        file.write("\0\0\0\x63", 4);
    } else if (bad.content != "-") {
        CHECK_THAT(write_file(path, bad.content));
    }
    const auto before = names_in(folder.path());
    const auto stored = open_kvt(path);
    CHECK_THAT(!stored);
    if (stored) return;
    CHECK_THAT(contains(stored.error().message(), bad.sentence));
    CHECK_THAT(contains(stored.error().message(), path));
    CHECK_EQUAL(names_in(folder.path()), before);
}

// Every byte of the file decides over nothing worse than a sentence.
void aDamagedFileIsToldOfAndHarmsNothing(Check& check) {
    const TemporaryFolder folder;
    const std::string path = folder.file("whole.kvt");
    DemoSharingOptions options;
    options.steps = 60;
    options.lanes = {"paged"};
    CHECK_THAT(write_kvt(demo_sharing_recording(options), options_for(path)));
    const std::string whole = read_file(path);
    std::uint64_t random = 12345;
    const auto next = [&random] { return random = random * 6364136223846793005u + 1442695040888963407u, random >> 33; };
    std::size_t told = 0;
    constexpr std::size_t rounds = 60;
    for (std::size_t round = 0; round < rounds; ++round) {
        std::string bytes = whole;
        if (round % 10 == 9) bytes.resize(next() % bytes.size());
        else
            for (std::size_t flips = 1 + next() % 4; flips > 0; --flips) bytes[next() % bytes.size()] ^= static_cast<char>(1u << next() % 8);
        const std::string damaged = folder.file("damaged.kvt");
        CHECK_THAT(write_file(damaged, bytes));
        const auto wrong = check_kvt(damaged);
        told += !wrong.empty();
        if (const auto stored = open_kvt(damaged); stored && stored->recording->lanes()[0]->step_count() > 0) (void)exports(*stored->recording);
    }
    CHECK_THAT(told * 3 > rounds);  // the rest lies in what pages leave unused
    CHECK_EQUAL(check_kvt(path), std::vector<std::string>{});
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(whatWasRecordedComesBack), recordings());
    claims.add(CLAIM(aFileOfVersion1OpensAsBefore));
    claims.add(CLAIM(everyStepIsReachedFromEveryOther));
    claims.add(CLAIM(aTakenNameIsRefusedAndKept));
    claims.add(CLAIM(whatIsNoRecordingIsRefusedInWords), bad_files());
    claims.add(CLAIM(aDamagedFileIsToldOfAndHarmsNothing));
    return claims.rows();
}
