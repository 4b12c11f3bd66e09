// SPDX-License-Identifier: GPL-3.0-or-later
//
// cp.async. Compiled with the sanitizers, because it reads and writes the kernel's memory: the source and the destination
// are both touched when the copy begins, as the hardware may, and again when it is waited for.
#include "emulation/memory.h"
#include "emulation/threads.h"
#include "tests/emulation/copy_in_flight.h"

#include <cstdint>

namespace kvloupe::emulation {

void begin_copy(void* shared, const void* global, unsigned bytes) {
    if (bytes != 0 && bytes != 16) fail_launch("cp.async of other than 0 or 16 bytes");
    if (reinterpret_cast<std::uintptr_t>(shared) % 16 != 0) fail_launch("cp.async to an address that is not aligned to 16");
    if (bytes > 0 && reinterpret_cast<std::uintptr_t>(global) % 16 != 0)
        fail_launch("cp.async from an address that is not aligned to 16");
    std::uint32_t* const to = static_cast<std::uint32_t*>(shared);
    const volatile std::uint32_t* const from = static_cast<const std::uint32_t*>(global);
    for (unsigned i = 0; i < 4; ++i) {
        if (bytes > 0) static_cast<void>(from[i]);
        to[i] = 0xFFFFFFFFu;
    }
    if (!is_shared(shared, 16)) fail_launch("cp.async to memory that is not shared");
    add_copy(shared, global, bytes);
}

void wait_for_copies(unsigned groups_left) {
    for (CopyInFlight copy; take_copy(groups_left, copy);) {
        std::uint32_t* const to = static_cast<std::uint32_t*>(copy.to);
        const std::uint32_t* const from = static_cast<const std::uint32_t*>(copy.from);
        for (unsigned i = 0; i < 4; ++i) to[i] = copy.bytes > 0 ? from[i] : 0u;
    }
}

}  // namespace kvloupe::emulation
