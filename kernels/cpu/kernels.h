// SPDX-License-Identifier: GPL-3.0-or-later
//
// The vectorised kernels of the CPU backend: pure functions over memory, compiled for several instruction sets, the best
// one chosen at run time. Threads, buffers and block tables are the callers'. Every kernel has a scalar twin (scalar.h).
//
// Accuracy: activations stay f32 and weights are expanded exactly, so a result differs from the real one only by f32
// rounding of the sums. A result depends on its inputs alone: not on how rows are split over calls or threads.
#pragma once

#include "engine/record/dtype.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace kvloupe::cpu {

// A matrix as it is stored: `rows` rows of `cols` elements, rows packed, of any alignment.
struct PackedMatrix {
    const std::byte* data = nullptr;
    DType dtype = DType::f32;
    std::uint64_t rows = 0;
    std::uint64_t cols = 0;

    std::uint64_t stride() const { return row_bytes(dtype, cols); }  // bytes
    const std::byte* row(std::uint64_t index) const { return data + index * stride(); }
    std::uint64_t bytes() const { return rows * stride(); }
};

// Rows of a product: out (count, matrix.rows) = in (count, matrix.cols) * matrix^T.
struct ProductRows {
    const float* in = nullptr;
    float* out = nullptr;
    std::uint32_t count = 0;
    bool accumulate = false;  // += instead of =
    std::uint64_t out_stride = 0;  // floats between rows of out; 0: matrix.rows
};

// Name of the instruction set that the kernels run with: "AVX3", "AVX2", "SSE4", "SSE2", "NEON".
std::string simd_target();

// --- matvec_plain.cpp, matvec_packed.cpp ---
// The product for matrix rows begin .. end - 1 only; meant for few rows of `in`.
void matvec_rows(const PackedMatrix& matrix, std::uint64_t begin, std::uint64_t end, const ProductRows& rows);
void matvec_plain(const PackedMatrix& matrix, std::uint64_t begin, std::uint64_t end, const ProductRows& rows);
void matvec_packed(const PackedMatrix& matrix, std::uint64_t begin, std::uint64_t end, const ProductRows& rows);

// --- rows.cpp ---
// out (count) = in, expanded to f32; count is a multiple of elements_per_pack.
void expand_row(DType dtype, const std::byte* in, std::uint64_t count, float* out);
// out = in (count), rounded to nearest, ties to even, to f32, f16 or bf16; overflow becomes infinity. Returns how many
// finite values became infinite.
std::uint64_t narrow_row(DType dtype, const float* in, std::uint64_t count, std::byte* out);
// out (width) = in / sqrt(mean(in^2) + epsilon) * weight
void rms_norm_row(const float* in, const float* weight, float epsilon, std::uint64_t width, float* out);
// gate (count) = gate / (1 + exp(-gate)) * up
void silu_multiply_row(float* gate, const float* up, std::uint64_t count);
// Rotates pairs (i, i + half) of head (2 * half) in place by angles given as cosines and sines (half).
void rotate_half_split(float* head, const float* cosines, const float* sines, std::uint32_t half);
// Reads `bytes` bytes and returns something that depends on all of them: measures the read bandwidth.
std::uint64_t read_all(const std::byte* data, std::uint64_t bytes);

// --- pointwise.cpp ---
// gate (count) = gate / 2 * (1 + tanh(sqrt(2 / pi) * (gate + 0.044715 gate^3))) * up
void gelu_multiply_row(float* gate, const float* up, std::uint64_t count);
// x (count) = cap * tanh(x / cap)
void soft_cap_row(float* x, float cap, std::uint64_t count);
// x (count) *= factor
void scale_row(float* x, float factor, std::uint64_t count);
// to (count) += factor * from; exact to one rounding where the factor is 1
void add_scaled_row(const float* from, float factor, std::uint64_t count, float* to);
// x (count) = exp(x - maximum) / sum of them, in three passes over the row; -infinity becomes 0. A row without anything
// finite becomes NaN.
void softmax_row(float* x, std::uint64_t count);

// --- attention_tile.cpp ---
// One KV head, up to tile_tokens consecutive tokens, several queries that read it: query rows times the query heads of
// the group, so that K and V are read once for all of them.
inline constexpr std::uint32_t tile_tokens = 256;
inline constexpr std::uint32_t tile_queries = 16;

// Tokens of a tile that a query sees: 0 .. sinks - 1 and begin .. end - 1, with sinks <= begin <= end <= tokens.
struct TileSpan {
    std::uint32_t sinks = 0;
    std::uint32_t begin = 0;
    std::uint32_t end = 0;

    std::uint32_t count() const { return sinks + (end - begin); }
};

// Rows of one KV head in a tile, in a form whose elements are numbers by themselves: f32, f16, bf16, fp8_e4m3, fp8_e5m2, int8.
struct KvTileRows {
    const std::byte* const* rows = nullptr;   // (tile_tokens) the head's row of a token
    const float* scales = nullptr;            // (tile_tokens) what a token's elements are multiplied with; null: 1
    DType dtype = DType::f16;                 // fp8_e4m3 is read as 1/256 of its value: scales make up for it
};

struct AttentionTile {
    KvTileRows keys, values;
    TileSpan any;                             // tokens that some query sees: no other row or scale is read
    std::uint32_t queries = 0;                // <= tile_queries
    std::uint32_t head_dim = 0;               // of queries and keys
    std::uint32_t value_dim = 0;
    float scale = 0;
    float soft_cap = 0;                       // scores become cap * tanh(score / cap); 0: they stay
    // The same tokens' keys go on there, with queries of their own: scores of both are added before the cap. Its spans and
    // number of queries are this tile's.
    const AttentionTile* rest = nullptr;
    const float* q = nullptr;                 // (queries, head_dim)
    const float* sink_q = nullptr;            // (queries, head_dim) the same as the sinks (any.sinks) see it
    const TileSpan* seen = nullptr;           // (queries)
};

// Softmax over one tile or several: value (head_dim) = sum over tokens of exp(score - maximum) * v.
struct AttentionState {
    float* value = nullptr;     // (queries, value_dim)
    float* maximum = nullptr;   // (queries)
    float* sum = nullptr;       // (queries) of exp(score - maximum); 0: no token was seen
};

// Scratch of a tile: floats, aligned to 64. Scores, sums of one vector's tokens, and the same for the rest of the keys.
inline constexpr std::uint64_t tile_part_floats = std::uint64_t{tile_queries} * tile_tokens + tile_queries * 16ull * 16ull;
inline constexpr std::uint64_t tile_scratch_floats = 2 * tile_part_floats;

// scores (queries, tile_tokens): scale * q k^T, capped, for the tokens of `any`; the others are undefined.
void tile_scores(const AttentionTile& tile, float* scratch);
// Scores, softmax and sum of one tile, into `state`.
void attend_tile(const AttentionTile& tile, float* scratch, const AttentionState& state);
// value (queries, value_dim) = sum over tokens of weight * v; weights (queries, tile_tokens), aligned to 64, read where the
// query sees, and spoilt.
void weigh_tile(const AttentionTile& tile, float* weights, float* value);
// state = state joined with a later tile's. Order matters to the last bit: join tiles in ascending order.
void join_states(const AttentionState& state, const AttentionState& later, std::uint32_t queries, std::uint32_t value_dim);
// out (value_dim) = value / sum of query `query`.
void finish_state(const AttentionState& state, std::uint32_t query, std::uint32_t value_dim, float* out);

}  // namespace kvloupe::cpu
