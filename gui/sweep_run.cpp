// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/sweep_run.h"

#include "gui/environment.h"
#include "engine/model/model.h"
#include "engine/serve/session.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace kvloupe {

namespace {

constexpr std::uint32_t prompt_length = 16;

// Time until each length was reached: the first output token comes from the step that computes the prompt, so length L
// is reached at the end of step L - 1.
std::vector<double> times_to_lengths(const LaneRecord& lane, const std::vector<int>& lengths) {
    std::vector<double> times;
    double elapsed_ms = 0;
    std::size_t step = 0;
    for (const int length : lengths) {
        for (; step < static_cast<std::size_t>(length) && step < lane.step_count(); ++step)
            elapsed_ms += static_cast<double>(lane.step(step).duration_ns) / 1e6;
        times.push_back(elapsed_ms);
    }
    return times;
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const std::size_t middle = values.size() / 2;
    return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Scenario sweep_scenario(const SweepOptions& options, bool cached, const ModelConfig& config) {
    const auto most = static_cast<std::uint32_t>(options.lengths.back());
    Scenario scenario;
    scenario.title = "length sweep";
    scenario.model = options.model;
    LaneOptions lane;
    lane.name = cached ? "cached" : "uncached";
    lane.kv_cache = cached;
    // What the run needs, on every device: a session of the window may hold the rest.
    if (cached) lane.cache.blocks = (prompt_length + most + lane.cache.block_size - 1) / lane.cache.block_size + 1;
    scenario.lanes = {lane};
    RequestOptions request;
    request.id = "a";
    const auto token = [&config](std::uint32_t i) {
        return static_cast<TokenId>(i * 7919u % std::max(config.vocabulary, 1u));
    };
    std::vector<TokenId> prompt, output;
    for (std::uint32_t i = 0; i < prompt_length; ++i) prompt.push_back(token(i + 1));
    for (std::uint32_t i = 0; i < most; ++i) output.push_back(token(i + 100));
    request.prompt_tokens = prompt;
    request.output_tokens = output;
    request.max_new_tokens = most;
    scenario.requests = {request};
    scenario.record.attention = std::vector<AttentionWatch>{};
    return scenario;
}

}  // namespace

std::vector<int> sweepLengths(int least, int most, int count) {
    std::vector<int> lengths;
    for (int i = 0; i < count; ++i) {
        const double share = count > 1 ? static_cast<double>(i) / (count - 1) : 1.0;
        const int length = static_cast<int>(std::lround(least + share * (most - least)));
        if (lengths.empty() || length > lengths.back()) lengths.push_back(length);
    }
    return lengths;
}

std::vector<int> lengthsWithin(std::vector<int> lengths, int room) {
    for (int& length : lengths) length = std::min(length, room);
    lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
    return lengths;
}

Result<SweepResult> runLengthSweep(const SweepOptions& options, std::stop_token stop,
                                   const std::function<void(double, const std::string&)>& progress) {
    if (options.lengths.empty()) return Error{"The sweep has no lengths", "Give at least one."};
    SessionOptions session_choice = session_options(static_cast<unsigned>(std::max(options.threads, 0)));
    session_choice.frames.memory_bytes = 0;  // it is never put back
    auto model = session_choice.find_model(options.model);
    if (!model) return model.error();
    SweepOptions bounded = options;
    const int room = static_cast<int>((*model)->config.context_length) - static_cast<int>(prompt_length);
    bounded.lengths = lengthsWithin(std::move(bounded.lengths), room);
    if (bounded.lengths.front() < 1)
        return Error{"The context of " + options.model + " is too short for a sweep", "Take another model."};

    const double all = 2.0 * std::max(1, options.repeats);
    double done = 0;
    std::vector<std::vector<double>> runs[2];
    for (int repeat = 0; repeat < std::max(1, options.repeats); ++repeat) {
        for (const bool cached : {true, false}) {
            const std::string what = std::string(cached ? "cached" : "uncached") + ", run " + std::to_string(repeat + 1) +
                                     " of " + std::to_string(std::max(1, options.repeats));
            auto session = Session::create(sweep_scenario(bounded, cached, (*model)->config), session_choice);
            if (!session) return session.error();
            const auto recording = (*session)->recording();
            const LaneRecord& lane = *recording->lanes().front();
            (*session)->run();
            for (;;) {
                const Phase phase = recording->phase();
                if (stop.stop_requested()) return Error{"The sweep was cancelled", ""};
                if (phase == Phase::failed) return Error{recording->reason(), ""};
                // Work grows with the step where nothing is cached.
                double share = static_cast<double>(lane.step_count()) / bounded.lengths.back();
                if (!cached) share *= share;
                progress((done + std::min(share, 1.0)) / all, what);
                if (phase == Phase::finished) break;
                std::this_thread::sleep_for(std::chrono::milliseconds(20));
            }
            runs[cached ? 0 : 1].push_back(times_to_lengths(lane, bounded.lengths));
            done += 1;
        }
    }
    SweepResult result;
    result.repeats = std::max(1, options.repeats);
    for (std::size_t i = 0; i < bounded.lengths.size(); ++i) {
        std::vector<double> with, without;
        for (const auto& run : runs[0]) with.push_back(run[i]);
        for (const auto& run : runs[1]) without.push_back(run[i]);
        result.lengths.push_back(bounded.lengths[i]);
        result.cached_ms.push_back(median(with));
        result.uncached_ms.push_back(median(without));
    }
    return result;
}

}  // namespace kvloupe
