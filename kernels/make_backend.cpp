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
    const std::string hint = "Use 'cpu' or 'auto'";
    const auto refuse = [&](const std::string& reason) { return Error{"Device '" + device + "' cannot compute here with CUDA: " + reason, hint}; };
    const std::optional<int> number = device == "cuda" ? 0 : card_number(device);
    if (!number) return Error{"There is no device '" + device + "'", "Use 'auto', 'cpu' or 'cuda:N'"};
    const auto plugin = CudaPlugin::open();
    if (!plugin) return refuse(plugin.error().sentence);
    const cuda::CardList list = plugin->cards();
    if (!list.none.empty()) return refuse(list.none);
    if (*number >= static_cast<int>(list.cards.size()))
        return Error{"There is no device '" + device + "': this computer has " + std::to_string(list.cards.size()) +
                         (list.cards.size() == 1 ? " card" : " cards"), "Use 'cuda:0', 'cpu' or 'auto'"};
    const cuda::CardReport& card = list.cards[static_cast<std::size_t>(*number)];
    if (!card.refusal.empty()) return refuse(card.name + ": " + card.refusal);
    return plugin->make_backend(*number);
}

// The first card that can compute, or null.
std::unique_ptr<Backend> first_card() {
    const auto plugin = CudaPlugin::open();
    if (!plugin) return nullptr;
    for (const cuda::CardReport& card : plugin->cards().cards) {
        if (!card.refusal.empty()) continue;
        if (auto made = plugin->make_backend(card.index)) return std::move(*made);
    }
    return nullptr;
}

}  // namespace

Result<std::unique_ptr<Backend>> make_backend(const BackendOptions& options) {
    if (options.device == "auto")
        if (auto card = first_card()) return card;
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
