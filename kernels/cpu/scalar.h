// SPDX-License-Identifier: GPL-3.0-or-later
//
// The scalar twin of every kernel: plain loops, sums in double. The oracle of the tests, and the definition of what the
// fast kernels compute. Buffers are packed and row-major, as in engine/backend.h.
#pragma once

#include "engine/backend.h"
#include "kernels/cpu/kernels.h"

#include <cstdint>
#include <span>
#include <vector>

namespace kvloupe::cpu::scalar {

// Element `index` of a row in its stored form (FORMATS of GGUF: q8_0 d*q, q4_0 d*(q - 8), q4_1 d*q + m).
double element(DType dtype, const std::byte* row, std::uint64_t index);
// Stores value as element `index`, rounded to nearest even; f32, f16 or bf16.
void store_element(DType dtype, std::byte* row, std::uint64_t index, float value);

// out (tokens, table.cols)
void embed(const PackedMatrix& table, std::span<const TokenId> tokens, float* out);
// out (rows, width); weight (width)
void rms_norm(std::span<const float> in, std::span<const float> weight, float epsilon, float* out);
void matmul(const PackedMatrix& weight, const ProductRows& rows);
// x (rows, heads, head_dim) in place, by positions (rows)
void rotate(float* x, std::span<const std::uint32_t> positions, std::uint32_t heads, std::uint32_t head_dim,
            const RotaryShape& rotary);
void silu_multiply(std::span<float> gate, std::span<const float> up);
void gather_rows(const float* in, std::span<const std::uint32_t> rows, std::uint32_t width, float* out);

// K or V of one layer: (blocks, kv_heads, block_size, head_dim).
struct CacheView {
    std::byte* data = nullptr;
    DType dtype = DType::f16;
    std::uint32_t block_size = 0;
    std::uint32_t kv_heads = 0;
    std::uint32_t head_dim = 0;
    std::uint64_t row(std::uint64_t slot, std::uint32_t kv_head) const {
        return ((slot / block_size * kv_heads + kv_head) * block_size + slot % block_size) * head_dim;
    }
};

// x (rows, kv_heads, head_dim) into the slots (rows)
void store(const float* x, std::span<const std::uint64_t> slots, const CacheView& cache);
// out (rows, query_heads, head_dim) in double
void attention(const Batch& batch, const float* q, const AttentionShape& shape, const CacheView& keys,
               const CacheView& values, double* out);
// Softmax weights of one query head of one row of a sequence, over positions 0 .. first_position + row; 0 where the
// shape's span masks a key.
struct Query {
    std::uint32_t sequence = 0;
    std::uint32_t row = 0;  // of the sequence
    std::uint32_t head = 0;
};
std::vector<double> attention_weights(const Batch& batch, const float* q, const AttentionShape& shape,
                                      const CacheView& keys, const Query& query);

// logits (vocabulary); asked: a token of it, or negative for none.
LogitSummary summarise_row(std::span<const float> logits, TokenId asked);

}  // namespace kvloupe::cpu::scalar
