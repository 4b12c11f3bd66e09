// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/serve/decoder.h"

namespace kvloupe {

Result<void> Decoder::run_attention_half(std::uint32_t layer, std::uint32_t rows, KvCache& cache, AttentionProbe* probe) {
    const DeviceLayer& weights = m_device->layers[layer];
    const ModelConfig& config = m_device->model->config;
    m_device->backend->rms_norm(*m_buffers.hidden, *weights.attention_norm, config.rms_epsilon, rows, *m_buffers.normed);
    mark(StageKind::attention_norm, layer);
    if (!config.latent.present()) attend_heads(layer, rows, cache, probe);
    else if (auto attended = attend_latents(layer, rows, cache, probe); !attended) return attended;
    const Buffer& attended = config.latent.present() ? *m_buffers.head_values : *m_buffers.attended;
    add_to_stream(*weights.attention_out, attended, weights.post_attention_norm.get(), rows);
    mark(StageKind::attention_out, layer);
    return {};
}

void Decoder::attend_heads(std::uint32_t layer, std::uint32_t rows, KvCache& cache, AttentionProbe* probe) {
    Backend& backend = *m_device->backend;
    const DeviceLayer& weights = m_device->layers[layer];
    const AttentionShape shape = m_device->attention_shape(layer, m_options);
    const auto project = [&](const Weight& weight, const Weight* bias, Buffer& out) {
        backend.matmul(weight, *m_buffers.normed, rows, out, false);
        if (bias != nullptr) backend.add_bias(out, *bias, rows);
    };
    const float epsilon = m_device->model->config.rms_epsilon;
    project(*weights.query, weights.query_bias.get(), *m_buffers.q);
    project(*weights.key, weights.key_bias.get(), *m_buffers.k);
    project(*weights.value, weights.value_bias.get(), *m_buffers.v);
    if (weights.query_norm) backend.rms_norm_heads(*m_buffers.q, *weights.query_norm, epsilon, rows, shape.query_heads);
    if (weights.key_norm) backend.rms_norm_heads(*m_buffers.k, *weights.key_norm, epsilon, rows, shape.kv_heads);
    mark(StageKind::qkv, layer);
    backend.rotary_store(*m_buffers.q, *m_buffers.k, *m_buffers.v, shape, m_device->rotary_shape(layer), cache, layer);
    if (m_shadow) m_shadow->store(*m_buffers.k, *m_buffers.v, shape.group, layer);
    mark(StageKind::rotary_store, layer);
    backend.attention(*m_buffers.q, shape, cache, layer, *m_buffers.attended, probe);
    mark(StageKind::attention, layer);
}

// The latent, normed, and the rotary key, turned, into the cache; the queries into q, their rotary parts turned.
// DeepSeek-V2, equations 9 to 16.
void Decoder::cache_latents(std::uint32_t layer, std::uint32_t rows, KvCache& cache) {
    Backend& backend = *m_device->backend;
    const DeviceLayer& weights = m_device->layers[layer];
    const ModelConfig& config = m_device->model->config;
    const LatentShape& latent = config.latent;
    const std::uint32_t heads = layer_shape(config, layer).query_heads;
    const std::uint32_t low = latent.kv_rank + latent.rotary_dim;
    if (weights.latent.query_down) {
        backend.matmul(*weights.latent.query_down, *m_buffers.normed, rows, *m_buffers.query_low, false);
        backend.rms_norm(*m_buffers.query_low, *weights.latent.query_norm, config.rms_epsilon, rows, *m_buffers.query_low_normed);
    }
    backend.matmul(*weights.latent.key_value_down, *m_buffers.normed, rows, *m_buffers.key_value_low, false);
    backend.copy_columns(*m_buffers.key_value_low, {rows, 1, 1, latent.kv_rank, low, 0, latent.kv_rank, 0}, *m_buffers.latent_low);
    backend.copy_columns(*m_buffers.key_value_low, {rows, 1, 1, latent.rotary_dim, low, latent.kv_rank, latent.rotary_dim, 0},
                         *m_buffers.rotary_key);
    backend.rms_norm(*m_buffers.latent_low, *weights.latent.key_value_norm, config.rms_epsilon, rows, *m_buffers.latent);
    mark(StageKind::latent, layer);
    if (weights.latent.query_down) backend.matmul(*weights.latent.query_up, *m_buffers.query_low_normed, rows, *m_buffers.q, false);
    else backend.matmul(*weights.query, *m_buffers.normed, rows, *m_buffers.q, false);
    mark(StageKind::qkv, layer);
    const RotaryShape rotary = m_device->rotary_shape(layer);
    backend.rotate(*m_buffers.q, heads, latent.nope_dim + latent.rotary_dim, latent.nope_dim, rotary);
    backend.rotate(*m_buffers.rotary_key, 1, latent.rotary_dim, 0, rotary);
    backend.store(*m_buffers.latent, *m_buffers.rotary_key, m_options.group_of(layer), cache, layer);
    if (m_shadow) m_shadow->store(*m_buffers.latent, *m_buffers.rotary_key, m_options.group_of(layer), layer);
    mark(StageKind::rotary_store, layer);
}

// Late rotation: the latent is the product itself, queries are those of the model that was converted.
void Decoder::cache_plain_latents(std::uint32_t layer, std::uint32_t rows, KvCache& cache) {
    Backend& backend = *m_device->backend;
    const DeviceLayer& weights = m_device->layers[layer];
    const ModelConfig& config = m_device->model->config;
    const std::uint32_t heads = layer_shape(config, layer).query_heads;
    backend.matmul(*weights.latent.key_value_down, *m_buffers.normed, rows, *m_buffers.latent, false);
    mark(StageKind::latent, layer);
    backend.matmul(*weights.query, *m_buffers.normed, rows, *m_buffers.q, false);
    if (weights.query_bias) backend.add_bias(*m_buffers.q, *weights.query_bias, rows);
    if (weights.query_norm) backend.rms_norm_heads(*m_buffers.q, *weights.query_norm, config.rms_epsilon, rows, heads);
    mark(StageKind::qkv, layer);
    backend.rotate(*m_buffers.q, heads, config.head_dim, 0, m_device->rotary_shape(layer));
    backend.store(*m_buffers.latent, *m_buffers.rotary_key, m_options.group_of(layer), cache, layer);
    if (m_shadow) m_shadow->store(*m_buffers.latent, *m_buffers.rotary_key, m_options.group_of(layer), layer);
    mark(StageKind::rotary_store, layer);
}

Result<void> Decoder::attend_latents(std::uint32_t layer, std::uint32_t rows, KvCache& cache, AttentionProbe* probe) {
    m_device->model->config.latent.late_rotation ? cache_plain_latents(layer, rows, cache) : cache_latents(layer, rows, cache);
    if (!m_expansion) {
        absorb(layer, rows, cache, probe);
        return {};
    }
    if (auto expanded = m_expansion->expand(layer, cache); !expanded) return expanded;
    mark(StageKind::latent, layer);
    AttentionShape shape = m_device->attention_shape(layer, m_options);
    shape.group = m_expansion->group();
    m_device->backend->attention(*m_buffers.q, shape, m_expansion->cache(), 0, *m_buffers.head_values, probe);
    mark(StageKind::attention, layer);
    return {};
}

// score = q_nope . (W_up c) = (W_up^T q_nope) . c, head by head; the values come up from the attended latents alike.
void Decoder::absorb(std::uint32_t layer, std::uint32_t rows, KvCache& cache, AttentionProbe* probe) {
    Backend& backend = *m_device->backend;
    const DeviceLatent& weights = m_device->layers[layer].latent;
    const ModelConfig& config = m_device->model->config;
    const LatentShape& latent = config.latent;
    const std::uint32_t heads = layer_shape(config, layer).query_heads;
    const std::uint32_t width = latent.nope_dim + latent.rotary_dim, wide = latent.kv_rank + latent.rotary_dim;
    backend.copy_columns(*m_buffers.q, {rows, heads, heads, latent.nope_dim, width, 0, latent.nope_dim, 0}, *m_buffers.query_nope);
    backend.matmul_heads(*weights.key_up_transposed, *m_buffers.query_nope, rows, heads, *m_buffers.query_absorbed);
    backend.copy_columns(*m_buffers.query_absorbed, {rows, heads, heads, latent.kv_rank, latent.kv_rank, 0, wide, 0},
                         *m_buffers.query_latent);
    backend.copy_columns(*m_buffers.q, {rows, heads, heads, latent.rotary_dim, width, latent.nope_dim, wide, latent.kv_rank},
                         *m_buffers.query_latent);
    mark(StageKind::latent, layer);
    backend.attention(*m_buffers.query_latent, m_device->attention_shape(layer, m_options), cache, layer, *m_buffers.attended, probe);
    mark(StageKind::attention, layer);
    backend.matmul_heads(*weights.value_up, *m_buffers.attended, rows, heads, *m_buffers.head_values);
    mark(StageKind::latent, layer);
}

}  // namespace kvloupe
