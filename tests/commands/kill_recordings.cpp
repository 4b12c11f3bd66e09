// SPDX-License-Identifier: GPL-3.0-or-later
//
// Runs that are killed while they are recorded: `kvloupe run --record` as a child, SIGKILL at a random moment, and the file must
// open, also where its folder cannot be written, and hold every step that had ended a second before.
//   kvloupe_kill_recordings PROGRAM [KILLS [LONGEST_MS [SEED]]]     (4 kills within 700 ms, seed 1)
#include "engine/record/kvt_reader.h"
#include "engine/record/lane_state_code.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <thread>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

using Clock = std::chrono::steady_clock;

// Two lanes of 48 sequences that go on for minutes.
std::string long_scenario() {
    std::string json = "{\"version\": 1, \"model\": \"none\", \"lanes\": [{\"name\": \"a\", \"cache\": {\"blocks\": 40000, \"block_size\": 64},"
                       " \"scheduler\": {\"max_num_seqs\": 48}}, {\"name\": \"b\", \"cache\": {\"blocks\": 40000, \"block_size\": 64, \"prefix_index\":"
                       " \"radix\"}, \"scheduler\": {\"max_num_seqs\": 48}}], \"requests\": [";
    for (int i = 0; i < 400; ++i)
        json += std::string(i ? ", " : "") + "{\"id\": \"r" + std::to_string(i) + "\", \"prompt_tokens\": [1, 2, 3, 4, " + std::to_string(i) +
                "], \"max_new_tokens\": 40000, \"arrival_step\": " + std::to_string(i * 20) + "}";
    return json + "]}";
}

pid_t start(const char* program, const std::string& scenario, const std::string& record) {
    const pid_t child = fork();
    if (child != 0) return child;
    const int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDOUT_FILENO);
    execl(program, program, "run", scenario.c_str(), "--record", record.c_str(), static_cast<char*>(nullptr));
    _exit(127);
}

struct Killed {
    Clock::time_point made, killed;  // the file was there, and the end
    bool by_us = false;
};

Killed kill_after(const char* program, const std::string& scenario, const std::string& record, std::chrono::milliseconds delay) {
    Killed result;
    const pid_t child = start(program, scenario, record);
    if (child < 0) return result;
    const auto deadline = Clock::now() + std::chrono::minutes(1);
    while (!file_exists(record) && Clock::now() < deadline) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    result.made = Clock::now();
    std::this_thread::sleep_for(delay);
    result.killed = Clock::now();
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    result.by_us = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    return result;
}

// What is wrong with what was left, or "".
std::string judge(const std::string& folder, const std::string& record, const Killed& killed, std::size_t& steps) {
    if (!killed.by_us) return "the run ended before it was killed";
    namespace fs = std::filesystem;
    fs::permissions(folder, fs::perms::owner_read | fs::perms::owner_exec);  // it must open where nothing can be written
    const auto before = names_in(folder);
    const std::string bytes = read_file(record), log = read_file(record + "-wal");
    const auto stored = open_kvt(record);
    std::string wrong;
    if (!stored) {
        wrong = stored.error().message();
    } else {
        for (const auto& lane : stored->recording->lanes()) {
            const std::size_t count = lane->step_count();
            const std::uint64_t last = count > 0 ? lane->step(count - 1).start_ns + lane->step(count - 1).duration_ns : 0;
            const double missing = std::chrono::duration<double>(killed.killed - killed.made).count() - static_cast<double>(last) / 1e9;
            if (missing > 1) wrong = "the last " + std::to_string(missing) + " s are missing";
            if (count > 0 && LaneStateCode::encode(lane->state_after(count - 1)).empty()) wrong = "the last state cannot be read";
            if (!lane->damage().empty()) wrong = lane->damage();
            steps = count;
        }
        if (bytes.size() < (8u << 20))
            if (const auto found = check_kvt(record); !found.empty()) wrong = found.front();
    }
    if (names_in(folder) != before || read_file(record) != bytes || read_file(record + "-wal") != log) wrong = "reading changed the folder";
    fs::permissions(folder, fs::perms::owner_all);
    return wrong;
}

}  // namespace

int main(int count, char** words) {
    if (count < 2) {
        std::fprintf(stderr, "kvloupe_kill_recordings PROGRAM [KILLS [LONGEST_MS [SEED]]]\n");
        return 2;
    }
    const int kills = count > 2 ? std::atoi(words[2]) : 4;
    const int longest = count > 3 ? std::atoi(words[3]) : 700;
    std::uint64_t random = count > 4 ? std::strtoull(words[4], nullptr, 10) : 1;
    const TemporaryFolder folder;
    const std::string scenario = folder.file("long.json");
    if (!write_bytes(scenario, long_scenario())) return 2;
    int failed = 0;
    for (int i = 0; i < kills; ++i) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        const std::chrono::milliseconds delay(static_cast<int>((random >> 33) % static_cast<unsigned>(std::max(longest, 1))));
        const std::string place = folder.file("kill" + std::to_string(i));
        std::filesystem::create_directory(place);
        const std::string record = place + "/run.kvt";
        const Killed killed = kill_after(words[1], scenario, record, delay);
        std::size_t steps = 0;
        const std::string wrong = judge(place, record, killed, steps);
        std::printf("killed after %4d ms: %zu steps%s%s\n", static_cast<int>(delay.count()), steps, wrong.empty() ? "" : ", WRONG: ", wrong.c_str());
        std::fflush(stdout);
        failed += !wrong.empty();
        std::filesystem::remove_all(place);
    }
    std::printf("%d of %d recordings held what they must\n", kills - failed, kills);
    return failed == 0 && kills > 0 ? 0 : 1;
}
