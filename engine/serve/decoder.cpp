// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/serve/decoder.h"

#include "engine/serve/sampler.h"

namespace kvloupe {

namespace {

constexpr std::uint64_t f32 = 4;

}  // namespace

Decoder::Decoder(std::shared_ptr<DeviceModel> device, std::vector<KeySpan> spans, std::vector<std::uint32_t> groups)
    : m_device(std::move(device)), m_spans(std::move(spans)), m_groups(std::move(groups)) {
    if (!m_device) return;
    m_spans.resize(m_device->model->config.layers);
    m_groups.resize(m_device->model->config.layers);
}

std::uint64_t Decoder::bytes_for(std::uint32_t rows, std::uint32_t logit_rows) const {
    const ModelConfig& c = m_device->model->config;
    const std::uint64_t heads = std::uint64_t{2} * c.query_heads * c.head_dim + std::uint64_t{2} * c.kv_heads * c.head_dim;
    return f32 * (rows * (std::uint64_t{2} * c.hidden + heads + std::uint64_t{2} * c.intermediate) +
                  logit_rows * (std::uint64_t{2} * c.hidden + c.vocabulary));
}

Result<void> Decoder::reserve(std::uint32_t rows, std::uint32_t logit_rows) {
    const ModelConfig& c = m_device->model->config;
    std::optional<Error> failure;
    const auto make = [&](std::unique_ptr<Buffer>& target, std::uint64_t count, std::uint64_t width) {
        if (failure) return;
        target.reset();
        auto buffer = m_device->backend->buffer(count * width * f32, Purpose::activations);
        if (buffer) target = std::move(*buffer);
        else failure = buffer.error();
    };
    if (rows > m_rows || logit_rows > m_logit_rows) forget_passes();
    if (rows > m_rows) {
        m_rows = 0;  // until all of them are there
        const std::uint64_t q_width = std::uint64_t{c.query_heads} * c.head_dim;
        const std::uint64_t kv_width = std::uint64_t{c.kv_heads} * c.head_dim;
        make(m_hidden, rows, c.hidden);
        make(m_normed, rows, c.hidden);
        make(m_q, rows, q_width);
        make(m_k, rows, kv_width);
        make(m_v, rows, kv_width);
        make(m_attended, rows, q_width);
        make(m_gate, rows, c.intermediate);
        make(m_up, rows, c.intermediate);
        if (failure) return *failure;
        m_rows = rows;
    }
    if (logit_rows > m_logit_rows) {
        m_logit_rows = 0;
        make(m_gathered, logit_rows, c.hidden);
        make(m_gathered_normed, logit_rows, c.hidden);
        make(m_logits, logit_rows, c.vocabulary);
        if (failure) return *failure;
        m_host_logits.resize(std::size_t{logit_rows} * c.vocabulary);
        m_summaries.resize(logit_rows);
        m_logit_rows = logit_rows;
    }
    return {};
}

void Decoder::mark(StageKind kind, std::uint16_t layer) {
    if (m_measure) m_device->backend->mark(kind, layer);
}

void Decoder::run_attention_half(std::uint32_t layer, std::uint32_t rows, KvCache& cache, AttentionProbe* probe) {
    Backend& backend = *m_device->backend;
    const DeviceLayer& weights = m_device->layers[layer];
    AttentionShape shape = m_device->attention_shape(m_spans[layer]);
    shape.group = m_groups[layer];
    const auto tag = static_cast<std::uint16_t>(layer);
    backend.rms_norm(*m_hidden, *weights.attention_norm, m_device->model->config.rms_epsilon, rows, *m_normed);
    mark(StageKind::attention_norm, tag);
    backend.matmul(*weights.query, *m_normed, rows, *m_q, false);
    backend.matmul(*weights.key, *m_normed, rows, *m_k, false);
    backend.matmul(*weights.value, *m_normed, rows, *m_v, false);
    mark(StageKind::qkv, tag);
    backend.rotary_store(*m_q, *m_k, *m_v, shape, m_device->rotary_shape(), cache, layer);
    mark(StageKind::rotary_store, tag);
    backend.attention(*m_q, shape, cache, layer, *m_attended, probe);
    mark(StageKind::attention, tag);
    backend.matmul(*weights.attention_out, *m_attended, rows, *m_hidden, true);
    mark(StageKind::attention_out, tag);
}

void Decoder::run_ffn_half(std::uint32_t layer, std::uint32_t rows) {
    Backend& backend = *m_device->backend;
    const DeviceLayer& weights = m_device->layers[layer];
    const auto tag = static_cast<std::uint16_t>(layer);
    backend.rms_norm(*m_hidden, *weights.ffn_norm, m_device->model->config.rms_epsilon, rows, *m_normed);
    mark(StageKind::ffn_norm, tag);
    backend.matmul(*weights.gate, *m_normed, rows, *m_gate, false);
    backend.matmul(*weights.up, *m_normed, rows, *m_up, false);
    mark(StageKind::gate_up, tag);
    backend.silu_multiply(*m_gate, *m_up, rows, m_device->model->config.intermediate);
    mark(StageKind::activation, tag);
    backend.matmul(*weights.down, *m_gate, rows, *m_hidden, true);
    mark(StageKind::down, tag);
}

void Decoder::run_output(const Batch& batch) {
    Backend& backend = *m_device->backend;
    const ModelConfig& config = m_device->model->config;
    const auto rows = static_cast<std::uint32_t>(batch.logit_rows.size());
    backend.gather_rows(*m_hidden, batch.logit_rows, config.hidden, *m_gathered);
    backend.rms_norm(*m_gathered, *m_device->output_norm, config.rms_epsilon, rows, *m_gathered_normed);
    mark(StageKind::output_norm, StageRecord::no_layer);
    backend.matmul(m_device->output_weight(), *m_gathered_normed, rows, *m_logits, false);
    mark(StageKind::logits, StageRecord::no_layer);
}

std::uint64_t Decoder::pass_owner(const KvCache& cache) {
    if (&cache != m_pass_cache) forget_passes();
    m_pass_cache = &cache;
    if (m_owner == 0) m_owner = m_device->backend->new_owner();
    return m_owner;
}

// False: given up between two layers.
bool Decoder::run_layers(const Batch& batch, KvCache& cache, const ForwardOptions& options, ForwardResult& result) {
    const ModelConfig& config = m_device->model->config;
    for (std::uint32_t layer = 0; layer < config.layers; ++layer) {
        if (options.stop.stop_requested()) return false;
        AttentionProbe* probe = nullptr;
        for (const AttentionWatch& watch : options.watch) {
            if (watch.layer != layer) continue;
            LayerProbe& added = result.probes.emplace_back();
            added.layer = layer;
            added.probe.heads = watch.heads;
            for (std::uint32_t head = 0; watch.heads.empty() && head < config.query_heads; ++head)
                added.probe.heads.push_back(head);
            probe = &added.probe;
            break;
        }
        run_attention_half(layer, batch.rows(), cache, probe);
        run_ffn_half(layer, batch.rows());
    }
    return true;
}

Result<ForwardResult> Decoder::forward(const Batch& batch, KvCache& cache, const ForwardOptions& options) {
    if (batch.rows() > m_rows || batch.logit_rows.size() > m_logit_rows)
        return Error{"A batch of " + std::to_string(batch.rows()) + " rows does not fit into buffers for " +
                         std::to_string(m_rows),
                     "This is a defect of the program; please report it with the scenario."};
    Backend& backend = *m_device->backend;
    ForwardResult result;
    m_measure = options.measure;
    if (auto begun = backend.begin_batch(batch); !begun) return begun.error();
    const bool repeatable = !m_measure && options.watch.empty();
    const std::uint64_t timed = m_measure ? backend.start_timing() : 0;
    if (!repeatable || !backend.begin_pass({pass_owner(cache)})) {
        backend.embed(*m_device->embedding, *m_hidden);
        mark(StageKind::embed, StageRecord::no_layer);
        result.stopped = !run_layers(batch, cache, options, result);
        if (!result.stopped && !batch.logit_rows.empty()) run_output(batch);
    }
    if (repeatable) backend.end_pass();
    if (result.stopped) {
        forget_passes();  // half a pass, if it was recorded, belongs to nobody
        return result;
    }
    if (options.late) options.late->read();
    if (auto read = read_logits(batch, options, result); !read) return read.error();
    if (m_measure) result.measured = MeasuredPass{timed, StageCosts(*m_device->model, cache.shape(), batch, m_spans.front())};
    return result;
}

// What the pass computed, once the device is done with it.
Result<void> Decoder::read_logits(const Batch& batch, const ForwardOptions& options, ForwardResult& result) {
    Backend& backend = *m_device->backend;
    const std::uint32_t vocabulary = m_device->model->config.vocabulary;
    const std::size_t rows = batch.logit_rows.size();
    if (rows == 0) return backend.synchronise();
    if (options.summarise) {
        const std::span<LogitSummary> summaries(m_summaries.data(), rows);
        if (auto made = backend.summarise(*m_logits, vocabulary, *options.summarise, summaries); !made) return made;
        result.summaries = summaries;
        return {};
    }
    const std::span<float> logits(m_host_logits.data(), rows * vocabulary);
    if (auto read = backend.read(*m_logits, logits); !read) return read;
    result.logits = logits;
    return {};
}

Result<bool> Decoder::finite(std::uint32_t rows) {
    std::vector<float> values(std::size_t{rows} * m_device->model->config.hidden);
    if (auto read = m_device->backend->read(*m_hidden, values); !read) return read.error();
    return all_finite(values);
}

std::string Decoder::first_non_finite(const Batch& batch, KvCache& cache) {
    Backend& backend = *m_device->backend;
    m_measure = false;
    const std::string unknown = "a place that could not be found";
    if (auto begun = backend.begin_batch(batch); !begun) return unknown;
    backend.embed(*m_device->embedding, *m_hidden);
    auto good = finite(batch.rows());
    if (!good) return unknown;
    if (!*good) return "the token embedding";
    for (std::uint32_t layer = 0; layer < m_device->model->config.layers; ++layer) {
        run_attention_half(layer, batch.rows(), cache, nullptr);
        good = finite(batch.rows());
        if (!good) return unknown;
        if (!*good) return "layer " + std::to_string(layer) + ", in its attention half";
        run_ffn_half(layer, batch.rows());
        good = finite(batch.rows());
        if (!good) return unknown;
        if (!*good) return "layer " + std::to_string(layer) + ", in its feed-forward half";
    }
    return "the output projection";
}

}  // namespace kvloupe
