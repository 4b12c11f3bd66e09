// SPDX-License-Identifier: GPL-3.0-or-later
//
// Compiled without ThreadSanitizer's instrumentation, as all that runs between fibers: its record of calls would not
// match the switches. KVLOUPE_EMULATION_ASAN and _TSAN say what the rest is built with.
#include "tests/emulation/fiber.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <new>

#if defined(KVLOUPE_EMULATION_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(KVLOUPE_EMULATION_TSAN)
#include <sanitizer/tsan_interface.h>
#endif

namespace kvloupe::emulation {

namespace {

// A kernel needs little; reports of the sanitizers are written on the stack of the fiber that they catch.
#if defined(KVLOUPE_EMULATION_ASAN) || defined(KVLOUPE_EMULATION_TSAN)
constexpr std::size_t stack_bytes = 256 * 1024;
#else
constexpr std::size_t stack_bytes = 64 * 1024;
#endif

}  // namespace

Fiber::Fiber() {
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        pthread_attr_getstack(&attributes, &m_bottom, &m_size);
        pthread_attr_destroy(&attributes);
    }
#if defined(KVLOUPE_EMULATION_TSAN)
    m_sanitizer = __tsan_get_current_fiber();
#endif
}

Fiber::Fiber(void (*entry)()) {
    const std::size_t guard = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    m_mapped = guard + stack_bytes;
    m_mapping = mmap(nullptr, m_mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (m_mapping == MAP_FAILED) throw std::bad_alloc();
    mprotect(m_mapping, guard, PROT_NONE);
    m_bottom = static_cast<char*>(m_mapping) + guard;
    m_size = stack_bytes;
    restart(entry);
}

Fiber::~Fiber() {
    if (m_mapping == nullptr) return;
#if defined(KVLOUPE_EMULATION_TSAN)
    __tsan_destroy_fiber(m_sanitizer);
#endif
#if defined(KVLOUPE_EMULATION_ASAN)
    __asan_unpoison_memory_region(m_bottom, m_size);
#endif
    munmap(m_mapping, m_mapped);  // with the guard
}

void Fiber::restart(void (*entry)()) {
#if defined(KVLOUPE_EMULATION_ASAN)
    __asan_unpoison_memory_region(m_bottom, m_size);  // red zones of the frames that were left
    m_fake_stack = nullptr;
#endif
#if defined(KVLOUPE_EMULATION_TSAN)
    if (m_sanitizer != nullptr) __tsan_destroy_fiber(m_sanitizer);
    m_sanitizer = __tsan_create_fiber(0);
#endif
    m_context.prepare(m_bottom, m_size, entry);
}

void Fiber::switch_fiber(Fiber& from, Fiber& to) {
#if defined(KVLOUPE_EMULATION_ASAN)
    __sanitizer_start_switch_fiber(&from.m_fake_stack, to.m_bottom, to.m_size);
#endif
#if defined(KVLOUPE_EMULATION_TSAN)
    // A switch orders nothing: only barriers do.
    __tsan_switch_to_fiber(to.m_sanitizer, __tsan_switch_to_fiber_no_sync);
#endif
    Context::switch_context(from.m_context, to.m_context);
#if defined(KVLOUPE_EMULATION_ASAN)
    __sanitizer_finish_switch_fiber(from.m_fake_stack, nullptr, nullptr);
#endif
}

void Fiber::release_suspended([[maybe_unused]] void* object, [[maybe_unused]] Fiber& running) {
#if defined(KVLOUPE_EMULATION_TSAN)
    __tsan_switch_to_fiber(m_sanitizer, __tsan_switch_to_fiber_no_sync);
    __tsan_release(object);
    __tsan_switch_to_fiber(running.m_sanitizer, __tsan_switch_to_fiber_no_sync);
#endif
}

void Fiber::entered() {
#if defined(KVLOUPE_EMULATION_ASAN)
    __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
}

void release([[maybe_unused]] void* object) {
#if defined(KVLOUPE_EMULATION_TSAN)
    __tsan_release(object);
#endif
}

void acquire([[maybe_unused]] void* object) {
#if defined(KVLOUPE_EMULATION_TSAN)
    __tsan_acquire(object);
#endif
}

}  // namespace kvloupe::emulation
