// SPDX-License-Identifier: GPL-3.0-or-later
//
// Card: what everything that lives on one device shares: its number, its stream, its fault, the counters of its memory.
#pragma once

#include "engine/backend.h"
#include "kernels/cuda/device_fault.h"
#include "kernels/cuda/runtime.h"

#include <atomic>
#include <functional>
#include <string>

namespace kvloupe::cuda {

class Card {
public:
    Card(int index, const std::string& name, std::uint32_t processors)
        : m_index(index), m_label("cuda:" + std::to_string(index) + " (" + name + ")"), m_processors(processors), m_fault(m_label) {}
    Card(const Card&) = delete;
    Card& operator=(const Card&) = delete;

    int index() const { return m_index; }
    const std::string& label() const { return m_label; }             // "cuda:0 (NVIDIA H200)"
    std::uint32_t processors() const { return m_processors; }        // multiprocessors
    DeviceFault& fault() { return m_fault; }

    cudaStream_t stream = nullptr;                                   // everything runs on it, in order
    bool recording = false;                                          // launches go into a record: memory must not move
    // Called when memory that a recorded pass may name is given back.
    std::function<void()> forget_passes = [] {};

    // Makes the card current for this thread; false where it failed before.
    bool ready() { return m_fault.good() && m_fault.note(cudaSetDevice(m_index), "the choice of the card"); }

    std::atomic<std::uint64_t>& counter(Purpose purpose) {
        return purpose == Purpose::weights ? m_weights : purpose == Purpose::kv_cache ? m_kv_cache : m_activations;
    }
    std::atomic<std::uint64_t>& host_counter() { return m_host_blocks; }
    MemoryCounters memory() const { return {m_weights.load(), m_kv_cache.load(), m_activations.load(), m_host_blocks.load()}; }

    struct Room {
        std::uint64_t free = 0, total = 0;
    };
    // As the driver says it now; zeros where it does not.
    Room room() {
        std::size_t free = 0, total = 0;
        if (!m_fault.good() || cudaSetDevice(m_index) != cudaSuccess || cudaMemGetInfo(&free, &total) != cudaSuccess) {
            (void)cudaGetLastError();
            return {};
        }
        return {free, total};
    }

private:
    int m_index;
    std::string m_label;
    std::uint32_t m_processors;
    DeviceFault m_fault;
    std::atomic<std::uint64_t> m_weights{0}, m_kv_cache{0}, m_activations{0}, m_host_blocks{0};
};

}  // namespace kvloupe::cuda
