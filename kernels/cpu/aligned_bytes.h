// SPDX-License-Identifier: GPL-3.0-or-later
//
// AlignedBytes: an aligned allocation that adds itself to a counter and takes itself off again when it is destroyed. The
// backend's "measured bytes" are sums of these.
#pragma once

#include "engine/backend.h"
#include "engine/record/result.h"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace kvloupe::cpu {

// Bytes allocated by purpose. Read by any thread.
struct Counters {
    std::atomic<std::uint64_t> kv_cache{0};
    std::atomic<std::uint64_t> activations{0};
    std::atomic<std::uint64_t> host_blocks{0};
    std::atomic<std::uint64_t>& of(Purpose purpose) { return purpose == Purpose::kv_cache ? kv_cache : activations; }
};

class AlignedBytes {
public:
    static constexpr std::size_t alignment = 64;  // a cache line and a vector

    AlignedBytes() = default;
    // `bytes` bytes, aligned to 64, the last one rounded up to whole cache lines; large ones to huge pages. The content
    // is undefined. Errors: not enough memory, naming `what` and the size. The counter must outlive the allocation.
    static Result<AlignedBytes> make(std::uint64_t bytes, std::atomic<std::uint64_t>& counter, const char* what);
    ~AlignedBytes();
    AlignedBytes(AlignedBytes&& other) noexcept;
    AlignedBytes& operator=(AlignedBytes&& other) noexcept;

    std::byte* data() const { return m_data; }
    std::uint64_t size() const { return m_size; }
    // The allocation as elements of T.
    template <class T>
    T* as() const {
        return reinterpret_cast<T*>(m_data);
    }

private:
    std::byte* m_data = nullptr;
    std::uint64_t m_size = 0;
    std::atomic<std::uint64_t>* m_counter = nullptr;
};

}  // namespace kvloupe::cpu
