// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/ceilings_store.h"

#include "engine/record/file_output.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace kvloupe {

namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// An object "devices" of objects, whatever the file holds.
json read_devices(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    const json document = json::parse(text, nullptr, false);
    if (!document.is_object()) return json::object();
    const auto devices = document.find("devices");
    return devices != document.end() && devices->is_object() ? *devices : json::object();
}

double rate_of(const json& entry, const char* key) {
    const auto value = entry.find(key);
    if (value == entry.end() || !value->is_number()) return 0;
    const double rate = value->get<double>();
    return rate > 0 && rate < 1e18 ? rate : 0;
}

std::string text_of_key(const json& entry, const char* key) {
    const auto value = entry.find(key);
    return value != entry.end() && value->is_string() ? value->get<std::string>() : std::string();
}

// Of an entry that was written before measurements were counted: one.
std::uint32_t count_of(const json& entry) {
    const auto value = entry.find("measurements");
    if (value == entry.end() || !value->is_number_unsigned()) return 1;
    return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(value->get<std::uint64_t>(), 1, 1'000'000'000));
}

}  // namespace

void KeptCeilings::add(const Ceilings& measured) {
    ++measurements;
    bool improved = false;
    const auto raise = [&improved](double& kept, double now) {
        if (now <= kept) return;
        kept = now;
        improved = true;
    };
    raise(best.read_bandwidth, measured.read_bandwidth);
    raise(best.copy_bandwidth, measured.copy_bandwidth);
    // Rates of matrices of another type are not compared.
    if ((measured.matrix_rate > 0 || best.matrix_rate == 0) && measured.matrix_type != best.matrix_type) {
        best.matrix_rate = 0;
        best.matrix_type = measured.matrix_type;
    }
    raise(best.matrix_rate, measured.matrix_rate);
    if (improved) best.measured_on = measured.measured_on;
}

CeilingsStore::CeilingsStore(std::string path) : m_path(std::move(path)) {}

std::string CeilingsStore::default_path() {
    const char* data = std::getenv("XDG_DATA_HOME");
    const char* home = std::getenv("HOME");
    if (data && *data) return (fs::path(data) / "kvloupe" / "ceilings.json").string();
    if (home && *home) return (fs::path(home) / ".local" / "share" / "kvloupe" / "ceilings.json").string();
    return {};
}

std::string CeilingsStore::key_of(const std::string& id, const std::string& name, const std::string& detail) {
    return id == "cpu" ? name + ", " + detail : name;
}

std::optional<KeptCeilings> CeilingsStore::find(const std::string& key) const {
    const json devices = read_devices(m_path);
    const auto entry = devices.find(key);
    if (entry == devices.end() || !entry->is_object()) return std::nullopt;
    Ceilings ceilings;
    ceilings.read_bandwidth = rate_of(*entry, "read_bandwidth");
    ceilings.copy_bandwidth = rate_of(*entry, "copy_bandwidth");
    ceilings.matrix_rate = rate_of(*entry, "matrix_rate");
    ceilings.measured_on = text_of_key(*entry, "measured_on");
    const std::string type = text_of_key(*entry, "matrix_type");
    for (const DType each : {DType::f32, DType::f16, DType::bf16})
        if (name_of(each) == type) ceilings.matrix_type = each;
    if (!ceilings.measured()) return std::nullopt;
    return KeptCeilings{ceilings, count_of(*entry)};
}

Result<void> CeilingsStore::keep(const std::string& key, const Ceilings& ceilings) const {
    if (m_path.empty()) return {};
    KeptCeilings kept = find(key).value_or(KeptCeilings{});
    kept.add(ceilings);
    json devices = read_devices(m_path);
    devices[key] = {{"read_bandwidth", kept.best.read_bandwidth},
                    {"copy_bandwidth", kept.best.copy_bandwidth},
                    {"matrix_rate", kept.best.matrix_rate},
                    {"matrix_type", std::string(name_of(kept.best.matrix_type))},
                    {"measured_on", kept.best.measured_on},
                    {"measurements", kept.measurements}};
    const json document = {{"version", 1}, {"devices", std::move(devices)}};
    std::error_code error;
    fs::create_directories(fs::path(m_path).parent_path(), error);
    return write_file(m_path, document.dump(2, ' ', false, json::error_handler_t::replace) + "\n");
}

}  // namespace kvloupe
