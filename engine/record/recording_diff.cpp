// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/recording_diff.h"

#include "engine/record/json_leaves.h"
#include "engine/record/lane_info_json.h"
#include "engine/record/lane_parting.h"
#include "engine/record/results.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <set>

namespace kvloupe {

namespace {

using Json = nlohmann::json;

constexpr const char* absent = "–";

std::string text_of_leaf(const JsonLeaves& leaves, const std::string& path) {
    const auto found = leaves.find(path);
    if (found == leaves.end() || found->second.is_null()) return absent;
    return found->second.is_string() ? found->second.get<std::string>() : found->second.dump();
}

// Parts of summary.json that are measured with a clock.
bool is_time(const std::string& path) {
    for (const char* part : {"queue_ms", "ttft_ms", "itl_ms", "prefill_ms", "decode_ms", "decode_tokens_per_s"})
        if (path.find(part) != std::string::npos) return true;
    return false;
}

void compare_leaves(const JsonLeaves& a, const JsonLeaves& b, const std::string& lane, std::vector<DiffValue>& out) {
    std::set<std::string> paths;
    for (const auto& [path, value] : a) paths.insert(path);
    for (const auto& [path, value] : b) paths.insert(path);
    for (const std::string& path : paths) {
        const auto left = a.find(path), right = b.find(path);
        if (left != a.end() && right != b.end() && left->second == right->second) continue;
        DiffValue value{lane, path, text_of_leaf(a, path), text_of_leaf(b, path), {}, {}};
        if (value.a == value.b) continue;
        if (left != a.end() && right != b.end() && left->second.is_number() && right->second.is_number()) {
            const double before = left->second.get<double>(), after = right->second.get<double>();
            value.delta = after - before;
            if (before != 0) value.percent = (after - before) / std::abs(before) * 100;
        }
        out.push_back(std::move(value));
    }
}

std::vector<LanePair> pairs_of(const Recording& a, const Recording& b) {
    if (a.lanes().size() == 1 && b.lanes().size() == 1) return {{0, 0}};
    std::vector<LanePair> pairs;
    for (std::uint32_t i = 0; i < a.lanes().size(); ++i)
        for (std::uint32_t k = 0; k < b.lanes().size(); ++k)
            if (a.lanes()[i]->info().name == b.lanes()[k]->info().name) pairs.push_back({i, k});
    return pairs;
}

std::string names_of(const Recording& recording) {
    std::string names;
    for (const auto& lane : recording.lanes()) names += (names.empty() ? "" : ", ") + lane->info().name;
    return names;
}

// What a request asked for, by id.
JsonLeaves request_leaves(const Recording& recording) {
    JsonLeaves leaves;
    for (std::size_t i = 0; i < recording.requests().size(); ++i) {
        Json json = Json::parse(json_of(recording.requests()[i]));
        json.erase("arrival_ns");
        flatten_json(json, recording.requests()[i].id, leaves);
    }
    return leaves;
}

// Relative change; what appeared or vanished comes first.
double weight_of(const DiffValue& value) {
    if (value.percent) return std::abs(*value.percent);
    return value.delta && *value.delta == 0 ? 0 : HUGE_VAL;
}

}  // namespace

RecordingDiff diff_recordings(const Recording& a, const Recording& b, bool times) {
    RecordingDiff diff;
    diff.lanes = pairs_of(a, b);
    if (names_of(a) != names_of(b)) diff.configuration.push_back({"", "lanes", names_of(a), names_of(b), {}, {}});
    compare_leaves(request_leaves(a), request_leaves(b), "", diff.configuration);

    const Json summary_a = Json::parse(summary_json(a)), summary_b = Json::parse(summary_json(b));
    for (const LanePair& pair : diff.lanes) {
        const LaneRecord &left = *a.lanes()[pair.a], &right = *b.lanes()[pair.b];
        const std::string lane = left.info().name == right.info().name ? left.info().name : left.info().name + " → " + right.info().name;
        JsonLeaves info_a, info_b, numbers_a, numbers_b;
        Json json_a = Json::parse(json_of(left.info())), json_b = Json::parse(json_of(right.info()));
        for (Json* json : {&json_a, &json_b})
            for (const char* measured : {"memory", "name"}) json->erase(measured);
        flatten_json(json_a, "", info_a);
        flatten_json(json_b, "", info_b);
        compare_leaves(info_a, info_b, lane, diff.configuration);
        flatten_json(summary_a["lanes"][pair.a], "", numbers_a);
        flatten_json(summary_b["lanes"][pair.b], "", numbers_b);
        std::vector<DiffValue> numbers;
        compare_leaves(numbers_a, numbers_b, lane, numbers);
        for (DiffValue& value : numbers)
            if (value.name != "name" && (times || !is_time(value.name))) diff.numbers.push_back(std::move(value));
        for (Parting& first : partings(a, left, b, right)) {
            first.lane = lane;
            diff.first.push_back(std::move(first));
        }
    }
    std::stable_sort(diff.numbers.begin(), diff.numbers.end(), [](const DiffValue& x, const DiffValue& y) { return weight_of(x) > weight_of(y); });
    return diff;
}

std::string diff_json(const RecordingDiff& diff) {
    using Ordered = nlohmann::ordered_json;
    const auto values = [](const std::vector<DiffValue>& list) {
        Ordered json = Ordered::array();
        for (const DiffValue& value : list) {
            Ordered entry;
            if (!value.lane.empty()) entry["lane"] = value.lane;
            entry["name"] = value.name;
            entry["a"] = value.a == absent ? Ordered(nullptr) : Ordered(value.a);
            entry["b"] = value.b == absent ? Ordered(nullptr) : Ordered(value.b);
            entry["delta"] = value.delta ? Ordered(*value.delta) : Ordered(nullptr);
            entry["percent"] = value.percent ? Ordered(*value.percent) : Ordered(nullptr);
            json.push_back(std::move(entry));
        }
        return json;
    };
    Ordered json;
    json["version"] = 1;
    json["same"] = diff.same();
    json["configuration"] = values(diff.configuration);
    json["numbers"] = values(diff.numbers);
    json["partings"] = Ordered::array();
    for (const Parting& first : diff.first) {
        static constexpr const char* kinds[] = {"token", "table", "logit"};
        json["partings"].push_back(
            {{"kind", kinds[first.kind]}, {"lane", first.lane}, {"step_a", first.step_a}, {"step_b", first.step_b}, {"text", first.sentence}});
    }
    return json.dump(1, ' ', false, Ordered::error_handler_t::replace) + "\n";
}

}  // namespace kvloupe
