// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/gpu_table.h"

#include <array>

namespace kvloupe {

namespace {

constexpr std::array<GpuEntry, 3> entries = {{
    {"A100 SXM", "80 GB", std::uint64_t{80} << 30, 2.039e12, 312e12},
    {"H100 SXM", "80 GB", std::uint64_t{80} << 30, 3.35e12, 989e12},
    {"H200 SXM", "141 GB", std::uint64_t{141} * 1000 * 1000 * 1000, 4.8e12, 989e12},
}};

}  // namespace

std::span<const GpuEntry> gpu_table() { return entries; }

const GpuEntry* find_gpu(std::string_view name) {
    for (const GpuEntry& entry : entries)
        if (entry.name == name) return &entry;
    return nullptr;
}

const GpuEntry* find_card(std::string_view name) {
    const auto has = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
    if (has("A100-SXM") && has("80GB")) return find_gpu("A100 SXM");
    if (has("H100 80GB HBM3") && !has("GH")) return find_gpu("H100 SXM");
    if (has("H200") && !has("GH200") && !has("NVL")) return find_gpu("H200 SXM");
    return nullptr;
}

}  // namespace kvloupe
