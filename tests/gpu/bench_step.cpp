// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/gpu/bench_step.h"

#include "engine/model/half.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <random>

namespace kvloupe::test {

namespace {

ModelConfig shape_of(bool tiny) {
    ModelConfig config;
    config.name = tiny ? "tiny shape" : "8 B shape";
    config.architecture = "llama";
    config.layers = tiny ? 2 : 32;
    config.hidden = tiny ? 128 : 4096;
    config.query_heads = tiny ? 4 : 32;
    config.kv_heads = tiny ? 2 : 8;
    config.head_dim = tiny ? 32 : 128;
    config.intermediate = tiny ? 256 : 14336;
    config.vocabulary = tiny ? 500 : 128256;
    config.context_length = 8192;
    config.rope_theta = 500000;
    config.rotary_dim = config.head_dim;
    return config;
}

// 16 GB of independent random numbers would take minutes to draw and as much main memory: all matrices of one width are
// views of one random matrix. Each is uploaded and read on its own; what they hold costs the same.
std::shared_ptr<const Model> shaped_model(bool tiny) {
    auto model = std::make_shared<Model>();
    ModelConfig& c = model->config;
    c = shape_of(tiny);
    std::mt19937 random(1);
    std::map<std::uint64_t, std::pair<const std::byte*, std::uint64_t>> of_width;  // columns -> bytes, rows
    const auto reserve = [&](std::uint64_t rows, std::uint64_t cols) {
        // Uniform with variance 1 / columns, so that activations keep their size through the layers.
        std::vector<std::byte> bytes(rows * cols * 2);
        const std::size_t drawn = std::min<std::size_t>(rows * cols, std::size_t{1} << 22);
        const float width = std::sqrt(12.0f / static_cast<float>(cols));
        for (std::size_t i = 0; i < drawn; ++i) {
            const std::uint16_t half = f32_to_f16((static_cast<float>(random() >> 8) * 0x1p-24f - 0.5f) * width);
            std::memcpy(bytes.data() + 2 * i, &half, 2);
        }
        for (std::size_t done = drawn * 2; done < bytes.size(); done += drawn * 2)
            std::memcpy(bytes.data() + done, bytes.data(), std::min(drawn * 2, bytes.size() - done));
        model->owned.push_back(std::move(bytes));
        of_width[cols] = {model->owned.back().data(), rows};
    };
    reserve(c.vocabulary, c.hidden);
    reserve(c.hidden, c.intermediate);
    model->owned.emplace_back(std::size_t{c.hidden} * 4);
    for (std::uint32_t i = 0; i < c.hidden; ++i) {
        const float one = 1;
        std::memcpy(model->owned.back().data() + std::size_t{i} * 4, &one, 4);
    }
    const std::byte* ones = model->owned.back().data();
    const auto matrix = [&](const std::string& name, std::uint64_t rows, std::uint64_t cols) {
        Tensor tensor;
        tensor.name = name;
        tensor.data = of_width.at(cols).first;
        tensor.dtype = DType::f16;
        tensor.rows = rows;
        tensor.cols = cols;
        c.parameters += rows * cols;
        c.weight_bytes += tensor.bytes();
        return tensor;
    };
    const auto norm = [&](const std::string& name) {
        Tensor tensor;
        tensor.name = name;
        tensor.data = ones;
        tensor.rows = 1;
        tensor.cols = c.hidden;
        c.parameters += c.hidden;
        c.weight_bytes += tensor.bytes();
        return tensor;
    };
    const std::uint64_t q_width = std::uint64_t{c.query_heads} * c.head_dim, kv_width = std::uint64_t{c.kv_heads} * c.head_dim;
    model->embedding = matrix("embedding", c.vocabulary, c.hidden);
    for (std::uint32_t i = 0; i < c.layers; ++i) {
        LayerWeights layer;
        layer.attention_norm = norm("attention_norm");
        layer.query = matrix("query", q_width, c.hidden);
        layer.key = matrix("key", kv_width, c.hidden);
        layer.value = matrix("value", kv_width, c.hidden);
        layer.attention_out = matrix("attention_out", c.hidden, q_width);
        layer.ffn_norm = norm("ffn_norm");
        layer.gate = matrix("gate", c.intermediate, c.hidden);
        layer.up = matrix("up", c.intermediate, c.hidden);
        layer.down = matrix("down", c.hidden, c.intermediate);
        model->layers.push_back(layer);
    }
    model->output_norm = norm("output_norm");
    model->output = matrix("output", c.vocabulary, c.hidden);
    model->weights_id = 1;
    return model;
}

RequestOptions request(const std::string& id, std::uint32_t prompt, std::uint32_t output, std::uint32_t arrival) {
    RequestOptions options;
    options.id = id;
    options.prompt_tokens = std::vector<TokenId>();
    for (std::uint32_t i = 0; i < prompt; ++i) options.prompt_tokens->push_back(static_cast<TokenId>((i * 31 + prompt) % 499));
    options.output_tokens = std::vector<TokenId>();
    for (std::uint32_t i = 0; i < output; ++i) options.output_tokens->push_back(static_cast<TokenId>((i * 7) % 499));
    options.max_new_tokens = output;
    options.arrival_step = arrival;
    return options;
}

struct Steps {
    std::string problem;
    std::vector<std::vector<StepRecord>> of_lane;
};

Steps run(const StepBench& bench, const std::shared_ptr<const Model>& model, const std::vector<LaneOptions>& lanes,
          const std::vector<RequestOptions>& requests, std::uint32_t stages_every) {
    Steps steps;
    Scenario scenario;
    scenario.title = "bench";
    scenario.model = "shaped";
    scenario.device = bench.device;
    scenario.lanes = lanes;
    scenario.requests = requests;
    scenario.record.attention = std::vector<AttentionWatch>{};
    scenario.record.stages_every = stages_every;
    SessionOptions options;
    options.make_backend = bench.make_backend;
    options.find_model = [model](const std::string&) -> Result<std::shared_ptr<const Model>> { return model; };
    auto session = Session::create(scenario, std::move(options));
    if (!session) return steps.problem = session.error().message(), steps;
    if (auto done = (*session)->run_to_end(); !done) return steps.problem = done.error().message(), steps;
    const auto recording = (*session)->recording();
    for (const auto& lane : recording->lanes()) {
        auto& records = steps.of_lane.emplace_back();
        for (std::size_t i = 0; i < lane->step_count(); ++i) records.push_back(lane->step(i));
    }
    return steps;
}

LaneOptions lane(const std::string& name, bool cached, std::uint32_t blocks) {
    LaneOptions lane;
    lane.name = name;
    lane.kv_cache = cached;
    lane.cache.blocks = blocks;
    lane.cache.prefix_caching = false;
    lane.scheduler.max_num_batched_tokens = 8192;
    return lane;
}

// Seconds of the steps that decode alone.
std::vector<double> decode_seconds(const std::vector<StepRecord>& steps) {
    std::vector<double> seconds;
    for (const StepRecord& step : steps)
        if (step.decode_tokens > 0 && step.prefill_tokens == 0) seconds.push_back(static_cast<double>(step.duration_ns) * 1e-9);
    return seconds;
}

double mean(const std::vector<double>& values) {
    double sum = 0;
    for (double value : values) sum += value;
    return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

constexpr std::uint32_t never = 1u << 30, stages_on_one_in = 16;

void whole_step(const StepBench& bench, const std::shared_ptr<const Model>& model, BenchResults& results) {
    const ModelConfig& c = model->config;
    const std::uint32_t prompt = 2048, output = 160;
    const auto go = [&](std::uint32_t every) {
        return run(bench, model, {lane("cached", true, 200)}, {request("a", prompt, output, 0)}, every);
    };
    const std::string what = "decode step, " + c.name + ", f16 random weights, batch 1, context about " + std::to_string(prompt + output / 2);
    const Steps plain = go(never);
    if (!plain.problem.empty()) return results.row(what, "not measured: " + plain.problem, "a measurement", false);
    const std::vector<double> seconds = decode_seconds(plain.of_lane[0]);
    const double step = median(seconds);
    const double weights = static_cast<double>(c.weight_bytes - model->embedding.bytes());
    const double kv = 2.0 * c.layers * static_cast<double>(row_bytes(DType::f16, std::uint64_t{c.kv_heads} * c.head_dim)) * (prompt + output / 2.0);
    const double rate = (weights + kv) / step, share = rate / bench.ceilings.copy_bandwidth;
    const std::string measured = fixed(step * 1e6, 0) + " us, " + fixed(rate / 1e9, 0) + " GB/s of weights and KV";
    if (bench.ceilings.copy_bandwidth > 0)
        results.row(what, measured + ", " + fixed(share * 100, 1) + " % of the copy bandwidth", ">= 80 %", share >= 0.8);
    else results.row(what, measured);
    results.figure("step_us", step * 1e6);
    results.figure("step_prompt", prompt);
    results.figure("step_output", output);
    const Steps recorded = go(stages_on_one_in);
    const std::string cost = "recording with stages on one step in " + std::to_string(stages_on_one_in);
    if (!recorded.problem.empty()) return results.row(cost, "not measured: " + recorded.problem, "a measurement", false);
    // The first third of either run warms up.
    const auto settled = [](std::vector<double> values) {
        values.erase(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 3));
        return mean(values);
    };
    const double more = settled(decode_seconds(recorded.of_lane[0])) / settled(seconds) - 1;
    results.row(cost, fixed(more * 100, 2) + " % of the mean step", "<= 2 %", more <= 0.02);
}

void cached_against_uncached(const StepBench& bench, const std::shared_ptr<const Model>& model, BenchResults& results) {
    const std::vector<std::uint32_t> lengths{256, 1024, 2048, 4096};
    std::vector<RequestOptions> requests;
    for (std::uint32_t i = 0; i < lengths.size(); ++i) requests.push_back(request("r" + std::to_string(lengths[i]), lengths[i] - 8, 10, 12 * i));
    const Steps steps = run(bench, model, {lane("cached", true, 300), lane("uncached", false, 300)}, requests, never);
    const std::string what = "cached against uncached";
    if (!steps.problem.empty()) return results.row(what, "not measured: " + steps.problem, "a measurement", false);
    for (const std::uint32_t length : lengths) {
        const auto at = [&](std::size_t lane_index) {
            std::vector<double> seconds;
            const std::vector<StepRecord>& all = steps.of_lane[lane_index];
            for (std::size_t i = 1; i < all.size(); ++i)  // the step of the prompt itself is the same in both
                if (all[i].context_tokens + 8 > length && all[i].context_tokens <= length + 4 && all[i - 1].context_tokens + 1 == all[i].context_tokens)
                    seconds.push_back(static_cast<double>(all[i].duration_ns) * 1e-9);
            return median(seconds);
        };
        const double cached = at(0), uncached = at(1);
        if (cached <= 0 || uncached <= 0) continue;
        results.row(what + " at " + std::to_string(length) + " tokens", fixed(cached * 1e3, 2) + " ms against " + fixed(uncached * 1e3, 2) +
                                                                             " ms a token, " + fixed(uncached / cached, 1) + " times");
    }
}

}  // namespace

void bench_step(const StepBench& bench, BenchResults& results) {
    const auto model = shaped_model(bench.tiny);
    whole_step(bench, model, results);
    cached_against_uncached(bench, model, results);
}

}  // namespace kvloupe::test
