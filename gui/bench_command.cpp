// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/arguments.h"
#include "gui/bench_figures.h"
#include "gui/commands.h"
#include "gui/environment.h"
#include "gui/sweep_run.h"

#include "engine/model/generate_model.h"
#include "views/stage_bound.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <iostream>

namespace kvloupe {

namespace {

using nlohmann::json;

// Llama-shaped, f16, 535 MB: far beyond every cache, so that decoding it shows the memory's bandwidth.
constexpr const char* generated_name = "generated f16 Llama";

Result<std::shared_ptr<const Model>> generated_model() {
    GenerateOptions options;
    options.shape.layers = 8;
    options.shape.hidden = 2048;
    options.shape.query_heads = 32;
    options.shape.kv_heads = 8;
    options.shape.head_dim = 64;
    options.shape.intermediate = 3584;
    options.shape.vocabulary = 16384;
    options.shape.context_length = 4096;
    options.shape.tied_embeddings = true;
    options.matrices = DType::f16;
    auto model = generate_model(options);
    return model;
}

StageBound bound_of(const BenchStage& stage, const Ceilings& ceilings) {
    const auto whole = [](double sum) { return static_cast<std::uint64_t>(sum); };
    return kvloupe::bound_of({whole(stage.ns), whole(stage.bytes), whole(stage.flops)}, ceilings);
}

const char* name_of(StageLimit limit) {
    switch (limit) {
    case StageLimit::memory: return "memory";
    case StageLimit::compute: return "compute";
    case StageLimit::latency: return "latency";
    case StageLimit::unknown: break;
    }
    return "unknown";
}

json stages_to_json(const std::vector<BenchStage>& list, const Ceilings& ceilings) {
    json stages = json::array();
    for (const BenchStage& stage : list) {
        const StageBound bound = bound_of(stage, ceilings);
        stages.push_back({{"stage", kvloupe::name_of(stage.kind)},
                          {"us", stage.ns / 1e3},
                          {"bytes", stage.bytes},
                          {"flops", stage.flops},
                          {"bytes_per_s", bound.bytes_per_second},
                          {"flop_per_s", bound.flops_per_second},
                          {"bound", name_of(bound.limit)},
                          {"share_of_ceiling", bound.share}});
    }
    return stages;
}

// Where a step's time goes: the stages that take a hundredth of it or more, and what lies between stages.
void print_profile(const std::vector<BenchStage>& stages, double step_ns, const Ceilings& ceilings) {
    double in_stages = 0;
    for (const BenchStage& stage : stages) {
        in_stages += stage.ns;
        if (stage.ns < 0.01 * step_ns) continue;
        const StageBound bound = bound_of(stage, ceilings);
        std::printf("    %-16s  %8.1f us %5.1f %%  %8.2f GB/s  %8.2f GFLOP/s  %-7s %3.0f %%\n",
                    std::string(kvloupe::name_of(stage.kind)).c_str(), stage.ns / 1e3, 100 * stage.ns / step_ns,
                    bound.bytes_per_second * 1e-9, bound.flops_per_second * 1e-9, name_of(bound.limit), 100 * bound.share);
    }
    std::printf("    %-16s  %8.1f us %5.1f %%\n", "between stages", (step_ns - in_stages) / 1e3,
                100 * (1 - in_stages / step_ns));
}

json to_json(const BenchFigures& figures) {
    return {{"model", figures.model},
            {"device", figures.device},
            {"weight_bytes", figures.weight_bytes},
            {"read_bandwidth_bytes_per_s", figures.ceilings.read_bandwidth},
            {"copy_bandwidth_bytes_per_s", figures.ceilings.copy_bandwidth},
            {"matrix_flop_per_s", figures.ceilings.matrix_rate},
            {"matrix_type", std::string(kvloupe::name_of(figures.ceilings.matrix_type))},
            {"decode", {{"tokens_per_s", 1e9 / figures.decode_ns},
                        {"us_per_token", figures.decode_ns / 1e3},
                        {"bytes_per_token", figures.decode_bytes},
                        {"bytes_per_s", figures.decode_rate()},
                        {"share_of_read_bandwidth", figures.bandwidth_share()},
                        {"context_tokens", figures.context_tokens},
                        {"stages", stages_to_json(figures.stages, figures.ceilings)},
                        {"attention_us", figures.attention_ns / 1e3},
                        {"attention_bytes", figures.attention_bytes}}},
            {"prefill", {{"tokens", figures.prompt_tokens},
                         {"tokens_per_s", figures.prompt_tokens * 1e9 / figures.prefill_ns},
                         {"flop_per_s", figures.prefill_flops * 1e9 / figures.prefill_ns},
                         {"share_of_matrix_rate", figures.matrix_share()},
                         {"stages", stages_to_json(figures.prefill_stages, figures.ceilings)}}},
            {"recording", {{"recorder_us_per_step", figures.recorder_ns / 1e3},
                           {"sample_us_per_step", figures.sample_ns / 1e3},
                           {"share_of_decode_at_most", figures.recording_share()}}},
            {"memory", {{"resident_bytes", figures.resident_bytes},
                        {"file_bytes", figures.file_bytes},
                        {"pool_bytes", figures.pool_bytes},
                        {"recording_bytes", figures.recording_bytes}}}};
}

void print(const BenchFigures& f) {
    const double mib = 1024.0 * 1024.0;
    std::printf("%s (%.1f MiB of weights)\n  %s\n", f.model.c_str(), static_cast<double>(f.weight_bytes) / mib,
                f.device.c_str());
    std::printf("  ceilings            %8.2f GB/s read, %.2f GB/s copy, %.2f GFLOP/s in %s matrices   measured in this run\n",
                f.ceilings.read_bandwidth / 1e9, f.ceilings.copy_bandwidth / 1e9, f.ceilings.matrix_rate / 1e9,
                std::string(kvloupe::name_of(f.ceilings.matrix_type)).c_str());
    std::printf("  decode              %8.1f tokens/s, %.0f us per token at context %u (median)\n", 1e9 / f.decode_ns,
                f.decode_ns / 1e3, f.context_tokens);
    std::printf("  moved               %8.2f GB/s = %.1f %% of the read bandwidth (%.1f MiB per token, from shapes)\n",
                f.decode_rate() / 1e9, 100 * f.bandwidth_share(), f.decode_bytes / mib);
    print_profile(f.stages, f.decode_ns, f.ceilings);
    std::printf("  prefill             %8.1f tokens/s over %u tokens, %.1f GFLOP/s = %.1f %% of the matrix rate\n",
                f.prompt_tokens * 1e9 / f.prefill_ns, f.prompt_tokens, f.prefill_flops / f.prefill_ns, 100 * f.matrix_share());
    print_profile(f.prefill_stages, f.prefill_ns, f.ceilings);
    std::printf("  recording           %8.1f us per step, sampling with the top 10 %.1f us: together %.2f %% of decoding\n",
                f.recorder_ns / 1e3, f.sample_ns / 1e3, 100 * f.recording_share());
    const double beyond = static_cast<double>(f.resident_bytes) - static_cast<double>(f.file_bytes) -
                          static_cast<double>(f.pool_bytes);
    std::printf("  resident            %8.1f MiB = file %.1f + KV pool %.1f + %.1f MiB (recording %.1f)\n",
                static_cast<double>(f.resident_bytes) / mib, static_cast<double>(f.file_bytes) / mib,
                static_cast<double>(f.pool_bytes) / mib, beyond / mib, static_cast<double>(f.recording_bytes) / mib);
}

int sweep(const std::string& model, const Arguments& arguments, unsigned threads) {
    const auto most = arguments.number("--to", 500, 1, 100000);
    const auto least = arguments.number("--from", 10, 1, 100000);
    if (!most) return fail(most.error().message(), exit_usage);
    if (!least) return fail(least.error().message(), exit_usage);
    if (*least > *most) return fail("--from is larger than --to", exit_usage);
    SweepOptions options;
    options.model = model;
    options.lengths = sweepLengths(static_cast<int>(*least), static_cast<int>(*most), 11);
    options.threads = static_cast<int>(threads);
    auto result = runLengthSweep(options, {}, [](double, const std::string&) {});
    if (!result) return fail(result.error().message());
    if (arguments.has("--json")) {
        json rows = json::array();
        for (std::size_t i = 0; i < result->lengths.size(); ++i)
            rows.push_back({{"new_tokens", result->lengths[i]},
                            {"cached_ms", result->cached_ms[i]},
                            {"uncached_ms", result->uncached_ms[i]},
                            {"speed_up", result->uncached_ms[i] / result->cached_ms[i]}});
        std::cout << json{{"model", model}, {"repeats", result->repeats}, {"lengths", rows}}.dump(2) << '\n';
        return exit_done;
    }
    std::printf("%s: time to N new tokens, median of %d runs (measured)\n%10s %14s %14s %10s\n", model.c_str(),
                static_cast<int>(result->repeats), "N", "cached, ms", "uncached, ms", "speed-up");
    for (std::size_t i = 0; i < result->lengths.size(); ++i)
        std::printf("%10d %14.2f %14.2f %9.1fx\n", static_cast<int>(result->lengths[i]), result->cached_ms[i],
                    result->uncached_ms[i], result->uncached_ms[i] / result->cached_ms[i]);
    return exit_done;
}

}  // namespace

int bench_command(const std::vector<std::string>& words) {
    auto arguments = Arguments::parse(
        words, {{"--sweep", "--json"},
                {"--threads", "--from", "--to", "--prompt", "--new"},
                0,
                1,
                "kvloupe bench [MODEL] [--sweep [--from N] [--to N]] [--threads N] [--prompt N] [--new N] [--json]"});
    if (!arguments) return fail(arguments.error().message(), exit_usage);
    const auto threads = arguments->number("--threads", 0, 1, 1024);
    const auto prompt = arguments->number("--prompt", 64, 1, 1000000);
    const auto output = arguments->number("--new", 64, 2, 1000000);
    for (const auto* number : {&threads, &prompt, &output})
        if (!*number) return fail(number->error().message(), exit_usage);
    const bool named = !arguments->words().empty();
    if (arguments->has("--sweep")) return sweep(named ? arguments->words()[0] : "bundled", *arguments, *threads);

    BenchOptions options;
    options.threads = *threads;
    options.prompt_tokens = *prompt;
    options.new_tokens = *output;
    json document = json::array();
    const std::vector<std::string> names =
        named ? arguments->words() : std::vector<std::string>{generated_name, "bundled"};
    for (const std::string& name : names) {
        ModelSource source = session_options().find_model;
        if (name == generated_name) {
            // Made once; the session and the measurement share it.
            auto model = generated_model();
            if (!model) return fail(model.error().message());
            source = [model = *model](const std::string&) -> Result<std::shared_ptr<const Model>> { return model; };
        }
        auto figures = measure_model(name, source, options);
        if (!figures) return fail(figures.error().message());
        if (arguments->has("--json"))
            document.push_back(to_json(*figures));
        else
            print(*figures);
    }
    if (arguments->has("--json")) std::cout << document.dump(2) << '\n';
    return exit_done;
}

}  // namespace kvloupe
