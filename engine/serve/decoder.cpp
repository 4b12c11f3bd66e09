// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/serve/decoder.h"

#include "engine/serve/sampler.h"

namespace kvloupe {

Decoder::Decoder(std::shared_ptr<DeviceModel> device, DecoderOptions options)
    : m_device(std::move(device)), m_options(std::move(options)) {
    if (m_device && expands()) m_expansion = std::make_unique<LatentExpansion>(m_device, m_options);
}

bool Decoder::expands() const {
    const LatentShape& latent = m_device->model->config.latent;
    return latent.present() && m_options.form_of(latent) == MlaForm::expanded;
}

std::uint64_t Decoder::bytes_for(std::uint32_t rows, std::uint32_t logit_rows, std::uint32_t sequences,
                                 std::uint32_t context) const {
    const ModelConfig& config = m_device->model->config;
    return DecoderBuffers::bytes_of(DecoderBuffers::row_parts(config, m_options), rows) +
           DecoderBuffers::bytes_of(DecoderBuffers::logit_parts(config), logit_rows) +
           (m_expansion ? m_expansion->bytes_for(sequences, context) : 0);
}

Result<void> Decoder::reserve(std::uint32_t rows, std::uint32_t logit_rows) {
    const ModelConfig& config = m_device->model->config;
    Backend& backend = *m_device->backend;
    if (rows > m_rows || logit_rows > m_logit_rows) forget_passes();
    if (rows > m_rows) {
        m_rows = 0;  // until all of them are there
        if (auto made = m_buffers.make(backend, DecoderBuffers::row_parts(config, m_options), rows); !made) return made;
        m_router_logits.resize(std::size_t{rows} * config.experts.count);
        m_rows = rows;
    }
    if (logit_rows > m_logit_rows) {
        m_logit_rows = 0;
        if (auto made = m_buffers.make(backend, DecoderBuffers::logit_parts(config), logit_rows); !made) return made;
        m_host_logits.resize(std::size_t{logit_rows} * config.vocabulary);
        m_summaries.resize(logit_rows);
        m_logit_rows = logit_rows;
    }
    return {};
}

void Decoder::mark(StageKind kind, std::uint32_t layer) {
    if (m_measure) m_device->backend->mark(kind, static_cast<std::uint16_t>(layer));
}

void Decoder::run_embedding(std::uint32_t rows) {
    Backend& backend = *m_device->backend;
    const ModelConfig& config = m_device->model->config;
    backend.embed(*m_device->embedding, *m_buffers.hidden);
    if (config.embedding_scale != 1) backend.scale(*m_buffers.hidden, config.embedding_scale, std::uint64_t{rows} * config.hidden);
    mark(StageKind::embed, StageRecord::no_layer);
}

void Decoder::add_to_stream(const Weight& weight, const Buffer& from, const Weight* norm, std::uint32_t rows) {
    Backend& backend = *m_device->backend;
    const ModelConfig& config = m_device->model->config;
    if (norm == nullptr) return backend.matmul(weight, from, rows, *m_buffers.hidden, true);
    backend.matmul(weight, from, rows, *m_buffers.projected, false);
    backend.rms_norm(*m_buffers.projected, *norm, config.rms_epsilon, rows, *m_buffers.normed);
    backend.add(*m_buffers.normed, *m_buffers.hidden, std::uint64_t{rows} * config.hidden);
}

void Decoder::run_output(const Batch& batch) {
    Backend& backend = *m_device->backend;
    const ModelConfig& config = m_device->model->config;
    const auto rows = static_cast<std::uint32_t>(batch.logit_rows.size());
    backend.gather_rows(*m_buffers.hidden, batch.logit_rows, config.hidden, *m_buffers.gathered);
    backend.rms_norm(*m_buffers.gathered, *m_device->output_norm, config.rms_epsilon, rows, *m_buffers.gathered_normed);
    mark(StageKind::output_norm, StageRecord::no_layer);
    backend.matmul(m_device->output_weight(), *m_buffers.gathered_normed, rows, *m_buffers.logits, false);
    if (config.logit_soft_cap > 0)
        backend.soft_cap(*m_buffers.logits, config.logit_soft_cap, std::uint64_t{rows} * config.vocabulary);
    mark(StageKind::logits, StageRecord::no_layer);
}

std::uint64_t Decoder::pass_owner(const KvCache& cache) {
    if (&cache != m_pass_cache) forget_passes();
    m_pass_cache = &cache;
    if (m_owner == 0) m_owner = m_device->backend->new_owner();
    return m_owner;
}

Result<bool> Decoder::run_layers(const Batch& batch, KvCache& cache, const ForwardOptions& options, ForwardResult& result) {
    const ModelConfig& config = m_device->model->config;
    m_experts_used.assign(config.experts.present() ? config.layers : 0, 0);
    for (std::uint32_t layer = 0; layer < config.layers; ++layer) {
        if (options.stop.stop_requested()) return false;
        AttentionProbe* probe = nullptr;
        for (const AttentionWatch& watch : options.watch) {
            if (watch.layer != layer) continue;
            LayerProbe& added = result.probes.emplace_back();
            added.layer = layer;
            added.probe.heads = watch.heads;
            for (std::uint32_t head = 0; watch.heads.empty() && head < layer_shape(config, layer).query_heads; ++head)
                added.probe.heads.push_back(head);
            probe = &added.probe;
            break;
        }
        if (auto run = run_attention_half(layer, batch.rows(), cache, probe); !run) return run.error();
        if (auto run = run_ffn_half(layer, batch.rows()); !run) return run.error();
    }
    return true;
}

Result<ForwardResult> Decoder::forward(const Batch& given, KvCache& cache, const ForwardOptions& options) {
    if (given.rows() > m_rows || given.logit_rows.size() > m_logit_rows)
        return Error{"A batch of " + std::to_string(given.rows()) + " rows does not fit into buffers for " +
                         std::to_string(m_rows),
                     "This is a defect of the program; please report it with the scenario."};
    Backend& backend = *m_device->backend;
    ForwardResult result;
    m_measure = options.measure;
    if (m_expansion)
        if (auto ready = m_expansion->prepare(given); !ready) return ready.error();
    const Batch& batch = m_expansion ? m_expansion->batch() : given;
    if (auto begun = backend.begin_batch(batch); !begun) return begun.error();
    // Experts are chosen on the host, latents expanded batch by batch, and whole scores need room by the lengths of sequences: such
    // a pass has no fixed operations.
    const bool repeatable = !m_measure && options.watch.empty() && !m_expansion && !m_device->model->config.experts.present() &&
                            m_options.attention == AttentionForm::tiled;
    const std::uint64_t timed = m_measure ? backend.start_timing() : 0;
    if (!repeatable || !backend.begin_pass({pass_owner(cache)})) {
        run_embedding(batch.rows());
        auto run = run_layers(batch, cache, options, result);
        if (!run) {
            if (repeatable) backend.end_pass();
            forget_passes();
            return run.error();
        }
        result.stopped = !*run;
        if (!result.stopped && !batch.logit_rows.empty()) run_output(batch);
    }
    if (repeatable) backend.end_pass();
    if (result.stopped) {
        forget_passes();  // half a pass, if it was recorded, belongs to nobody
        return result;
    }
    if (options.late) options.late->read();
    if (auto read = read_logits(batch, options, result); !read) return read.error();
    if (m_measure)
        result.measured = MeasuredPass{timed, StageCosts(*m_device->model, cache.shape(), given, m_options, m_experts_used)};
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
        if (auto made = backend.summarise(*m_buffers.logits, vocabulary, *options.summarise, summaries); !made) return made;
        result.summaries = summaries;
        return {};
    }
    const std::span<float> logits(m_host_logits.data(), rows * vocabulary);
    if (auto read = backend.read(*m_buffers.logits, logits); !read) return read;
    result.logits = logits;
    return {};
}

Result<bool> Decoder::finite(std::uint32_t rows) {
    std::vector<float> values(std::size_t{rows} * m_device->model->config.hidden);
    if (auto read = m_device->backend->read(*m_buffers.hidden, values); !read) return read.error();
    return all_finite(values);
}

std::string Decoder::first_non_finite(const Batch& batch, KvCache& cache) {
    Backend& backend = *m_device->backend;
    m_measure = false;
    const std::string unknown = "a place that could not be found";
    if (m_expansion && !m_expansion->prepare(batch)) return unknown;
    if (auto begun = backend.begin_batch(m_expansion ? m_expansion->batch() : batch); !begun) return unknown;
    m_experts_used.assign(m_device->model->config.layers, 0);
    run_embedding(batch.rows());
    auto good = finite(batch.rows());
    if (!good) return unknown;
    if (!*good) return "the token embedding";
    for (std::uint32_t layer = 0; layer < m_device->model->config.layers; ++layer) {
        if (!run_attention_half(layer, batch.rows(), cache, nullptr)) return unknown;
        good = finite(batch.rows());
        if (!good) return unknown;
        if (!*good) return "layer " + std::to_string(layer) + ", in its attention half";
        if (!run_ffn_half(layer, batch.rows())) return unknown;
        good = finite(batch.rows());
        if (!good) return unknown;
        if (!*good) return "layer " + std::to_string(layer) + ", in its feed-forward half";
    }
    return "the output projection";
}

}  // namespace kvloupe
