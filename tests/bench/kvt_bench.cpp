// SPDX-License-Identifier: GPL-3.0-or-later
//
// Recording files: events a second to disk, opening, seeking, memory, differences, exports. Usage:
//   kvloupe_kvt_bench [MILLIONS [FOLDER]]      events (default 10), where the file is made (default: the temporary folder)
//   kvloupe_kvt_bench --make FILE MILLIONS     makes a file and leaves it, for kvloupe_seek_bench
#include "engine/record/kvt_reader.h"
#include "engine/record/kvt_writer.h"
#include "engine/record/recording_diff.h"
#include "engine/record/results.h"
#include "tests/support/demo_sharing.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

using namespace kvloupe;

namespace {

using Clock = std::chrono::steady_clock;

// Processor time of this process so far: on a machine with other work a better figure than the clock on the wall.
double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// Bytes of this process that lie in memory.
double resident_mib() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
        if (line.rfind("VmRSS:", 0) == 0) return std::strtod(line.c_str() + 6, nullptr) / 1024;
    return 0;
}

std::shared_ptr<const Recording> recording_of(std::uint64_t events) {
    // Every step tells of some hundred events; requests are made up for as many steps as may be needed.
    DemoSharingOptions options = DemoSharingOptions::large(static_cast<std::uint32_t>(events / 480 + 200), 65536);
    DemoSharingSession session(options);
    const LaneRecord& lane = *session.recording()->lanes()[0];
    while (lane.events().size() < events && session.step()) {}
    session.writer().set_phase(Phase::finished);
    return session.recording();
}

double percentile_of(std::vector<double>& values, double p) {
    std::sort(values.begin(), values.end());
    return values[static_cast<std::size_t>(p * static_cast<double>(values.size() - 1))];
}

KvtOptions options_for(const std::string& path) {
    std::filesystem::remove(path);
    KvtOptions options;
    options.path = path;
    options.program = "kvloupe_kvt_bench";
    return options;
}

void write(const std::shared_ptr<const Recording>& recording, const std::string& path) {
    const std::uint64_t events = recording->lanes()[0]->events().size();
    const auto begin = Clock::now();
    const double cpu = cpu_seconds();
    if (const auto written = write_kvt(recording, options_for(path)); !written) {
        std::fprintf(stderr, "%s\n", written.error().message().c_str());
        std::exit(1);
    }
    const double seconds = seconds_since(begin);
    const double bytes = static_cast<double>(std::filesystem::file_size(path));
    std::printf("write      %.1f M events, %zu steps: %.2f s (processor %.2f s), %.2f M events/s, %.0f MiB, %.1f B per event\n", static_cast<double>(events) / 1e6,
                recording->lanes()[0]->step_count(), seconds, cpu_seconds() - cpu, static_cast<double>(events) / 1e6 / seconds, bytes / (1 << 20),
                bytes / static_cast<double>(events));
}

void read(const std::string& path) {
    const double before = resident_mib();
    const auto begin = Clock::now();
    const auto stored = open_kvt(path);
    if (!stored) {
        std::fprintf(stderr, "%s\n", stored.error().message().c_str());
        std::exit(1);
    }
    const LaneRecord& lane = *stored->recording->lanes()[0];
    const double opened = seconds_since(begin);
    (void)lane.state_after(lane.step_count() - 1);
    std::printf("open       %.3f s, with the state at the last step %.3f s\n", opened, seconds_since(begin));

    std::vector<double> cold;
    const double cpu = cpu_seconds();
    std::uint64_t random = 1;
    for (int i = 0; i < 400; ++i) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        const std::size_t step = static_cast<std::size_t>((random >> 33) % lane.step_count());
        const auto at = Clock::now();
        (void)lane.state_after(step);
        cold.push_back(seconds_since(at) * 1e3);
    }
    const double median = percentile_of(cold, .5), slow = percentile_of(cold, .95);
    std::printf("seek       400 random steps: median %.2f ms, 95th percentile %.2f ms, largest %.2f ms; processor %.2f ms each\n", median, slow,
                cold.back(), (cpu_seconds() - cpu) * 1e3 / 400);
    for (std::size_t i = 0; i < lane.events().size(); i += 4096) (void)lane.events()[i];
    for (std::size_t i = 0; i < lane.step_count(); i += 256) (void)lane.step(i);
    std::printf("memory     all events and steps read: %.0f MiB more than before, file %.0f MiB (%.2f times)\n", resident_mib() - before,
                static_cast<double>(stored->file_bytes) / (1 << 20), (resident_mib() - before) * (1 << 20) / static_cast<double>(stored->file_bytes));
}

}  // namespace

int main(int argc, char** argv) {
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    if (argc == 3 && std::string(argv[1]) == "--read") {  // a process of its own: its memory is the file's
        read(argv[2]);
        return 0;
    }
    if (argc == 4 && std::string(argv[1]) == "--make" && std::strtod(argv[3], nullptr) >= 0.1) {
        write(recording_of(static_cast<std::uint64_t>(std::strtod(argv[3], nullptr) * 1e6)), argv[2]);
        return 0;
    }
    const double millions = argc > 1 ? std::strtod(argv[1], nullptr) : 10;
    if (!(millions >= 0.1 && millions <= 1000)) {
        std::fprintf(stderr, "kvloupe_kvt_bench [MILLIONS [FOLDER]], or --make FILE MILLIONS: 0.1 to 1000 million events\n");
        return 2;
    }
    const std::string folder = argc > 2 ? argv[2] : std::filesystem::temp_directory_path().string();
    const std::string path = folder + "/kvloupe-bench.kvt", small = folder + "/kvloupe-bench-small.kvt";
    {
        const auto begin = Clock::now();
        const auto recording = recording_of(static_cast<std::uint64_t>(millions * 1e6));
        const LaneRecord& lane = *recording->lanes()[0];
        std::printf("generate   %.1f s, an event takes %zu B in memory; the whole recording %.0f MiB, %.1f B per event\n", seconds_since(begin),
                    sizeof(Event), static_cast<double>(recording->memory_bytes()) / (1 << 20),
                    static_cast<double>(recording->memory_bytes()) / static_cast<double>(lane.events().size()));
        write(recording, path);
    }
    if (std::system(("'" + std::string(argv[0]) + "' --read '" + path + "'").c_str()) != 0) return 1;
    {
        const auto recording = recording_of(1'000'000);
        write(recording, small);
        const auto a = open_kvt(small), b = open_kvt(small);
        auto begin = Clock::now();
        const double cpu = cpu_seconds();
        const bool same = diff_recordings(*(*a).recording, *(*b).recording).same();
        std::printf("diff       two of 1 M events: %.2f s, processor %.2f s (%s)\n", seconds_since(begin), cpu_seconds() - cpu, same ? "the same" : "different");
        begin = Clock::now();
        const std::size_t bytes = trace_json(*(*a).recording, 200ull * 1000 * 1000).size();
        std::printf("trace      of 1 M events: %.2f s, %.0f MB\n", seconds_since(begin), static_cast<double>(bytes) / 1e6);
        begin = Clock::now();
        const std::size_t wrong = check_kvt(small).size();
        std::printf("check      of 1 M events: %.2f s, %zu findings\n", seconds_since(begin), wrong);
    }
    std::filesystem::remove(path);
    std::filesystem::remove(small);
    return 0;
}
