// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/bench_figures.h"

#include "gui/ceilings_store.h"
#include "gui/environment.h"
#include "engine/record/writer.h"
#include "kernels/make_backend.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <sstream>
#include <unistd.h>
#include <vector>

namespace kvloupe {

namespace {

// Ids that are valid in any vocabulary of at least 8 tokens and differ from step to step.
std::vector<TokenId> some_tokens(std::uint32_t count, std::uint32_t vocabulary) {
    std::vector<TokenId> tokens(count);
    for (std::uint32_t i = 0; i < count; ++i)
        tokens[i] = static_cast<TokenId>(3 + (i * 7919u + 11u) % (std::max(vocabulary, 9u) - 4));
    return tokens;
}

struct StepSum {
    double ns = 0;
    double bytes = 0;
    double flops = 0;
    double attention_ns = 0;
    double attention_bytes = 0;
    double sample_ns = 0;
    std::uint32_t context = 0;
    std::array<BenchStage, stage_kind_count> stages{};
};

StepSum sum_of(const LaneRecord& lane, std::size_t index) {
    const StepRecord& step = lane.step(index);
    StepSum sum;
    sum.ns = static_cast<double>(step.duration_ns);
    sum.context = step.context_tokens;
    const LogRange stages = lane.stages_of(index);
    for (std::uint64_t i = stages.begin; i < stages.end; ++i) {
        const StageRecord& stage = lane.stages()[i];
        sum.bytes += static_cast<double>(stage.bytes);
        sum.flops += static_cast<double>(stage.flops);
        BenchStage& kind = sum.stages[static_cast<std::size_t>(stage.kind)];
        kind.kind = stage.kind;
        kind.ns += static_cast<double>(stage.duration_ns);
        kind.bytes += static_cast<double>(stage.bytes);
        kind.flops += static_cast<double>(stage.flops);
        if (stage.kind == StageKind::sample) sum.sample_ns += static_cast<double>(stage.duration_ns);
        if (stage.kind != StageKind::attention) continue;
        sum.attention_ns += static_cast<double>(stage.duration_ns);
        sum.attention_bytes += static_cast<double>(stage.bytes);
    }
    return sum;
}

std::vector<BenchStage> longest_first(const StepSum& step) {
    std::vector<BenchStage> stages(step.stages.begin(), step.stages.end());
    std::sort(stages.begin(), stages.end(), [](const BenchStage& a, const BenchStage& b) { return a.ns > b.ns; });
    std::erase_if(stages, [](const BenchStage& stage) { return stage.ns == 0; });
    return stages;
}

// Nanoseconds per step that writing the lane's decode steps takes: everything that was recorded is written once more
// into a fresh recording, with a clock read for each stage as the backend's timers make.
double recorder_ns(const LaneRecord& lane) {
    RecordingWriter writer("bench", std::uint64_t{1} << 20);
    LaneWriter& out = writer.add_lane(lane.info(), std::make_shared<VocabularyText>());
    writer.lanes_complete();
    for (std::size_t i = 0; i < lane.sequences().size(); ++i) out.add_sequence(lane.sequences()[i]);
    double total = 0;
    std::size_t steps = 0;
    std::vector<StageRecord> stages;
    for (std::size_t i = 0; i < lane.step_count(); ++i) {
        const StepRecord& step = lane.step(i);
        const auto begin = std::chrono::steady_clock::now();
        out.begin_step();
        for (std::uint64_t e = step.events.begin; e < step.events.end; ++e) out.event(lane.events()[e]);
        for (std::uint64_t t = step.tokens.begin; t < step.tokens.end; ++t) {
            const TokenRecord& token = lane.tokens()[t];
            std::array<Alternative, 10> best;
            for (std::size_t a = 0; a < token.alternative_count && a < best.size(); ++a)
                best[a] = lane.alternatives()[token.alternatives_begin + a];
            out.token(token, std::span(best.data(), token.alternative_count));
        }
        const LogRange range = lane.stages_of(i);
        stages.clear();
        for (std::uint64_t s = range.begin; s < range.end; ++s) {
            StageRecord stage = lane.stages()[s];
            stage.duration_ns += static_cast<std::uint64_t>(
                (std::chrono::steady_clock::now() - begin).count() < 0);  // keeps the clock read
            stages.push_back(stage);
        }
        out.stages(i, stages);
        out.end_step(step);
        if (step.decode_tokens == 0) continue;
        total += static_cast<double>((std::chrono::steady_clock::now() - begin).count());
        ++steps;
    }
    return steps > 0 ? total / static_cast<double>(steps) : 0;
}

}  // namespace

std::uint64_t resident_bytes() {
    std::ifstream statm("/proc/self/statm");
    std::uint64_t total = 0, resident = 0;
    if (!(statm >> total >> resident)) return 0;
    return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

Result<BenchFigures> measure_model(const std::string& name, ModelSource source, const BenchOptions& options) {
    auto model = source(name);
    if (!model) return model.error();
    const ModelConfig& config = (*model)->config;
    const std::uint32_t context = config.context_length;
    const std::uint32_t prompt = std::min(options.prompt_tokens, std::max(1u, context / 2));
    const std::uint32_t output = std::min(options.new_tokens, context - prompt);

    Scenario scenario;
    scenario.title = "bench";
    scenario.model = name;
    LaneOptions lane;
    lane.scheduler.max_num_batched_tokens = std::max(2048u, prompt);
    // What the run needs, on every device, and the null block.
    lane.cache.blocks = (prompt + output + lane.cache.block_size - 1) / lane.cache.block_size + 1;
    scenario.lanes = {lane};
    RequestOptions request;
    request.id = "a";
    request.prompt_tokens = some_tokens(prompt, config.vocabulary);
    request.output_tokens = some_tokens(output, config.vocabulary);
    request.max_new_tokens = output;
    scenario.requests = {request};
    scenario.record.attention = std::vector<AttentionWatch>{};

    BenchFigures best;
    best.model = config.name;
    best.weight_bytes = config.weight_bytes;
    for (const auto& file : (*model)->files) best.file_bytes += file->bytes().size();
    for (const auto& owned : (*model)->owned) best.file_bytes += owned.size();
    best.prompt_tokens = prompt;
    {
        auto backend = make_backend(BackendOptions{"auto", options.threads});
        if (!backend) return backend.error();
        const DeviceInfo info = (*backend)->info();
        best.ceilings = (*backend)->measure_ceilings({});
        best.device = info.name + ", " + info.detail;
        // For `kvloupe devices` and the window. A folder that cannot be written costs that alone.
        if (best.ceilings.measured()) (void)CeilingsStore().keep(CeilingsStore::key_of(info), best.ceilings);
    }
    for (int repeat = 0; repeat < std::max(1, options.repeats); ++repeat) {
        SessionOptions session_choice = session_options(options.threads);
        session_choice.frames.memory_bytes = 0;  // it is never put back
        session_choice.find_model = source;
        auto session = Session::create(scenario, std::move(session_choice));
        if (!session) return session.error();
        if (const auto ran = (*session)->run_to_end(); !ran) return ran.error();
        const auto recording = (*session)->recording();
        const LaneRecord& record = *recording->lanes().front();
        if (record.step_count() < 2) return Error{"The bench run of " + name + " ended after one step", ""};
        std::vector<StepSum> decode;
        for (std::size_t i = 1; i < record.step_count(); ++i)
            if (record.step(i).decode_tokens > 0) decode.push_back(sum_of(record, i));
        if (decode.empty()) return Error{"The bench run of " + name + " decoded nothing", ""};
        std::nth_element(decode.begin(), decode.begin() + static_cast<std::ptrdiff_t>(decode.size() / 2), decode.end(),
                         [](const StepSum& a, const StepSum& b) { return a.ns < b.ns; });
        const StepSum& median = decode[decode.size() / 2];
        const StepSum prefill = sum_of(record, 0);
        if (best.decode_ns == 0 || median.ns < best.decode_ns) {
            best.decode_ns = median.ns;
            best.decode_bytes = median.bytes;
            best.attention_ns = median.attention_ns;
            best.attention_bytes = median.attention_bytes;
            best.sample_ns = median.sample_ns;
            best.recorder_ns = recorder_ns(record);
            best.context_tokens = median.context;
            best.stages = longest_first(median);
        }
        if (best.prefill_ns == 0 || prefill.ns < best.prefill_ns) {
            best.prefill_ns = prefill.ns;
            best.prefill_flops = prefill.flops;
            best.prefill_stages = longest_first(prefill);
        }
        best.pool_bytes = record.info().pool_bytes;
        best.recording_bytes = recording->memory_bytes();
        best.resident_bytes = resident_bytes();
    }
    return best;
}

}  // namespace kvloupe
