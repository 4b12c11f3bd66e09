// SPDX-License-Identifier: GPL-3.0-or-later
//
// Bytes and floating-point operations of each stage of a forward pass, derived from shapes: what the stage has to read
// and write at least once, and the operations of its definition. Activations are f32 (4 bytes); a weight counts as it is
// stored; K/V of a sequence's context counts once however many of its queries read it.
#pragma once

#include "engine/backend.h"

#include <cstdint>

namespace kvloupe {

struct StageCost {
    std::uint64_t bytes = 0;
    std::uint64_t flops = 0;
};

class StageCosts {
public:
    StageCosts(const Model& model, const KvCacheShape& cache, const Batch& batch, const KeySpan& span);

    // schedule and sample are the lane's own: 0 here. layer: ignored by the stages outside layers.
    StageCost of(StageKind kind, std::uint32_t layer) const;

private:
    // out (rows, weight.rows) = in (rows, weight.cols) * weight^T: 2 operations per weight and row.
    StageCost product(const Tensor& weight, std::uint64_t rows, bool accumulate) const;
    // Square, sum, scale, weight: 4 operations per element.
    StageCost norm(const Tensor& weight, std::uint64_t rows) const;
    StageCost attention() const;
    StageCost rotary_store() const;

    const Model* m_model;
    KvCacheShape m_cache;
    std::uint64_t m_rows = 0;
    std::uint64_t m_logit_rows = 0;
    std::uint64_t m_context = 0;  // keys that are read, sum over sequences
    std::uint64_t m_pairs = 0;    // (query, key) pairs, sum over rows
};

}  // namespace kvloupe
