// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/arguments.h"
#include "gui/commands.h"

#include "kernels/make_backend.h"

#include <nlohmann/json.hpp>

#include <iostream>

namespace kvloupe {

int devices_command(const std::vector<std::string>& words) {
    auto arguments = Arguments::parse(words, {{"--json"}, {}, 0, 0, "kvloupe devices [--json]"});
    if (!arguments) return fail(arguments.error().message(), exit_usage);
    const std::vector<DeviceReport> devices = list_devices();
    if (arguments->has("--json")) {
        nlohmann::json document = nlohmann::json::array();
        for (const DeviceReport& device : devices) {
            nlohmann::json entry = {{"id", device.id}, {"available", device.available}, {"detail", device.detail}};
            entry["name"] = device.name.empty() ? nlohmann::json() : nlohmann::json(device.name);
            entry["memory_bytes"] = device.memory_bytes ? nlohmann::json(device.memory_bytes) : nlohmann::json();
            entry["free_bytes"] = device.free_bytes ? nlohmann::json(device.free_bytes) : nlohmann::json();
            document.push_back(std::move(entry));
        }
        std::cout << document.dump(2) << '\n';
        return exit_done;
    }
    for (const DeviceReport& device : devices) {
        std::cout << device.id << ": " << (device.available ? device.name : device.name + ", not available") << '\n'
                  << "    " << device.detail << '\n';
        if (device.memory_bytes)
            std::cout << "    memory " << device.memory_bytes / (1u << 20) << " MiB, " << device.free_bytes / (1u << 20) << " MiB free\n";
    }
    return exit_done;
}

}  // namespace kvloupe
