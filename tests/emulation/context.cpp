// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/emulation/context.h"

#include <cstdint>

#if defined(__x86_64__)

// System V: rbx, rbp, r12 .. r15 belong to the caller, so they lie on the stack of whoever is suspended.
// rdi: where to leave the stack pointer; rsi: the stack pointer to go on with.
asm(R"(
    .text
    .globl kvloupe_emulation_switch
    .type kvloupe_emulation_switch, @function
kvloupe_emulation_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size kvloupe_emulation_switch, .-kvloupe_emulation_switch
)");
extern "C" void kvloupe_emulation_switch(void** from, void* to);

namespace kvloupe::emulation {

void Context::prepare(void* bottom, std::size_t size, void (*entry)()) {
    const std::uintptr_t top = (reinterpret_cast<std::uintptr_t>(bottom) + size) & ~std::uintptr_t{15};
    // After `ret` took the entry, rsp is 8 modulo 16, as after a call.
    void** at = reinterpret_cast<void**>(top) - 2;
    at[0] = reinterpret_cast<void*>(entry);
    at[1] = nullptr;  // where entry would return to
    for (int saved = 0; saved < 6; ++saved) *--at = nullptr;
    m_stack_pointer = at;
}

void Context::switch_context(Context& from, Context& to) {
    kvloupe_emulation_switch(&from.m_stack_pointer, to.m_stack_pointer);
}

}  // namespace kvloupe::emulation

#else

namespace kvloupe::emulation {

void Context::prepare(void* bottom, std::size_t size, void (*entry)()) {
    getcontext(&m_context);
    m_context.uc_stack.ss_sp = bottom;
    m_context.uc_stack.ss_size = size;
    m_context.uc_link = nullptr;
    makecontext(&m_context, entry, 0);
}

void Context::switch_context(Context& from, Context& to) { swapcontext(&from.m_context, &to.m_context); }

}  // namespace kvloupe::emulation

#endif
