// SPDX-License-Identifier: GPL-3.0-or-later
//
// RuntimeState: what lies behind the emulated calls: memory with its bounds, streams with the work that waits in them, the
// error that sticks.
#pragma once

#include "tests/emulation/runtime/emulated_runtime.h"

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

using KvloupeWork = std::function<cudaError_t()>;

struct CUevent_st {
    cudaStream_t stream = nullptr;  // it was recorded in last
    bool timed = true, recorded = false, done = false;
    std::uint64_t number = 0;       // of the last recording: an older one that runs late counts for nothing
    std::chrono::steady_clock::time_point time;
};
struct CUgraph_st {
    std::vector<KvloupeWork> work;
};
struct CUgraphExec_st {
    std::shared_ptr<const std::vector<KvloupeWork>> work;
};

namespace kvloupe::emulation {

class RuntimeState {
public:
    struct Stream {
        CUstream_st handle;
        std::vector<KvloupeWork> queue;
        bool capturing = false, broken = false;  // broken: something forbidden was called meanwhile
        std::vector<KvloupeWork> captured;
    };
    struct Block {
        std::size_t bytes = 0;
        std::size_t taken = 0;  // of the card
    };

    std::recursive_mutex mutex;
    RuntimeSetup setup;
    RuntimeCounts counts;
    std::map<const std::byte*, Block> device, pinned;
    std::map<cudaStream_t, std::unique_ptr<Stream>> streams;
    std::set<cudaEvent_t> events;
    std::set<cudaGraph_t> graphs;
    std::set<cudaGraphExec_t> ready_graphs;
    std::uint64_t taken = 0, elsewhere = 0;
    std::uint64_t fail_call = 0, fail_work = 0;
    cudaError_t call_error = cudaSuccess, work_error = cudaSuccess;
    cudaError_t sticky = cudaSuccess, last = cudaSuccess;

    // At the start of every call: what it returns at once, cudaSuccess if it may go on.
    cudaError_t enter();
    cudaError_t fail(cudaError_t error) { return last = error; }
    // Calls that no capture allows.
    cudaError_t enter_outside_capture();
    // Puts work into a stream, or into what the stream records.
    cudaError_t submit(Stream& stream, KvloupeWork work);
    // Runs all that waits in the stream.
    cudaError_t drain(Stream& stream);
    cudaError_t drain_all();
    Stream* find(cudaStream_t stream);
    // Whether bytes [at, at + bytes) lie in one allocation of that kind.
    static bool holds(const std::map<const std::byte*, Block>& memory, const void* at, std::size_t bytes);
};

RuntimeState& runtime();

}  // namespace kvloupe::emulation
