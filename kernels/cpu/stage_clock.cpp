// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/stage_clock.h"

#include "kernels/cpu/aligned_bytes.h"
#include "kernels/cpu/cpu_info.h"
#include "kernels/cpu/kernels.h"

#include <algorithm>
#include <cstring>

namespace kvloupe::cpu {

double measure_read_bandwidth(ThreadPool& pool) {
    constexpr std::uint64_t least = 256ull << 20, part = 4ull << 20;
    constexpr int passes = 6;
    const std::uint64_t free = memory_size().free;
    // Twice the last level cache, but never so much that the machine notices.
    std::uint64_t bytes = std::clamp<std::uint64_t>(2 * last_level_cache(), least, 1ull << 30);
    if (free > 0) bytes = std::min(bytes, free / 4 / part * part);
    std::atomic<std::uint64_t> uncounted{0};  // gone before anyone can read a counter
    auto memory = AlignedBytes::make(bytes, uncounted, "measuring the bandwidth");
    if (!memory || bytes < part) return 0;
    const auto parts = static_cast<std::uint32_t>(bytes / part);
    // Each thread touches what it reads first: pages then lie near it.
    pool.run(parts, [&](std::uint32_t index, unsigned) { std::memset(memory->data() + index * part, 1, part); });
    std::atomic<std::uint64_t> sink{0};  // keeps the reads
    double best = 0;
    for (int pass = 0; pass < passes; ++pass) {
        const auto begin = std::chrono::steady_clock::now();
        pool.run(parts, [&](std::uint32_t index, unsigned) {
            sink.fetch_xor(read_all(memory->data() + index * part, part), std::memory_order_relaxed);
        });
        const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
        best = std::max(best, static_cast<double>(bytes) / passed.count());
    }
    return best;
}

}  // namespace kvloupe::cpu
