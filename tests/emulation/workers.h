// SPDX-License-Identifier: GPL-3.0-or-later
//
// The host threads that run blocks. Block b of a launch runs on worker b mod count(), whatever the timing: what
// ThreadSanitizer sees between blocks is the same in every run. One launch at a time.
#pragma once

#include "tests/emulation/block_runner.h"

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace kvloupe::emulation {

class Workers {
public:
    explicit Workers(unsigned count);
    ~Workers();
    Workers(const Workers&) = delete;
    Workers& operator=(const Workers&) = delete;

    // Runs all blocks of the launch and waits. False: it failed, see last_failure().
    bool run(LaunchState& launch);
    std::string last_failure();
    void forget_failure();

private:
    void work(unsigned index);

    std::mutex m_one_launch;
    std::mutex m_lock;
    std::condition_variable m_begin, m_end;
    LaunchState* m_launch = nullptr;
    std::uint64_t m_generation = 0;  // of launches
    unsigned m_busy = 0;
    bool m_stop = false;
    std::string m_last_failure;
    std::vector<std::thread> m_threads;
};

}  // namespace kvloupe::emulation
