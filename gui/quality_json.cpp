// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/quality_json.h"

#include <cstdio>

namespace kvloupe {

namespace {

using nlohmann::json;

json json_of(const QualityFigure& figure) {
    if (!figure.measured()) return nullptr;
    return {{"value", figure.value}, {"low", figure.low}, {"high", figure.high}, {"samples", figure.samples}};
}

json json_of(const RecallFigure& recall) {
    return {{"facts", recall.facts}, {"distance", recall.distance}, {"right", json_of(recall.right)}};
}

QualityFigure figure_of(const json& from) {
    if (from.is_null()) return {};
    return {from.at("value").get<double>(), from.at("low").get<double>(), from.at("high").get<double>(),
            from.at("samples").get<std::uint64_t>()};
}

RecallFigure recall_of(const json& from) {
    return {from.at("facts").get<std::uint32_t>(), from.at("distance").get<std::uint32_t>(), figure_of(from.at("right"))};
}

std::string state_name(QualityReport::State state) {
    switch (state) {
    case QualityReport::State::running: return "running";
    case QualityReport::State::complete: return "complete";
    case QualityReport::State::cancelled: return "cancelled";
    case QualityReport::State::failed: return "failed";
    }
    return "";
}

}  // namespace

json json_of(const LaneQuality& lane) {
    json blocks = json::array(), recall = json::array(), first = json::array(), steps = json::array();
    for (const QualityStep& step : lane.steps)
        steps.push_back({step.position, step.texts, step.loss, step.divergence, step.agreement});
    for (const QualityBlock& block : lane.blocks)
        blocks.push_back({{"first", block.first},
                          {"last", block.last},
                          {"perplexity", json_of(block.perplexity)},
                          {"divergence", json_of(block.divergence)}});
    for (const RecallFigure& figure : lane.recall) recall.push_back(json_of(figure));
    for (const auto& position : lane.first_difference) first.push_back(position ? json(*position) : json());
    char id[17];
    std::snprintf(id, sizeof id, "%016llx", static_cast<unsigned long long>(lane.weights_id));
    return {{"lane", lane.lane},
            {"model", lane.model},
            {"weights_id", id},
            {"key", lane.key},
            {"cache", lane.cache},
            {"failure", lane.failure.empty() ? json() : json(lane.failure)},
            {"perplexity", json_of(lane.perplexity)},
            {"perplexity_ratio", json_of(lane.perplexity_ratio)},
            {"divergence", json_of(lane.divergence)},
            {"divergence_p99", lane.divergence.measured() ? json(lane.divergence_p99) : json()},
            {"divergence_max", lane.divergence.measured() ? json(lane.divergence_max) : json()},
            {"agreement", json_of(lane.agreement)},
            {"first_difference", std::move(first)},
            {"blocks", std::move(blocks)},
            {"recall", std::move(recall)},
            {"recall_total", json_of(lane.recall_total)},
            {"steps", std::move(steps)},  // [position, texts, loss, divergence, agreement]
            {"seconds", lane.seconds}};
}

std::optional<LaneQuality> lane_quality_of(const json& from) {
    try {
        LaneQuality lane;
        lane.lane = from.at("lane").get<std::string>();
        lane.model = from.at("model").get<std::string>();
        lane.weights_id = std::stoull(from.at("weights_id").get<std::string>(), nullptr, 16);
        lane.key = from.at("key").get<std::string>();
        lane.cache = from.at("cache").get<std::string>();
        if (const json& failure = from.at("failure"); !failure.is_null()) lane.failure = failure.get<std::string>();
        lane.perplexity = figure_of(from.at("perplexity"));
        lane.perplexity_ratio = figure_of(from.at("perplexity_ratio"));
        lane.divergence = figure_of(from.at("divergence"));
        if (lane.divergence.measured()) {
            lane.divergence_p99 = from.at("divergence_p99").get<double>();
            lane.divergence_max = from.at("divergence_max").get<double>();
        }
        lane.agreement = figure_of(from.at("agreement"));
        for (const json& position : from.at("first_difference"))
            lane.first_difference.push_back(position.is_null() ? std::nullopt : std::optional(position.get<std::uint32_t>()));
        for (const json& block : from.at("blocks"))
            lane.blocks.push_back({block.at("first").get<std::uint32_t>(), block.at("last").get<std::uint32_t>(),
                                   figure_of(block.at("perplexity")), figure_of(block.at("divergence"))});
        for (const json& figure : from.at("recall")) lane.recall.push_back(recall_of(figure));
        lane.recall_total = recall_of(from.at("recall_total"));
        for (const json& step : from.at("steps"))
            lane.steps.push_back({step.at(0).get<std::uint32_t>(), step.at(1).get<std::uint32_t>(), step.at(2).get<double>(),
                                  step.at(3).get<double>(), step.at(4).get<double>()});
        lane.seconds = from.at("seconds").get<double>();
        return lane;
    } catch (const std::exception&) {
        return std::nullopt;
    }
}

json json_of(const QualityReport& report) {
    json lanes = json::array();
    for (const LaneQuality& lane : report.lanes) lanes.push_back(json_of(lane));
    return {{"version", 1},
            {"state", state_name(report.state)},
            {"reason", report.reason.empty() ? json() : json(report.reason)},
            {"origin", "measured"},
            {"measured_on", report.measured_on},
            {"device", report.device},
            {"text", report.text},
            {"text_hash", report.text_hash},
            {"texts", report.texts},
            {"tokens", report.tokens},
            {"questions", report.questions},
            {"unit", report.unit},
            {"reference", report.reference},
            {"lanes", std::move(lanes)}};
}

}  // namespace kvloupe
