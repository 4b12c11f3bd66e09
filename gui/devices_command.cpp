// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/arguments.h"
#include "gui/ceilings_store.h"
#include "gui/commands.h"

#include "engine/record/gpu_table.h"

#include "kernels/make_backend.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <iostream>

namespace kvloupe {

namespace {

using nlohmann::json;

json number_or_null(double value) { return value > 0 ? json(value) : json(nullptr); }

// What was measured on the device earlier, and its data sheet, where there are such.
void add_ceilings(json& entry, const DeviceReport& device, const std::optional<KeptCeilings>& kept) {
    if (kept)
        entry["ceilings"] = {{"read_bandwidth_bytes_per_s", number_or_null(kept->best.read_bandwidth)},
                             {"copy_bandwidth_bytes_per_s", number_or_null(kept->best.copy_bandwidth)},
                             {"matrix_flop_per_s", number_or_null(kept->best.matrix_rate)},
                             {"matrix_type", std::string(name_of(kept->best.matrix_type))},
                             {"measured_on", kept->best.measured_on},
                             {"measurements", kept->measurements}};
    if (const GpuEntry* card = find_card(device.name))
        entry["data_sheet"] = {{"name", std::string(card->name)},
                               {"bandwidth_bytes_per_s", card->bandwidth},
                               {"bf16_flop_per_s", card->bf16_flops}};
}

void print_ceilings(const DeviceReport& device, const std::optional<KeptCeilings>& kept) {
    const std::string of = kept && kept->measurements > 1 ? ", best of " + std::to_string(kept->measurements) + " measurements" : "";
    if (kept)
        std::printf("    measured %s%s: read %.1f GB/s, copy %.1f GB/s, %s matrices %.3g TFLOP/s\n", kept->best.measured_on.c_str(),
                    of.c_str(), kept->best.read_bandwidth / 1e9, kept->best.copy_bandwidth / 1e9, std::string(name_of(kept->best.matrix_type)).c_str(),
                    kept->best.matrix_rate / 1e12);
    if (const GpuEntry* card = find_card(device.name))
        std::printf("    data sheet of the %s: %.0f GB/s, bf16 %.0f TFLOP/s\n", std::string(card->name).c_str(),
                    card->bandwidth / 1e9, card->bf16_flops / 1e12);
    std::fflush(stdout);
}

}  // namespace

int devices_command(const std::vector<std::string>& words) {
    auto arguments = Arguments::parse(words, {{"--json"}, {}, 0, 0, "kvloupe devices [--json]"});
    if (!arguments) return fail(arguments.error().message(), exit_usage);
    const std::vector<DeviceReport> devices = list_devices();
    const CeilingsStore store;
    const auto kept = [&store](const DeviceReport& device) {
        return store.find(CeilingsStore::key_of(device.id, device.name, device.detail));
    };
    if (arguments->has("--json")) {
        nlohmann::json document = nlohmann::json::array();
        for (const DeviceReport& device : devices) {
            nlohmann::json entry = {{"id", device.id}, {"available", device.available}, {"detail", device.detail}};
            entry["name"] = device.name.empty() ? nlohmann::json() : nlohmann::json(device.name);
            entry["memory_bytes"] = device.memory_bytes ? nlohmann::json(device.memory_bytes) : nlohmann::json();
            entry["free_bytes"] = device.free_bytes ? nlohmann::json(device.free_bytes) : nlohmann::json();
            if (device.available) add_ceilings(entry, device, kept(device));
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
        std::cout << std::flush;
        if (device.available) print_ceilings(device, kept(device));
    }
    return exit_done;
}

}  // namespace kvloupe
