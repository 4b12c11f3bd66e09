// SPDX-License-Identifier: GPL-3.0-or-later
//
// Stage timers, and the bandwidth that their bytes are compared with.
#pragma once

#include "engine/backend.h"
#include "kernels/cpu/thread_pool.h"

#include <chrono>
#include <span>
#include <vector>

namespace kvloupe::cpu {

// Each mark ends the stage that ran since the last one.
class StageClock {
public:
    void start() {
        m_timings.clear();
        m_last = std::chrono::steady_clock::now();
    }
    void mark(StageKind kind, std::uint16_t layer) {
        const auto now = std::chrono::steady_clock::now();
        const auto passed = std::chrono::duration_cast<std::chrono::nanoseconds>(now - m_last).count();
        m_timings.push_back({kind, layer, static_cast<std::uint64_t>(passed)});
        m_last = now;
    }
    std::span<const StageTiming> timings() const { return m_timings; }

private:
    std::vector<StageTiming> m_timings;
    std::chrono::steady_clock::time_point m_last = std::chrono::steady_clock::now();
};

// Bytes per second that the pool's threads read together from a buffer far larger than the caches: the best of several
// passes. 0: no memory for it.
double measure_read_bandwidth(ThreadPool& pool);

}  // namespace kvloupe::cpu
