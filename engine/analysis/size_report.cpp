// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/analysis/size_report.h"

#include "engine/model/message.h"

#include <algorithm>
#include <cmath>

namespace kvloupe {

namespace {

constexpr std::uint64_t most_sequences_of_a_step = 256;  // the scenario's max_num_seqs: rows whose logits are wanted
constexpr std::uint64_t most_tokens = 1'000'000'000, most_batch = 1'000'000;

Result<void> check(const SizedModel& model, const SizeRequest& request) {
    if (request.context == 0 || request.context > most_tokens)
        return Error{"A context of " + grouped(request.context) + " tokens has no size",
                     "Give 1 to " + grouped(most_tokens) + " tokens."};
    if (request.batch == 0 || request.batch > most_batch)
        return Error{"A batch of " + grouped(request.batch) + " sequences has no size",
                     "Give 1 to " + grouped(most_batch) + " sequences."};
    if (!(request.utilization > 0 && request.utilization <= 1))
        return Error{"The utilization must be above 0 and at most 1",
                     "Give a share of the GPU's memory, 0.9 for instance."};
    if (request.batched_tokens == 0)
        return Error{"A step of 0 tokens computes nothing", "Give at least 1 batched token."};
    const ModelConfig& config = model.config;
    if (request.parallel.tensor == 0 || request.parallel.tensor > config.query_heads)
        return Error{grouped(request.parallel.tensor) + " GPUs cannot share the " + grouped(config.query_heads) +
                         " query heads of " + config.name,
                     "Give a --tp that divides them."};
    if (request.parallel.pipeline == 0 || request.parallel.pipeline > config.layers)
        return Error{grouped(request.parallel.pipeline) + " stages are more than the " + grouped(config.layers) +
                         " layers of " + config.name,
                     "Give a --pp of at most that."};
    return {};
}

Result<void> change_kv_heads(SizeReport& report) {
    if (!report.request.kv_heads) return {};
    ModelConfig& config = report.model.config;
    const std::uint32_t heads = *report.request.kv_heads;
    if (config.latent.present())
        return Error{config.name + " has no KV heads to change: its cache is a latent",
                     "Leave --kv-heads out for this model."};
    for (LayerShape& shape : config.layer_shapes) {
        if (heads == 0 || heads > shape.query_heads || shape.query_heads % heads != 0)
            return Error{grouped(heads) + " KV heads do not divide the " + grouped(shape.query_heads) +
                             " query heads of " + config.name,
                         "Give a --kv-heads that divides them."};
        shape.kv_heads = heads;
    }
    if (heads == config.kv_heads) return {};
    report.notes.push_back("With " + grouped(heads) + " KV heads in place of the model's " + grouped(config.kv_heads) +
                           ".");
    config.kv_heads = heads;
    report.model.stored_bytes = report.model.stored_parameters = 0;  // the file's tensors are another model's
    return {};
}

std::uint64_t bytes_of(std::uint64_t parameters, DType type) {
    const std::uint64_t pack = elements_per_pack(type);
    return (parameters + pack - 1) / pack * bytes_per_pack(type);
}

// Values of a row that stand in memory at once in the attention part; a latent in its absorbed form.
std::uint64_t attention_width(const ModelConfig& config, const LayerShape& shape, std::uint32_t gpus) {
    const std::uint64_t heads = shape.query_heads / gpus;
    const LatentShape& latent = config.latent;
    if (latent.present())
        return heads * (latent.nope_dim + latent.rotary_dim + 2ull * latent.kv_rank + latent.value_dim) +
               latent.kv_rank + latent.rotary_dim;
    return 2 * (heads + kv_heads_per_gpu(shape.query_heads, shape.kv_heads, gpus)) * config.head_dim;
}

std::uint64_t feed_forward_width(const SizedModel& model, const LayerShape& shape, std::uint32_t gpus) {
    const auto divided = [gpus](std::uint64_t width) { return (width + gpus - 1) / gpus; };
    const ExpertShape& experts = model.config.experts;
    if (shape.experts) return 3ull * (experts.used + experts.shared) * divided(experts.intermediate);
    return (model.form.gated ? 3 : 2) * divided(shape.intermediate);
}

ActivationReserve activation_of(const SizeReport& report, const StageSize& stage, bool last) {
    const ModelConfig& config = report.model.config;
    const std::uint32_t gpus = report.request.parallel.tensor;
    ActivationReserve reserve;
    reserve.rows = report.request.batched_tokens;
    reserve.hidden = config.hidden;
    for (std::uint32_t i = stage.first_layer; i < stage.first_layer + stage.layers; ++i) {
        const LayerShape& shape = config.layer_shapes[i];
        const std::uint64_t attention = attention_width(config, shape, gpus);
        const std::uint64_t feed_forward = feed_forward_width(report.model, shape, gpus);
        if (std::max(attention, feed_forward) <= reserve.widest) continue;
        reserve.widest = std::max(attention, feed_forward);
        reserve.widest_is_attention = attention > feed_forward;
    }
    if (last) {
        reserve.logit_rows = std::min<std::uint64_t>(reserve.rows, most_sequences_of_a_step);
        reserve.vocabulary = (std::uint64_t{config.vocabulary} + gpus - 1) / gpus;
    }
    return reserve;
}

void count_weights(SizeReport& report, const ModelParameters& counted) {
    const SizedModel& model = report.model;
    report.parameters_counted = model.stored_parameters > 0 && model.packed_by.empty();
    report.parameters = report.parameters_counted ? model.stored_parameters : counted.sum();
    report.weight_dtype = report.request.weights.value_or(model.weight_dtype);
    report.weights_stored = model.stored_bytes > 0 && !report.request.weights;
    report.weight_bytes = report.weights_stored ? model.stored_bytes : bytes_of(report.parameters, report.weight_dtype);
}

// A stage's share of the weights; of stored ones in proportion to its parameters, exact where there is but one GPU.
void count_stage_weights(const SizeReport& report, const ModelParameters& all, StageSize& stage, std::uint64_t of_gpu) {
    const bool alone = report.request.parallel.gpus() == 1;
    stage.parameters = alone ? report.parameters : of_gpu;
    if (alone)
        stage.weight_bytes = report.weight_bytes;
    else if (report.weights_stored)
        stage.weight_bytes = static_cast<std::uint64_t>(std::ceil(
            static_cast<double>(report.weight_bytes) * static_cast<double>(of_gpu) / static_cast<double>(all.sum())));
    else
        stage.weight_bytes = bytes_of(of_gpu, report.weight_dtype);
}

// Sequences that fit beside weights and activations.
std::uint64_t fit(std::uint64_t usable, const StageSize& stage) {
    const std::uint64_t taken = stage.weight_bytes + stage.activation.bytes() + stage.fixed_bytes;
    return usable <= taken || stage.sequence_bytes == 0 ? 0 : (usable - taken) / stage.sequence_bytes;
}

void add_notes(SizeReport& report) {
    const ModelConfig& config = report.model.config;
    report.notes.insert(report.notes.end(), report.model.notes.begin(), report.model.notes.end());
    if (!report.model.packed_by.empty() && !report.weights_stored)
        report.notes.push_back(
            "The model's weights are packed (quantization_config: " + in_quotes(report.model.packed_by) +
            "); here they are counted in " + std::string(name_of(report.weight_dtype)) + ".");
    if (config.context_length > 0 && report.request.context > config.context_length)
        report.notes.push_back("The context is longer than the " + grouped(config.context_length) +
                               " tokens that the model was made for.");
    for (const KvLayerSize& layer : report.layers)
        if (layer.keys.format.keeps_residual() || layer.values.format.keeps_residual()) {
            report.notes.push_back(
                "Per token: of a quantised one. At the context, the last tokens (context modulo the residual) are in "
                "f16.");
            break;
        }
    const bool replicated =
        report.request.parallel.tensor > 1 &&
        kvloupe::kv_bytes_per_token(report.gpu_layers) * report.request.parallel.tensor > report.kv_bytes_per_token;
    if (replicated)
        report.notes.push_back(config.latent.present()
                                   ? "The latent serves all heads, so every GPU of a group holds it whole."
                                   : "GPUs whose query heads share a KV head each hold it.");
}

}  // namespace

std::uint64_t SizeReport::kv_bytes_per_gpu() const {
    std::uint64_t most = 0;
    for (const StageSize& stage : stages) most = std::max(most, stage.kv_bytes);
    return most;
}

std::uint64_t SizeReport::weight_bytes_per_gpu() const {
    std::uint64_t most = 0;
    for (const StageSize& stage : stages) most = std::max(most, stage.weight_bytes);
    return most;
}

Result<SizeReport> size_report(const SizedModel& model, const SizeRequest& request) {
    if (const Result<void> checked = check(model, request); !checked) return checked.error();
    SizeReport report;
    report.model = model;
    report.request = request;
    if (const Result<void> changed = change_kv_heads(report); !changed) return changed.error();
    const ModelConfig& config = report.model.config;
    Result<std::vector<KvLayerSize>> layers = kv_layers(config, request.precision);
    if (!layers) return layers.error();
    Result<std::vector<KvLayerSize>> gpu_layers = kv_layers(config, request.precision, request.parallel.tensor);
    if (!gpu_layers) return gpu_layers.error();
    report.layers = std::move(*layers);
    report.gpu_layers = std::move(*gpu_layers);
    report.kv_bytes_per_token = kv_bytes_per_token(report.layers);
    report.fixed_bytes = kv_fixed_bytes(report.layers);
    if (report.kv_bytes_per_token >
        ~std::uint64_t{0} / request.context / request.batch / 16)  // 16: KIVI's residual is in f16
        return Error{"A cache of " + grouped(request.batch) + " times " + grouped(request.context) +
                         " tokens is larger than any memory",
                     "Give a shorter context or a smaller batch."};
    report.sequence_bytes = kv_bytes(report.layers, request.context);
    report.kv_bytes = request.batch * report.sequence_bytes;
    const ModelParameters all = count_parameters(config, report.model.form);
    const ModelParameters of_gpu = count_parameters(config, report.model.form, request.parallel.tensor);
    count_weights(report, all);
    if (request.gpu)
        report.usable_bytes =
            static_cast<std::uint64_t>(static_cast<double>(request.gpu->memory_bytes) * request.utilization);
    std::uint32_t first = 0;
    for (const std::uint32_t count : pipeline_stages(config.layers, request.parallel.pipeline)) {
        StageSize stage;
        stage.first_layer = first;
        stage.layers = count;
        const auto kept = std::span(report.gpu_layers).subspan(first, count);
        stage.kv_bytes_per_token = kv_bytes_per_token(kept);
        stage.sequence_bytes = kv_bytes(kept, request.context);
        stage.fixed_bytes = kv_fixed_bytes(kept);
        stage.kv_bytes = request.batch * stage.sequence_bytes;
        count_stage_weights(report, all, stage, of_gpu.stage(first, count));
        first += count;
        stage.activation = activation_of(report, stage, first == config.layers);
        if (request.gpu) stage.sequences = fit(report.usable_bytes, stage);
        if (stage.sequences && (!report.sequences_that_fit || *stage.sequences < *report.sequences_that_fit))
            report.sequences_that_fit = stage.sequences;
        report.stages.push_back(stage);
    }
    add_notes(report);
    return report;
}

double decode_bound_seconds(const GpuEntry& gpu, std::uint64_t weight_bytes, std::uint64_t kv_bytes_read) {
    return (static_cast<double>(weight_bytes) + static_cast<double>(kv_bytes_read)) / gpu.bandwidth;
}

}  // namespace kvloupe
