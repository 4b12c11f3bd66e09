// SPDX-License-Identifier: GPL-3.0-or-later
//
// kvloupe quality SCENARIO|MODEL: what the lanes of a scenario, or a model's cache precisions, are worth on held-out text.
#include "gui/arguments.h"
#include "gui/commands.h"
#include "gui/environment.h"
#include "gui/quality_json.h"
#include "gui/quality_source.h"
#include "gui/quality_store.h"

#include "engine/serve/quality_run.h"

#include <cstdio>
#include <filesystem>
#include <iostream>
#include <unistd.h>

namespace kvloupe {

namespace {

using nlohmann::json;

bool names_scenario(const std::string& word) {
    const std::string suffix = ".json";
    return word.size() > suffix.size() && word.compare(word.size() - suffix.size(), suffix.size(), suffix) == 0 &&
           std::filesystem::path(word).filename() != "config.json";
}

// "f16,int8,int4/f16": a lane for every precision, of K and V or of K/V.
Result<Scenario> scenario_of_model(const std::string& model, const std::string& precisions) {
    json lanes = json::array();
    for (std::size_t begin = 0; begin <= precisions.size();) {
        const std::size_t end = std::min(precisions.find(',', begin), precisions.size());
        const std::string name = precisions.substr(begin, end - begin);
        const std::size_t slash = name.find('/');
        json cache;
        if (slash == std::string::npos) cache = {{"dtype", name}};
        else cache = {{"dtype_k", name.substr(0, slash)}, {"dtype_v", name.substr(slash + 1)}};
        lanes.push_back({{"name", name}, {"cache", std::move(cache)}});
        begin = end + 1;
    }
    const std::string text = json{{"version", 1}, {"model", model}, {"lanes", std::move(lanes)}, {"requests", json::array()}}.dump(
        -1, ' ', false, json::error_handler_t::replace);
    return parse_scenario(std::as_bytes(std::span(text)), "--dtype");
}

std::string shown(const QualityFigure& figure, int digits) {
    if (!figure.measured()) return "";
    char text[96];
    std::snprintf(text, sizeof text, "%.*f [%.*f, %.*f]", digits, figure.value, digits, figure.low, digits, figure.high);
    return text;
}

std::string percent(const QualityFigure& figure) {
    if (!figure.measured()) return "";
    char text[96];
    std::snprintf(text, sizeof text, "%.1f %% [%.1f, %.1f]", 100 * figure.value, 100 * figure.low, 100 * figure.high);
    return text;
}

std::string first_text(const LaneQuality& lane) {
    const FirstDifference first = summary_of(lane.first_difference);
    if (first.texts == 0) return "";
    char text[96];
    std::snprintf(text, sizeof text, ", first other token: median %s, never in %llu of %llu texts",
                  first.median ? std::to_string(*first.median).c_str() : "never", static_cast<unsigned long long>(first.never),
                  static_cast<unsigned long long>(first.texts));
    return text;
}

void print(const QualityReport& report) {
    std::printf("%s: %llu tokens predicted", report.text.c_str(), static_cast<unsigned long long>(report.tokens));
    if (report.questions > 0) std::printf(", %llu questions", static_cast<unsigned long long>(report.questions));
    std::printf("; %s; compared with %s; 95 %% intervals by a bootstrap over %s\n", report.device.c_str(), report.reference.c_str(),
                report.unit.c_str());
    for (const LaneQuality& lane : report.lanes) {
        std::printf("%s (%s, cache: %s)\n", lane.lane.c_str(), lane.model.c_str(), lane.cache.c_str());
        if (!lane.failure.empty()) std::printf("    failed: %s\n", lane.failure.c_str());
        if (lane.perplexity.measured()) std::printf("    perplexity %s\n", shown(lane.perplexity, 4).c_str());
        if (lane.perplexity_ratio.measured()) std::printf("    of the reference's %s\n", shown(lane.perplexity_ratio, 5).c_str());
        if (lane.divergence.measured())
            std::printf("    KL divergence %s, 99 %% below %.4f\n    same most probable token %s%s\n", shown(lane.divergence, 6).c_str(),
                        lane.divergence_p99, percent(lane.agreement).c_str(), first_text(lane).c_str());
        if (!lane.recall_total.right.measured()) continue;
        std::printf("    answers right %s", percent(lane.recall_total.right).c_str());
        for (const RecallFigure& recall : lane.recall)
            std::printf("%s%u facts, %u tokens: %.1f %%", &recall == &lane.recall.front() ? " (" : ", ", recall.facts, recall.distance,
                        100 * recall.right.value);
        std::printf(")\n");
    }
    std::fflush(stdout);
}

// On stderr: over one line where a person looks on, else a line for every tenth.
class ProgressLine {
public:
    void show(double fraction, const std::string& what) {
        if (m_person) {
            std::fprintf(stderr, "\r%3.0f %%  %-60s", 100 * fraction, what.c_str());
            m_open = true;
        } else if (const int tenth = static_cast<int>(10 * fraction); tenth > m_tenth) {
            m_tenth = tenth;
            std::fprintf(stderr, "%d %%  %s\n", 10 * tenth, what.c_str());
        }
        std::fflush(stderr);
    }
    void end() {
        if (m_open) std::fprintf(stderr, "\r%70s\r", "");
    }

private:
    bool m_person = isatty(STDERR_FILENO) == 1;
    bool m_open = false;
    int m_tenth = 0;
};

}  // namespace

int quality_command(const std::vector<std::string>& words) {
    auto arguments = Arguments::parse(words, {{"--json"},
                                              {"--dtype", "--questions", "--reference", "--text", "--texts", "--threads"},
                                              1,
                                              1,
                                              "kvloupe quality SCENARIO|MODEL [--dtype LIST] [--text FILE] [--texts N] [--questions N] "
                                              "[--reference LANE] [--threads N] [--json]"});
    if (!arguments) return fail(arguments.error().message(), exit_usage);
    const auto threads = arguments->number("--threads", 0, 1, 1024);
    const auto texts = arguments->number("--texts", 0, 1, 1'000'000);
    const auto questions = arguments->number("--questions", 0, 1, 1'000'000);
    for (const auto* number : {&threads, &texts, &questions})
        if (!*number) return fail(number->error().message(), exit_usage);
    const std::string& word = arguments->words()[0];
    if (names_scenario(word) && arguments->value("--dtype"))
        return fail("--dtype goes with a model; the lanes of a scenario say their own precisions", exit_usage);
    auto scenario = names_scenario(word) ? load_scenario(word) : scenario_of_model(word, arguments->value("--dtype").value_or("f16"));
    if (!scenario) return fail(scenario.error().message());
    auto source = arguments->value("--text") ? quality_source_of_file(*arguments->value("--text")) : default_quality_source(*scenario);
    if (!source) return fail(source.error().message());

    QualityOptions options;
    options.source = source->first(*texts, *questions);
    options.reference = arguments->value("--reference").value_or("");
    ProgressLine progress;
    options.progress = [&](double fraction, const std::string& what) { progress.show(fraction, what); };
    auto report = measure_quality(*scenario, session_options(*threads), options);
    progress.end();
    if (!report) return fail(report.error().message());
    if (const auto kept = QualityStore().keep(*report); !kept) std::cerr << "kvloupe: not kept: " << kept.error().message() << '\n';
    if (arguments->has("--json")) std::cout << json_of(*report).dump(2, ' ', false, json::error_handler_t::replace) << '\n';
    else print(*report);
    for (const LaneQuality& lane : report->lanes)
        if (!lane.failure.empty()) return fail("Lane '" + lane.lane + "' was not measured: " + lane.failure);
    return exit_done;
}

}  // namespace kvloupe
