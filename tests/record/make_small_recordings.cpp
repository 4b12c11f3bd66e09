// SPDX-License-Identifier: GPL-3.0-or-later
//
// Writes the recordings under tests/fixtures/recordings, which every later version must open, and which the fuzzer starts from.
// Run it when a version is added, with names of that version; those of older versions stay as they are:
//   kvloupe_small_recordings FOLDER
#include "engine/record/kvt_writer.h"
#include "tests/support/demo_recording.h"
#include "tests/support/demo_sharing.h"

#include <sqlite3.h>

#include <cstdio>

using namespace kvloupe;

namespace {

// Pages of 512 bytes: with those of a usual recording most of so small a file would be empty.
Result<void> write_small(const std::shared_ptr<const Recording>& recording, const std::string& path, std::size_t first, std::size_t end) {
    KvtOptions options;
    options.path = path;
    options.program = "KVLoupe";
    options.scenario = "{\"version\": 1, \"requests\": []}";
    if (auto written = write_kvt(recording, options, first, end); !written) return written;
    sqlite3* database = nullptr;
    const bool packed = sqlite3_open(path.c_str(), &database) == SQLITE_OK &&
                        sqlite3_exec(database, "PRAGMA page_size = 512; VACUUM;", nullptr, nullptr, nullptr) == SQLITE_OK;
    sqlite3_close(database);
    return packed ? Result<void>() : Result<void>(Error{path + ": it could not be packed", ""});
}

int made(const Result<void>& written) {
    if (!written) std::fprintf(stderr, "%s\n", written.error().message().c_str());
    return written ? 0 : 1;
}

}  // namespace

int main(int count, char** words) {
    if (count != 2) {
        std::fprintf(stderr, "kvloupe_small_recordings FOLDER\n");
        return 2;
    }
    const std::string folder = words[1];
    DemoOptions demo;
    demo.steps = 16;
    demo.layers = 1;
    demo.query_heads = 2;
    demo.one_lane = true;
    DemoSharingOptions sharing;
    sharing.steps = 40;
    sharing.lanes = {"paged"};
    return made(write_small(demo_recording(demo), folder + "/small-1.kvt", 0, SIZE_MAX)) |
           made(write_small(demo_sharing_recording(sharing), folder + "/cut-1.kvt", 24, 30));
}
