// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/serve/decoder.h"
#include "engine/serve/expert_choice.h"

namespace kvloupe {

Result<void> Decoder::run_ffn_half(std::uint32_t layer, std::uint32_t rows) {
    Backend& backend = *m_device->backend;
    const DeviceLayer& weights = m_device->layers[layer];
    backend.rms_norm(*m_buffers.hidden, *weights.ffn_norm, m_device->model->config.rms_epsilon, rows, *m_buffers.normed);
    mark(StageKind::ffn_norm, layer);
    if (weights.router) return run_experts(layer, rows);
    run_gate(weights.dense, *m_buffers.normed, layer, rows);
    add_to_stream(*weights.dense.down, *m_buffers.gate, weights.post_ffn_norm.get(), rows);
    mark(StageKind::down, layer);
    return {};
}

// gate = activation(gate in) * (up in)
void Decoder::run_gate(const DeviceFeedForward& weights, const Buffer& in, std::uint32_t layer, std::uint32_t rows) {
    Backend& backend = *m_device->backend;
    backend.matmul(*weights.gate, in, rows, *m_buffers.gate, false);
    backend.matmul(*weights.up, in, rows, *m_buffers.up, false);
    mark(StageKind::gate_up, layer);
    backend.gate_multiply(m_device->model->config.activation, *m_buffers.gate, *m_buffers.up, rows,
                          static_cast<std::uint32_t>(weights.gate->rows()));
    mark(StageKind::activation, layer);
}

// The shared experts for all rows, then one chosen expert after another for its own.
Result<void> Decoder::run_experts(std::uint32_t layer, std::uint32_t rows) {
    Backend& backend = *m_device->backend;
    const DeviceLayer& weights = m_device->layers[layer];
    const ModelConfig& config = m_device->model->config;
    backend.matmul(*weights.router, *m_buffers.normed, rows, *m_buffers.router, false);
    const std::span<float> logits(m_router_logits.data(), std::size_t{rows} * config.experts.count);
    if (auto read = backend.read(*m_buffers.router, logits); !read) return read;
    const ExpertRows chosen = sort_by_expert(config.experts, logits, weights.router_bias);
    m_experts_used[layer] = static_cast<std::uint32_t>(chosen.groups.size());
    mark(StageKind::route, layer);
    if (weights.dense.present()) {
        run_gate(weights.dense, *m_buffers.normed, layer, rows);
        backend.matmul(*weights.dense.down, *m_buffers.gate, rows, *m_buffers.hidden, true);
        mark(StageKind::down, layer);
    }
    for (const ExpertRows::Group& group : chosen.groups) {
        const DeviceFeedForward& expert = weights.experts[group.expert];
        const auto count = static_cast<std::uint32_t>(group.rows.size());
        backend.gather_rows(*m_buffers.normed, group.rows, config.hidden, *m_buffers.expert_in);
        run_gate(expert, *m_buffers.expert_in, layer, count);
        backend.matmul(*expert.down, *m_buffers.gate, count, *m_buffers.expert_out, false);
        backend.scatter_add(*m_buffers.expert_out, group.rows, group.weights, config.hidden, *m_buffers.hidden);
        mark(StageKind::down, layer);
    }
    return {};
}

}  // namespace kvloupe
