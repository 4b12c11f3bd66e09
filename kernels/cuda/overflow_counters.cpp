// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cuda/overflow_counters.h"

#include <algorithm>
#include <cstring>

namespace kvloupe::cuda {

Result<std::unique_ptr<OverflowCounters>> OverflowCounters::make(Card& card) {
    std::unique_ptr<OverflowCounters> counters(new OverflowCounters(card));
    const std::uint64_t bytes = capacity * sizeof(unsigned long long);
    auto device = CardMemory::make(card, bytes, Purpose::activations, "the counters of overflowed values");
    if (!device) return device.error();
    auto host = PinnedMemory::make(card, bytes, false, "the counters of overflowed values");
    if (!host) return host.error();
    counters->m_device = std::move(*device);
    counters->m_host = std::move(*host);
    std::memset(counters->m_host.data(), 0, bytes);
    return counters;
}

Result<std::uint32_t> OverflowCounters::take() {
    const auto free = std::find(m_taken.begin(), m_taken.end(), false);
    if (free == m_taken.end())
        return Error{m_card.label() + " keeps " + std::to_string(capacity) + " KV caches already", "Use fewer lanes"};
    const auto counter = static_cast<std::uint32_t>(free - m_taken.begin());
    if (!m_card.fault().note(cudaMemsetAsync(device(counter), 0, sizeof(unsigned long long), m_card.stream), "a new KV cache"))
        return m_card.fault().error();
    reinterpret_cast<unsigned long long*>(m_host.data())[counter] = 0;
    *free = true;
    m_used = std::max(m_used, counter + 1);
    return counter;
}

cudaError_t OverflowCounters::refresh(cudaStream_t stream) {
    if (m_used == 0) return cudaSuccess;
    return cudaMemcpyAsync(m_host.data(), m_device.data(), m_used * sizeof(unsigned long long), cudaMemcpyDeviceToHost, stream);
}

}  // namespace kvloupe::cuda
