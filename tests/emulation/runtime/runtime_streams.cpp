// SPDX-License-Identifier: GPL-3.0-or-later
//
// Errors, streams, events and graphs of the emulated runtime.
#include "tests/emulation/runtime/runtime_state.h"

using kvloupe::emulation::runtime;
using kvloupe::emulation::RuntimeState;

namespace {

// Locks, and does what every call does first.
struct Call {
    RuntimeState& state = runtime();
    std::lock_guard<std::recursive_mutex> lock{state.mutex};
    cudaError_t error = state.enter();
};

}  // namespace

const char* cudaGetErrorName(cudaError_t error) {
    switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInsufficientDriver: return "cudaErrorInsufficientDriver";
    case cudaErrorNoDevice: return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
    case cudaErrorECCUncorrectable: return "cudaErrorECCUncorrectable";
    case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
    case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
    case cudaErrorStreamCaptureUnsupported: return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated: return "cudaErrorStreamCaptureInvalidated";
    case cudaErrorNotReady: return "cudaErrorNotReady";
    default: return "cudaErrorUnknown";
    }
}

cudaError_t cudaGetLastError() {
    RuntimeState& state = runtime();
    const std::lock_guard lock(state.mutex);
    const cudaError_t error = state.last;
    state.last = state.sticky;
    return error;
}

cudaError_t cudaPeekAtLastError() {
    const std::lock_guard lock(runtime().mutex);
    return runtime().last;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* handle, unsigned) {
    Call call;
    if (call.error != cudaSuccess) return call.error;
    auto stream = std::make_unique<RuntimeState::Stream>();
    RuntimeState::Stream* const own = stream.get();
    own->handle.submit = [own](KvloupeWork work) {
        Call launch;
        if (launch.error != cudaSuccess) return launch.error;
        ++launch.state.counts.launches;
        return launch.state.submit(*own, std::move(work));
    };
    *handle = &own->handle;
    call.state.streams[*handle] = std::move(stream);
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
    Call call;
    RuntimeState::Stream* stream = call.state.find(handle);
    if (stream == nullptr) return call.state.fail(cudaErrorInvalidResourceHandle);
    if (call.error == cudaSuccess) (void)call.state.drain(*stream);
    call.state.streams.erase(handle);
    return call.error;
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
    Call call;
    if (call.error != cudaSuccess) return call.error;
    RuntimeState::Stream* stream = call.state.find(handle);
    if (stream == nullptr) return call.state.fail(cudaErrorInvalidResourceHandle);
    if (stream->capturing) {
        stream->broken = true;
        return call.state.fail(cudaErrorStreamCaptureUnsupported);
    }
    ++call.state.counts.waits;
    return call.state.drain(*stream);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
    Call call;
    if (call.error != cudaSuccess) return call.error;
    *event = new CUevent_st;
    (*event)->timed = (flags & cudaEventDisableTiming) == 0;
    call.state.events.insert(*event);
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    Call call;
    if (call.state.events.count(event) == 0) return call.state.fail(cudaErrorInvalidResourceHandle);
    if (RuntimeState::Stream* stream = call.state.find(event->stream); stream != nullptr && call.error == cudaSuccess)
        (void)call.state.drain(*stream);  // work that waits may name it
    if (call.error == cudaSuccess || event->done || !event->recorded) {
        call.state.events.erase(event);
        delete event;
    } else {  // a lost card's queue still names it; set_up_runtime() forgets both
        for (auto& [handle, stream] : call.state.streams) stream->queue.clear();
        call.state.events.erase(event);
        delete event;
    }
    return call.error;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
    Call call;
    if (call.error != cudaSuccess) return call.error;
    RuntimeState::Stream* stream = call.state.find(handle);
    if (stream == nullptr || call.state.events.count(event) == 0) return call.state.fail(cudaErrorInvalidResourceHandle);
    event->stream = handle;
    event->recorded = true;
    event->done = false;
    const std::uint64_t number = ++event->number;
    return call.state.submit(*stream, [event, number] {
        if (event->number == number) event->done = true;
        event->time = std::chrono::steady_clock::now();
        return cudaSuccess;
    });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
    Call call;
    if (call.error != cudaSuccess) return call.error;
    return !event->recorded || event->done ? cudaSuccess : call.state.fail(cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    RuntimeState& state = runtime();
    const std::lock_guard lock(state.mutex);
    if (const cudaError_t error = state.enter_outside_capture(); error != cudaSuccess) return error;
    if (!event->recorded || event->done) return cudaSuccess;
    ++state.counts.waits;
    RuntimeState::Stream* stream = state.find(event->stream);
    return stream == nullptr ? state.fail(cudaErrorInvalidResourceHandle) : state.drain(*stream);
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
    Call call;
    if (call.error != cudaSuccess) return call.error;
    if (!from->timed || !to->timed || !from->recorded || !to->recorded) return call.state.fail(cudaErrorInvalidResourceHandle);
    if (!from->done || !to->done) return call.state.fail(cudaErrorNotReady);
    *milliseconds = std::chrono::duration<float, std::milli>(to->time - from->time).count();
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode) {
    Call call;
    if (call.error != cudaSuccess) return call.error;
    RuntimeState::Stream* stream = call.state.find(handle);
    if (stream == nullptr || stream->capturing) return call.state.fail(cudaErrorInvalidValue);
    stream->capturing = true;
    stream->broken = false;
    stream->captured.clear();
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
    Call call;
    *graph = nullptr;
    RuntimeState::Stream* stream = call.state.find(handle);
    if (stream == nullptr || !stream->capturing) return call.state.fail(cudaErrorInvalidValue);
    stream->capturing = false;
    if (call.error != cudaSuccess) return call.error;
    if (stream->broken) return call.state.fail(cudaErrorStreamCaptureInvalidated);
    *graph = new CUgraph_st{std::move(stream->captured)};
    stream->captured.clear();
    call.state.graphs.insert(*graph);
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* ready, cudaGraph_t graph, unsigned long long) {
    Call call;
    if (call.error != cudaSuccess) return call.error;
    if (call.state.graphs.count(graph) == 0) return call.state.fail(cudaErrorInvalidValue);
    ++call.state.counts.graphs_recorded;
    *ready = new CUgraphExec_st{std::make_shared<const std::vector<KvloupeWork>>(graph->work)};
    call.state.ready_graphs.insert(*ready);
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t handle) {
    Call call;
    if (call.error != cudaSuccess) return call.error;
    RuntimeState::Stream* stream = call.state.find(handle);
    if (stream == nullptr || call.state.ready_graphs.count(graph) == 0) return call.state.fail(cudaErrorInvalidValue);
    ++call.state.counts.graph_launches;
    for (const KvloupeWork& work : *graph->work)
        if (const cudaError_t error = call.state.submit(*stream, work); error != cudaSuccess) return error;
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    Call call;
    if (call.state.graphs.erase(graph) == 0) return call.state.fail(cudaErrorInvalidValue);
    delete graph;
    return call.error;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
    Call call;
    if (call.state.ready_graphs.erase(graph) == 0) return call.state.fail(cudaErrorInvalidValue);
    delete graph;
    return call.error;
}
