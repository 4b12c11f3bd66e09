// SPDX-License-Identifier: GPL-3.0-or-later
//
// __threadfence: orders what this thread wrote before what it writes after, for all threads of the device.
#include "emulation/memory.h"
#include "tests/emulation/fiber.h"

#include <atomic>

namespace kvloupe::emulation {

void fence() {
    // ThreadSanitizer knows no fences. A fence that comes after another one sees what was written before that: the way of
    // "write, fence, count; the last to count fences and reads".
    static char everything = 0;
    release(&everything);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    acquire(&everything);
}

}  // namespace kvloupe::emulation
