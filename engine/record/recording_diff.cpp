// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/recording_diff.h"

#include "engine/record/json_leaves.h"
#include "engine/record/lane_info_json.h"
#include "engine/record/lane_parting.h"
#include "engine/record/results.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

namespace kvloupe {

namespace {


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
        nlohmann::json json = nlohmann::json::parse(json_of(recording.requests()[i]));
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

// By the part of the path that summary.json names an origin for; steps and the like are counted.
Origin origin_of(const std::string& path, const nlohmann::json& origins) {
    for (const auto& item : origins.items()) {
        const std::size_t at = path.find(item.key());
        if (at == std::string::npos || (at > 0 && path[at - 1] != '.')) continue;
        const std::size_t end = at + item.key().size();
        if (end < path.size() && path[end] != '.') continue;
        return item.value() == "derived" ? Origin::derived : item.value() == "predicted" ? Origin::predicted : Origin::measured;
    }
    return Origin::measured;
}

// Layers that differ alike are told once, behind all else: "layer_infos.0-3.keys.dtype". values: of one lane, from `begin` on.
void fold_layers(std::vector<DiffValue>& values, std::size_t begin) {
    static const std::string head = "layer_infos.";
    std::vector<DiffValue> folded;
    std::vector<std::pair<unsigned long, unsigned long>> layers;  // first and last of each
    const auto is_layer = [](const DiffValue& value) { return value.name.compare(0, head.size(), head) == 0; };
    const auto from = values.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto first = std::stable_partition(from, values.end(), [&](const DiffValue& value) { return !is_layer(value); });
    const auto number = [](const DiffValue& value) { return std::stoul(value.name.substr(head.size())); };
    std::stable_sort(first, values.end(), [&](const DiffValue& a, const DiffValue& b) { return number(a) < number(b); });
    for (auto value = first; value != values.end(); ++value) {
        const unsigned long layer = number(*value);
        value->name.erase(0, value->name.find('.', head.size()));  // ".keys.dtype"
        std::size_t i = 0;
        while (i < folded.size() && (folded[i].name != value->name || folded[i].a != value->a || folded[i].b != value->b || layers[i].second + 1 != layer)) ++i;
        if (i < folded.size()) {
            layers[i].second = layer;
            continue;
        }
        folded.push_back(std::move(*value));
        layers.emplace_back(layer, layer);
    }
    for (std::size_t i = 0; i < folded.size(); ++i) {
        const auto [one, last] = layers[i];
        folded[i].name = head + std::to_string(one) + (last > one ? "-" + std::to_string(last) : "") + folded[i].name;
    }
    values.erase(first, values.end());
    values.insert(values.end(), std::make_move_iterator(folded.begin()), std::make_move_iterator(folded.end()));
}

// Configuration, numbers and partings of one pair of lanes; summaries: summary_json() of both recordings.
void compare_pair(const Recording& a, const nlohmann::json& summary_a, const Recording& b, const nlohmann::json& summary_b, LanePair pair, RecordingDiff& diff) {
    const LaneRecord &left = *a.lanes()[pair.a], &right = *b.lanes()[pair.b];
    const std::string lane = left.info().name == right.info().name ? left.info().name : left.info().name + " → " + right.info().name;
    JsonLeaves info_a, info_b, numbers_a, numbers_b;
    nlohmann::json json_a = nlohmann::json::parse(json_of(left.info())), json_b = nlohmann::json::parse(json_of(right.info()));
    for (nlohmann::json* json : {&json_a, &json_b})
        for (const char* measured : {"memory", "name"}) json->erase(measured);
    flatten_json(json_a, "", info_a);
    flatten_json(json_b, "", info_b);
    const std::size_t settings = diff.configuration.size();
    compare_leaves(info_a, info_b, lane, diff.configuration);
    fold_layers(diff.configuration, settings);
    flatten_json(summary_a["lanes"][pair.a], "", numbers_a);
    flatten_json(summary_b["lanes"][pair.b], "", numbers_b);
    for (JsonLeaves* numbers : {&numbers_a, &numbers_b}) numbers->erase("name");
    const std::size_t before = diff.numbers.size();
    compare_leaves(numbers_a, numbers_b, lane, diff.numbers);
    for (std::size_t i = before; i < diff.numbers.size(); ++i) diff.numbers[i].origin = origin_of(diff.numbers[i].name, summary_a["origins"]);
    for (Parting& first : partings(a, left, b, right)) {
        first.lane = lane;
        diff.first.push_back(std::move(first));
    }
}

// The numbers by weight, without times where they are not asked for.
void arrange(RecordingDiff& diff, bool times) {
    std::vector<DiffValue>& numbers = diff.numbers;
    if (!times)
        numbers.erase(std::remove_if(numbers.begin(), numbers.end(), [](const DiffValue& value) { return is_time(value.name); }), numbers.end());
    std::stable_sort(numbers.begin(), numbers.end(), [](const DiffValue& x, const DiffValue& y) { return weight_of(x) > weight_of(y); });
}

}  // namespace

RecordingDiff diff_recordings(const Recording& a, const Recording& b, bool times) {
    RecordingDiff diff;
    diff.lanes = pairs_of(a, b);
    if (names_of(a) != names_of(b)) diff.configuration.push_back({"", "lanes", names_of(a), names_of(b), {}, {}});
    compare_leaves(request_leaves(a), request_leaves(b), "", diff.configuration);
    const nlohmann::json summary_a = nlohmann::json::parse(summary_json(a)), summary_b = nlohmann::json::parse(summary_json(b));
    for (const LanePair& pair : diff.lanes) compare_pair(a, summary_a, b, summary_b, pair, diff);
    arrange(diff, times);
    return diff;
}

RecordingDiff diff_lanes(const Recording& a, LaneId lane, const Recording& b, LaneId other, bool times) {
    RecordingDiff diff;
    diff.lanes = {{lane.value, other.value}};
    if (&a != &b) compare_leaves(request_leaves(a), request_leaves(b), "", diff.configuration);
    const nlohmann::json summary_a = nlohmann::json::parse(summary_json(a)), summary_b = &a == &b ? summary_a : nlohmann::json::parse(summary_json(b));
    compare_pair(a, summary_a, b, summary_b, diff.lanes.front(), diff);
    arrange(diff, times);
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
