// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/emulation/runtime/runtime_state.h"

#include <cstdlib>

namespace kvloupe::emulation {

RuntimeState& runtime() {
    static RuntimeState state;
    return state;
}

cudaError_t RuntimeState::enter() {
    ++counts.calls;
    if (fail_call > 0 && --fail_call == 0) sticky = call_error;
    if (sticky != cudaSuccess) return fail(sticky);
    return cudaSuccess;
}

cudaError_t RuntimeState::enter_outside_capture() {
    if (const cudaError_t error = enter(); error != cudaSuccess) return error;
    for (auto& [handle, stream] : streams)
        if (stream->capturing) {
            stream->broken = true;
            return fail(cudaErrorStreamCaptureUnsupported);
        }
    return cudaSuccess;
}

cudaError_t RuntimeState::submit(Stream& stream, KvloupeWork work) {
    if (stream.capturing) {
        stream.captured.push_back(std::move(work));
        return cudaSuccess;
    }
    stream.queue.push_back(std::move(work));
    return cudaSuccess;
}

cudaError_t RuntimeState::drain(Stream& stream) {
    const std::vector<KvloupeWork> queue = std::move(stream.queue);
    stream.queue.clear();
    for (const KvloupeWork& work : queue) {
        if (sticky != cudaSuccess) break;  // a context that failed runs nothing more
        if (fail_work > 0 && --fail_work == 0) sticky = work_error;
        else if (const cudaError_t error = work(); error != cudaSuccess) sticky = error;
    }
    return sticky == cudaSuccess ? cudaSuccess : fail(sticky);
}

cudaError_t RuntimeState::drain_all() {
    cudaError_t error = cudaSuccess;
    for (auto& [handle, stream] : streams)
        if (const cudaError_t one = drain(*stream); one != cudaSuccess) error = one;
    return error;
}

RuntimeState::Stream* RuntimeState::find(cudaStream_t stream) {
    const auto found = streams.find(stream);
    return found == streams.end() ? nullptr : found->second.get();
}

bool RuntimeState::holds(const std::map<const std::byte*, Block>& memory, const void* at, std::size_t bytes) {
    const auto* address = static_cast<const std::byte*>(at);
    auto after = memory.upper_bound(address);
    if (after == memory.begin()) return false;
    --after;
    return address + bytes <= after->first + after->second.bytes;
}

std::string set_up_runtime(const RuntimeSetup& setup) {
    RuntimeState& state = runtime();
    const std::lock_guard lock(state.mutex);
    std::string alive;
    const auto say = [&](std::size_t count, const char* what) {
        if (count > 0) alive += (alive.empty() ? "" : ", ") + std::to_string(count) + " " + what;
    };
    say(state.device.size(), "device allocations");
    say(state.pinned.size(), "pinned allocations");
    say(state.streams.size(), "streams");
    say(state.events.size(), "events");
    say(state.graphs.size() + state.ready_graphs.size(), "graphs");
    state.streams.clear();
    for (auto* memory : {&state.device, &state.pinned}) {
        for (auto& [address, block] : *memory) std::free(const_cast<std::byte*>(address));
        memory->clear();
    }
    for (cudaEvent_t event : state.events) delete event;
    for (cudaGraph_t graph : state.graphs) delete graph;
    for (cudaGraphExec_t graph : state.ready_graphs) delete graph;
    state.events.clear();
    state.graphs.clear();
    state.ready_graphs.clear();
    state.setup = setup;
    state.counts = {};
    state.taken = state.elsewhere = state.fail_call = state.fail_work = 0;
    state.sticky = state.last = cudaSuccess;
    return alive;
}

RuntimeCounts runtime_counts() {
    const std::lock_guard lock(runtime().mutex);
    return runtime().counts;
}

void start_counting() {
    const std::lock_guard lock(runtime().mutex);
    runtime().counts = {};
}

void fail_from_call(std::uint64_t n, cudaError_t error) {
    const std::lock_guard lock(runtime().mutex);
    runtime().fail_call = n;
    runtime().call_error = error;
    if (n == 0) runtime().sticky = runtime().last = cudaSuccess;
}

void fail_in_work(std::uint64_t n, cudaError_t error) {
    const std::lock_guard lock(runtime().mutex);
    runtime().fail_work = n;
    runtime().work_error = error;
}

namespace {

std::uint64_t bytes_of(const std::map<const std::byte*, RuntimeState::Block>& memory) {
    std::uint64_t sum = 0;
    for (const auto& [address, block] : memory) sum += block.bytes;
    return sum;
}

}  // namespace

std::uint64_t device_bytes_alive() {
    const std::lock_guard lock(runtime().mutex);
    return bytes_of(runtime().device);
}

std::uint64_t pinned_bytes_alive() {
    const std::lock_guard lock(runtime().mutex);
    return bytes_of(runtime().pinned);
}

void use_elsewhere(std::uint64_t bytes) {
    const std::lock_guard lock(runtime().mutex);
    runtime().elsewhere = bytes;
}

}  // namespace kvloupe::emulation
