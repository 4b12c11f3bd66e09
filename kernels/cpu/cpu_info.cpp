// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/cpu_info.h"

#include "kernels/cpu/kernels.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string_view>
#include <thread>

#ifdef __linux__
#include <sched.h>
#endif

namespace kvloupe::cpu {

namespace {

std::string first_line(const char* path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

// A number that a control-group file may hold; 0 where it holds "max" or is absent.
std::uint64_t number_in(const std::string& text) {
    std::uint64_t value = 0;
    std::istringstream(text) >> value;
    return value;
}

// Value of "Key:  123 kB" in /proc/meminfo, in bytes.
std::uint64_t meminfo(std::string_view key) {
    std::ifstream file("/proc/meminfo");
    for (std::string line; std::getline(file, line);)
        if (line.compare(0, key.size(), key) == 0) return number_in(line.substr(key.size())) * 1024;
    return 0;
}

}  // namespace

std::string processor_name() {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);) {
        if (line.rfind("model name", 0) != 0) continue;
        const std::size_t begin = line.find_first_not_of(" \t", line.find(':') + 1);
        if (begin != std::string::npos) return line.substr(begin);
    }
    return "Processor";
}

unsigned cores_at_hand() {
    unsigned cores = std::max(1u, std::thread::hardware_concurrency());
#ifdef __linux__
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0) cores = static_cast<unsigned>(std::max(1, CPU_COUNT(&set)));
#endif
    std::istringstream quota_line(first_line("/sys/fs/cgroup/cpu.max"));  // "200000 100000" or "max 100000"
    std::uint64_t quota = 0, period = 0;
    if (quota_line >> quota >> period && quota > 0 && period > 0)
        cores = std::min<unsigned>(cores, static_cast<unsigned>(std::max<std::uint64_t>(1, (quota + period - 1) / period)));
    return cores;
}

MemorySize memory_size() {
    MemorySize size{meminfo("MemTotal:"), meminfo("MemAvailable:")};
    const std::uint64_t limit = number_in(first_line("/sys/fs/cgroup/memory.max"));
    if (limit != 0 && limit < size.total) {
        const std::uint64_t used = number_in(first_line("/sys/fs/cgroup/memory.current"));
        size.total = limit;
        size.free = std::min(size.free, limit > used ? limit - used : 1);
    }
    return size;
}

std::string vector_instructions() {
    const std::string target = simd_target();
    if (target.rfind("AVX3", 0) == 0) return "AVX-512 (" + target + ")";
    return target;
}

std::uint64_t last_level_cache() {
    std::uint64_t largest = 0;
    for (int index = 0; index < 8; ++index) {
        const std::string path = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/size";
        const std::string text = first_line(path.c_str());  // "307200K"
        if (!text.empty()) largest = std::max(largest, number_in(text) * (text.back() == 'M' ? 1u << 20 : 1u << 10));
    }
    return largest;
}

}  // namespace kvloupe::cpu
