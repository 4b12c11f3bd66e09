// SPDX-License-Identifier: GPL-3.0-or-later
//
// Recording files: what was recorded comes back, whole, while it grows and after the program was cut off; what is no recording is
// refused in words; what is damaged is told of.
#include "engine/record/file_output.h"
#include "engine/record/kvt_reader.h"
#include "engine/record/kvt_writer.h"
#include "engine/record/lane_state_code.h"
#include "engine/record/results.h"
#include "engine/record/sql_database.h"
#include "tests/support/claims.h"
#include "tests/support/demo_recording.h"
#include "tests/support/demo_sharing.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/texts.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

KvtOptions options_for(const std::string& path) {
    KvtOptions options;
    options.path = path;
    options.program = "a test";
    options.scenario = "{\"version\": 1}";
    options.commit_interval = std::chrono::milliseconds(1);
    return options;
}

bool same(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// The first `steps` steps of both lanes say the same.
void same_lanes(Check& check, const LaneRecord& a, const LaneRecord& b, std::size_t steps) {
    CHECK_THAT(b.step_count() >= steps);
    if (b.step_count() < steps || steps == 0) return;
    const StepRecord& last = a.step(steps - 1);
    std::size_t different = 0;
    for (std::uint64_t i = 0; i < last.events.end; ++i)
        different += std::memcmp(&a.events()[i], &b.events()[i], sizeof(Event)) != 0;
    CHECK_EQUAL(different, std::size_t{0});
    for (std::uint64_t i = 0; i < last.tokens.end; ++i) {
        const TokenRecord &x = a.tokens()[i], &y = b.tokens()[i];
        different += !(x.sequence == y.sequence && x.position == y.position && x.token == y.token && x.source == y.source &&
                       x.rank == y.rank && same(x.probability, y.probability) && x.alternative_count == y.alternative_count);
        for (std::uint64_t k = 0; k < x.alternative_count; ++k) {
            const Alternative &m = a.alternatives()[x.alternatives_begin + k], &n = b.alternatives()[y.alternatives_begin + k];
            different += !(m.token == n.token && same(m.probability, n.probability) && same(m.logit, n.logit));
        }
    }
    CHECK_EQUAL(different, std::size_t{0});
    for (std::uint64_t i = 0; i < last.attention.end; ++i) {
        const AttentionRow &x = a.attention()[i], &y = b.attention()[i];
        different += !(x.sequence == y.sequence && x.layer == y.layer && x.head == y.head && x.position == y.position &&
                       x.key_count == y.key_count);
        for (std::uint64_t k = 0; k < std::min(x.key_count, y.key_count); ++k)
            different += a.attention_weights()[x.weights_begin + k] != b.attention_weights()[y.weights_begin + k];
    }
    CHECK_EQUAL(different, std::size_t{0});
    for (std::size_t step = 0; step < steps; step += std::max<std::size_t>(steps / 50, 1))
        CHECK_THAT(LaneStateCode::encode(a.state_after(step)) == LaneStateCode::encode(b.state_after(step)));
}

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

void aFileFollowsARunAndEndsWithIt(Check& check) {
    const TemporaryFolder folder;
    DemoSharingOptions options;
    options.steps = 600;
    DemoSharingSession session(options);
    auto writer = KvtWriter::create(session.recording(), options_for(folder.file("run.kvt")));
    CHECK_THAT(writer);
    if (!writer) return;
    while (session.step()) (*writer)->wait_for_room();
    session.writer().set_phase(Phase::finished, "the end");
    CHECK_THAT((*writer)->finish());
    CHECK_EQUAL((*writer)->progress().behind_events, std::uint64_t{0});
    const auto stored = open_kvt(folder.file("run.kvt"));
    CHECK_THAT(stored);
    if (!stored) return;
    CHECK_THAT(stored->recording->phase() == Phase::finished);
    CHECK_EQUAL(stored->recording->reason(), "the end");
    for (std::size_t i = 0; i < stored->recording->lanes().size(); ++i)
        same_lanes(check, *session.recording()->lanes()[i], *stored->recording->lanes()[i], 600);
    CHECK_EQUAL(check_kvt(folder.file("run.kvt")), std::vector<std::string>{});
}

// A file and its log as they lie there at some moment are what a program leaves that is killed then.
void whatWasCutOffOpensWithAllBefore(Check& check) {
    const TemporaryFolder folder, copies;
    DemoSharingOptions options;
    options.steps = 400;
    DemoSharingSession session(options);
    auto writer = KvtWriter::create(session.recording(), options_for(folder.file("run.kvt")));
    CHECK_THAT(writer);
    if (!writer) return;
    std::size_t steps = 0;
    while (session.step()) {
        if (++steps % 97 != 0) continue;
        while ((*writer)->progress().behind_events > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        const std::string copy = copies.file("cut" + std::to_string(steps) + ".kvt");
        std::filesystem::copy_file(folder.file("run.kvt"), copy);
        std::filesystem::copy_file(folder.file("run.kvt-wal"), copy + "-wal");
        const auto before = names_in(copies.path());
        const auto stored = open_kvt(copy);
        CHECK_THAT(stored);
        if (!stored) return;
        CHECK_THAT(stored->recovered);
        CHECK_EQUAL(stored->meta.at("complete"), "0");
        for (std::size_t i = 0; i < stored->recording->lanes().size(); ++i) {
            CHECK_EQUAL(stored->recording->lanes()[i]->step_count(), steps);
            same_lanes(check, *session.recording()->lanes()[i], *stored->recording->lanes()[i], steps);
        }
        CHECK_EQUAL(names_in(copies.path()), before);
        CHECK_EQUAL(check_kvt(copy), std::vector<std::string>{});
    }
    CHECK_THAT((*writer)->finish());
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
    claims.add(CLAIM(aFileFollowsARunAndEndsWithIt));
    claims.add(CLAIM(whatWasCutOffOpensWithAllBefore));
    claims.add(CLAIM(aTakenNameIsRefusedAndKept));
    claims.add(CLAIM(whatIsNoRecordingIsRefusedInWords), bad_files());
    claims.add(CLAIM(aDamagedFileIsToldOfAndHarmsNothing));
    return claims.rows();
}
