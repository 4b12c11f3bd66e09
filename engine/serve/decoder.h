// SPDX-License-Identifier: GPL-3.0-or-later
//
// Decoder: the forward pass of a model, composed from a backend's operations by the parts that its configuration names. Holds
// the activation buffers; knows batches, not requests.
#pragma once

#include "engine/backend.h"
#include "engine/serve/decoder_buffers.h"
#include "engine/serve/decoder_options.h"
#include "engine/serve/device_model.h"
#include "engine/serve/latent_expansion.h"
#include "engine/serve/late_stages.h"
#include "engine/serve/scenario.h"
#include "engine/serve/shadow_cache.h"

#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

namespace kvloupe {

struct ForwardOptions {
    bool measure = false;                     // stage times are wanted
    std::span<const AttentionWatch> watch;    // attention rows are wanted
    std::stop_token stop;                     // looked at between layers
    LateStages* late = nullptr;               // of the backend: what is outstanding is read while this pass runs
    // (logit_rows) a token whose rank is wanted, or negative: summaries of the logits are enough and the backend makes
    // them. Null: the logits.
    const std::vector<TokenId>* summarise = nullptr;
};

struct LayerProbe {
    std::uint32_t layer = 0;
    AttentionProbe probe;
};

struct ForwardResult {
    bool stopped = false;                     // by the stop token: nothing below is meaningful
    std::span<const float> logits;            // (logit_rows, vocabulary); valid until the next forward()
    std::span<const LogitSummary> summaries;  // (logit_rows) instead of them, where asked for; valid as long
    std::vector<LayerProbe> probes;
    std::optional<MeasuredPass> measured;     // where stage times are wanted: the set to read them from
};

class Decoder {
public:
    // device: may be null where nothing is ever computed.
    explicit Decoder(std::shared_ptr<DeviceModel> device, DecoderOptions options = {});

    // Makes room for that many rows and logit rows; keeps what is there if it is enough. Between steps only.
    Result<void> reserve(std::uint32_t rows, std::uint32_t logit_rows);
    // Passes that the backend has recorded are not replayed any more: a cache was replaced by another one. (Another
    // object and other buffers are noticed.)
    void forget_passes() { m_owner = 0; }
    // K and V go there as well, from the next pass on; null: no longer. Outlives its use.
    void set_shadow(ShadowCache* shadow) {
        if (shadow != m_shadow) forget_passes();
        m_shadow = shadow;
    }
    // Bytes of the device's memory that reserve() takes (derived), and what expanded latents take for as many sequences of at
    // most `context` tokens, which forward() makes room for. Scores that are kept whole are the backend's.
    std::uint64_t bytes_for(std::uint32_t rows, std::uint32_t logit_rows, std::uint32_t sequences = 0, std::uint32_t context = 0) const;

    // Computes the batch; its K/V lies in `cache` afterwards. At most the reserved rows.
    // Errors: the backend's.
    Result<ForwardResult> forward(const Batch& batch, KvCache& cache, const ForwardOptions& options);

    // Runs the batch again, layer by layer with checks: the first place in which a value is infinite or NaN, as
    // "layer 3, in its attention half"; "the output projection" if all layers are finite.
    std::string first_non_finite(const Batch& batch, KvCache& cache);

private:
    std::uint64_t pass_owner(const KvCache& cache);
    bool expands() const;
    // False: given up between two layers. Errors: the backend's.
    Result<bool> run_layers(const Batch& batch, KvCache& cache, const ForwardOptions& options, ForwardResult& result);
    void run_embedding(std::uint32_t rows);
    void run_output(const Batch& batch);
    Result<void> read_logits(const Batch& batch, const ForwardOptions& options, ForwardResult& result);
    void mark(StageKind kind, std::uint32_t layer);
    Result<bool> finite(std::uint32_t rows);
    // What a half came to, through `weight` and perhaps a norm, onto the residual stream.
    void add_to_stream(const Weight& weight, const Buffer& from, const Weight* norm, std::uint32_t rows);

    // decoder_attention.cpp
    Result<void> run_attention_half(std::uint32_t layer, std::uint32_t rows, KvCache& cache, AttentionProbe* probe);
    void attend_heads(std::uint32_t layer, std::uint32_t rows, KvCache& cache, AttentionProbe* probe);
    Result<void> attend_latents(std::uint32_t layer, std::uint32_t rows, KvCache& cache, AttentionProbe* probe);
    void cache_plain_latents(std::uint32_t layer, std::uint32_t rows, KvCache& cache);
    void cache_latents(std::uint32_t layer, std::uint32_t rows, KvCache& cache);
    void absorb(std::uint32_t layer, std::uint32_t rows, KvCache& cache, AttentionProbe* probe);

    // decoder_ffn.cpp
    Result<void> run_ffn_half(std::uint32_t layer, std::uint32_t rows);
    void run_gate(const DeviceFeedForward& weights, const Buffer& in, std::uint32_t layer, std::uint32_t rows);
    Result<void> run_experts(std::uint32_t layer, std::uint32_t rows);

    std::shared_ptr<DeviceModel> m_device;
    DecoderOptions m_options;
    std::uint32_t m_rows = 0;
    std::uint32_t m_logit_rows = 0;
    DecoderBuffers m_buffers;
    std::unique_ptr<LatentExpansion> m_expansion;  // where latents are expanded
    std::vector<float> m_router_logits;            // (rows, experts)
    std::vector<std::uint32_t> m_experts_used;     // (layers) different ones, of the pass at hand
    std::vector<float> m_host_logits;     // (logit_rows, vocabulary)
    std::vector<LogitSummary> m_summaries;  // (logit_rows)
    ShadowCache* m_shadow = nullptr;         // may be null
    bool m_measure = false;
    std::uint64_t m_owner = 0;               // of the passes over these buffers and m_pass_cache; 0: none yet
    const KvCache* m_pass_cache = nullptr;
};

}  // namespace kvloupe
