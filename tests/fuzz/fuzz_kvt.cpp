// SPDX-License-Identifier: GPL-3.0-or-later
//
// Any bytes as a recording file: either an error with a sentence, or everything in it can be asked for.
#include "engine/record/kvt_reader.h"
#include "engine/record/lane_state_code.h"
#include "engine/record/results.h"
#include "tests/fuzz/require.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

using namespace kvloupe;

namespace {

// A file for the inputs, one after the other; it goes with the process.
class InputFile {
public:
    InputFile() : m_path((std::filesystem::temp_directory_path() / ("kvloupe-fuzz-" + std::to_string(getpid()) + ".kvt")).string()) {}
    ~InputFile() { std::remove(m_path.c_str()); }
    InputFile(const InputFile&) = delete;
    InputFile& operator=(const InputFile&) = delete;
    const std::string& path() const { return m_path; }

private:
    std::string m_path;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const InputFile input;
    std::FILE* const file = std::fopen(input.path().c_str(), "wb");
    KVLOUPE_REQUIRE(file && (size == 0 || std::fwrite(data, 1, size, file) == size) && std::fclose(file) == 0);
    const auto stored = open_kvt(input.path());
    for (const std::string& sentence : check_kvt(input.path())) KVLOUPE_REQUIRE(sentence.size() > 8);
    if (!stored) {
        KVLOUPE_REQUIRE(stored.error().sentence.size() > 8);
        return 0;
    }
    for (const auto& lane : stored->recording->lanes())
        for (std::size_t step = 0; step < std::min<std::size_t>(lane->step_count(), 64); ++step)
            (void)LaneStateCode::encode(lane->state_after(step));
    if (size > (1u << 18)) return 0;
    (void)summary_json(*stored->recording);
    (void)steps_csv(*stored->recording);
    (void)trace_json(*stored->recording, 1u << 20);
    return 0;
}
