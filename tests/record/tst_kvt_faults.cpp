// SPDX-License-Identifier: GPL-3.0-or-later
//
// Recording files where things go wrong: a disk that runs full at any moment, files that are cut off or damaged anywhere, files of
// the first version. Nothing worse than a sentence comes of it, and reading changes nothing.
#include "engine/record/kvt_query.h"
#include "engine/record/kvt_reader.h"
#include "engine/record/kvt_writer.h"
#include "engine/record/lane_state_code.h"
#include "engine/record/results.h"
#include "tests/record/full_disk_vfs.h"
#include "tests/support/claims.h"
#include "tests/support/demo_sharing.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/texts.h"

#include <algorithm>
#include <chrono>
#include <filesystem>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

const std::string fixtures = KVLOUPE_SOURCE_DIR "/tests/fixtures/recordings/";

// Everything that a file holds is asked for.
void read_everything(const std::string& path) {
    const auto stored = open_kvt(path);
    if (!stored) return;
    for (const auto& lane : stored->recording->lanes())
        for (std::size_t step = 0; step < lane->step_count(); ++step) (void)LaneStateCode::encode(lane->state_after(step));
    (void)summary_json(*stored->recording);
    (void)steps_csv(*stored->recording);
    (void)events_csv(*stored->recording);
    (void)trace_json(*stored->recording, 1u << 24);
    (void)blocks_json(*stored->recording);
}

// A session that is recorded on a disk of so many writes. Returns what finish() or create() said.
Result<void> record(const std::string& path, FullDiskVfs& disk, std::int64_t writes, KvtProgress& progress) {
    DemoSharingOptions demo;
    demo.steps = 160;
    demo.lanes = {"paged", "radix"};
    DemoSharingSession session(demo);
    KvtOptions options;
    options.path = path;
    options.commit_interval = std::chrono::milliseconds(1);
    options.vfs = disk.name();
    disk.full_after(writes);
    auto writer = KvtWriter::create(session.recording(), options);
    if (!writer) return writer.error();
    while (session.step()) (*writer)->wait_for_room();
    const auto finished = (*writer)->finish();
    progress = (*writer)->progress();
    return finished;
}

void aDiskThatRunsFullAtAnyMomentKeepsWhatWasWritten(Check& check) {
    const TemporaryFolder folder;
    FullDiskVfs disk("kvloupe-test-full-disk");
    KvtProgress progress;
    constexpr std::int64_t plenty = 1'000'000;
    CHECK_THAT(record(folder.file("whole.kvt"), disk, plenty, progress));
    const std::int64_t all = plenty - disk.left();
    CHECK_THAT(all > 50);
    std::size_t kept = 0, failed = 0;
    for (std::int64_t writes = 0; writes < all; writes += std::max<std::int64_t>(all / 60, 1)) {
        const std::string path = folder.file("full" + std::to_string(writes) + ".kvt");
        progress = {};
        const auto recorded = record(path, disk, writes, progress);
        if (recorded) continue;  // it needed fewer writes this time
        ++failed;
        CHECK_THAT(contains(recorded.error().message(), "the disk is full"));
        CHECK_THAT(contains(recorded.error().message(), path));
        if (!file_exists(path)) {
            CHECK_EQUAL(progress.steps, std::uint64_t{0});  // it ended before it began, and nothing stays behind
            continue;
        }
        const auto stored = open_kvt(path);
        CHECK_THAT(stored);
        if (!stored) return;
        std::uint64_t steps = 0;
        for (const auto& lane : stored->recording->lanes()) steps += lane->step_count();
        CHECK_THAT(steps >= progress.steps);  // what was said to be in the file is there
        kept += steps > 0;
        CHECK_EQUAL(check_kvt(path), std::vector<std::string>{});
    }
    CHECK_THAT(failed > 20 && kept > 10);
}

void filesOfTheFirstVersionOpen(Check& check) {
    const auto names = names_in(fixtures, "", ".kvt");
    CHECK_EQUAL(names, (std::vector<std::string>{"cut-1.kvt", "small-1.kvt"}));
    for (const std::string& name : names) {
        CHECK_EQUAL(check_kvt(fixtures + name), std::vector<std::string>{});
        const auto stored = open_kvt(fixtures + name);
        CHECK_THAT(stored);
        if (!stored) return;
        CHECK_EQUAL(stored->meta.at("complete"), "1");
        const LaneRecord& lane = *stored->recording->lanes()[0];
        CHECK_EQUAL(lane.begins_later(), name == "cut-1.kvt");
        CHECK_EQUAL(lane.step_count(), std::size_t{name == "cut-1.kvt" ? 6u : 16u});
        CHECK_THAT(lane.state_after(lane.step_count() - 1).used_blocks() > 0);
        CHECK_THAT(contains(summary_json(*stored->recording), "\"lanes\""));
    }
}

// The small file with one bit in so many turned round, and cut off at as many places.
void damageAnywhereIsHarmless(Check& check) {
    const TemporaryFolder folder;
    const std::string whole = read_file(fixtures + "small-1.kvt"), path = folder.file("damaged.kvt");
    CHECK_THAT(whole.size() > 4096);
    constexpr std::size_t flips = 120, cuts = 40;
    std::size_t told = 0;
    for (std::size_t i = 0; i < flips; ++i) {
        std::string bytes = whole;
        const std::size_t bit = (i * 8 * bytes.size() + 12345) / flips % (8 * bytes.size());
        bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
        CHECK_THAT(write_bytes(path, bytes));
        const auto wrong = check_kvt(path);
        told += !wrong.empty();
        for (const std::string& sentence : wrong) CHECK_THAT(sentence.size() > 8);
        read_everything(path);
    }
    CHECK_THAT(told * 2 > flips);
    for (std::size_t i = 0; i < cuts; ++i) {
        CHECK_THAT(write_bytes(path, whole.substr(0, whole.size() * i / cuts)));
        CHECK_THAT(!check_kvt(path).empty());
        read_everything(path);
    }
    CHECK_EQUAL(names_in(folder.path()), std::vector<std::string>{"damaged.kvt"});
}

void aLogOfAnotherFileIsNoHarm(Check& check) {
    const TemporaryFolder folder;
    const std::string path = folder.file("run.kvt"), whole = read_file(fixtures + "small-1.kvt");
    CHECK_THAT(write_bytes(path, whole));
    for (const std::string& log : {std::string("not a log at all"), whole.substr(0, 3000), std::string(200'000, '\x37')}) {
        CHECK_THAT(write_bytes(path + "-wal", log));
        const auto stored = open_kvt(path);
        CHECK_THAT(stored);
        if (stored) CHECK_EQUAL(stored->recording->lanes()[0]->step_count(), std::size_t{16});
        CHECK_EQUAL(names_in(folder.path()), (std::vector<std::string>{"run.kvt", "run.kvt-wal"}));
    }
}

void readersChangeNothing(Check& check) {
    const TemporaryFolder folder;
    const std::string path = folder.file("run.kvt");
    CHECK_THAT(write_bytes(path, read_file(fixtures + "small-1.kvt")));
    std::filesystem::permissions(folder.path(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
    const auto written = std::filesystem::last_write_time(path);
    read_everything(path);
    CHECK_EQUAL(check_kvt(path), std::vector<std::string>{});
    {
        auto query = KvtQuery::open(path);
        CHECK_THAT(query);
        const auto rows = [](std::vector<SqlValue>) {};
        const auto columns = [](std::vector<std::string>) {};
        CHECK_THAT((*query)->run("SELECT * FROM events", {}, columns, rows));
        CHECK_THAT(!(*query)->run("DELETE FROM steps", {}, columns, rows));
    }
    CHECK_EQUAL(names_in(folder.path()), std::vector<std::string>{"run.kvt"});
    CHECK_THAT(std::filesystem::last_write_time(path) == written);
    CHECK_THAT(read_file(path) == read_file(fixtures + "small-1.kvt"));
    std::filesystem::permissions(folder.path(), std::filesystem::perms::owner_all);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(aDiskThatRunsFullAtAnyMomentKeepsWhatWasWritten));
    claims.add(CLAIM(filesOfTheFirstVersionOpen));
    claims.add(CLAIM(damageAnywhereIsHarmless));
    claims.add(CLAIM(aLogOfAnotherFileIsNoHarm));
    claims.add(CLAIM(readersChangeNothing));
    return claims.rows();
}
