// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/make_backend.h"

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/cpu_info.h"
#include "kernels/cuda_plugin.h"

#include <charconv>
#include <optional>

namespace kvloupe {

namespace {

// N of "cuda:N".
std::optional<int> card_number(const std::string& device) {
    constexpr std::string_view prefix = "cuda:";
    if (device.rfind(prefix, 0) != 0) return std::nullopt;
    int number = 0;
    const char* end = device.data() + device.size();
    const auto parsed = std::from_chars(device.data() + prefix.size(), end, number);
    if (parsed.ec != std::errc{} || parsed.ptr != end || number < 0) return std::nullopt;
    return number;
}

Result<std::unique_ptr<Backend>> card_backend(const std::string& device) {
    const std::optional<int> number = device == "cuda" ? 0 : card_number(device);
    if (!number) return Error{"There is no device '" + device + "'", "Use 'auto', 'cpu' or 'cuda:N'"};
    const auto refuse = [&](const Error& error) { return Error{"Device '" + device + "' cannot compute here with CUDA: " + error.sentence, error.hint}; };
    const auto plugin = CudaPlugin::open();
    if (!plugin) return refuse(plugin.error());
    auto made = plugin->make_backend(*number);
    if (!made) return refuse(made.error());
    return made;
}

}  // namespace

Result<std::unique_ptr<Backend>> make_backend(const BackendOptions& options) {
    if (options.device == "auto")
        if (const auto plugin = CudaPlugin::open())
            if (auto card = plugin->make_backend(0)) return card;
    if (options.device == "auto" || options.device == "cpu") return cpu::make_cpu_backend(options.threads);
    if (options.device.rfind("cuda", 0) == 0) return card_backend(options.device);
    return Error{"There is no device '" + options.device + "'", "Use 'auto', 'cpu' or 'cuda:N'"};
}

std::vector<DeviceReport> list_devices() {
    const cpu::MemorySize memory = cpu::memory_size();
    const unsigned cores = cpu::cores_at_hand();
    std::vector<DeviceReport> devices{
        {"cpu", cpu::processor_name(), true,
         std::to_string(cores) + (cores == 1 ? " thread, " : " threads, ") + cpu::vector_instructions(), memory.total, memory.free}};
    const auto none = [&](const std::string& reason) { devices.push_back({"cuda", "NVIDIA GPU", false, reason, 0, 0}); };
    const auto plugin = CudaPlugin::open();
    if (!plugin) {
        none(plugin.error().sentence);
        return devices;
    }
    const cuda::CardList list = plugin->cards();
    if (!list.none.empty()) none(list.none);
    for (const cuda::CardReport& card : list.cards)
        devices.push_back({"cuda:" + std::to_string(card.index), card.name, card.refusal.empty(),
                           card.refusal.empty() ? card.detail : card.refusal, card.memory_bytes, card.free_bytes});
    return devices;
}

}  // namespace kvloupe
