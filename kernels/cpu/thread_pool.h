// SPDX-License-Identifier: GPL-3.0-or-later
//
// ThreadPool: runs the parts of one job on a few threads, the caller being one of them.
//
// A decode step of a small model has about 200 parallel sections of a few microseconds, so starting and ending one must
// cost about a microsecond. Workers therefore spin for a short while after a job before they sleep, parts are claimed
// with one compare-and-swap, and the caller waits only for parts that were claimed: a worker that is asleep or that the
// system has taken off its core delays nobody, the caller then does the work itself.
// Rejected: a condition variable per job (20 to 50 us to wake); a barrier over all workers (waits for the slowest, and
// for one that is not running); OpenMP (its state belongs to the process, and ThreadSanitizer cannot see into it).
//
// One caller at a time. Parts must not throw and must not start jobs of the same pool.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace kvloupe::cpu {

class ThreadPool {
public:
    // threads: how many compute, the caller included; at least 1. Starts threads - 1 workers, fewer where the system
    // refuses more.
    explicit ThreadPool(unsigned threads);
    ~ThreadPool();
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    unsigned threads() const { return static_cast<unsigned>(m_workers.size()) + 1; }

    // Calls part(index, thread) for index 0 .. parts - 1, each once, in any order; thread < threads() tells which thread
    // calls, for its scratch. Returns when all are done; what they wrote is then visible to the caller.
    template <class Part>
    void run(std::uint32_t parts, Part&& part) {
        using Callable = std::remove_reference_t<Part>;
        if (parts == 0) return;
        if (parts == 1 || m_workers.empty()) {
            for (std::uint32_t index = 0; index < parts; ++index) part(index, 0u);
            return;
        }
        run_job(parts, {[](void* self, std::uint32_t index, unsigned thread) {
                            (*static_cast<Callable*>(self))(index, thread);
                        },
                        const_cast<void*>(static_cast<const void*>(&part))});
    }

private:
    struct Job {
        void (*call)(void* self, std::uint32_t index, unsigned thread) = nullptr;
        void* self = nullptr;
    };
    // One word holds a job's state, so that a claim is one compare-and-swap and a late worker can never claim a part of
    // a job that it has not seen: (job number : 24, parts : 20, next part : 20).
    static constexpr unsigned part_bits = 20;
    static constexpr std::uint64_t part_mask = (1u << part_bits) - 1;

    void run_job(std::uint32_t parts, Job job);
    void run_span(std::uint32_t parts, Job job);
    bool claim(std::uint32_t& index, std::uint64_t& state);
    void work(unsigned thread);

    alignas(64) std::atomic<std::uint64_t> m_state{0};
    alignas(64) std::atomic<std::uint32_t> m_done{0};
    Job m_job;  // written while no part of any job is claimed or claimable
    alignas(64) std::atomic<std::uint32_t> m_sleepers{0};
    std::atomic<bool> m_stop{false};
    std::mutex m_mutex;
    std::condition_variable m_wake;
    std::vector<std::thread> m_workers;
};

}  // namespace kvloupe::cpu
