// SPDX-License-Identifier: GPL-3.0-or-later
//
// Runs one block at a time on one host thread: a fiber per CUDA thread, switched only where threads wait for each other.
// A waiting fiber hands over to the next one that is ready; the last to arrive at a barrier or an operation of a warp makes
// the others ready. Where nobody is ready and not all have returned, they wait for each other in vain: the launch fails.
#pragma once

#include "emulation/launch.h"
#include "emulation/threads.h"
#include "emulation/warp.h"
#include "tests/emulation/copy_in_flight.h"
#include "tests/emulation/fiber.h"
#include "tests/emulation/shared_memory.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace kvloupe::emulation {

class BlockRunner;

// One launch, seen by all workers.
struct LaunchState {
    Grid grid;
    void (*body)(const void*) = nullptr;
    const void* context = nullptr;
    std::atomic<bool> failed{false};
    std::mutex lock;
    std::string failure;  // of the first thread that failed
};

struct Warp {
    std::array<LaneWords, warp_lanes> words;
    std::array<std::uint32_t, warp_lanes> masks;
    std::array<const WarpOperation*, warp_lanes> operations;
    std::uint32_t alive = 0;    // lanes that exist and have not returned
    std::uint32_t waiting = 0;
    unsigned parity = 0;        // of the next __syncwarp
    char ordered[2] = {};       // for ThreadSanitizer: what __syncwarp orders
};

struct EmulatedThread : ThisThread {
    explicit EmulatedThread(BlockRunner& owner, unsigned index, void (*entry)())
        : ThisThread{}, runner(&owner), linear(index), fiber(entry) {}

    BlockRunner* runner;
    unsigned linear;            // index in the block
    bool returned = false;
    Fiber fiber;
    std::array<CopyInFlight, 256> copies;  // a ring, oldest first
    unsigned copies_begin = 0, copies_end = 0;
    unsigned copy_group = 0;    // that the next copies belong to
};

class BlockRunner {
public:
    // Runs block `block` (linear) of the launch. False: it failed, and the launch says so.
    bool run(LaunchState& launch, std::uint64_t block);

    // For the threads, each on its own fiber:
    bool synchronise(EmulatedThread& thread, bool vote, const char* file, int line);
    void exchange(EmulatedThread& thread, const WarpOperation& operation, std::uint32_t mask, const std::uint32_t* in,
                  unsigned words, std::uint32_t* out, unsigned results);
    // Ends the launch with the sentence that describe() returns; the thread is left where it is, so that nothing on its stack
    // may own memory.
    template <class Describe>
    [[noreturn]] void fail(EmulatedThread& thread, const Describe& describe) {
        tell(thread, describe());
        abandon(thread);
    }
    SharedMemory& shared() { return m_shared; }
    void note_kernel(const char* name) { m_kernel = name; }

private:
    static void thread_main();
    void start_threads(std::uint64_t block);
    void give_way(EmulatedThread& thread);
    void ready(unsigned linear) { m_ready[m_ready_end++ % m_ready.size()] = static_cast<std::uint16_t>(linear); }
    EmulatedThread* next_ready();
    [[noreturn]] void abandon(EmulatedThread& thread);
    void tell(const EmulatedThread& thread, const std::string& sentence);
    std::string why_nobody_goes_on(const EmulatedThread& thread) const;

    LaunchState* m_launch = nullptr;
    const char* m_kernel = nullptr;
    Fiber m_scheduler;
    SharedMemory m_shared;
    std::vector<std::unique_ptr<EmulatedThread>> m_threads;  // grown to the largest block seen
    std::array<Warp, 32> m_warps;
    unsigned m_count = 0;     // threads of the block
    unsigned m_returned = 0;
    bool m_broken = false;

    std::array<std::uint16_t, 1024> m_ready{};  // a ring; each thread stands in it at most once
    unsigned m_ready_begin = 0, m_ready_end = 0;

    unsigned m_arrived = 0;                     // at the barrier
    std::array<bool, 1024> m_at_barrier{};
    const char* m_barrier_file = nullptr;
    int m_barrier_line = 0;
    bool m_vote = false;
    unsigned m_parity = 0;                      // of the barrier: results and orders of one do not mix with the next
    bool m_results[2] = {};
    char m_ordered[2] = {};
    char m_block_begins = 0, m_block_ends = 0;  // for ThreadSanitizer
};

}  // namespace kvloupe::emulation
