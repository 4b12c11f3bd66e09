// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/emulation/registry.h"

#include "emulation/launch.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <fstream>

namespace kvloupe::emulation {

namespace {

// One name per kernel instance: string literals, told apart by address. As in CUDA, what is loaded belongs to the process.
std::array<std::atomic<const char*>, 512> names{};

class WriteAtExit {
public:
    WriteAtExit() {
        if (const char* file = std::getenv("KVLOUPE_LAUNCHED_KERNELS")) m_path = file;
        if (!m_path.empty()) std::ofstream(m_path, std::ios::trunc);
    }
    ~WriteAtExit() {
        if (m_path.empty()) return;
        std::ofstream out(m_path, std::ios::trunc);
        for (const std::string& name : launched_kernels()) out << name << '\n';
    }
    WriteAtExit(const WriteAtExit&) = delete;
    WriteAtExit& operator=(const WriteAtExit&) = delete;

private:
    std::string m_path;
};

}  // namespace

void register_kernel(const char* name) {
    for (std::atomic<const char*>& entry : names) {
        const char* known = entry.load(std::memory_order_relaxed);
        if (known == nullptr && entry.compare_exchange_strong(known, name, std::memory_order_relaxed)) return;
        if (known == name) return;
    }
}

void write_kernels_at_exit() { static const WriteAtExit writer; }

std::set<std::string> launched_kernels() {
    std::set<std::string> found;
    for (const std::atomic<const char*>& entry : names)
        if (const char* name = entry.load(std::memory_order_relaxed)) found.insert(name);
    return found;
}

}  // namespace kvloupe::emulation
