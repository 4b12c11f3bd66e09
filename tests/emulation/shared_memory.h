// SPDX-License-Identifier: GPL-3.0-or-later
//
// Shared memory of the block that a worker runs: an arena of static arrays with red zones between, and the launch's dynamic
// memory in an allocation of exactly its size. Every byte is 0xFF when a block starts: NaN in every precision.
#pragma once

#include <array>
#include <cstddef>

namespace kvloupe::emulation {

class SharedMemory {
public:
    static constexpr std::size_t alignment = 64;
    static constexpr std::size_t static_limit = 48 * 1024;    // of CUDA
    static constexpr std::size_t dynamic_limit = 163 * 1024;  // of a block on sm_80, static arrays included

    SharedMemory();
    ~SharedMemory();
    SharedMemory(const SharedMemory&) = delete;
    SharedMemory& operator=(const SharedMemory&) = delete;

    void start_block(std::size_t dynamic_bytes);
    // The array declared at `site`, the same for all threads of the block. Null: beyond static_limit.
    void* array(const void* site, std::size_t bytes);
    void* dynamic() { return m_dynamic; }
    bool holds(const void* from, std::size_t bytes) const;

private:
    static constexpr std::size_t red_zone = 64;
    static constexpr std::size_t arena_bytes = 64 * 1024;
    struct Array {
        const void* site = nullptr;
        std::size_t begin = 0;  // in the arena
        std::size_t bytes = 0;
    };

    unsigned char* m_arena = nullptr;
    std::array<Array, 64> m_arrays;
    std::size_t m_count = 0;
    std::size_t m_used = 0;      // of the arena, with red zones
    std::size_t m_declared = 0;  // bytes of all arrays
    void* m_dynamic = nullptr;
    std::size_t m_dynamic_bytes = 0;
};

}  // namespace kvloupe::emulation
