// SPDX-License-Identifier: GPL-3.0-or-later
//
// The emulated CUDA runtime: what a test sets up, and what it may count. As CUDA's, there is one of it in a process.
#pragma once

#include <kvloupe_cuda_runtime.h>

#include <cstdint>
#include <string>
#include <vector>

namespace kvloupe::emulation {

struct RuntimeSetup {
    int cards = 1;
    std::string name = "Emulated GPU";
    int major = 9, minor = 0;
    int processors = 4;
    std::uint64_t memory = std::uint64_t{1} << 30;  // of each card; allocations beyond it fail as on a card
    int driver = 13000, runtime = 13000;            // a driver older than the runtime refuses to count cards
    cudaError_t cards_error = cudaSuccess;          // what counting the cards returns
};

// Everything since the last set_up() or start_counting().
struct RuntimeCounts {
    std::uint64_t calls = 0;            // that may fail
    std::uint64_t allocations = 0;      // of device and pinned memory
    std::uint64_t frees = 0;
    std::uint64_t waits = 0;            // for a stream or an event that was not done; copies of pageable memory wait too
    std::uint64_t launches = 0;         // put into a stream one by one
    std::uint64_t copies = 0;
    std::uint64_t graphs_recorded = 0;
    std::uint64_t graph_launches = 0;
};

// Starts afresh: nothing may be alive. Returns what is, in words ("" otherwise), and forgets it.
std::string set_up_runtime(const RuntimeSetup& setup);
RuntimeCounts runtime_counts();
void start_counting();
// From the n-th call on (1: the next) every call returns that error: a card that is lost. 0 ends it.
void fail_from_call(std::uint64_t n, cudaError_t error);
// The n-th piece of work from now on fails when it runs, and the card with it: an error that shows later.
void fail_in_work(std::uint64_t n, cudaError_t error);
// Bytes alive on the card, as the backend asked for them; and of pinned memory.
std::uint64_t device_bytes_alive();
std::uint64_t pinned_bytes_alive();
// What the memory that others use takes of the card.
void use_elsewhere(std::uint64_t bytes);

// Names of ranges pushed since the last call, nested ones with their depth in spaces before them; balanced: as many pops.
struct Ranges {
    std::vector<std::string> names;
    bool balanced = true;
};
Ranges take_ranges();

}  // namespace kvloupe::emulation
