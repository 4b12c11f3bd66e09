// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/thread_pool.h"
#include "tests/support/claims.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <numeric>
#include <thread>

using namespace kvloupe::test;
using kvloupe::cpu::ThreadPool;

namespace {

void everyPartRunsOnce(Check& check) {
    for (unsigned threads : {1u, 2u, 3u, 5u}) {
        ThreadPool pool(threads);
        CHECK_EQUAL(pool.threads(), threads);
        for (std::uint32_t parts : {0u, 1u, 2u, 3u, 100u, 4096u}) {
            std::vector<std::atomic<int>> calls(parts);
            std::vector<int> wrong(threads, 0);
            pool.run(parts, [&](std::uint32_t index, unsigned thread) {
                if (thread >= threads) std::abort();
                calls[index].fetch_add(1);
            });
            for (auto& count : calls) CHECK_EQUAL(count.load(), 1);
        }
    }
}

// Plain memory written in one job is read in the next by whichever thread comes: ThreadSanitizer watches this.
void whatAJobWroteIsVisibleToTheNext(Check& check) {
    ThreadPool pool(3);
    std::vector<std::uint64_t> values(64, 1);
    for (int round = 0; round < 2000; ++round) {
        const auto before = std::accumulate(values.begin(), values.end(), std::uint64_t{0});
        pool.run(64, [&](std::uint32_t index, unsigned) { values[index] += 1; });
        CHECK_EQUAL(std::accumulate(values.begin(), values.end(), std::uint64_t{0}), before + 64);
    }
}

void theCallersFunctionMayChangeBetweenJobs(Check& check) {
    ThreadPool pool(2);
    for (int round = 0; round < 500; ++round) {
        std::atomic<int> a{0}, b{0};
        pool.run(5, [&](std::uint32_t, unsigned) { a.fetch_add(round); });
        pool.run(3, [&](std::uint32_t, unsigned) { b.fetch_add(1); });
        CHECK_EQUAL(a.load(), 5 * round);
        CHECK_EQUAL(b.load(), 3);
    }
}

void sleepingWorkersComeBack(Check& check) {
    ThreadPool pool(3);
    for (int round = 0; round < 20; ++round) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));  // far longer than they spin
        std::atomic<int> done{0};
        pool.run(50, [&](std::uint32_t, unsigned) { done.fetch_add(1); });
        CHECK_EQUAL(done.load(), 50);
    }
}

// More parts than one word of state can count.
void aMillionAndMoreParts(Check& check) {
    ThreadPool pool(2);
    std::atomic<std::uint64_t> sum{0};
    const std::uint32_t parts = (1u << 20) + 77;
    pool.run(parts, [&](std::uint32_t index, unsigned) { sum.fetch_add(index, std::memory_order_relaxed); });
    CHECK_EQUAL(sum.load(), std::uint64_t{parts} * (parts - 1) / 2);
}

void twoPoolsWorkAtOnce(Check& check) {
    std::atomic<int> total{0};
    const auto work = [&total] {
        ThreadPool pool(2);
        for (int round = 0; round < 200; ++round) pool.run(7, [&](std::uint32_t, unsigned) { total.fetch_add(1); });
    };
    std::thread other(work);
    work();
    other.join();
    CHECK_EQUAL(total.load(), 2 * 200 * 7);
}

void isBuiltAndDestroyedAtOnce(Check&) {
    for (int round = 0; round < 50; ++round) ThreadPool pool(4);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(everyPartRunsOnce));
    claims.add(CLAIM(whatAJobWroteIsVisibleToTheNext));
    claims.add(CLAIM(theCallersFunctionMayChangeBetweenJobs));
    claims.add(CLAIM(sleepingWorkersComeBack));
    claims.add(CLAIM(aMillionAndMoreParts));
    claims.add(CLAIM(twoPoolsWorkAtOnce));
    claims.add(CLAIM(isBuiltAndDestroyedAtOnce));
    return claims.rows();
}
