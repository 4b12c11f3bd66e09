// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/quality_store.h"

#include "engine/record/file_output.h"
#include "gui/ceilings_store.h"
#include "gui/quality_json.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace kvloupe {

namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// A list "measurements" of objects, newest first, whatever the file holds.
json read_entries(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    const json document = json::parse(text, nullptr, false);
    json entries = json::array();
    if (!document.is_object() || !document.contains("measurements") || !document.at("measurements").is_array()) return entries;
    for (const json& entry : document.at("measurements"))
        if (entry.is_object() && entry.contains("lanes") && entry.at("lanes").is_array()) entries.push_back(entry);
    return entries;
}

std::string word(const json& entry, const char* key) {
    const auto found = entry.find(key);
    return found != entry.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::uint64_t number(const json& entry, const char* key) {
    const auto found = entry.find(key);
    return found != entry.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

QualityReport report_of(const json& entry) {
    QualityReport report;
    report.text = word(entry, "text");
    report.text_hash = word(entry, "text_hash");
    report.texts = number(entry, "texts");
    report.tokens = number(entry, "tokens");
    report.questions = number(entry, "questions");
    report.unit = word(entry, "unit");
    report.measured_on = word(entry, "measured_on");
    report.device = word(entry, "device");
    return report;
}

// A lane like the reference may have been measured beside it: the reference's own figures are those that compare with nothing.
std::optional<LaneQuality> kept_lane(const json& entry, const std::string& key, bool compared) {
    std::optional<LaneQuality> found;
    for (const json& each : entry.at("lanes")) {
        if (!each.is_object() || word(each, "key") != key) continue;
        auto quality = lane_quality_of(each);
        if (!quality) continue;
        if (quality->divergence.measured() == compared) return quality;
        if (!found) found = std::move(quality);
    }
    return found;
}

}  // namespace

QualityStore::QualityStore(std::string path) : m_path(std::move(path)) {}

std::string QualityStore::default_path() {
    const std::string beside = CeilingsStore::default_path();
    return beside.empty() ? std::string() : fs::path(beside).replace_filename("quality.json").string();
}

std::optional<QualityReport> QualityStore::find(const std::vector<Lane>& lanes) const {
    for (const json& entry : read_entries(m_path)) {
        const std::string reference = word(entry, "reference_key");
        const auto first = std::find_if(lanes.begin(), lanes.end(), [&](const Lane& lane) { return lane.key == reference; });
        if (first == lanes.end()) continue;
        QualityReport report = report_of(entry);
        report.reference = first->name;
        for (const Lane& lane : lanes) {
            auto quality = kept_lane(entry, lane.key, &lane != &*first);
            if (!quality) continue;
            quality->lane = lane.name;
            report.lanes.push_back(std::move(*quality));
        }
        if (report.find(report.reference)) return report;
    }
    return std::nullopt;
}

Result<void> QualityStore::keep(const QualityReport& report) const {
    const LaneQuality* reference = report.find(report.reference);
    if (m_path.empty() || !report.complete() || !reference || !reference->failure.empty()) return {};
    json entry = json_of(report);
    entry.erase("version");
    entry["reference_key"] = reference->key;
    json lanes = json::array();
    for (const json& lane : entry.at("lanes"))
        if (lane.at("failure").is_null()) lanes.push_back(lane);
    json kept = json::array();
    for (json& other : read_entries(m_path)) {
        if (word(other, "text_hash") != report.text_hash || word(other, "reference_key") != reference->key) {
            kept.push_back(std::move(other));
            continue;
        }
        for (json& lane : other.at("lanes")) {
            const std::string key = word(lane, "key");
            const bool again = std::any_of(lanes.begin(), lanes.end(), [&](const json& each) { return word(each, "key") == key; });
            if (!again && lanes.size() < most_lanes) lanes.push_back(std::move(lane));
        }
    }
    entry["lanes"] = std::move(lanes);
    kept.insert(kept.begin(), std::move(entry));
    while (kept.size() > most_entries) kept.erase(kept.size() - 1);
    const json document = {{"version", 1}, {"measurements", std::move(kept)}};
    std::error_code error;
    fs::create_directories(fs::path(m_path).parent_path(), error);
    return write_file(m_path, document.dump(1, ' ', false, json::error_handler_t::replace) + "\n");
}

}  // namespace kvloupe
