// SPDX-License-Identifier: GPL-3.0-or-later
//
// What the backend's tests rely on: work runs when it is waited for and in order, bounds hold, a capture keeps its rules.
#include "tests/emulation/runtime/emulated_runtime.h"
#include "tests/support/rows.h"

#include <cstring>
#include <vector>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

struct Stage {
    cudaStream_t stream = nullptr;
    int* device = nullptr;
    int* pinned = nullptr;
    Stage() {
        emulation::set_up_runtime({});
        void *a = nullptr, *b = nullptr;
        cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
        cudaMalloc(&a, 4 * sizeof(int));
        cudaHostAlloc(&b, 4 * sizeof(int), cudaHostAllocMapped);
        device = static_cast<int*>(a);
        pinned = static_cast<int*>(b);
    }
    ~Stage() {
        cudaFree(device);
        cudaFreeHost(pinned);
        cudaStreamDestroy(stream);
    }
    cudaError_t up() { return cudaMemcpyAsync(device, pinned, 4 * sizeof(int), cudaMemcpyHostToDevice, stream); }
    cudaError_t down() { return cudaMemcpyAsync(pinned, device, 4 * sizeof(int), cudaMemcpyDeviceToHost, stream); }
    cudaError_t wait() { return cudaStreamSynchronize(stream); }
};

void work_waits(Check& check) {
    Stage s;
    CHECK_EQUAL(s.device[0], -1);  // memory begins as NaN
    s.pinned[0] = 7;
    CHECK_EQUAL(s.up(), cudaSuccess);
    CHECK_EQUAL(s.device[0], -1);
    s.pinned[0] = 8;  // too early: a copy under way takes what it finds
    CHECK_EQUAL(s.wait(), cudaSuccess);
    CHECK_EQUAL(s.device[0], 8);
    int pageable[4] = {1, 2, 3, 4};
    CHECK_EQUAL(cudaMemcpyAsync(s.device, pageable, sizeof pageable, cudaMemcpyHostToDevice, s.stream), cudaSuccess);
    CHECK_EQUAL(s.device[3], 4);  // pageable memory is taken before the call returns
}

void bounds_hold(Check& check) {
    Stage s;
    int far[16] = {};
    CHECK_EQUAL(cudaMemcpyAsync(s.device, far, 5 * sizeof(int), cudaMemcpyHostToDevice, s.stream), cudaErrorInvalidValue);
    CHECK_EQUAL(cudaMemcpyAsync(far, far + 8, 8, cudaMemcpyHostToDevice, s.stream), cudaErrorInvalidValue);
    CHECK_EQUAL(cudaMemcpyAsync(s.device + 1, s.device, 16, cudaMemcpyDeviceToDevice, s.stream), cudaErrorInvalidValue);
    CHECK_EQUAL(cudaMemsetAsync(s.device, 0, 17, s.stream), cudaErrorInvalidValue);
    CHECK_EQUAL(cudaFree(far), cudaErrorInvalidValue);
    CHECK_EQUAL(cudaGetLastError(), cudaErrorInvalidValue);
    CHECK_EQUAL(cudaGetLastError(), cudaSuccess);
}

void memory_ends(Check& check) {
    emulation::RuntimeSetup setup;
    setup.memory = std::uint64_t{8} << 20;
    emulation::set_up_runtime(setup);
    void *a = nullptr, *b = nullptr;
    CHECK_EQUAL(cudaMalloc(&a, (std::size_t{5} << 20) + 1), cudaSuccess);
    std::size_t free = 0, total = 0;
    CHECK_EQUAL(cudaMemGetInfo(&free, &total), cudaSuccess);
    CHECK_EQUAL(total, std::size_t{8} << 20);
    CHECK_EQUAL(free, std::size_t{2} << 20);  // pages of 2 MiB
    CHECK_EQUAL(cudaMalloc(&b, std::size_t{3} << 20), cudaErrorMemoryAllocation);
    CHECK_EQUAL(emulation::device_bytes_alive(), (std::uint64_t{5} << 20) + 1);
    CHECK_EQUAL(cudaFree(a), cudaSuccess);
    CHECK_EQUAL(cudaMalloc(&b, std::size_t{8} << 20), cudaSuccess);
    CHECK_EQUAL(emulation::set_up_runtime({}), std::string("1 device allocations"));
}

void graphs_replay(Check& check) {
    Stage s;
    CHECK_EQUAL(cudaStreamBeginCapture(s.stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    CHECK_EQUAL(s.up(), cudaSuccess);
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t ready = nullptr;
    CHECK_EQUAL(cudaStreamEndCapture(s.stream, &graph), cudaSuccess);
    CHECK_EQUAL(cudaGraphInstantiate(&ready, graph, 0), cudaSuccess);
    CHECK_EQUAL(cudaGraphDestroy(graph), cudaSuccess);
    for (int value : {3, 4}) {
        s.pinned[1] = value;
        CHECK_EQUAL(cudaGraphLaunch(ready, s.stream), cudaSuccess);
        CHECK_EQUAL(s.wait(), cudaSuccess);
        CHECK_EQUAL(s.device[1], value);
    }
    CHECK_EQUAL(cudaGraphExecDestroy(ready), cudaSuccess);
    CHECK_EQUAL(cudaGraphExecDestroy(ready), cudaErrorInvalidValue);
}

void captures_forbid(Check& check) {
    for (int what = 0; what < 4; ++what) {
        Stage s;
        void* more = nullptr;
        int pageable[4] = {};
        CHECK_EQUAL(cudaStreamBeginCapture(s.stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
        const cudaError_t refused = what == 0   ? cudaMalloc(&more, 16)
                                    : what == 1 ? s.wait()
                                    : what == 2 ? cudaMemcpyAsync(s.device, pageable, 16, cudaMemcpyHostToDevice, s.stream)
                                                : cudaFree(s.device);
        CHECK_EQUAL(refused, cudaErrorStreamCaptureUnsupported);
        cudaGraph_t graph = nullptr;
        CHECK_EQUAL(cudaStreamEndCapture(s.stream, &graph), cudaErrorStreamCaptureInvalidated);
        CHECK_THAT(graph == nullptr);
    }
}

void errors_stick(Check& check) {
    Stage s;
    emulation::fail_in_work(1, cudaErrorIllegalAddress);
    CHECK_EQUAL(s.up(), cudaSuccess);  // it shows later
    CHECK_EQUAL(s.wait(), cudaErrorIllegalAddress);
    CHECK_EQUAL(cudaGetLastError(), cudaErrorIllegalAddress);
    CHECK_EQUAL(cudaGetLastError(), cudaErrorIllegalAddress);
    CHECK_EQUAL(s.up(), cudaErrorIllegalAddress);
    emulation::fail_from_call(0, cudaSuccess);
    emulation::fail_from_call(2, cudaErrorECCUncorrectable);
    CHECK_EQUAL(cudaSetDevice(0), cudaSuccess);
    CHECK_EQUAL(cudaSetDevice(0), cudaErrorECCUncorrectable);
    CHECK_EQUAL(s.wait(), cudaErrorECCUncorrectable);
}

void events_time(Check& check) {
    Stage s;
    cudaEvent_t a = nullptr, b = nullptr;
    float milliseconds = -1;
    CHECK_EQUAL(cudaEventCreateWithFlags(&a, cudaEventDefault), cudaSuccess);
    CHECK_EQUAL(cudaEventCreateWithFlags(&b, cudaEventDefault), cudaSuccess);
    CHECK_EQUAL(cudaEventRecord(a, s.stream), cudaSuccess);
    CHECK_EQUAL(s.up(), cudaSuccess);
    CHECK_EQUAL(cudaEventRecord(b, s.stream), cudaSuccess);
    CHECK_EQUAL(cudaEventQuery(b), cudaErrorNotReady);
    CHECK_EQUAL(cudaEventElapsedTime(&milliseconds, a, b), cudaErrorNotReady);
    CHECK_EQUAL(cudaEventSynchronize(b), cudaSuccess);
    CHECK_EQUAL(cudaEventElapsedTime(&milliseconds, a, b), cudaSuccess);
    CHECK_THAT(milliseconds >= 0);
    CHECK_EQUAL(cudaEventDestroy(a), cudaSuccess);
    CHECK_EQUAL(cudaEventDestroy(b), cudaSuccess);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    return {
        {"work in a stream runs when it is waited for", work_waits},
        {"copies beyond an allocation are refused", bounds_hold},
        {"a card's memory ends, in pages", memory_ends},
        {"a graph does its work again at each launch", graphs_replay},
        {"a capture forbids what CUDA forbids", captures_forbid},
        {"an error of the card sticks", errors_stick},
        {"events time what lies between them", events_time},
    };
}
