// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/analysis/size_text.h"

#include "engine/model/message.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace kvloupe {

namespace {

std::string counted(std::uint64_t count, const std::string& one) {
    return grouped(count) + " " + one + (count == 1 ? "" : "s");
}

// Bytes per value where that is a whole number and all there is: no packs, no scales beside.
bool plain(const KvPlane& plane) {
    return elements_per_pack(plane.format.dtype) == 1 && plane.scale_bytes == 0 && plane.group_scale_bytes == 0;
}

// "8 KV heads × 128 values × 2 B", "8 KV heads × 132 B (128 values in int8, 4 B of scales)".
std::string row_formula(const KvPlane& plane, const std::string& one) {
    std::string text =
        counted(plane.rows(), plane.heads_per_row > 1 ? "row of " + counted(plane.heads_per_row, "KV head") : one) +
        " × ";
    if (plain(plane))
        return text + counted(plane.width(), "value") + " × " + grouped(bytes_per_pack(plane.format.dtype)) + " B";
    const std::uint64_t scales = (plane.row_block_bytes - plane.block_size * plane.code_bytes) / plane.block_size;
    text += grouped(plane.code_bytes + scales) + " B (" + counted(plane.width(), "value") + " in " +
            std::string(name_of(plane.format.dtype));
    if (scales > 0)
        text += ", " + grouped(scales) + (plane.scale_begin > plane.block_size * plane.code_bytes ? " B of scales and padding" : " B of scales");
    else if (plane.format.scale == KvScale::joint) text += ", scales with K";
    return text + ")";
}

// One latent per layer has no heads to count.
std::string latent_formula(const KvPlane& plane, const char* what) {
    if (plain(plane))
        return grouped(plane.width()) + " " + what + " × " + grouped(bytes_per_pack(plane.format.dtype)) + " B";
    const std::string text = row_formula(plane, "row");
    return what + std::string(": ") + text.substr(std::string("1 row × ").size());
}

std::string formula_of(std::uint32_t layers, const KvLayerSize& each) {
    const std::string of_layers = counted(layers, "layer") + " × ";
    const bool same_bytes = plain(each.keys) && plain(each.values) &&
                            bytes_per_pack(each.keys.format.dtype) == bytes_per_pack(each.values.format.dtype);
    if (each.latent) {
        if (each.values.width() == 0) return of_layers + latent_formula(each.keys, "latent values");  // no rotary key beside it
        if (same_bytes)
            return of_layers + "(" + grouped(each.keys.width()) + " latent + " + grouped(each.values.width()) +
                   " rotary values) × " + grouped(bytes_per_pack(each.keys.format.dtype)) + " B";
        return of_layers + "(" + latent_formula(each.keys, "latent values") + " + " +
               latent_formula(each.values, "rotary values") + ")";
    }
    const std::string keys = row_formula(each.keys, "KV head"), values = row_formula(each.values, "KV head");
    if (keys == values) return "2 × " + of_layers + keys;
    return of_layers + "(K: " + keys + " + V: " + values + ")";
}

std::string model_text(const SizeReport& report) {
    const ModelConfig& config = report.model.config;
    std::string text = config.attention_variant() + ", " + counted(config.layers, "layer") + ", ";
    if (config.latent.present())
        text += counted(config.query_heads, "query head") + " over a latent of " + (config.latent.late_rotation ? "at most " : "") +
                grouped(config.latent.kv_rank) +
                (config.latent.late_rotation ? " values" : " + " + grouped(config.latent.rotary_dim));
    else
        text += counted(config.query_heads, "query head") + ", " + counted(config.kv_heads, "KV head") + " of " +
                grouped(config.head_dim);
    if (config.experts.present())
        text += ", " + grouped(config.experts.used) + " of " + counted(config.experts.count, "expert");
    return text;
}

std::string weights_text(const SizeReport& report) {
    const std::string parameters =
        grouped(report.parameters) + (report.parameters_counted ? " parameters" : " parameters (from the shape)");
    if (report.weights_stored) return parameters + ", as stored: " + exact_bytes(report.weight_bytes);
    const std::uint64_t pack = elements_per_pack(report.weight_dtype);
    const std::string each =
        grouped(bytes_per_pack(report.weight_dtype)) + " B" + (pack > 1 ? " / " + grouped(pack) : "");
    return parameters + " × " + each + " (" + std::string(name_of(report.weight_dtype)) +
           ") = " + exact_bytes(report.weight_bytes);
}

void add_gpus(const SizeReport& report, std::vector<SizeLine>& lines) {
    const Parallel& parallel = report.request.parallel;
    if (parallel.gpus() > 1) {
        lines.push_back(
            {"GPUs", grouped(parallel.gpus()) + (parallel.pipeline == 1 ? " that share every layer"
                                                 : parallel.tensor == 1 ? ", a stage each"
                                                                        : ": " + counted(parallel.pipeline, "stage") +
                                                                              " of " + grouped(parallel.tensor))});
        // Stages that cost the same stand together.
        for (std::size_t i = 0; i < report.stages.size();) {
            const StageSize& stage = report.stages[i];
            std::size_t end = i + 1;
            while (end < report.stages.size() && report.stages[end].layers == stage.layers &&
                   report.stages[end].kv_bytes == stage.kv_bytes && report.stages[end].weight_bytes == stage.weight_bytes)
                ++end;
            std::string name = "Each GPU";
            if (parallel.pipeline > 1)
                name = end - i > 1 ? "Stages " + grouped(i) + " to " + grouped(end - 1) : "Stage " + grouped(i);
            std::string text = counted(stage.layers, "layer") + ": KV " + grouped(stage.kv_bytes_per_token) +
                               " B per token, " + exact_bytes(stage.kv_bytes) + "; weights " +
                               short_bytes(stage.weight_bytes) + "; activations " +
                               short_bytes(stage.activation.bytes());
            if (stage.sequences) text += "; " + counted(*stage.sequences, "sequence") + " fit";
            lines.push_back({name, std::move(text)});
            i = end;
        }
    }
    const GpuEntry* const gpu = report.request.gpu;
    if (!gpu) return;
    char share[32];
    std::snprintf(share, sizeof share, "%g", report.request.utilization);
    const StageSize& tightest =
        *std::min_element(report.stages.begin(), report.stages.end(),
                          [](const StageSize& a, const StageSize& b) { return *a.sequences < *b.sequences; });
    const std::uint64_t taken = tightest.weight_bytes + tightest.activation.bytes() + tightest.fixed_bytes;
    std::string text = std::string(share) + " × " + exact_bytes(gpu->memory_bytes) + " − " + grouped(taken) +
                       " B of weights and activations";
    if (taken >= report.usable_bytes) text += ": they do not fit";
    else
        text += " = " + exact_bytes(report.usable_bytes - taken) + "; ÷ " + grouped(tightest.sequence_bytes) + " B";
    lines.push_back({std::string(gpu->name), std::move(text)});
    std::string fits =
        counted(*report.sequences_that_fit, "sequence") + " of " + counted(report.request.context, "token");
    if (report.request.batch > 1)
        fits += *report.sequences_that_fit >= report.request.batch ? "; the batch fits" : "; the batch does not fit";
    lines.push_back({"Fit", std::move(fits)});
    if (parallel.gpus() == 1 && !report.model.config.experts.present()) {
        char bound[64];
        std::snprintf(bound, sizeof bound, "%.3g ms",
                      1e3 * decode_bound_seconds(*gpu, report.weight_bytes, report.kv_bytes));
        lines.push_back({"Decode step", std::string("at least ") + bound +
                                            ": weights and the batch's cache read once at the data sheet's bandwidth"});
    }
}

}  // namespace

std::string short_bytes(std::uint64_t bytes) {
    static constexpr std::array<const char*, 6> units = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double value = static_cast<double>(bytes);
    std::size_t unit = 0;
    while (value >= 1024 && unit + 1 < units.size()) {
        value /= 1024;
        ++unit;
    }
    char text[48];
    std::snprintf(text, sizeof text, value < 1000 ? "%.4g %s" : "%.0f %s", value, units[unit]);
    return text;
}

std::string exact_bytes(std::uint64_t bytes) {
    return grouped(bytes) + " B" + (bytes < 100 * 1024 ? "" : " (" + short_bytes(bytes) + ")");
}

std::vector<SizeFactor> size_factors(const std::vector<KvLayerSize>& layers) {
    std::vector<SizeFactor> factors;
    for (const KvLayerSize& layer : layers) {
        auto found = std::find_if(factors.begin(), factors.end(),
                                  [&](const SizeFactor& each) { return each.each.alike(layer); });
        if (found == factors.end()) found = factors.insert(factors.end(), {0, layer, {}, 0});
        ++found->layers;
        found->bytes_per_token += layer.bytes_per_token();
    }
    for (SizeFactor& factor : factors) factor.formula = formula_of(factor.layers, factor.each);
    return factors;
}

std::string activation_formula(const ActivationReserve& reserve) {
    std::string text = grouped(reserve.rows) + " rows × (2 × " + grouped(reserve.hidden) + " hidden + " +
                       grouped(reserve.widest) +
                       (reserve.widest_is_attention ? " of attention" : " of the feed-forward part") + ") × 2 B";
    if (reserve.logit_rows > 0)
        text += " + " + grouped(reserve.logit_rows) + " rows × " + grouped(reserve.vocabulary) + " logits × 4 B";
    return text + " = " + exact_bytes(reserve.bytes());
}

std::vector<SizeLine> size_lines(const SizeReport& report) {
    std::vector<SizeLine> lines;
    const SizeRequest& request = report.request;
    lines.push_back({report.model.config.name, model_text(report) + " (" + report.model.source + ")"});
    const std::vector<SizeFactor> factors = size_factors(report.layers);
    const bool windows =
        std::any_of(factors.begin(), factors.end(), [](const SizeFactor& each) { return each.each.window > 0; });
    for (const SizeFactor& factor : factors)
        lines.push_back(
            {factors.size() > 1 ? "" : "KV per token", factor.formula + " = " + exact_bytes(factor.bytes_per_token)});
    if (factors.size() > 1) {
        lines[1].label = "KV per token";
        lines.push_back(
            {"", exact_bytes(report.kv_bytes_per_token) + (windows ? " if every layer saw all tokens" : " together")});
    }
    for (const SizeFactor& factor : factors) {
        if (factors.size() == 1 && factor.each.window == 0) break;
        const std::uint64_t kept = factor.each.tokens_kept(request.context);
        std::string keep =
            counted(factor.layers, "layer") + (factor.layers == 1 ? " keeps " : " keep ") + counted(kept, "token");
        if (factor.each.window > 0)
            keep += kept == factor.each.window ? ", the window" : " of a window of " + grouped(factor.each.window);
        lines.push_back({"", keep + ": " + exact_bytes(factor.layers * factor.each.bytes(request.context))});
    }
    // Where every token costs the same, the product can be checked by hand.
    const bool product = report.sequence_bytes == request.context * report.kv_bytes_per_token;
    lines.push_back({"KV of a sequence", counted(request.context, "token") +
                                             (product ? " × " + grouped(report.kv_bytes_per_token) + " B = " : ": ") +
                                             exact_bytes(report.sequence_bytes)});
    if (request.batch > 1)
        lines.push_back({"KV of the batch", counted(request.batch, "sequence") + " × " +
                                                grouped(report.sequence_bytes) +
                                                " B = " + exact_bytes(report.kv_bytes)});
    if (report.fixed_bytes > 0) lines.push_back({"Scales of the pool", grouped(report.fixed_bytes) + " B, once"});
    lines.push_back({"Weights", weights_text(report)});
    if (request.parallel.gpus() == 1)
        lines.push_back({"Activations", activation_formula(report.stages.front().activation) + ", an estimate"});
    add_gpus(report, lines);
    for (const std::string& assumed : report.model.config.assumed) lines.push_back({"Assumed", assumed, true});
    for (const std::string& note : report.notes) lines.push_back({"Note", note, true});
    return lines;
}

}  // namespace kvloupe
