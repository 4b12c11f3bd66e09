// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/serve/quality_run.h"

#include "engine/cache/block_table.h"
#include "engine/serve/quality_lane.h"
#include "engine/serve/quality_tap.h"
#include "engine/serve/session_setup.h"

#include <algorithm>
#include <chrono>
#include <ctime>

namespace kvloupe {

namespace {

constexpr std::uint64_t step_logit_bytes = 64ull << 20;  // of one step of a lane
constexpr std::uint32_t most_group_tokens = 8192;        // so that pools stay small where a vocabulary is

std::string today() {
    const std::time_t now = std::time(nullptr);
    std::tm day{};
    localtime_r(&now, &day);
    char text[11];
    return std::strftime(text, sizeof text, "%Y-%m-%d", &day) > 0 ? text : "";
}

// A lane at work, with what it has come to.
struct Measured {
    std::string name;
    std::shared_ptr<const Model> model;      // as found, before a conversion: tokenizer and vocabulary
    std::vector<QualityItem> items;
    std::vector<std::size_t> groups;         // ends of groups of items
    bool comparable = false;                 // with the reference: the same tokens, the same vocabulary
    std::unique_ptr<QualityLane> lane;
    LaneScores scores;
    std::string failure;
};

// Ends of groups of at most so many predictions and tokens; at least one item each.
std::vector<std::size_t> groups_of(const std::vector<QualityItem>& items, std::uint64_t most_predictions) {
    std::vector<std::size_t> ends;
    std::uint64_t predictions = 0, tokens = 0;
    for (std::size_t i = 0; i < items.size(); ++i) {
        const bool full = predictions + items[i].predictions() > most_predictions ||
                          tokens + items[i].tokens.size() > most_group_tokens;
        if (i > 0 && full) {
            ends.push_back(i);
            predictions = tokens = 0;
        }
        predictions += items[i].predictions();
        tokens += items[i].tokens.size();
    }
    if (!items.empty()) ends.push_back(items.size());
    return ends;
}

std::span<const QualityItem> group(const Measured& lane, std::size_t number) {
    const std::size_t first = number == 0 ? 0 : lane.groups[number - 1];
    return std::span(lane.items).subspan(first, lane.groups[number] - first);
}

// Blocks that the largest group needs when all of it runs at once.
std::uint32_t blocks_for_groups(const Measured& lane, std::uint32_t block_size, std::size_t cache_groups) {
    std::uint64_t most = 1;
    for (std::size_t i = 0; i < lane.groups.size(); ++i) {
        std::uint64_t blocks = 0;
        for (const QualityItem& item : group(lane, i)) blocks += blocks_for(item.tokens.size(), block_size);
        most = std::max(most, blocks);
    }
    return static_cast<std::uint32_t>(1 + most * std::max<std::size_t>(cache_groups, 1));
}

class QualityRun {
public:
    QualityRun(const Scenario& scenario, const SessionOptions& session, const QualityOptions& options)
        : m_scenario(scenario), m_session(session), m_options(options) {}

    Result<void> prepare();
    QualityReport measure();

private:
    Result<void> find_models();
    Result<void> cut_text();
    Result<void> make_lanes();
    Result<bool> run_group(Measured& lane, std::size_t number, ReferenceLogits& logits);
    QualityReport report(QualityReport::State state) const;
    void count(const Measured& lane, std::size_t number);
    const Measured& reference() const { return m_lanes[m_reference]; }

    const Scenario& m_scenario;
    const SessionOptions& m_session;
    const QualityOptions& m_options;
    std::vector<Measured> m_lanes;          // (lanes with a model)
    std::vector<std::size_t> m_of_scenario; // (lanes with a model) index in the scenario
    std::size_t m_reference = 0;
    std::uint64_t m_predicted = 0, m_to_predict = 0;
};

Result<void> QualityRun::find_models() {
    for (std::size_t i = 0; i < m_scenario.lanes.size(); ++i) {
        const LaneOptions& options = m_scenario.lanes[i];
        if (is_accounting(m_scenario, options)) continue;
        auto model = m_session.find_model(options.model.empty() ? m_scenario.model : options.model);
        if (!model) return Error{"Lane '" + options.name + "': " + model.error().sentence, model.error().hint};
        if (!(*model)->tokenizer)
            return Error{"Lane '" + options.name + "': its model has no tokenizer", "Choose a model that has one."};
        Measured lane;
        lane.name = options.name;
        lane.model = std::move(*model);
        m_lanes.push_back(std::move(lane));
        m_of_scenario.push_back(i);
    }
    if (m_lanes.empty()) return Error{"No lane has a model, so there is nothing to measure", "Give a lane a model."};
    if (m_options.reference.empty()) return {};
    std::string names;
    for (m_reference = 0; m_reference < m_lanes.size(); ++m_reference) {
        if (m_lanes[m_reference].name == m_options.reference) return {};
        names += (names.empty() ? "" : ", ") + m_lanes[m_reference].name;
    }
    return Error{"There is no lane '" + m_options.reference + "' with a model to compare with", "The lanes are: " + names + "."};
}

Result<void> QualityRun::cut_text() {
    std::uint32_t context = UINT32_MAX;
    for (const Measured& lane : m_lanes) context = std::min(context, lane.model->config.context_length);
    for (Measured& lane : m_lanes) {
        auto items = quality_items(m_options.source, *lane.model->tokenizer, context);
        if (!items) return items.error();
        lane.items = std::move(*items);
        const std::uint64_t row = std::uint64_t{lane.model->config.vocabulary} * sizeof(float);
        lane.groups = groups_of(lane.items, std::max<std::uint64_t>(1, m_options.memory_bytes / row));
    }
    for (Measured& lane : m_lanes) {
        const std::vector<QualityItem>& own = lane.items;
        const std::vector<QualityItem>& others = reference().items;
        const auto alike = [](const QualityItem& a, const QualityItem& b) { return a.tokens == b.tokens && a.scored == b.scored; };
        lane.comparable = lane.model->config.vocabulary == reference().model->config.vocabulary &&
                          std::equal(own.begin(), own.end(), others.begin(), others.end(), alike);
        for (const QualityItem& item : own) m_to_predict += item.predictions();
    }
    return {};
}

Result<void> QualityRun::make_lanes() {
    Scenario scenario = m_scenario;
    scenario.lanes.clear();
    scenario.actions.clear();
    scenario.breakpoints.clear();
    scenario.record = {};
    // What has to fit: one text of the greatest length; the tokens do not matter.
    std::size_t longest = 2;
    for (std::size_t i = 0; i < m_lanes.size(); ++i) {
        const Measured& lane = m_lanes[i];
        for (const QualityItem& item : lane.items) longest = std::max(longest, item.tokens.size());
        const ModelConfig& config = lane.model->config;
        const std::uint64_t rows = step_logit_bytes / (std::uint64_t{config.vocabulary} * sizeof(float));
        LaneOptions options = QualityLane::measuring(m_scenario.lanes[m_of_scenario[i]],
                                                     static_cast<std::uint32_t>(std::clamp<std::uint64_t>(rows, 64, 2048)));
        if (options.kv_cache) {
            auto shape = CacheShape::of(config, options);
            if (!shape) return Error{"Lane '" + lane.name + "': " + shape.error().sentence, shape.error().hint};
            options.cache.blocks = blocks_for_groups(lane, options.cache.block_size, shape->cache_groups.size());
        }
        scenario.lanes.push_back(std::move(options));
    }
    RequestOptions request;
    request.id = "text";
    request.prompt_tokens = std::vector<TokenId>(longest - 1, 0);
    request.output_tokens = std::vector<TokenId>(1, 0);
    scenario.requests = {request};
    SessionOptions session = m_session;
    session.stop = m_options.stop;
    session.progress = {};
    session.release_memory = {};
    auto prepared = prepare_session(scenario, session);
    if (!prepared) return prepared.error();
    for (std::size_t i = 0; i < m_lanes.size(); ++i) {
        auto lane = QualityLane::create(std::move(prepared->lanes[i]), prepared->vocabularies[i]);
        if (!lane) return Error{"Lane '" + m_lanes[i].name + "': " + lane.error().sentence, lane.error().hint};
        m_lanes[i].lane = std::move(*lane);
    }
    return {};
}

Result<void> QualityRun::prepare() {
    if (auto found = find_models(); !found) return found;
    if (auto cut = cut_text(); !cut) return cut;
    return make_lanes();
}

void QualityRun::count(const Measured& lane, std::size_t number) {
    ++m_predicted;
    if (!m_options.progress || m_predicted % 256 != 0) return;
    m_options.progress(double(m_predicted) / double(m_to_predict),
                       "Lane '" + lane.name + "', part " + std::to_string(number + 1) + " of " + std::to_string(lane.groups.size()));
}

// False: stopped. Errors: why the lane cannot go on.
Result<bool> QualityRun::run_group(Measured& lane, std::size_t number, ReferenceLogits& logits) {
    const bool is_reference = &lane == &reference();
    const bool compares = !is_reference && lane.comparable && reference().failure.empty();
    const std::span<const QualityItem> items = group(lane, number);
    QualityTap tap(items, is_reference ? &logits : nullptr, compares ? &logits : nullptr, [&] { count(lane, number); });
    const auto start = std::chrono::steady_clock::now();
    auto ran = lane.lane->run(items, tap, m_options.stop);
    lane.scores.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (!ran || !*ran) return ran;
    if (!tap.not_finite().empty())
        return Error{"Its logits are not finite at " + tap.not_finite(), "Try a cache precision with a larger range."};
    if (!tap.complete()) return Error{"It did not compute all positions", "This is a defect of the program."};
    for (ItemScores& scores : tap.scores()) lane.scores.items.push_back(std::move(scores));
    return true;
}

QualityReport QualityRun::report(QualityReport::State state) const {
    QualityReport report;
    report.state = state;
    report.text = m_options.source.name;
    report.text_hash = m_options.source.hash;
    report.unit = unit_text(m_options.source);
    report.reference = reference().name;
    report.measured_on = today();
    report.device = reference().lane->info().device;
    for (std::size_t i = 0; i < reference().scores.items.size(); ++i) {
        const QualityItem& item = reference().items[i];
        if (item.question) ++report.questions;
        else ++report.texts, report.tokens += item.predictions();
    }
    for (const Measured& lane : m_lanes) {
        const LaneScores& others = reference().scores;
        const bool compared = &lane != &reference() && lane.comparable && lane.scores.items.size() <= others.items.size();
        LaneQuality quality = quality_of(lane.items, m_options.source, lane.scores, compared ? &others : nullptr);
        const LaneInfo& info = lane.lane->info();
        quality.lane = lane.name;
        quality.model = info.model_name;
        quality.weights_id = info.weights_id;
        quality.cache = quality_cache_text(info);
        quality.key = quality_key(info);
        quality.failure = lane.failure;
        report.lanes.push_back(std::move(quality));
    }
    return report;
}

QualityReport QualityRun::measure() {
    std::vector<Measured*> order = {&m_lanes[m_reference]};
    for (Measured& lane : m_lanes)
        if (&lane != order.front()) order.push_back(&lane);
    std::size_t groups = 0;
    for (const Measured& lane : m_lanes) groups = std::max(groups, lane.groups.size());
    for (std::size_t number = 0; number < groups; ++number) {
        ReferenceLogits logits;
        std::vector<std::size_t> before;  // (order) items that were there when the group began
        for (Measured* lane : order) {
            before.push_back(lane->scores.items.size());
            if (!lane->failure.empty() || number >= lane->groups.size()) continue;
            auto ran = run_group(*lane, number, logits);
            if (!ran) lane->failure = ran.error().message();
            if (!ran || *ran) continue;
            for (std::size_t i = 0; i < before.size(); ++i) order[i]->scores.items.resize(before[i]);
            return report(QualityReport::State::cancelled);
        }
        if (m_options.partial && number + 1 < groups) m_options.partial(report(QualityReport::State::running));
    }
    return report(QualityReport::State::complete);
}

}  // namespace

Result<QualityReport> measure_quality(const Scenario& scenario, const SessionOptions& session, const QualityOptions& options) {
    try {
        QualityRun run(scenario, session, options);
        if (auto ready = run.prepare(); !ready) return ready.error();
        return run.measure();
    } catch (const std::exception& problem) {
        return Error{std::string("Quality could not be measured: ") + problem.what(),
                     "Close other programs, or measure fewer lanes."};
    }
}

}  // namespace kvloupe
