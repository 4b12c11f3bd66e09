// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/measure_ceilings.h"

#include "kernels/cpu/aligned_bytes.h"
#include "kernels/cpu/cpu_info.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/matmul.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <vector>

namespace kvloupe::cpu {

namespace {

constexpr std::uint64_t segment = 32ull << 20, part = 1ull << 20;
constexpr int passes = 4;

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// Twice the last level cache, but never so much that the machine notices; whole segments.
std::uint64_t bytes_to_measure() {
    constexpr std::uint64_t least = 256ull << 20;
    const std::uint64_t free = memory_size().free;
    std::uint64_t bytes = std::clamp<std::uint64_t>(2 * last_level_cache(), least, 1ull << 30) / segment * segment;
    if (free > 0) bytes = std::min(bytes, free / 4 / segment * segment);
    return bytes;
}

std::string today() {
    const std::chrono::year_month_day day(std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now()));
    char text[16];
    std::snprintf(text, sizeof text, "%04d-%02u-%02u", static_cast<int>(day.year()), static_cast<unsigned>(day.month()),
                  static_cast<unsigned>(day.day()));
    return text;
}

}  // namespace

double measure_read_bandwidth(ThreadPool& pool, std::stop_token stop) {
    const std::uint64_t bytes = bytes_to_measure();
    std::atomic<std::uint64_t> uncounted{0};  // gone before anyone can read a counter
    auto memory = AlignedBytes::make(bytes, uncounted, "measuring the bandwidth");
    if (!memory || bytes == 0) return 0;
    constexpr auto parts = static_cast<std::uint32_t>(segment / part);
    std::atomic<std::uint64_t> sink{0};  // keeps the reads
    double best = 0;
    // Segments are timed one by one: on a busy machine some of them run undisturbed, a whole pass hardly ever.
    for (int pass = 0; pass <= passes; ++pass)
        for (std::uint64_t at = 0; at < bytes && !stop.stop_requested(); at += segment) {
            const std::byte* data = memory->data() + at;
            const auto begin = Clock::now();
            pool.run(parts, [&](std::uint32_t index, unsigned) {
                if (pass == 0)  // touched first by the threads that read
                    std::memset(memory->data() + at + index * part, 1, part);
                else
                    sink.fetch_xor(read_all(data + index * part, part), std::memory_order_relaxed);
            });
            if (pass > 0) best = std::max(best, static_cast<double>(segment) / seconds_since(begin));
        }
    return best;
}

double measure_copy_bandwidth(ThreadPool& pool, std::stop_token stop) {
    const std::uint64_t bytes = bytes_to_measure() / 2 / segment * segment;
    std::atomic<std::uint64_t> uncounted{0};
    auto from = AlignedBytes::make(bytes, uncounted, "measuring the bandwidth");
    auto to = AlignedBytes::make(bytes, uncounted, "measuring the bandwidth");
    if (!from || !to || bytes == 0) return 0;
    // One run a thread: long copies bypass the caches where the library thinks it worth while, as a copy at its best does.
    const std::uint32_t parts = pool.threads();
    const std::uint64_t run = segment / parts / AlignedBytes::alignment * AlignedBytes::alignment;
    double best = 0;
    for (int pass = 0; pass <= passes; ++pass)
        for (std::uint64_t at = 0; at < bytes && !stop.stop_requested(); at += segment) {
            const auto begin = Clock::now();
            pool.run(parts, [&](std::uint32_t index, unsigned) {
                std::byte* target = to->data() + at + index * run;
                std::byte* source = from->data() + at + index * run;
                if (pass == 0) {
                    std::memset(source, 1, run);
                    std::memset(target, 2, run);
                } else {
                    std::memcpy(target, source, run);
                }
            });
            if (pass > 0) best = std::max(best, 2.0 * static_cast<double>(run * parts) / seconds_since(begin));
        }
    return best;
}

double measure_matrix_rate(ThreadPool& pool, bool blas, std::stop_token stop) {
    constexpr std::uint64_t n = 2048;    // a weight of 16 MiB
    constexpr std::uint64_t rows_at_once = 512;  // far beyond what keeps the units busy, and short: on a busy machine some
                                                 // of many tries run undisturbed, a long one hardly ever
    constexpr double operations = 2.0 * rows_at_once * n * n;
    constexpr int tries = 60;
    constexpr double budget = 1.0;  // seconds; three tries are made whatever they take, the first one to warm up
    std::atomic<std::uint64_t> uncounted{0};
    const auto make = [&](std::uint64_t floats) { return AlignedBytes::make(floats * sizeof(float), uncounted, "measuring the matrix rate"); };
    auto weight = make(n * n), in = make(rows_at_once * n), out = make(rows_at_once * n);
    auto scratch = make(panel_floats(n) * pool.threads());
    if (!weight || !in || !out || !scratch) return 0;
    std::vector<float*> panels(pool.threads());
    for (std::size_t thread = 0; thread < panels.size(); ++thread) panels[thread] = scratch->as<float>() + thread * panel_floats(n);
    for (std::uint64_t i = 0; i < n * n; ++i) weight->as<float>()[i] = static_cast<float>(i % 7) * 0.125f - 0.375f;
    for (std::uint64_t i = 0; i < rows_at_once * n; ++i) in->as<float>()[i] = static_cast<float>(i % 5) * 0.25f - 0.5f;
    const PackedMatrix matrix{weight->data(), DType::f32, n, n};
    const ProductRows rows{in->as<float>(), out->as<float>(), static_cast<std::uint32_t>(rows_at_once), false};
    double best = 0, spent = 0;
    for (int i = 0; i < tries && (i < 3 || spent < budget) && !stop.stop_requested(); ++i) {
        const auto begin = Clock::now();
        multiply(matrix, rows, pool, {panels, blas});
        const double passed = seconds_since(begin);
        spent += passed;
        best = std::max(best, operations / passed);
    }
    return best;
}

Ceilings measure_ceilings(const Ceilings& known, ThreadPool& pool, bool blas, std::stop_token stop) {
    Ceilings ceilings = known;
    const auto part_of = [&](double& value, auto measure) {
        if (value > 0 || stop.stop_requested()) return;
        const double measured = measure();
        if (!stop.stop_requested()) value = measured;  // less than all of its tries is no measurement
    };
    part_of(ceilings.read_bandwidth, [&] { return measure_read_bandwidth(pool, stop); });
    part_of(ceilings.copy_bandwidth, [&] { return measure_copy_bandwidth(pool, stop); });
    part_of(ceilings.matrix_rate, [&] { return measure_matrix_rate(pool, blas, stop); });
    ceilings.matrix_type = DType::f32;
    if (ceilings.measured_on.empty() && (ceilings.read_bandwidth > 0 || ceilings.copy_bandwidth > 0 || ceilings.matrix_rate > 0))
        ceilings.measured_on = today();
    return ceilings;
}

}  // namespace kvloupe::cpu
