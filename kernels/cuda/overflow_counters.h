// SPDX-License-Identifier: GPL-3.0-or-later
//
// OverflowCounters: one counter on the card per KV cache, of values that became infinite when they were stored, and a copy of
// all of them in main memory that every wait refreshes: one small copy, whatever the number of caches.
#pragma once

#include "kernels/cuda/card_memory.h"

#include <memory>
#include <vector>

namespace kvloupe::cuda {

class OverflowCounters {
public:
    static constexpr std::uint32_t capacity = 512;

    static Result<std::unique_ptr<OverflowCounters>> make(Card& card);

    // A free counter, set to 0 in stream order. Errors: all are taken; the card's fault.
    Result<std::uint32_t> take();
    void give_back(std::uint32_t counter) { m_taken[counter] = false; }

    unsigned long long* device(std::uint32_t counter) const { return m_device.as<unsigned long long>() + counter; }
    std::uint64_t value(std::uint32_t counter) const { return reinterpret_cast<const unsigned long long*>(m_host.data())[counter]; }
    // Queues the copy to main memory; valid after the stream's next wait.
    cudaError_t refresh(cudaStream_t stream);

private:
    explicit OverflowCounters(Card& card) : m_card(card), m_taken(capacity, false) {}
    Card& m_card;
    CardMemory m_device;
    PinnedMemory m_host;
    std::vector<bool> m_taken;
    std::uint32_t m_used = 0;  // counters below it were ever taken
};

}  // namespace kvloupe::cuda
