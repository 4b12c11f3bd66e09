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
// A part of every head: x (rows, heads, width), values first .. first + rotary_dim - 1
void rotate_part(float* x, std::span<const std::uint32_t> positions, std::uint32_t heads, std::uint32_t width,
                 std::uint32_t first, const RotaryShape& rotary);
void gate_multiply(Activation activation, std::span<float> gate, std::span<const float> up);
void add_bias(std::span<float> x, std::span<const float> bias);
void soft_cap(std::span<float> x, float cap);
void copy_columns(const float* in, const Backend::Columns& columns, float* out);
// out (rows, heads, weight.rows / heads) = in (rows, heads, weight.cols) by the head's part of weight
void matmul_heads(const PackedMatrix& weight, const float* in, std::uint32_t rows, std::uint32_t heads, float* out);
// out row rows[i] += weights[i] * in (rows.size(), width)
void scatter_add(const float* in, std::span<const std::uint32_t> rows, std::span<const float> weights, std::uint32_t width,
                 float* out);
void gather_rows(const float* in, std::span<const std::uint32_t> rows, std::uint32_t width, float* out);

// K or V of one layer: (blocks, kv_heads, block_size, head_dim).
struct CacheView {  // head_dim: the width of a row
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
// K or V of positions first .. first + count - 1 of a sequence: out (count, kv_heads, width)
void load(const Batch& batch, const Batch::Sequence& sequence, std::uint32_t group, const CacheView& cache, std::uint32_t first,
          std::uint32_t count, float* out);
// out (rows, query_heads, value_dim_of(shape)) in double. With a latent: keys are the latents, values the rotary keys.
void attention(const Batch& batch, const float* q, const AttentionShape& shape, const CacheView& keys,
               const CacheView& values, double* out);
// Softmax weights of one query head of one row of a sequence, over positions 0 .. first_position + row; 0 where the
// shape's span masks a key.
struct Query {
    std::uint32_t sequence = 0;
    std::uint32_t row = 0;  // of the sequence
    std::uint32_t head = 0;
};
// rotary_keys: with a latent, the other part of the keys.
std::vector<double> attention_weights(const Batch& batch, const float* q, const AttentionShape& shape,
                                      const CacheView& keys, const Query& query, const CacheView* rotary_keys = nullptr);

// logits (vocabulary); asked: a token of it, or negative for none.
LogitSummary summarise_row(std::span<const float> logits, TokenId asked);

}  // namespace kvloupe::cpu::scalar
