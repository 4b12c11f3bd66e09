// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/stage_clock.h"

#include "kernels/cpu/aligned_bytes.h"
#include "kernels/cpu/cpu_info.h"
#include "kernels/cpu/kernels.h"

#include <algorithm>
#include <cstring>

namespace kvloupe::cpu {

double measure_read_bandwidth(ThreadPool& pool) {
    constexpr std::uint64_t least = 256ull << 20, segment = 32ull << 20, part = 1ull << 20;
    constexpr int passes = 4;
    const std::uint64_t free = memory_size().free;
    // Twice the last level cache, but never so much that the machine notices.
    std::uint64_t bytes = std::clamp<std::uint64_t>(2 * last_level_cache(), least, 1ull << 30) / segment * segment;
    if (free > 0) bytes = std::min(bytes, free / 4 / segment * segment);
    std::atomic<std::uint64_t> uncounted{0};  // gone before anyone can read a counter
    auto memory = AlignedBytes::make(bytes, uncounted, "measuring the bandwidth");
    if (!memory || bytes == 0) return 0;
    constexpr auto parts = static_cast<std::uint32_t>(segment / part);
    std::atomic<std::uint64_t> sink{0};  // keeps the reads
    double best = 0;
    // Segments are timed one by one: on a busy machine some of them run undisturbed, a whole pass hardly ever.
    for (int pass = 0; pass <= passes; ++pass)
        for (std::uint64_t at = 0; at < bytes; at += segment) {
            const std::byte* data = memory->data() + at;
            const auto begin = std::chrono::steady_clock::now();
            pool.run(parts, [&](std::uint32_t index, unsigned) {
                if (pass == 0)  // touched first by the threads that read
                    std::memset(memory->data() + at + index * part, 1, part);
                else
                    sink.fetch_xor(read_all(data + index * part, part), std::memory_order_relaxed);
            });
            const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
            if (pass > 0) best = std::max(best, static_cast<double>(segment) / passed.count());
        }
    return best;
}

}  // namespace kvloupe::cpu
