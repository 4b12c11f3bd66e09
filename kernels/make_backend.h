// SPDX-License-Identifier: GPL-3.0-or-later
//
// Which devices can compute here, and backends for them.
#pragma once

#include "engine/backend.h"

#include <memory>
#include <string>
#include <vector>

namespace kvloupe {

struct BackendOptions {
    std::string device = "auto";  // auto | cpu | cuda:N; auto: the first card that can compute, else the CPU
    unsigned threads = 0;         // CPU threads; 0: one per core at hand
};

// Errors: a device that does not exist or cannot compute here, with the reason. `auto` never fails for want of a card:
// list_devices() says why it is the CPU.
Result<std::unique_ptr<Backend>> make_backend(const BackendOptions& options);

struct DeviceReport {
    std::string id;       // "cpu", "cuda:0"; "cuda" where there is none
    std::string name;
    bool available = false;
    std::string detail;   // what it can do, or why it is absent
    std::uint64_t memory_bytes = 0;
    std::uint64_t free_bytes = 0;  // now, as the system or the driver says it
};

// The CPU, then every card, or one entry that says why there is none. Quick where there is no driver; asking a card costs
// some tenths of a second.
std::vector<DeviceReport> list_devices();

}  // namespace kvloupe
