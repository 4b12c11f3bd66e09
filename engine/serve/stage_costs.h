// SPDX-License-Identifier: GPL-3.0-or-later
//
// Bytes and floating-point operations of each stage of a forward pass, derived from shapes: what the stage has to read
// and write at least once, and the operations of its definition. Activations are f32 (4 bytes); a weight counts as it is
// stored, an expert's where a row of the step chose it; K/V of a sequence's context counts once however many of its queries
// read it, scales included.
//
// Scores that are kept whole (AttentionForm::materialised) are (query_heads, rows, context) numbers of f32 that are written,
// read, written as weights and read: the 4 N^2 of the FlashAttention paper's standard attention (arXiv 2205.14135, Theorem 2;
// engine/record/attention_traffic.h). Tiled attention keeps them in the processor.
#pragma once

#include "engine/backend.h"
#include "engine/serve/decoder_options.h"

#include <cstdint>
#include <vector>

namespace kvloupe {

struct StageCost {
    std::uint64_t bytes = 0;
    std::uint64_t flops = 0;
};

class StageCosts {
public:
    // experts_used: (layers) different experts that the batch's rows chose, where the model has experts.
    StageCosts(const Model& model, const KvCacheShape& cache, const Batch& batch, const DecoderOptions& options,
               std::vector<std::uint32_t> experts_used = {});

    // schedule and sample are the lane's own: 0 here. layer: ignored by the stages outside layers.
    StageCost of(StageKind kind, std::uint32_t layer) const;

private:
    // What the rows of the batch see through one span.
    struct Reach {
        KeySpan span;
        std::uint64_t context = 0;  // keys that are read, sum over sequences
        std::uint64_t pairs = 0;    // (query, key) pairs, sum over rows
    };

    Reach reach_of(const KeySpan& span, const Batch& batch) const;
    // out (rows, weight.rows) = in (rows, weight.cols) * weight^T: 2 operations per weight and row. Nothing for a tensor that
    // is absent.
    StageCost product(const Tensor& weight, std::uint64_t rows, bool accumulate) const;
    // The same head by head: (heads, weight.rows / heads, weight.cols).
    StageCost product_of_heads(const Tensor& weight, std::uint64_t heads) const;
    // One expert's weight (all are alike) for the rows that chose it, over all experts that were chosen.
    StageCost product_of_experts(const Tensor& weight, std::uint32_t layer) const;
    // Square, sum, scale, weight: 4 operations per element of `rows` rows as wide as the weight.
    StageCost norm(const Tensor& weight, std::uint64_t rows) const;
    StageCost bias(const Tensor& added) const;
    StageCost head_norm(const Tensor& weight, std::uint64_t rows) const;  // nothing where it is absent
    // Floats that are read and written once.
    static StageCost copy(std::uint64_t floats);
    StageCost behind(const Tensor& norm) const;
    std::uint64_t kv_bytes(std::uint32_t layer, std::uint64_t tokens) const;
    StageCost qkv(std::uint32_t layer) const;
    StageCost rotary_store(std::uint32_t layer) const;
    StageCost attention(std::uint32_t layer) const;
    StageCost latent(std::uint32_t layer) const;
    StageCost absorption(std::uint32_t layer) const;
    StageCost expansion(std::uint32_t layer) const;
    StageCost gate_up(std::uint32_t layer) const;
    StageCost activation(std::uint32_t layer) const;
    StageCost down(std::uint32_t layer) const;
    bool has_experts(std::uint32_t layer) const;
    bool expands() const;

    const Model* m_model;
    KvCacheShape m_cache;
    DecoderOptions m_options;
    std::vector<std::uint32_t> m_experts_used;
    std::vector<Reach> m_reaches;                // different ones
    std::vector<std::uint32_t> m_reach_of;       // (layers)
    std::uint64_t m_rows = 0;
    std::uint64_t m_logit_rows = 0;
    std::uint64_t m_scores = 0;                  // of one head: rows times all keys of their sequences
};

}  // namespace kvloupe
