// SPDX-License-Identifier: GPL-3.0-or-later
//
// Memory of GPUs that a cache is held against, by data sheet. A100 80 GB and H100 80 GB hold 80 GiB; the H200 is sold
// with 141 GB, counted in powers of ten.
#pragma once

#include <array>
#include <cstdint>

namespace kvloupe {

struct GpuMemory {
    const char* name;     // as printed on the data sheet
    std::uint64_t bytes;
};

inline constexpr std::array<GpuMemory, 3> gpuMemories = {{
    {"A100 80 GB", std::uint64_t{80} << 30},
    {"H100 80 GB", std::uint64_t{80} << 30},
    {"H200 141 GB", std::uint64_t{141} * 1000 * 1000 * 1000},
}};

}  // namespace kvloupe
