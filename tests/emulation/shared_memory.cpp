// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/emulation/shared_memory.h"

#include <cstdlib>
#include <new>

#if defined(KVLOUPE_EMULATION_ASAN)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) static_cast<void>(address)
#define ASAN_UNPOISON_MEMORY_REGION(address, size) static_cast<void>(address)
#endif

namespace kvloupe::emulation {

namespace {

// Volatile, so that it never becomes a call of memset: ThreadSanitizer would take that for a write of the thread that
// meets the array first, and every other thread's access for a race with it.
void fill(void* memory, std::size_t bytes) {
    volatile unsigned char* at = static_cast<unsigned char*>(memory);
    for (; bytes >= 8; bytes -= 8, at += 8) *reinterpret_cast<volatile unsigned long long*>(at) = ~0ull;
    for (; bytes > 0; --bytes) *at++ = 0xFF;
}

}  // namespace

SharedMemory::SharedMemory() {
    m_arena = static_cast<unsigned char*>(std::aligned_alloc(alignment, arena_bytes));
    if (m_arena == nullptr) throw std::bad_alloc();
    ASAN_POISON_MEMORY_REGION(m_arena, arena_bytes);
}

SharedMemory::~SharedMemory() {
    ASAN_UNPOISON_MEMORY_REGION(m_arena, arena_bytes);
    std::free(m_arena);
    std::free(m_dynamic);
}

void SharedMemory::start_block(std::size_t dynamic_bytes) {
    ASAN_POISON_MEMORY_REGION(m_arena, m_used);
    m_count = m_used = m_declared = 0;
    if (m_dynamic_bytes != dynamic_bytes) {
        std::free(m_dynamic);
        m_dynamic = dynamic_bytes > 0 ? std::malloc(dynamic_bytes) : nullptr;
        if (dynamic_bytes > 0 && m_dynamic == nullptr) throw std::bad_alloc();
        m_dynamic_bytes = dynamic_bytes;
    }
    fill(m_dynamic, m_dynamic_bytes);
}

void* SharedMemory::array(const void* site, std::size_t bytes) {
    for (std::size_t i = 0; i < m_count; ++i)
        if (m_arrays[i].site == site && m_arrays[i].bytes == bytes) return m_arena + m_arrays[i].begin;
    const std::size_t begin = m_used + red_zone;
    const std::size_t end = (begin + bytes + alignment - 1) / alignment * alignment;
    if (m_declared + bytes > static_limit || m_count == m_arrays.size() || end + red_zone > arena_bytes) return nullptr;
    m_arrays[m_count++] = {site, begin, bytes};
    m_declared += bytes;
    m_used = end;
    ASAN_UNPOISON_MEMORY_REGION(m_arena + begin, bytes);
    fill(m_arena + begin, bytes);
    return m_arena + begin;
}

bool SharedMemory::holds(const void* from, std::size_t bytes) const {
    const unsigned char* const begin = static_cast<const unsigned char*>(from);
    const auto inside = [begin, bytes](const unsigned char* area, std::size_t size) {
        return area != nullptr && begin >= area && begin + bytes <= area + size;
    };
    for (std::size_t i = 0; i < m_count; ++i)
        if (inside(m_arena + m_arrays[i].begin, m_arrays[i].bytes)) return true;
    return inside(static_cast<const unsigned char*>(m_dynamic), m_dynamic_bytes);
}

}  // namespace kvloupe::emulation
