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
    std::string device = "auto";  // auto | cpu | cuda:N
    unsigned threads = 0;         // CPU threads; 0: one per core at hand
};

// Errors: a device that does not exist or cannot compute here, with the reason.
Result<std::unique_ptr<Backend>> make_backend(const BackendOptions& options);

struct DeviceReport {
    std::string id;       // "cpu", "cuda"
    std::string name;
    bool available = false;
    std::string detail;   // what it can do, or why it is absent
    std::uint64_t memory_bytes = 0;
};

std::vector<DeviceReport> list_devices();

}  // namespace kvloupe
