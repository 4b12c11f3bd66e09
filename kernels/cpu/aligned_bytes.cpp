// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/aligned_bytes.h"

#include "kernels/cpu/cpu_info.h"

#include <cstdlib>
#include <string>
#include <utility>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace kvloupe::cpu {

namespace {

constexpr std::uint64_t huge_page = 2ull << 20;
// From here on the kernel's overcommit would promise what it may not have: ask how much there is.
constexpr std::uint64_t checked_size = 64ull << 20;

Error out_of_memory(std::uint64_t bytes, const char* what) {
    return Error{"Not enough memory for " + std::string(what) + ": " + std::to_string(bytes) + " bytes were asked for",
                 "Use fewer blocks, a shorter context or a smaller batch, or close other programs"};
}

}  // namespace

Result<AlignedBytes> AlignedBytes::make(std::uint64_t bytes, std::atomic<std::uint64_t>& counter, const char* what) {
    const std::size_t align = bytes >= 2 * huge_page ? huge_page : alignment;
    if (bytes > UINT64_MAX / 2) return out_of_memory(bytes, what);
    if (bytes >= checked_size) {
        const std::uint64_t free = memory_size().free;
        if (free != 0 && bytes > free) return out_of_memory(bytes, what);
    }
    const std::uint64_t rounded = (bytes + align - 1) / align * align;
    AlignedBytes result;
    result.m_data = static_cast<std::byte*>(std::aligned_alloc(align, rounded == 0 ? align : rounded));
    if (result.m_data == nullptr) return out_of_memory(bytes, what);
#ifdef __linux__
    if (align == huge_page) madvise(result.m_data, rounded, MADV_HUGEPAGE);
#endif
    result.m_size = bytes;
    result.m_counter = &counter;
    counter.fetch_add(bytes, std::memory_order_relaxed);
    return result;
}

AlignedBytes::~AlignedBytes() {
    if (m_counter != nullptr) m_counter->fetch_sub(m_size, std::memory_order_relaxed);
    std::free(m_data);
}

AlignedBytes::AlignedBytes(AlignedBytes&& other) noexcept
    : m_data(std::exchange(other.m_data, nullptr)),
      m_size(std::exchange(other.m_size, 0)),
      m_counter(std::exchange(other.m_counter, nullptr)) {}

AlignedBytes& AlignedBytes::operator=(AlignedBytes&& other) noexcept {
    std::swap(m_data, other.m_data);
    std::swap(m_size, other.m_size);
    std::swap(m_counter, other.m_counter);
    return *this;
}

}  // namespace kvloupe::cpu
