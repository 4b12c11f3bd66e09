// SPDX-License-Identifier: GPL-3.0-or-later
//
// CardCache: what a step does to the KV cache beside attention: rows are turned, quantised and stored, handed out, copied, sealed.
#pragma once

#include "kernels/cuda/batch_upload.h"
#include "kernels/cuda/card_attention.h"
#include "kernels/cuda/cuda_cache.h"
#include "kernels/cuda/scratch.h"

#include <span>

namespace kvloupe::cuda {

class CardCache {
public:
    CardCache(Card& card, const BatchUpload& batch, CardAttention& attention)
        : m_card(card), m_batch(batch), m_attention(attention), m_rows(card, "a block's rows") {}

    struct Rows {
        float* q = nullptr;        // null: there are none
        float* k = nullptr;
        const float* v = nullptr;
        std::uint32_t query_heads = 0;
        std::uint32_t group = 0;
    };
    // Turns q and k by the rows' positions, and stores k and v in the rows' slots.
    void store(const Rows& rows, const RotaryShape& rotary, CudaKvCache& cache, std::uint32_t layer);
    // Positions of a sequence of the batch in f32: (count, kv_heads, dim).
    struct Positions {
        std::uint32_t layer = 0, group = 0, sequence = 0, first = 0, count = 0;
    };
    void load(const CudaKvCache& cache, const Positions& positions, float* keys, float* values);
    // The first tokens of a block in f32: (kv_heads, tokens, dim). page: page + 1, or 0. Waits.
    struct Slots {
        std::uint32_t layer = 0, block = 0, page = 0, tokens = 0;
    };
    Result<void> read(const CudaKvCache& cache, const Slots& slots, std::span<float> keys, std::span<float> values);

    void copy(const CudaKvCache& cache, const BlockCopy::Place& from, const BlockCopy::Place& to, std::uint32_t tokens);
    void copy_page(const CudaKvCache& cache, std::uint32_t from, std::uint32_t to, std::uint32_t tokens);
    void seal(const CudaKvCache& cache, std::uint32_t block, std::uint32_t page);
    void poison(const CudaKvCache& cache, std::uint32_t block);

private:
    Card& m_card;
    const BatchUpload& m_batch;
    CardAttention& m_attention;
    Scratch m_rows;
};

}  // namespace kvloupe::cuda
