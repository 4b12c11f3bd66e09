// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/emulation/workers.h"

#include "tests/emulation/registry.h"
#include "tests/emulation/shared_memory.h"

#include <algorithm>

namespace kvloupe::emulation {

Workers::Workers(unsigned count) {
    for (unsigned i = 0; i < count; ++i) m_threads.emplace_back([this, i] { work(i); });
}

Workers::~Workers() {
    {
        const std::lock_guard<std::mutex> guard(m_lock);
        m_stop = true;
    }
    m_begin.notify_all();
    for (std::thread& thread : m_threads) thread.join();
}

void Workers::work(unsigned index) {
    BlockRunner runner;
    std::uint64_t seen = 0;
    for (;;) {
        LaunchState* launch = nullptr;
        {
            std::unique_lock<std::mutex> guard(m_lock);
            m_begin.wait(guard, [&] { return m_stop || m_generation != seen; });
            if (m_stop) return;
            seen = m_generation;
            launch = m_launch;
        }
        const dim3& blocks = launch->grid.blocks;
        const std::uint64_t count = std::uint64_t{blocks.x} * blocks.y * blocks.z;
        for (std::uint64_t block = index; block < count; block += m_threads.size())
            if (launch->failed.load(std::memory_order_relaxed) || !runner.run(*launch, block)) break;
        const std::lock_guard<std::mutex> guard(m_lock);
        if (--m_busy == 0) m_end.notify_all();
    }
}

bool Workers::run(LaunchState& launch) {
    const std::lock_guard<std::mutex> one(m_one_launch);
    std::unique_lock<std::mutex> guard(m_lock);
    m_launch = &launch;
    m_busy = static_cast<unsigned>(m_threads.size());
    ++m_generation;
    m_begin.notify_all();
    m_end.wait(guard, [this] { return m_busy == 0; });
    if (launch.failed) m_last_failure = launch.failure;
    return !launch.failed;
}

std::string Workers::last_failure() {
    const std::lock_guard<std::mutex> guard(m_lock);
    return m_last_failure;
}

void Workers::forget_failure() {
    const std::lock_guard<std::mutex> guard(m_lock);
    m_last_failure.clear();
}

namespace {

// The emulated device: one per process, as the real one's context is. At least two workers, so that ThreadSanitizer sees
// blocks that run side by side.
Workers& device() {
    write_kernels_at_exit();  // made first, destroyed last
    static Workers workers(std::clamp(std::thread::hardware_concurrency(), 2u, 8u));
    return workers;
}

bool launchable(const Grid& grid) {
    const dim3& blocks = grid.blocks;
    const dim3& threads = grid.threads;
    const std::uint64_t count = std::uint64_t{threads.x} * threads.y * threads.z;
    return blocks.x > 0 && blocks.y > 0 && blocks.z > 0 && blocks.x <= 0x7FFFFFFFu && blocks.y <= 65535 &&
           blocks.z <= 65535 && count > 0 && threads.x <= 1024 && threads.y <= 1024 && threads.z <= 64 && count <= 1024;
}

}  // namespace

cudaError_t run_grid(const Grid& grid, void (*body)(const void*), const void* context) {
    if (!launchable(grid)) return cudaErrorInvalidConfiguration;
    if (grid.shared_bytes > SharedMemory::dynamic_limit) return cudaErrorInvalidValue;
    LaunchState launch;
    launch.grid = grid;
    launch.body = body;
    launch.context = context;
    return device().run(launch) ? cudaSuccess : cudaErrorLaunchFailure;
}

std::string last_failure() { return device().last_failure(); }
void forget_failure() { device().forget_failure(); }

}  // namespace kvloupe::emulation
