// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/arguments.h"
#include "gui/commands.h"
#include "gui/environment.h"
#include "gui/size_json.h"

#include "engine/analysis/size_cases.h"
#include "engine/analysis/size_source.h"
#include "engine/analysis/size_text.h"
#include "engine/model/message.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <iostream>

namespace kvloupe {

namespace {

using nlohmann::json;

constexpr const char* usage =
    "kvloupe size MODEL [--context N] [--batch B] [--dtype T] [--dtype-k T] [--dtype-v T] [--kv-heads N] [--tp N] "
    "[--pp N] "
    "[--weights T] [--batched-tokens N] [--gpu NAME] [--utilization 0.9] [--json], or kvloupe size --cases [--json], "
    "or kvloupe size --models [--json]";

Result<double> share(const std::string& text) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !(value > 0 && value <= 1))
        return Error{"'--utilization " + text + "' is not a number above 0 and at most 1", ""};
    return value;
}

Result<DType> weight_precision(const std::string& name) {
    const auto type = dtype_from_name(name);
    const bool kivi = type && (*type == DType::kivi2 || *type == DType::kivi4);  // a layout of caches
    if (!type || kivi)
        return Error{"There is no precision of weights '" + name + "'",
                     "f32, f16, bf16, fp8_e4m3, int8, q4_0 and so on."};
    return *type;
}

// What is wrong usage by itself, whatever the model.
Result<SizeRequest> request_of(const Arguments& arguments) {
    SizeRequest request;
    constexpr unsigned most_tokens = 1'000'000'000, most_batch = 1'000'000, most_gpus = 100'000;
    const auto context = arguments.number("--context", 4096, 1, most_tokens);
    if (!context) return context.error();
    const auto batch = arguments.number("--batch", 1, 1, most_batch);
    if (!batch) return batch.error();
    const auto tensor = arguments.number("--tp", 1, 1, most_gpus);
    if (!tensor) return tensor.error();
    const auto pipeline = arguments.number("--pp", 1, 1, most_gpus);
    if (!pipeline) return pipeline.error();
    const auto rows = arguments.number("--batched-tokens", request.batched_tokens, 1, most_batch);
    if (!rows) return rows.error();
    const auto heads = arguments.number("--kv-heads", 0, 1, most_gpus);
    if (!heads) return heads.error();
    request.context = *context;
    request.batch = *batch;
    request.parallel = {*tensor, *pipeline};
    request.batched_tokens = *rows;
    if (*heads > 0) request.kv_heads = *heads;
    const std::string both = arguments.value("--dtype").value_or("f16");
    const auto keys = cache_precision_named(arguments.value("--dtype-k").value_or(both));
    if (!keys) return keys.error();
    const auto values = cache_precision_named(arguments.value("--dtype-v").value_or(both));
    if (!values) return values.error();
    request.precision = {*keys, *values};
    if (const auto name = arguments.value("--weights")) {
        const auto type = weight_precision(*name);
        if (!type) return type.error();
        request.weights = *type;
    }
    if (const auto text = arguments.value("--utilization")) {
        const auto value = share(*text);
        if (!value) return value.error();
        request.utilization = *value;
    }
    return request;
}

// To so many characters; UTF-8 has more bytes than those.
std::string padded(std::string_view text, std::size_t width) {
    const auto characters = static_cast<std::size_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
    return std::string(text) + std::string(characters < width ? width - characters : 0, ' ');
}

void print_lines(const SizeReport& report) {
    constexpr int width = 18;
    bool first = true;
    for (const SizeLine& line : size_lines(report)) {
        if (first) std::printf("%s: %s\n", line.label.c_str(), line.text.c_str());
        else std::printf("  %-*s %s\n", width, line.label.c_str(), line.text.c_str());
        first = false;
    }
    std::printf("  %-*s predicted from the shape; nothing was measured\n", width, "Origin");
    std::fflush(stdout);
}

int print_cases(const KnownModels& known, bool as_json) {
    json document = json::array();
    for (const SizeCase& each : size_cases()) {
        const auto model = find_sized_model(std::string(each.model), known);
        if (!model) return fail(model.error().message());
        const auto report = size_report(*model, each.request());
        if (!report) return fail(report.error().message());
        if (as_json) {
            json entry = size_json(*report);
            entry["case"] = std::string(each.title);
            document.push_back(std::move(entry));
            continue;
        }
        const double gibibytes = static_cast<double>(report->kv_bytes) / (1 << 30);
        std::printf("%s %4g GiB  %s: %s × %s%s tokens\n", padded(each.title, 21).c_str(), gibibytes,
                    model->config.name.c_str(), size_factors(report->layers).front().formula.c_str(),
                    each.batch > 1 ? (std::to_string(each.batch) + " sequences of ").c_str() : "",
                    grouped(each.context).c_str());
    }
    if (as_json) std::cout << document.dump(2) << '\n';
    else std::printf("%s\n", std::string(size_cases_remark()).c_str());
    std::fflush(stdout);
    return exit_done;
}

int print_models(const KnownModels& known, bool as_json) {
    json document = {{"models", known.names()}, {"gpus", json::array()}};
    for (const GpuEntry& gpu : gpu_table()) document["gpus"].push_back(std::string(gpu.name));
    if (as_json) {
        std::cout << document.dump(2) << '\n';
        return exit_done;
    }
    for (const std::string& name : known.names()) std::cout << name << '\n';
    std::cout << "GPUs:";
    for (const GpuEntry& gpu : gpu_table())
        std::cout << (&gpu == gpu_table().data() ? " " : ", ") << gpu.name << " (" << gpu.memory << ")";
    std::cout << '\n';
    return exit_done;
}

}  // namespace

int size_command(const std::vector<std::string>& words) {
    auto arguments =
        Arguments::parse(words, {{"--json", "--cases", "--models"},
                                 {"--context", "--batch", "--dtype", "--dtype-k", "--dtype-v", "--kv-heads", "--tp",
                                  "--pp", "--weights", "--batched-tokens", "--gpu", "--utilization"},
                                 0,
                                 1,
                                 usage});
    if (!arguments) return fail(arguments.error().message(), exit_usage);
    const bool lists = arguments->has("--cases") || arguments->has("--models");
    if (lists == !arguments->words().empty())
        return fail(std::string(lists ? "A list takes no model. Usage: " : "The model is missing. Usage: ") + usage,
                    exit_usage);
    auto request = request_of(*arguments);
    if (!request) return fail(request.error().message(), exit_usage);
    const auto known = known_models();
    if (!known) return fail(known.error().message());
    if (arguments->has("--cases")) return print_cases(*known, arguments->has("--json"));
    if (arguments->has("--models")) return print_models(*known, arguments->has("--json"));

    if (const auto name = arguments->value("--gpu")) {
        const auto gpu = gpu_named(*name);
        if (!gpu) return fail(gpu.error().message());
        request->gpu = *gpu;
    }
    const auto path = resolve_model(arguments->words()[0]);
    if (!path) return fail(path.error().message());
    const auto model = find_sized_model(*path, *known);
    if (!model) return fail(model.error().message());
    // Where no context is asked for, a model that was made for less is not held against 4,096 tokens.
    if (!arguments->value("--context") && model->config.context_length > 0)
        request->context = std::min<std::uint64_t>(request->context, model->config.context_length);
    const auto report = size_report(*model, *request);
    if (!report) return fail(report.error().message());
    if (arguments->has("--json")) std::cout << size_json(*report).dump(2) << '\n';
    else print_lines(*report);
    return exit_done;
}

}  // namespace kvloupe
