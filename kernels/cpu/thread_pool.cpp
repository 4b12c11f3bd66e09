// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/thread_pool.h"

#include <algorithm>
#include <chrono>
#include <system_error>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace kvloupe::cpu {

namespace {

// How long a worker looks for the next job before it sleeps: longer than the serial pieces between two products.
constexpr std::chrono::microseconds spin_time{60};
constexpr unsigned spins_between_clock_reads = 64;
// Waiting longer than this for a part in progress means that its thread lost its core: give ours away.
constexpr unsigned spins_before_yield = 500;

void pause() {
#if defined(__x86_64__) || defined(__i386__)
    _mm_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

}  // namespace

ThreadPool::ThreadPool(unsigned threads) {
    const unsigned workers = std::max(1u, threads) - 1;
    m_workers.reserve(workers);
    for (unsigned worker = 1; worker <= workers; ++worker) {
        try {
            m_workers.emplace_back([this, worker] { work(worker); });
        } catch (const std::system_error&) {
            break;  // the system has no more threads: compute with those there are
        }
    }
}

ThreadPool::~ThreadPool() {
    m_stop.store(true);
    {
        const std::lock_guard lock(m_mutex);
        m_wake.notify_all();
    }
    for (std::thread& worker : m_workers) worker.join();
}

// Takes the next part of the job at hand, if one is left.
bool ThreadPool::claim(std::uint32_t& index, std::uint64_t& state) {
    state = m_state.load(std::memory_order_acquire);
    for (;;) {
        const std::uint64_t next = state & part_mask;
        if (next >= ((state >> part_bits) & part_mask)) return false;
        if (m_state.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel, std::memory_order_acquire)) {
            index = static_cast<std::uint32_t>(next);
            return true;
        }
    }
}

void ThreadPool::run_job(std::uint32_t parts, Job job) {
    constexpr std::uint32_t most = static_cast<std::uint32_t>(part_mask);
    if (parts <= most) {
        run_span(parts, job);
        return;
    }
    struct Shifted {
        Job job;
        std::uint32_t first;
    };
    for (std::uint32_t first = 0; first < parts; first += most) {
        Shifted shifted{job, first};
        run_span(std::min(most, parts - first), {[](void* self, std::uint32_t index, unsigned thread) {
                                                     const Shifted& s = *static_cast<Shifted*>(self);
                                                     s.job.call(s.job.self, s.first + index, thread);
                                                 },
                                                 &shifted});
    }
}

void ThreadPool::run_span(std::uint32_t parts, Job job) {
    m_job = job;
    m_done.store(0, std::memory_order_relaxed);
    const std::uint64_t number = (m_state.load(std::memory_order_relaxed) >> (2 * part_bits)) + 1;
    // Sequentially consistent with m_sleepers: either the worker sees the job before it sleeps, or it is seen asleep.
    m_state.store((number << (2 * part_bits)) | (std::uint64_t{parts} << part_bits), std::memory_order_seq_cst);
    if (m_sleepers.load(std::memory_order_seq_cst) > 0) {
        const std::lock_guard lock(m_mutex);
        m_wake.notify_all();
    }
    std::uint32_t index = 0;
    std::uint64_t state = 0;
    std::uint32_t mine = 0;
    while (claim(index, state)) {
        job.call(job.self, index, 0);
        ++mine;
    }
    if (mine > 0) m_done.fetch_add(mine, std::memory_order_relaxed);
    for (unsigned spins = 0; m_done.load(std::memory_order_acquire) != parts; ++spins) {
        pause();
        if (spins > spins_before_yield) std::this_thread::yield();
    }
}

void ThreadPool::work(unsigned thread) {
    auto last_work = std::chrono::steady_clock::now();
    unsigned spins = 0;
    while (!m_stop.load(std::memory_order_relaxed)) {
        std::uint32_t index = 0;
        std::uint64_t state = 0;
        if (claim(index, state)) {
            m_job.call(m_job.self, index, thread);
            m_done.fetch_add(1, std::memory_order_release);
            spins = 0;
            continue;
        }
        pause();
        if (++spins == 1) last_work = std::chrono::steady_clock::now();
        if (spins % spins_between_clock_reads != 0) continue;
        if (std::chrono::steady_clock::now() - last_work < spin_time) continue;
        std::unique_lock lock(m_mutex);
        m_sleepers.fetch_add(1, std::memory_order_seq_cst);
        m_wake.wait(lock, [this, state] {
            return m_stop.load() || m_state.load(std::memory_order_seq_cst) != state;
        });
        m_sleepers.fetch_sub(1, std::memory_order_seq_cst);
        spins = 0;
    }
}

}  // namespace kvloupe::cpu
