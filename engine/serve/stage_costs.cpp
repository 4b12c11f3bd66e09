// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/serve/stage_costs.h"

#include <algorithm>

namespace kvloupe {

namespace {

constexpr std::uint64_t f32_bytes = 4;

StageCost operator+(StageCost a, StageCost b) { return {a.bytes + b.bytes, a.flops + b.flops}; }

}  // namespace

StageCosts::StageCosts(const Model& model, const KvCacheShape& cache, const Batch& batch, const KeySpan& span)
    : m_model(&model), m_cache(cache), m_rows(batch.rows()), m_logit_rows(batch.logit_rows.size()) {
    for (const Batch::Sequence& sequence : batch.sequences) {
        const std::uint64_t first = sequence.first_position, rows = sequence.rows;
        if (span.full()) {
            m_context += first + rows;
            m_pairs += rows * first + rows * (rows + 1) / 2;
            continue;
        }
        std::uint64_t read_to = 0;  // keys that an earlier row of the sequence has read already
        for (std::uint64_t row = first; row < first + rows; ++row) {
            const SeenKeys keys = span.seen(static_cast<std::uint32_t>(row));
            m_pairs += keys.count();
            const std::uint64_t sinks = row == first ? keys.sinks : 0;
            m_context += sinks + keys.end - std::max<std::uint64_t>(keys.begin, read_to);
            read_to = keys.end;
        }
    }
}

StageCost StageCosts::product(const Tensor& weight, std::uint64_t rows, bool accumulate) const {
    return {weight.bytes() + rows * weight.cols * f32_bytes + rows * weight.rows * f32_bytes * (accumulate ? 2 : 1),
            2 * rows * weight.rows * weight.cols};
}

StageCost StageCosts::norm(const Tensor& weight, std::uint64_t rows) const {
    const std::uint64_t width = m_model->config.hidden;
    return {weight.bytes() + 2 * rows * width * f32_bytes, 4 * rows * width};
}

StageCost StageCosts::attention() const {
    const ModelConfig& config = m_model->config;
    const std::uint64_t kv_width = std::uint64_t{config.kv_heads} * config.head_dim;
    const std::uint64_t q_width = std::uint64_t{config.query_heads} * config.head_dim;
    const KvLayerShape& cache = m_cache.layers.front();
    const std::uint64_t kv_bytes = row_bytes(cache.keys.dtype, kv_width) + row_bytes(cache.values.dtype, kv_width);
    // Two products of head_dim per pair and query head.
    return {m_context * kv_bytes + 2 * m_rows * q_width * f32_bytes, 4 * m_pairs * q_width};
}

StageCost StageCosts::rotary_store() const {
    const ModelConfig& config = m_model->config;
    const std::uint64_t kv_width = std::uint64_t{config.kv_heads} * config.head_dim;
    const std::uint64_t q_width = std::uint64_t{config.query_heads} * config.head_dim;
    const KvLayerShape& cache = m_cache.layers.front();
    const std::uint64_t written = row_bytes(cache.keys.dtype, kv_width) + row_bytes(cache.values.dtype, kv_width);
    // q is read and written, k and v are read and stored; 6 operations per rotated pair.
    return {m_rows * (2 * q_width * f32_bytes + 2 * kv_width * f32_bytes + written),
            3 * m_rows * (std::uint64_t{config.query_heads} + config.kv_heads) * config.rotary_dim};
}

StageCost StageCosts::of(StageKind kind, std::uint32_t layer) const {
    const ModelConfig& config = m_model->config;
    const auto weights = [&]() -> const LayerWeights& { return m_model->layers[layer]; };
    switch (kind) {
    case StageKind::embed:
        return {m_rows * (row_bytes(m_model->embedding.dtype, config.hidden) + config.hidden * f32_bytes), 0};
    case StageKind::attention_norm: return norm(weights().attention_norm, m_rows);
    case StageKind::qkv:
        return product(weights().query, m_rows, false) + product(weights().key, m_rows, false) +
               product(weights().value, m_rows, false);
    case StageKind::rotary_store: return rotary_store();
    case StageKind::attention: return attention();
    case StageKind::attention_out: return product(weights().attention_out, m_rows, true);
    case StageKind::ffn_norm: return norm(weights().ffn_norm, m_rows);
    case StageKind::gate_up: return product(weights().gate, m_rows, false) + product(weights().up, m_rows, false);
    case StageKind::activation:
        // x / (1 + e^-x) * up: 5 operations per element, the exponential as one.
        return {3 * m_rows * config.intermediate * f32_bytes, 5 * m_rows * config.intermediate};
    case StageKind::down: return product(weights().down, m_rows, true);
    case StageKind::output_norm: {
        const StageCost gather{2 * m_logit_rows * config.hidden * f32_bytes, 0};
        return gather + norm(m_model->output_norm, m_logit_rows);
    }
    case StageKind::logits: return product(m_model->output, m_logit_rows, false);
    case StageKind::schedule:
    case StageKind::sample: break;
    }
    return {};
}

}  // namespace kvloupe
