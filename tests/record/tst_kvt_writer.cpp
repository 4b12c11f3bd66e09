// SPDX-License-Identifier: GPL-3.0-or-later
//
// A recording file while it grows, written by a thread of its own: it ends with the run, and what was cut off opens with all before.
#include "engine/record/kvt_reader.h"
#include "engine/record/reading_as.h"
#include "tests/record/same_lanes.h"
#include "tests/support/demo_sharing.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

#include <atomic>
#include <cstring>
#include <filesystem>
#include <thread>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

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

// Two threads step through different parts, a third reads ahead: each finds what is there.
void readersDoNotDisturbOneAnother(Check& check) {
    const TemporaryFolder folder;
    const auto recording = one_busy_lane(1500);
    CHECK_THAT(write_kvt(recording, options_for(folder.file("run.kvt"))));
    const auto stored = open_kvt(folder.file("run.kvt"));
    CHECK_THAT(stored);
    if (!stored) return;
    const LaneRecord &file = *stored->recording->lanes()[0], &own = *recording->lanes()[0];
    std::atomic<std::size_t> wrong{0};
    {
        std::vector<std::jthread> readers;
        for (std::size_t reader = 0; reader < 2; ++reader)
            readers.emplace_back([&, reader] {
                for (std::size_t i = 0; i < 120; ++i) {
                    const std::size_t step = (reader * 701 + i * 13) % file.step_count();
                    wrong += LaneStateCode::encode(file.state_after(step)) != LaneStateCode::encode(own.state_after(step));
                }
            });
        readers.emplace_back([&] {
            const ReadingAs ahead(Reading::ahead);
            for (std::uint64_t i = 0; i < file.events().size(); ++i) wrong += std::memcmp(&file.events()[i], &own.events()[i], sizeof(Event)) != 0;
        });
    }
    CHECK_EQUAL(wrong.load(), std::size_t{0});
    CHECK_EQUAL(file.damage(), "");
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(aFileFollowsARunAndEndsWithIt));
    claims.add(CLAIM(whatWasCutOffOpensWithAllBefore));
    claims.add(CLAIM(readersDoNotDisturbOneAnother));
    return claims.rows();
}
