// SPDX-License-Identifier: GPL-3.0-or-later
//
// CardAttention: which of the attention kernels runs for which sequences of the batch, and what they need beside it: the
// scratch of the split decode, the rotary frequencies, the weights of watched heads.
#pragma once

#include "kernels/cuda/batch_upload.h"
#include "kernels/cuda/cuda_cache.h"
#include "kernels/cuda/scratch.h"

#include <vector>

namespace kvloupe::cuda {

class CardAttention {
public:
    CardAttention(Card& card, const BatchUpload& batch)
        : m_card(card), m_batch(batch), m_scratch(card, "the parts of a split attention"), m_turned(card, "turned queries"),
          m_scores(card, "the scores of attention"), m_weights(card, "watched attention weights"),
          m_rows(card, "watched rows") {}

    struct Call {
        const float* q = nullptr;
        float* out = nullptr;
        const AttentionShape& shape;
        const CudaKvCache& cache;
        std::uint32_t layer = 0;
    };
    // Scores that are kept whole need room by the lengths of the batch: such a pass is not recorded.
    void run(const Call& call);
    // Waits: the weights are in main memory when it returns.
    void probe(const Call& call, AttentionProbe& probe);
    // The frequencies are in device memory from the first use of a shape on.
    RotaryArgs rotary(const RotaryShape& shape);

private:
    struct Frequencies {
        RotaryShape shape;
        CardMemory memory;
    };
    AttentionArgs args_of(const Call& call);
    // The same, with queries turned where keys are stored turned. False: the step has failed.
    bool prepare(const Call& call, AttentionArgs& args);
    // False: the step has failed.
    bool run_tiled(const Call& call, const AttentionArgs& args);
    bool run_materialised(const Call& call, const AttentionArgs& args);

    Card& m_card;
    const BatchUpload& m_batch;
    Scratch m_scratch, m_turned, m_scores, m_weights, m_rows;
    std::vector<Frequencies> m_frequencies;
};

}  // namespace kvloupe::cuda
