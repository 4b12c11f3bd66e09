// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/recording_diff.h"

#include "engine/record/json_difference.h"
#include "engine/record/lane_info_json.h"
#include "engine/record/lane_parting.h"
#include "engine/record/results_summary.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>
#include <thread>
#include <tuple>
#include <unordered_map>

namespace kvloupe {

namespace {

using DiffJson = nlohmann::ordered_json;

constexpr const char* absent = "–";

std::string text_of_value(const DiffJson& value) {
    if (value.is_null()) return absent;
    return value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false, DiffJson::error_handler_t::replace);
}

// Parts of summary.json that are measured with a clock.
bool is_time(const std::string& path) {
    for (const char* part : {"queue_ms", "ttft_ms", "itl_ms", "prefill_ms", "decode_ms", "decode_tokens_per_s"})
        if (path.find(part) != std::string::npos) return true;
    return false;
}

void compare_values(const DiffJson& a, const DiffJson& b, const std::string& lane, const std::string& path, std::vector<DiffValue>& out) {
    compare_json(a, b, path, [&](const std::string& name, const DiffJson& left, const DiffJson& right) {
        DiffValue value{lane, name, text_of_value(left), text_of_value(right), {}, {}};
        if (value.a == value.b) return;
        if (left.is_number() && right.is_number()) {
            const double before = left.get<double>(), after = right.get<double>();
            value.delta = after - before;
            if (before != 0) value.percent = (after - before) / std::abs(before) * 100;
        }
        out.push_back(std::move(value));
    });
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

// All that a request asks for; when it arrived on the clock is no part of that.
bool same_request(const RequestInfo& a, const RequestInfo& b) {
    const auto asked = [](const RequestInfo& r) {
        return std::tie(r.id, r.prompt, r.max_new_tokens, r.arrival_step, r.temperature, r.top_k, r.top_p, r.priority, r.salt, r.adapter, r.n,
                        r.beam_width);
    };
    return asked(a) == asked(b);
}

// Requests by id; only those that differ are written out.
void compare_requests(const Recording& a, const Recording& b, std::vector<DiffValue>& out) {
    std::unordered_map<std::string_view, std::size_t> places;
    for (std::size_t i = 0; i < b.requests().size(); ++i) places.emplace(b.requests()[i].id, i);
    const auto document = [](const RequestInfo& request) {
        DiffJson json = DiffJson::parse(json_of(request));
        json.erase("arrival_ns");
        return json;
    };
    for (std::size_t i = 0; i < a.requests().size(); ++i) {
        const RequestInfo& request = a.requests()[i];
        const auto other = places.find(request.id);
        const bool known = other != places.end();
        if (!known || !same_request(request, b.requests()[other->second]))
            compare_values(document(request), known ? document(b.requests()[other->second]) : DiffJson::object(), "", request.id, out);
        if (known) places.erase(other);
    }
    for (std::size_t i = 0; i < b.requests().size() && !places.empty(); ++i)
        if (places.count(b.requests()[i].id)) compare_values(DiffJson::object(), document(b.requests()[i]), "", b.requests()[i].id, out);
}

// Relative change; what appeared or vanished comes first.
double weight_of(const DiffValue& value) {
    if (value.percent) return std::abs(*value.percent);
    return value.delta && *value.delta == 0 ? 0 : HUGE_VAL;
}

// By the part of the path that summary.json names an origin for; steps and the like are counted.
Origin origin_of(const std::string& path, const DiffJson& origins) {
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
        const auto goes_on = [&](std::size_t i) {
            return folded[i].name == value->name && folded[i].a == value->a && folded[i].b == value->b && layers[i].second + 1 == layer;
        };
        std::size_t i = 0;
        while (i < folded.size() && !goes_on(i)) ++i;
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

// Configuration, numbers and partings of one pair of lanes.
void compare_pair(const Recording& a, const Recording& b, LanePair pair, RecordingDiff& diff) {
    const LaneRecord &left = *a.lanes()[pair.a], &right = *b.lanes()[pair.b];
    const std::string lane = left.info().name == right.info().name ? left.info().name : left.info().name + " → " + right.info().name;
    DiffJson info_a = DiffJson::parse(json_of(left.info())), info_b = DiffJson::parse(json_of(right.info()));
    for (DiffJson* json : {&info_a, &info_b})
        for (const char* measured : {"memory", "name"}) json->erase(measured);
    const std::size_t settings = diff.configuration.size();
    compare_values(info_a, info_b, lane, "", diff.configuration);
    fold_layers(diff.configuration, settings);
    // Each recording is read by a thread of its own: most of the time goes into the first look at what a file holds.
    DiffJson numbers_a, numbers_b;
    {
        const std::jthread other([&] { numbers_b = lane_summary(b, pair.b); });
        numbers_a = lane_summary(a, pair.a);
    }
    for (DiffJson* numbers : {&numbers_a, &numbers_b}) numbers->erase("name");
    const std::size_t before = diff.numbers.size();
    compare_values(numbers_a, numbers_b, lane, "", diff.numbers);
    const DiffJson origins = summary_origins();
    for (std::size_t i = before; i < diff.numbers.size(); ++i) diff.numbers[i].origin = origin_of(diff.numbers[i].name, origins);
    for (Parting& first : partings(a, left, b, right)) {
        first.lane = lane;
        diff.first.push_back(std::move(first));
    }
}

// Told first, but compared last: by then both recordings' requests have been read, each by its own thread.
void put_requests_first(const Recording& a, const Recording& b, RecordingDiff& diff) {
    std::vector<DiffValue> requests;
    compare_requests(a, b, requests);
    diff.configuration.insert(diff.configuration.begin(), std::make_move_iterator(requests.begin()), std::make_move_iterator(requests.end()));
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
    for (const LanePair& pair : diff.lanes) compare_pair(a, b, pair, diff);
    put_requests_first(a, b, diff);
    if (names_of(a) != names_of(b)) diff.configuration.insert(diff.configuration.begin(), {"", "lanes", names_of(a), names_of(b), {}, {}});
    arrange(diff, times);
    return diff;
}

RecordingDiff diff_lanes(const Recording& a, LaneId lane, const Recording& b, LaneId other, bool times) {
    RecordingDiff diff;
    diff.lanes = {{lane.value, other.value}};
    compare_pair(a, b, diff.lanes.front(), diff);
    if (&a != &b) put_requests_first(a, b, diff);
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
