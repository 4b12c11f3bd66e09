// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/serve/stage_costs.h"

#include "engine/serve/device_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace kvloupe {

namespace {

constexpr std::uint64_t f32_bytes = 4;

StageCost operator+(StageCost a, StageCost b) { return {a.bytes + b.bytes, a.flops + b.flops}; }

}  // namespace

StageCosts::StageCosts(const Model& model, const KvCacheShape& cache, const Batch& batch, const DecoderOptions& options,
                       std::vector<std::uint32_t> experts_used)
    : m_model(&model), m_cache(cache), m_options(options), m_experts_used(std::move(experts_used)), m_rows(batch.rows()),
      m_logit_rows(batch.logit_rows.size()) {
    for (const Batch::Sequence& sequence : batch.sequences)
        m_scores += std::uint64_t{sequence.rows} * (std::uint64_t{sequence.first_position} + sequence.rows);
    for (std::uint32_t layer = 0; layer < model.config.layers; ++layer) {
        const KeySpan span = layer_span(model.config, options, layer);
        const auto known = std::find_if(m_reaches.begin(), m_reaches.end(), [&](const Reach& reach) { return reach.span == span; });
        m_reach_of.push_back(static_cast<std::uint32_t>(known - m_reaches.begin()));
        if (known == m_reaches.end()) m_reaches.push_back(reach_of(span, batch));
    }
}

StageCosts::Reach StageCosts::reach_of(const KeySpan& span, const Batch& batch) const {
    Reach reach;
    reach.span = span;
    for (const Batch::Sequence& sequence : batch.sequences) {
        const std::uint64_t first = sequence.first_position, rows = sequence.rows;
        if (span.full()) {
            reach.context += first + rows;
            reach.pairs += rows * first + rows * (rows + 1) / 2;
            continue;
        }
        std::uint64_t read_to = 0;  // keys that an earlier row of the sequence has read already
        for (std::uint64_t row = first; row < first + rows; ++row) {
            const SeenKeys keys = span.seen(static_cast<std::uint32_t>(row));
            reach.pairs += keys.count();
            const std::uint64_t sinks = row == first ? keys.sinks : 0;
            reach.context += sinks + keys.end - std::max<std::uint64_t>(keys.begin, read_to);
            read_to = keys.end;
        }
    }
    return reach;
}

StageCost StageCosts::product(const Tensor& weight, std::uint64_t rows, bool accumulate) const {
    return {weight.bytes() + rows * weight.cols * f32_bytes + rows * weight.rows * f32_bytes * (accumulate ? 2 : 1),
            2 * rows * weight.rows * weight.cols};
}

StageCost StageCosts::product_of_heads(const Tensor& weight, std::uint64_t heads) const {
    return {weight.bytes() + m_rows * heads * weight.cols * f32_bytes + m_rows * weight.rows * f32_bytes, 2 * m_rows * weight.rows * weight.cols};
}

StageCost StageCosts::product_of_experts(const Tensor& weight, std::uint32_t layer) const {
    const std::uint64_t rows = m_rows * m_model->config.experts.used;
    return {m_experts_used[layer] * weight.bytes() + rows * (weight.cols + weight.rows) * f32_bytes, 2 * rows * weight.rows * weight.cols};
}

StageCost StageCosts::norm(const Tensor& weight, std::uint64_t rows) const {
    return {weight.bytes() + 2 * rows * weight.cols * f32_bytes, 4 * rows * weight.cols};
}

StageCost StageCosts::bias(const Tensor& added) const {
    if (!added.present()) return {};
    return {added.bytes() + 2 * m_rows * added.cols * f32_bytes, m_rows * added.cols};
}

StageCost StageCosts::copy(std::uint64_t floats) { return {2 * floats * f32_bytes, 0}; }

// A norm behind a half, and the addition to the residual stream.
StageCost StageCosts::behind(const Tensor& weight) const {
    if (!m_model->config.post_norms || !weight.present()) return {};
    const std::uint64_t floats = m_rows * weight.cols;
    return norm(weight, m_rows) + StageCost{3 * floats * f32_bytes, floats};
}

StageCost StageCosts::head_norm(const Tensor& weight, std::uint64_t rows) const {
    return weight.present() ? norm(weight, rows) : StageCost{};
}

bool StageCosts::has_experts(std::uint32_t layer) const {
    return m_model->config.experts.present() && layer_shape(m_model->config, layer).experts;
}

bool StageCosts::expands() const {
    const LatentShape& latent = m_model->config.latent;
    return latent.present() && m_options.form_of(latent) == MlaForm::expanded;
}

std::uint64_t StageCosts::kv_bytes(std::uint32_t layer, std::uint64_t tokens) const {
    const KvLayerShape& cache = m_cache.layers[std::min<std::size_t>(layer, m_cache.layers.size() - 1)];
    const auto keys = cache.key_plane(m_cache.block_size), values = cache.value_plane(m_cache.block_size);
    if (!keys || !values) return 0;  // such a cache cannot have been made
    return static_cast<std::uint64_t>(std::llround(static_cast<double>(tokens) * (keys->bytes_per_token() + values->bytes_per_token())));
}

StageCost StageCosts::qkv(std::uint32_t layer) const {
    const LayerWeights& weights = m_model->layers[layer];
    const LayerShape shape = layer_shape(m_model->config, layer);
    if (m_model->config.latent.present())
        return product(weights.latent.query_down.present() ? weights.latent.query_up : weights.query, m_rows, false) +
               bias(weights.query_bias) + head_norm(weights.query_norm, m_rows * shape.query_heads);
    const StageCost cost = product(weights.query, m_rows, false) + product(weights.key, m_rows, false) +
                     product(weights.value, m_rows, false) + bias(weights.query_bias) + bias(weights.key_bias) + bias(weights.value_bias);
    return cost + head_norm(weights.query_norm, m_rows * shape.query_heads) + head_norm(weights.key_norm, m_rows * shape.kv_heads);
}

StageCost StageCosts::rotary_store(std::uint32_t layer) const {
    const ModelConfig& config = m_model->config;
    const LayerShape shape = layer_shape(config, layer);
    const LatentShape& latent = config.latent;
    const std::uint64_t heads = shape.query_heads;
    const std::uint64_t written = kv_bytes(layer, m_rows);
    // What is turned is read and written, 6 operations per pair; what is stored is read.
    if (latent.late_rotation) {
        const std::uint64_t turned = m_rows * heads * config.rotary(layer).rotary_dim;
        return {f32_bytes * (2 * turned + m_rows * config.latent_width(layer)) + written, 3 * turned};
    }
    if (latent.present())
        return {m_rows * f32_bytes * (2 * heads * latent.rotary_dim + 2 * latent.rotary_dim + latent.kv_rank + latent.rotary_dim) + written,
                3 * m_rows * (heads + 1) * latent.rotary_dim};
    const std::uint64_t kv_width = std::uint64_t{shape.kv_heads} * config.head_dim, q_width = heads * config.head_dim;
    return {m_rows * (2 * q_width * f32_bytes + 2 * kv_width * f32_bytes) + written,
            3 * m_rows * (heads + shape.kv_heads) * config.rotary(layer).rotary_dim};
}

StageCost StageCosts::attention(std::uint32_t layer) const {
    const ModelConfig& config = m_model->config;
    const LatentShape& latent = config.latent;
    const Reach& reach = m_reaches[m_reach_of[layer]];
    const std::uint64_t heads = layer_shape(config, layer).query_heads;
    std::uint64_t key_width = config.head_dim, value_width = config.head_dim;
    std::uint64_t read = kv_bytes(layer, reach.context);
    if (expands()) {
        key_width = latent.nope_dim + latent.rotary_dim;
        value_width = latent.value_dim;
        read = reach.context * expanded_heads(config, layer) * (key_width + value_width) * f32_bytes;
    } else if (latent.present()) {
        key_width = latent.kv_rank + latent.rotary_dim;
        value_width = latent.kv_rank;  // the latents: read once for both
    }
    // A product of the width of a key and one of the width of a value per pair and query head; a cap's division, tanh and
    // product.
    StageCost cost{read + m_rows * heads * (key_width + value_width) * f32_bytes, 2 * reach.pairs * heads * (key_width + value_width)};
    if (config.attention_soft_cap > 0) cost.flops += 3 * reach.pairs * heads;
    if (m_options.attention == AttentionForm::materialised) cost.bytes += 4 * heads * m_scores * f32_bytes;
    return cost;
}

StageCost StageCosts::latent(std::uint32_t layer) const {
    const LatentWeights& weights = m_model->layers[layer].latent;
    const LatentShape& shape = m_model->config.latent;
    if (!shape.present()) return {};
    if (shape.late_rotation) return product(weights.key_value_down, m_rows, false) + expansion(layer);
    StageCost cost = product(weights.key_value_down, m_rows, false) + copy(m_rows * (shape.kv_rank + shape.rotary_dim)) +
                     norm(weights.key_value_norm, m_rows);
    if (weights.query_down.present()) cost = cost + product(weights.query_down, m_rows, false) + norm(weights.query_norm, m_rows);
    return cost + (expands() ? expansion(layer) : absorption(layer));
}

// Queries down to the latent and put together with their rotary parts, attended latents up to values.
StageCost StageCosts::absorption(std::uint32_t layer) const {
    const LatentWeights& weights = m_model->layers[layer].latent;
    const LatentShape& shape = m_model->config.latent;
    const std::uint64_t heads = layer_shape(m_model->config, layer).query_heads;
    return copy(m_rows * heads * shape.nope_dim) + product_of_heads(weights.key_up_transposed, heads) +
           copy(m_rows * heads * (shape.kv_rank + shape.rotary_dim)) + product_of_heads(weights.value_up, heads);
}

// Latents of the context are loaded, taken up, cut into keys and values with the rotary key in every head, and stored in f32_bytes.
StageCost StageCosts::expansion(std::uint32_t layer) const {
    const LatentShape& shape = m_model->config.latent;
    const std::uint64_t tokens = m_reaches[m_reach_of[layer]].context;
    const std::uint64_t heads = expanded_heads(m_model->config, layer);
    const std::uint64_t made = heads * (shape.nope_dim + shape.rotary_dim + shape.value_dim);
    const LayerWeights& weights = m_model->layers[layer];
    const StageCost loaded{kv_bytes(layer, tokens) + tokens * (m_model->config.latent_width(layer) + shape.rotary_dim) * f32_bytes, 0};
    StageCost cost = loaded + product(weights.latent.key_value_up, tokens, false) + copy(tokens * heads * (shape.nope_dim + shape.value_dim)) +
                     copy(tokens * made);
    if (!shape.late_rotation) return cost + StageCost{tokens * (shape.rotary_dim + heads * shape.rotary_dim) * f32_bytes, 0};
    for (const Tensor* of : {&weights.key_bias, &weights.value_bias})  // read and written
        if (of->present()) cost = cost + StageCost{(2 * tokens + 1) * of->cols * f32_bytes, tokens * of->cols};
    const std::uint64_t turned = tokens * heads * m_model->config.rotary(layer).rotary_dim;
    return cost + head_norm(weights.key_norm, tokens * heads) + StageCost{2 * turned * f32_bytes, 3 * turned};
}

// Rows of chosen experts: gathered, multiplied by the weights of as many different experts as were chosen.
StageCost StageCosts::gate_up(std::uint32_t layer) const {
    const LayerWeights& weights = m_model->layers[layer];
    StageCost cost = product(weights.gate, m_rows, false) + product(weights.up, m_rows, false);
    if (!has_experts(layer)) return cost;
    if (!weights.gate.present()) cost = {};
    const FeedForwardWeights& expert = weights.experts.front();
    return cost + copy(m_rows * m_model->config.experts.used * m_model->config.hidden) + product_of_experts(expert.gate, layer) +
           product_of_experts(expert.up, layer);
}

StageCost StageCosts::activation(std::uint32_t layer) const {
    const ModelConfig& config = m_model->config;
    const ExpertShape& experts = config.experts;
    const std::uint64_t width = has_experts(layer) ? std::uint64_t{experts.used + experts.shared} * experts.intermediate
                                                   : layer_shape(config, layer).intermediate;
    // silu: x / (1 + e^-x) * up, the exponential as one operation. gelu: x/2 (1 + tanh(a (x + b x^3))) * up, tanh as one.
    const std::uint64_t operations = config.activation == Activation::silu ? 5 : 10;
    return {3 * m_rows * width * f32_bytes, operations * m_rows * width};
}

StageCost StageCosts::down(std::uint32_t layer) const {
    const LayerWeights& weights = m_model->layers[layer];
    const std::uint64_t hidden = m_model->config.hidden;
    if (!has_experts(layer)) return product(weights.down, m_rows, !m_model->config.post_norms) + behind(weights.post_ffn_norm);
    StageCost cost;
    if (weights.down.present()) cost = product(weights.down, m_rows, true);
    const std::uint64_t rows = m_rows * m_model->config.experts.used;
    // An expert's output is read, weighted and added to its row.
    return cost + product_of_experts(weights.experts.front().down, layer) + StageCost{3 * rows * hidden * f32_bytes, 2 * rows * hidden};
}

StageCost StageCosts::of(StageKind kind, std::uint32_t layer) const {
    const ModelConfig& config = m_model->config;
    const auto weights = [&]() -> const LayerWeights& { return m_model->layers[layer]; };
    switch (kind) {
    case StageKind::embed: {
        const StageCost read{m_rows * (row_bytes(m_model->embedding.dtype, config.hidden) + config.hidden * f32_bytes), 0};
        if (config.embedding_scale == 1) return read;
        return read + StageCost{2 * m_rows * config.hidden * f32_bytes, m_rows * config.hidden};
    }
    case StageKind::attention_norm: return norm(weights().attention_norm, m_rows);
    case StageKind::qkv: return qkv(layer);
    case StageKind::rotary_store: return rotary_store(layer);
    case StageKind::attention: return attention(layer);
    case StageKind::attention_out:
        return product(weights().attention_out, m_rows, !config.post_norms) + behind(weights().post_attention_norm);
    case StageKind::ffn_norm: return norm(weights().ffn_norm, m_rows);
    case StageKind::gate_up: return gate_up(layer);
    case StageKind::activation: return activation(layer);
    case StageKind::down: return down(layer);
    case StageKind::output_norm: return copy(m_logit_rows * config.hidden) + norm(m_model->output_norm, m_logit_rows);
    case StageKind::logits: {
        const StageCost read = product(m_model->output.present() ? m_model->output : m_model->embedding, m_logit_rows, false);
        if (config.logit_soft_cap <= 0) return read;
        return read + StageCost{2 * m_logit_rows * config.vocabulary * f32_bytes, 3 * m_logit_rows * config.vocabulary};
    }
    case StageKind::route: return product(weights().router, m_rows, false);
    case StageKind::latent: return latent(layer);
    case StageKind::schedule:
    case StageKind::sample: break;
    }
    return {};
}

}  // namespace kvloupe
