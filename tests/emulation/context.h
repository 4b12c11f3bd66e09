// SPDX-License-Identifier: GPL-3.0-or-later
//
// The registers of a suspended fiber. On x86-64 a switch is 15 instructions of our own; elsewhere ucontext does it, about
// 16 times slower because it asks the kernel for the signal mask.
#pragma once

#include <cstddef>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace kvloupe::emulation {

class Context {
public:
    // The next switch to this context calls entry() on the stack bottom .. bottom + size - 1. entry never returns.
    void prepare(void* bottom, std::size_t size, void (*entry)());
    // Suspends the running code in `from` and goes on in `to`.
    static void switch_context(Context& from, Context& to);

private:
#if defined(__x86_64__)
    void* m_stack_pointer = nullptr;
#else
    ucontext_t m_context = {};
#endif
};

}  // namespace kvloupe::emulation
