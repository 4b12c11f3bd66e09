// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cuda/card_memory.h"

#include <cstdio>

namespace kvloupe::cuda {

std::string size_text(std::uint64_t bytes) {
    constexpr double kibi = 1024.0;
    const double value = static_cast<double>(bytes);
    char text[32];
    if (value >= kibi * kibi * kibi) std::snprintf(text, sizeof text, "%.2f GiB", value / (kibi * kibi * kibi));
    else if (value >= kibi * kibi) std::snprintf(text, sizeof text, "%.1f MiB", value / (kibi * kibi));
    else std::snprintf(text, sizeof text, "%llu bytes", static_cast<unsigned long long>(bytes));
    return text;
}

Result<CardMemory> CardMemory::make(Card& card, std::uint64_t bytes, Purpose purpose, const std::string& what) {
    CardMemory memory;
    if (!card.ready()) return card.fault().error();
    if (bytes == 0) return memory;
    void* data = nullptr;
    const cudaError_t status = cudaMalloc(&data, bytes);
    if (status == cudaErrorMemoryAllocation) {  // does not stick
        (void)cudaGetLastError();
        const Card::Room room = card.room();
        return Error{"Not enough memory on " + card.label() + " for " + what + ": " + size_text(bytes) + " wanted, " +
                         size_text(room.free) + " of " + size_text(room.total) + " free",
                     "Use less of it, close what else uses the card, or choose the device 'cpu'"};
    }
    if (!card.fault().note(status, "an allocation")) return card.fault().error();
    memory.m_card = &card;
    memory.m_data = static_cast<std::byte*>(data);
    memory.m_bytes = bytes;
    memory.m_purpose = purpose;
    card.counter(purpose) += bytes;
    return memory;
}

void CardMemory::release() {
    if (m_data == nullptr) return;
    m_card->counter(m_purpose) -= m_bytes;
    if (cudaFree(m_data) != cudaSuccess) (void)cudaGetLastError();  // a lost card's memory is gone already
    m_data = nullptr;
    m_bytes = 0;
}

Result<PinnedMemory> PinnedMemory::make(Card& card, std::uint64_t bytes, bool counted, const std::string& what) {
    PinnedMemory memory;
    if (!card.ready()) return card.fault().error();
    if (bytes == 0) return memory;
    void* data = nullptr;
    void* device = nullptr;
    const cudaError_t status = cudaHostAlloc(&data, bytes, cudaHostAllocMapped | cudaHostAllocPortable);
    if (status == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError();
        return Error{"Not enough main memory that " + card.label() + " can reach for " + what + ": " + size_text(bytes) + " wanted",
                     "Use less of it, or close other programs"};
    }
    if (!card.fault().note(status, "an allocation of main memory")) return card.fault().error();
    memory.m_card = &card;
    memory.m_data = static_cast<std::byte*>(data);
    memory.m_bytes = bytes;
    memory.m_counted = counted;
    if (counted) card.host_counter() += bytes;
    if (!card.fault().note(cudaHostGetDevicePointer(&device, data, 0), "an allocation of main memory")) return card.fault().error();
    memory.m_device = static_cast<std::byte*>(device);
    return memory;
}

void PinnedMemory::release() {
    if (m_data == nullptr) return;
    if (m_counted) m_card->host_counter() -= m_bytes;
    if (cudaFreeHost(m_data) != cudaSuccess) (void)cudaGetLastError();
    m_data = nullptr;
    m_bytes = 0;
}

}  // namespace kvloupe::cuda
