// SPDX-License-Identifier: GPL-3.0-or-later
//
// Devices and memory of the emulated runtime. Allocations are exactly as large as asked for (AddressSanitizer guards their
// ends) and hold NaN at first; what they take of the card is rounded as the driver rounds it.
#include "tests/emulation/runtime/runtime_state.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

using kvloupe::emulation::runtime;
using kvloupe::emulation::RuntimeState;

namespace {

std::uint64_t taken_by(std::size_t bytes) {
    constexpr std::uint64_t page = std::uint64_t{2} << 20;  // more than 1 MiB: pages of its own
    const std::uint64_t unit = bytes > page / 2 ? page : 512;
    return (bytes + unit - 1) / unit * unit;
}

void* exactly(std::size_t bytes) {
    void* memory = nullptr;
    if (posix_memalign(&memory, 256, bytes) != 0) return nullptr;
    std::memset(memory, 0xFF, bytes);
    return memory;
}

cudaError_t give_back(std::map<const std::byte*, RuntimeState::Block>& memory, void* pointer) {
    RuntimeState& state = runtime();
    if (pointer == nullptr) return cudaSuccess;
    // A lost card's memory is given back too: the test's process lives on.
    const auto found = memory.find(static_cast<const std::byte*>(pointer));
    const cudaError_t entered = state.enter_outside_capture();
    if (entered == cudaErrorStreamCaptureUnsupported) return entered;
    if (found == memory.end()) return state.fail(cudaErrorInvalidValue);
    if (entered == cudaSuccess) (void)state.drain_all();  // freeing waits for the device
    ++state.counts.frees;
    state.taken -= found->second.taken;
    memory.erase(found);
    std::free(pointer);
    return state.sticky == cudaSuccess ? cudaSuccess : state.fail(state.sticky);
}

}  // namespace

cudaError_t cudaGetDeviceCount(int* count) {
    RuntimeState& state = runtime();
    const std::lock_guard lock(state.mutex);
    if (state.setup.cards_error != cudaSuccess) return state.fail(state.setup.cards_error);  // leaves *count as it is
    if (state.setup.driver < state.setup.runtime) return state.fail(cudaErrorInsufficientDriver);
    if (state.setup.cards == 0) return state.fail(cudaErrorNoDevice);
    *count = state.setup.cards;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
    RuntimeState& state = runtime();
    const std::lock_guard lock(state.mutex);
    if (const cudaError_t error = state.enter(); error != cudaSuccess) return error;
    if (device < 0 || device >= state.setup.cards) return state.fail(cudaErrorInvalidDevice);
    *properties = {};
    std::strncpy(properties->name, state.setup.name.c_str(), sizeof properties->name - 1);
    properties->totalGlobalMem = state.setup.memory;
    properties->major = state.setup.major;
    properties->minor = state.setup.minor;
    properties->multiProcessorCount = state.setup.processors;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
    RuntimeState& state = runtime();
    const std::lock_guard lock(state.mutex);
    if (const cudaError_t error = state.enter(); error != cudaSuccess) return error;
    if (attribute != cudaDevAttrMultiProcessorCount || device >= state.setup.cards) return state.fail(cudaErrorInvalidValue);
    *value = state.setup.processors;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
    RuntimeState& state = runtime();
    const std::lock_guard lock(state.mutex);
    if (const cudaError_t error = state.enter(); error != cudaSuccess) return error;
    return device >= 0 && device < state.setup.cards ? cudaSuccess : state.fail(cudaErrorInvalidDevice);
}

cudaError_t cudaDriverGetVersion(int* version) {
    const std::lock_guard lock(runtime().mutex);
    *version = runtime().setup.driver;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
    const std::lock_guard lock(runtime().mutex);
    *version = runtime().setup.runtime;
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
    RuntimeState& state = runtime();
    const std::lock_guard lock(state.mutex);
    if (const cudaError_t error = state.enter(); error != cudaSuccess) return error;
    *total = state.setup.memory;
    *free = state.setup.memory - std::min(state.setup.memory, state.taken + state.elsewhere);
    return cudaSuccess;
}

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
    RuntimeState& state = runtime();
    const std::lock_guard lock(state.mutex);
    if (const cudaError_t error = state.enter_outside_capture(); error != cudaSuccess) return error;
    const std::uint64_t taken = taken_by(bytes);
    if (state.taken + state.elsewhere + taken > state.setup.memory) return state.fail(cudaErrorMemoryAllocation);
    *pointer = exactly(bytes);
    if (*pointer == nullptr) return state.fail(cudaErrorMemoryAllocation);
    ++state.counts.allocations;
    state.taken += taken;
    state.device[static_cast<std::byte*>(*pointer)] = {bytes, taken};
    return cudaSuccess;
}

cudaError_t cudaFree(void* pointer) {
    const std::lock_guard lock(runtime().mutex);
    return give_back(runtime().device, pointer);
}

cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned) {
    RuntimeState& state = runtime();
    const std::lock_guard lock(state.mutex);
    if (const cudaError_t error = state.enter_outside_capture(); error != cudaSuccess) return error;
    constexpr std::size_t most = std::size_t{1} << 34;  // of main memory that a process may pin here
    *pointer = bytes > most ? nullptr : exactly(bytes);
    if (*pointer == nullptr) return state.fail(cudaErrorMemoryAllocation);
    ++state.counts.allocations;
    state.pinned[static_cast<std::byte*>(*pointer)] = {bytes, 0};
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void* pointer) {
    const std::lock_guard lock(runtime().mutex);
    return give_back(runtime().pinned, pointer);
}

cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
    RuntimeState& state = runtime();
    const std::lock_guard lock(state.mutex);
    if (const cudaError_t error = state.enter(); error != cudaSuccess) return error;
    if (!RuntimeState::holds(state.pinned, host, 1)) return state.fail(cudaErrorInvalidValue);
    *device = host;
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t handle) {
    RuntimeState& state = runtime();
    const std::lock_guard lock(state.mutex);
    if (const cudaError_t error = state.enter(); error != cudaSuccess) return error;
    RuntimeState::Stream* stream = state.find(handle);
    const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if (stream == nullptr || RuntimeState::holds(state.device, to, bytes) != to_device ||
        RuntimeState::holds(state.device, from, bytes) != from_device)
        return state.fail(cudaErrorInvalidValue);
    ++state.counts.copies;
    const auto copy = [to, from, bytes] {
        std::memcpy(to, from, bytes);
        return cudaSuccess;
    };
    const bool pageable = (!to_device && !RuntimeState::holds(state.pinned, to, bytes)) ||
                          (!from_device && !RuntimeState::holds(state.pinned, from, bytes));
    if (!pageable) return state.submit(*stream, copy);
    // The driver copies pageable memory through its own: behind everything before it, and before the call returns.
    if (stream->capturing) {
        stream->broken = true;
        return state.fail(cudaErrorStreamCaptureUnsupported);
    }
    if (!stream->queue.empty()) ++state.counts.waits;
    if (const cudaError_t error = state.drain(*stream); error != cudaSuccess) return error;
    return copy();
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t handle) {
    RuntimeState& state = runtime();
    const std::lock_guard lock(state.mutex);
    if (const cudaError_t error = state.enter(); error != cudaSuccess) return error;
    RuntimeState::Stream* stream = state.find(handle);
    if (stream == nullptr || !RuntimeState::holds(state.device, to, bytes)) return state.fail(cudaErrorInvalidValue);
    return state.submit(*stream, [to, value, bytes] {
        std::memset(to, value, bytes);
        return cudaSuccess;
    });
}
