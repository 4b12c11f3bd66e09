// SPDX-License-Identifier: GPL-3.0-or-later
//
// GPUs that a cache is held against, by data sheet (FORMATS 3.13). The A100 and H100 hold 80 GiB; the H200 is sold as
// 141 GB, counted in powers of ten.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace kvloupe {

struct GpuEntry {
    std::string_view name;          // "H100 SXM"
    std::string_view memory;        // as the data sheet prints it: "80 GB"
    std::uint64_t memory_bytes = 0;
    double bandwidth = 0;           // of its memory, bytes/s
    double bf16_flops = 0;          // FLOP/s, dense
};

std::span<const GpuEntry> gpu_table();

// Entry of that name, or null.
const GpuEntry* find_gpu(std::string_view name);

// Entry of a card by the driver's name for it ("NVIDIA H100 80GB HBM3"; other words may stand around it), or null: other
// forms of a chip (PCIe, NVL) have other numbers.
const GpuEntry* find_card(std::string_view name);

}  // namespace kvloupe
