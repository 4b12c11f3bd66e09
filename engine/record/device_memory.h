// SPDX-License-Identifier: GPL-3.0-or-later
//
// DeviceMemory: a device's own memory as its driver says it, beside what the program allocated on it. What the driver
// counts and nobody here asked for (the driver's context, libraries, other programs) is the residual.
#pragma once

#include <cstdint>
#include <string>

namespace kvloupe {

struct DeviceMemory {
    std::string id;                // "cuda:0"
    std::string name;              // the card
    std::uint64_t total_bytes = 0;  // measured: the driver's
    std::uint64_t free_bytes = 0;   // measured: the driver's
    std::uint64_t weight_bytes = 0;      // measured: as allocated
    std::uint64_t kv_cache_bytes = 0;
    std::uint64_t activation_bytes = 0;

    std::uint64_t used_bytes() const { return total_bytes - (free_bytes < total_bytes ? free_bytes : total_bytes); }
    std::uint64_t accounted_bytes() const { return weight_bytes + kv_cache_bytes + activation_bytes; }
    std::int64_t residual_bytes() const {  // derived
        return static_cast<std::int64_t>(used_bytes()) - static_cast<std::int64_t>(accounted_bytes());
    }
    bool operator==(const DeviceMemory&) const = default;
};

}  // namespace kvloupe
