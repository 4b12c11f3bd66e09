// SPDX-License-Identifier: GPL-3.0-or-later
//
// Shared memory of a block, atomics, fences, loads and stores with cache hints, and copies that run beside the thread.
#pragma once

#include "emulation/vectors.h"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace kvloupe::emulation {

// The array of a __shared__ declaration, told apart by the address of a static object beside it. Red zones of 64 bytes lie
// around it; its bytes are 0xFF (NaN) when the block starts.
void* shared_array(const void* site, std::size_t bytes, std::size_t alignment);
void* dynamic_shared();
bool is_shared(const void* from, std::size_t bytes);

void fence();

// cp.async of one thread. What is copied reaches its destination at the wait, and until then the destination holds NaN: a
// missing wait, or a tile that is still being read when the next one is fetched into it, shows.
void begin_copy(void* shared, const void* global, unsigned bytes);  // bytes: 16, or 0 to write zeros
void commit_copies();
void wait_for_copies(unsigned groups_left);

}  // namespace kvloupe::emulation

#define KVLOUPE_ATOMIC_ADD(type)                                                       \
    inline type atomicAdd(type* to, type value) {                                      \
        return std::atomic_ref<type>(*to).fetch_add(value, std::memory_order_relaxed); \
    }
KVLOUPE_ATOMIC_ADD(int)
KVLOUPE_ATOMIC_ADD(unsigned)
KVLOUPE_ATOMIC_ADD(unsigned long long)
KVLOUPE_ATOMIC_ADD(float)
#undef KVLOUPE_ATOMIC_ADD

#define KVLOUPE_ATOMIC_MAX(type)                                                                     \
    inline type atomicMax(type* to, type value) {                                                    \
        std::atomic_ref<type> target(*to);                                                           \
        type old = target.load(std::memory_order_relaxed);                                           \
        while (old < value && !target.compare_exchange_weak(old, value, std::memory_order_relaxed)) {} \
        return old;                                                                                  \
    }
KVLOUPE_ATOMIC_MAX(int)
KVLOUPE_ATOMIC_MAX(unsigned)
#undef KVLOUPE_ATOMIC_MAX

inline void __threadfence() { kvloupe::emulation::fence(); }
inline void __threadfence_block() { kvloupe::emulation::fence(); }

template <class T>
T __ldg(const T* from) { return *from; }
template <class T>
T __ldcg(const T* from) { return *from; }
template <class T>
T __ldcs(const T* from) { return *from; }
template <class T>
void __stcs(T* to, T value) { *to = value; }
template <class T>
void __stcg(T* to, T value) { *to = value; }
