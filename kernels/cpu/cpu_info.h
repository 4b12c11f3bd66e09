// SPDX-License-Identifier: GPL-3.0-or-later
//
// What the machine at hand is: processor, cores this process may use, memory, vector instructions.
#pragma once

#include <cstdint>
#include <string>

namespace kvloupe::cpu {

struct MemorySize {
    std::uint64_t total = 0;  // bytes; of the control group where that is less than the machine's
    std::uint64_t free = 0;   // bytes that can be taken without swapping; 0: unknown
};

std::string processor_name();
// Cores in the affinity mask, at most the control group's quota rounded up; at least 1.
unsigned cores_at_hand();
MemorySize memory_size();
// "AVX-512 (AVX3)", "AVX2", "SSE4": what the kernels' dispatch has chosen.
std::string vector_instructions();
// Bytes of the largest cache, 0: unknown.
std::uint64_t last_level_cache();

}  // namespace kvloupe::cpu
