// SPDX-License-Identifier: GPL-3.0-or-later
//
// Decoder: the forward pass of a Llama model, composed from a backend's operations. Holds the activation buffers; knows
// batches, not requests.
#pragma once

#include "engine/backend.h"
#include "engine/serve/device_model.h"
#include "engine/serve/late_stages.h"
#include "engine/serve/scenario.h"

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
    // spans, groups (layers): which keys a query sees, and whose block tables a layer uses; empty: all keys, group 0.
    // device: may be null where nothing is ever computed.
    explicit Decoder(std::shared_ptr<DeviceModel> device, std::vector<KeySpan> spans = {}, std::vector<std::uint32_t> groups = {});

    // Makes room for that many rows and logit rows; keeps what is there if it is enough. Between steps only.
    Result<void> reserve(std::uint32_t rows, std::uint32_t logit_rows);
    // Passes that the backend has recorded are not replayed any more: a cache was replaced by another one. (Another
    // object and other buffers are noticed.)
    void forget_passes() { m_owner = 0; }
    // Bytes of the device's memory that reserve() takes (derived).
    std::uint64_t bytes_for(std::uint32_t rows, std::uint32_t logit_rows) const;

    // Computes the batch; its K/V lies in `cache` afterwards. At most the reserved rows.
    // Errors: the backend's.
    Result<ForwardResult> forward(const Batch& batch, KvCache& cache, const ForwardOptions& options);

    // Runs the batch again, layer by layer with checks: the first place in which a value is infinite or NaN, as
    // "layer 3, in its attention half"; "the output projection" if all layers are finite.
    std::string first_non_finite(const Batch& batch, KvCache& cache);

private:
    std::uint64_t pass_owner(const KvCache& cache);
    bool run_layers(const Batch& batch, KvCache& cache, const ForwardOptions& options, ForwardResult& result);
    void run_attention_half(std::uint32_t layer, std::uint32_t rows, KvCache& cache, AttentionProbe* probe);
    void run_ffn_half(std::uint32_t layer, std::uint32_t rows);
    void run_output(const Batch& batch);
    Result<void> read_logits(const Batch& batch, const ForwardOptions& options, ForwardResult& result);
    void mark(StageKind kind, std::uint16_t layer);
    Result<bool> finite(std::uint32_t rows);

    std::shared_ptr<DeviceModel> m_device;
    std::vector<KeySpan> m_spans;
    std::vector<std::uint32_t> m_groups;
    std::uint32_t m_rows = 0;
    std::uint32_t m_logit_rows = 0;
    std::unique_ptr<Buffer> m_hidden;     // (rows, hidden): the residual stream
    std::unique_ptr<Buffer> m_normed;     // (rows, hidden)
    std::unique_ptr<Buffer> m_q;          // (rows, query_heads, head_dim)
    std::unique_ptr<Buffer> m_k, m_v;     // (rows, kv_heads, head_dim)
    std::unique_ptr<Buffer> m_attended;   // (rows, query_heads, head_dim)
    std::unique_ptr<Buffer> m_gate, m_up; // (rows, intermediate)
    std::unique_ptr<Buffer> m_gathered, m_gathered_normed;  // (logit_rows, hidden)
    std::unique_ptr<Buffer> m_logits;     // (logit_rows, vocabulary)
    std::vector<float> m_host_logits;     // (logit_rows, vocabulary)
    std::vector<LogitSummary> m_summaries;  // (logit_rows)
    bool m_measure = false;
    std::uint64_t m_owner = 0;               // of the passes over these buffers and m_pass_cache; 0: none yet
    const KvCache* m_pass_cache = nullptr;
};

}  // namespace kvloupe
