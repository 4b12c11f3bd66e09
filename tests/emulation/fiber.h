// SPDX-License-Identifier: GPL-3.0-or-later
//
// A context with a stack, known to the sanitizers. A fiber belongs to the host thread that made it.
#pragma once

#include "tests/emulation/context.h"

#include <cstddef>

namespace kvloupe::emulation {

class Fiber {
public:
    // The code that runs now on this host thread, with the thread's own stack.
    Fiber();
    // Calls entry() at the first switch to it.
    explicit Fiber(void (*entry)());
    ~Fiber();
    Fiber(const Fiber&) = delete;
    Fiber& operator=(const Fiber&) = delete;

    // Forgets what it was doing; the next switch calls entry() anew.
    void restart(void (*entry)());
    static void switch_fiber(Fiber& from, Fiber& to);
    // release(object) in the name of a suspended fiber. Called by `running`, which goes on.
    void release_suspended(void* object, Fiber& running);
    // First thing in entry().
    static void entered();

private:
    void* m_mapping = nullptr;  // guard page, then the stack; null: the host thread's own
    std::size_t m_mapped = 0;
    void* m_bottom = nullptr;
    std::size_t m_size = 0;
    Context m_context;
    [[maybe_unused]] void* m_fake_stack = nullptr;   // AddressSanitizer's
    [[maybe_unused]] void* m_sanitizer = nullptr;    // ThreadSanitizer's fiber
};

// Happens-before for ThreadSanitizer: what was done before release(object) is seen after acquire(object). Nothing in
// other builds.
void release(void* object);
void acquire(void* object);

}  // namespace kvloupe::emulation
