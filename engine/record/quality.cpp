// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/quality.h"

#include "engine/record/recording.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

namespace kvloupe {

std::string quality_cache_text(const LaneInfo& lane) {
    if (!lane.kv_cache || lane.layer_infos.empty()) return "none";
    const LayerInfo& first = lane.layer_infos.front();
    for (const LayerInfo& layer : lane.layer_infos)
        if (!(layer.keys == first.keys) || !(layer.values == first.values)) {
            std::string text = "by layer:";
            for (const LayerInfo& each : lane.layer_infos) {
                text += (text.back() == ':' ? " " : ", ") + std::string(name_of(each.keys.dtype));
                if (!(each.keys == each.values)) text += "/" + std::string(name_of(each.values.dtype));
            }
            return text;
        }
    std::string text = first.keys == first.values ? text_of(first.keys) : "K " + text_of(first.keys) + "; V " + text_of(first.values);
    if (first.window > 0) text += ", a window of " + std::to_string(first.window);
    if (first.chunk > 0) text += ", chunks of " + std::to_string(first.chunk);
    if (first.sinks > 0) text += " and " + std::to_string(first.sinks) + " sinks";
    return text;
}

std::string quality_key(const LaneInfo& lane) {
    char id[17];
    std::snprintf(id, sizeof id, "%016llx", static_cast<unsigned long long>(lane.weights_id));
    std::string spans;  // of layers that differ
    for (const LayerInfo& layer : lane.layer_infos)
        spans += "," + std::to_string(layer.window) + "+" + std::to_string(layer.sinks) + "/" + std::to_string(layer.chunk);
    return std::string(id) + "|" + quality_cache_text(lane) + "|" + lane.policy.positions + spans + "|" +
           lane.device_id.substr(0, lane.device_id.find(':'));
}

FirstDifference summary_of(const std::vector<std::optional<std::uint32_t>>& first_difference) {
    FirstDifference result;
    result.texts = first_difference.size();
    std::vector<std::uint32_t> positions;
    for (const auto& position : first_difference) {
        if (position) positions.push_back(*position);
        else ++result.never;
    }
    std::sort(positions.begin(), positions.end());
    const std::size_t middle = (first_difference.size() + 1) / 2;  // of an even count the lower one
    if (middle > 0 && middle <= positions.size()) result.median = positions[middle - 1];
    return result;
}

QualityFigure wilson(std::uint64_t right, std::uint64_t of) {
    if (of == 0) return {};
    constexpr double z = 1.959963984540054;  // of a normal distribution's middle 95 %
    const double n = double(of), share = double(right) / n;
    const double middle = (share + z * z / (2 * n)) / (1 + z * z / n);
    const double half = z / (1 + z * z / n) * std::sqrt(share * (1 - share) / n + z * z / (4 * n * n));
    return {share, std::max(0.0, middle - half), std::min(1.0, middle + half), of};
}

std::vector<RecallFigure> recall_by_distance(const LaneQuality& lane) {
    std::map<std::uint32_t, std::pair<std::uint64_t, std::uint64_t>> answers;  // right, of
    for (const RecallFigure& figure : lane.recall) {
        if (!figure.right.measured()) continue;
        auto& [right, of] = answers[figure.distance];
        right += static_cast<std::uint64_t>(std::llround(figure.right.value * double(figure.right.samples)));
        of += figure.right.samples;
    }
    std::vector<RecallFigure> result;
    for (const auto& [distance, answer] : answers) result.push_back({0, distance, wilson(answer.first, answer.second)});
    return result;
}

}  // namespace kvloupe
