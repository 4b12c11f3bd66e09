// SPDX-License-Identifier: GPL-3.0-or-later
//
// The kernels of the CUDA backend, as functions that launch them on a stream. Pure: device pointers in, device pointers
// out; no allocation, no synchronisation, nothing kept between calls, so every one may be captured into a graph. Grid sizes
// depend on the arguments on the host alone (counts, not contents of device memory).
//
// Every function has a scalar twin in kernels/cpu/scalar.h, and runs in tests/emulation without a GPU.
// Shapes are written (outer, …, inner), row-major and packed; activations are f32. Counts of 0 launch nothing.
// Errors: what the launch returned; errors inside a kernel show at the next synchronisation, as CUDA has it.
#pragma once

#include "engine/key_span.h"
#include "engine/model/model.h"
#include "engine/record/dtype.h"
#include "engine/record/kv_format.h"
#include "kernels/cuda/platform.h"

#include <cstddef>
#include <cstdint>

namespace kvloupe::cuda {

// A weight matrix in device memory, rows as stored (engine/record/dtype.h), aligned to 256 bytes.
struct Matrix {
    const std::byte* data = nullptr;
    DType dtype = DType::f32;
    std::uint32_t rows = 0;
    std::uint32_t cols = 0;
};

// K or V of one layer, laid out as engine/record/kv_format.h says: (blocks, rows of a block, codes of block_size tokens, then
// their scales); f32, f16 and bf16: (blocks, kv_heads, block_size, head_dim). A slot is block * block_size + offset.
struct CacheTensor {
    std::byte* data = nullptr;
    DType dtype = DType::f16;
    // The rest is not read where in_rows is set: f32, f16 or bf16 whose blocks follow one another, not rotated.
    bool in_rows = true;
    bool rotate = false;                      // rows and f16 pages are turned by a Hadamard matrix / sqrt(head_dim)
    KvScale scale = KvScale::none;
    std::uint32_t heads_per_row = 1;
    std::uint32_t group = 0;                  // KIVI
    std::uint32_t code_bytes = 0;             // of a row
    std::uint64_t block_stride = 0;           // bytes from a block to the next
    std::uint32_t row_stride = 0;             // bytes from a row's block to the next row's
    // The scales of row r, token t of block b lie at scales + b * scale_block_stride + r * scale_row_stride + t * scale_stride:
    // behind the codes, or K's where they are joint, or the same for all blocks and tokens (tensor, head).
    std::byte* scales = nullptr;
    std::uint64_t scale_block_stride = 0;
    std::uint32_t scale_row_stride = 0;
    std::uint32_t scale_stride = 0;
    // KIVI: f16 (pages, kv_heads, block_size, head_dim), the newest tokens.
    std::byte* pages = nullptr;
    std::uint64_t page_stride = 0;
};

// Fewer than 2^32 rows (blocks * kv_heads * block_size).
struct CacheLayer {
    CacheTensor keys, values;
    std::uint32_t block_size = 0;
    std::uint32_t kv_heads = 0;
    std::uint32_t head_dim_k = 0;  // of key rows; with a latent: its width
    std::uint32_t head_dim_v = 0;  // of value rows; with a latent: of the rotary key, which may be 0
};

// One sequence of a batch, as engine/backend.h has it; the tables lie concatenated in device memory.
struct SequenceRows {
    std::uint32_t first_row = 0;
    std::uint32_t rows = 0;
    std::uint32_t first_position = 0;
    std::uint32_t table_begin = 0;  // of the layer's group, in block_tables
    std::uint32_t table_size = 0;
};

struct RotaryArgs {
    const double* frequencies = nullptr;  // (rotary_dim / 2) radians per position (engine/model/rotary.h), device
    std::uint32_t rotary_dim = 0;         // 0: nothing is turned
    RotaryLayout layout = RotaryLayout::half_split;
    float magnitude = 1;                  // times cosines and sines when a row is turned first, not when it is turned back
};

// --- rows.cu ---
// out (count, table.cols) = table[tokens]; a token outside the table gives NaN. tokens (count), device.
cudaError_t embed(const Matrix& table, const std::int32_t* tokens, std::uint32_t count, float* out, cudaStream_t stream);
// out (rows, weight.cols) = in / sqrt(mean(in^2) + epsilon) * weight (1, cols)
cudaError_t rms_norm(const float* in, const Matrix& weight, float epsilon, std::uint32_t rows, float* out, cudaStream_t stream);
// gate (count) = activation(gate) * up
cudaError_t gate_multiply(Activation activation, float* gate, const float* up, std::uint64_t count, cudaStream_t stream);
// out (count, width) = in[rows]; rows (count), device
cudaError_t gather_rows(const float* in, const std::uint32_t* rows, std::uint32_t count, std::uint32_t width, float* out,
                        cudaStream_t stream);
// out (count) = in, rounded to nearest even, to f16 or bf16: the activations that cuBLAS multiplies with such weights.
cudaError_t narrow(const float* in, DType to, std::uint64_t count, void* out, cudaStream_t stream);
// out (matrix.rows, matrix.cols) as f16: a quantised matrix expanded for cuBLAS. Rows first .. first + count - 1 only.
cudaError_t expand(const Matrix& matrix, std::uint32_t first, std::uint32_t count, void* out, cudaStream_t stream);

// --- parts.cu: what only some models need ---
// Turns values first .. first + rotary_dim - 1 of every head in place: x (rows, heads, width), positions (rows), device.
struct TurnPart {
    float* x = nullptr;
    const std::uint32_t* positions = nullptr;
    std::uint32_t rows = 0;
    std::uint32_t heads = 0;
    std::uint32_t width = 0;
    std::uint32_t first = 0;
    RotaryArgs rotary;
};
cudaError_t turn_part(const TurnPart& args, cudaStream_t stream);
// x (rows, weight.cols) = x / sqrt(mean(x^2) + epsilon) * weight (1, cols), in place: many short rows, the heads.
cudaError_t rms_norm_heads(float* x, const Matrix& weight, float epsilon, std::uint32_t rows, cudaStream_t stream);
// x (rows, bias.cols) += bias (1, cols)
cudaError_t add_bias(float* x, const Matrix& bias, std::uint32_t rows, cudaStream_t stream);
// x (count) *= factor; x (count) = cap * tanh(x / cap); to (count) += from (count)
cudaError_t scale(float* x, float factor, std::uint64_t count, cudaStream_t stream);
cudaError_t soft_cap(float* x, float cap, std::uint64_t count, cudaStream_t stream);
cudaError_t add(const float* from, float* to, std::uint64_t count, cudaStream_t stream);
// out (rows, heads, out_width), from out_first on = in (rows, in_heads, in_width), from in_first on, `columns` of them.
// in_heads: 1, the same for all heads, or heads.
struct ColumnCopy {
    const float* in = nullptr;
    float* out = nullptr;
    std::uint32_t rows = 0, heads = 0, in_heads = 0, columns = 0;
    std::uint32_t in_width = 0, in_first = 0, out_width = 0, out_first = 0;
};
cudaError_t copy_columns(const ColumnCopy& copy, cudaStream_t stream);
// out row rows[i] += weights[i] * in (count, width), for all i in ascending order; rows, weights (count), device; rows may repeat.
struct Scatter {
    const float* in = nullptr;
    const std::uint32_t* rows = nullptr;
    const float* weights = nullptr;
    float* out = nullptr;
    std::uint32_t count = 0;
    std::uint32_t width = 0;
};
cudaError_t scatter_add(const Scatter& scatter, cudaStream_t stream);

// --- rotary.cu, cache_write.cu ---
// Turns q (rows, query_heads, head_dim_k) and k (rows, kv_heads, head_dim_k) in place by the rows' positions and writes k and
// v (rows, kv_heads, head_dim_v) into the slots (rows) of the layer. *overflowed += finite values that became infinite, or
// were set to the end of a range. positions, slots, overflowed: device.
// slot_pages (rows), device: page + 1 of the f16 page that stands for the slot's block; read where the layer keeps pages. A
// KIVI row whose slot has none is not stored.
struct RotaryStore {
    float* q = nullptr;
    float* k = nullptr;
    const float* v = nullptr;
    const std::uint32_t* positions = nullptr;
    const std::uint64_t* slots = nullptr;
    unsigned long long* overflowed = nullptr;
    std::uint32_t rows = 0;
    std::uint32_t query_heads = 0;
    RotaryArgs rotary;
    CacheLayer cache;
    const std::uint32_t* slot_pages = nullptr;
};
cudaError_t rotary_store(const RotaryStore& args, cudaStream_t stream);
// Scales per head that are not set yet (0) from the rows at hand: max(magnitude / largest code, 1e-6). Turns q and k first;
// rotary_store() follows with a rotary_dim of 0.
cudaError_t take_head_scales(const RotaryStore& args, cudaStream_t stream);
// Quantises f16 page `page` into block `block` of a KIVI tensor.
struct Seal {
    CacheTensor tensor;
    bool keys = true;
    std::uint32_t block = 0;
    std::uint32_t page = 0;
    std::uint32_t block_size = 0;
    std::uint32_t kv_heads = 0;
    std::uint32_t head_dim = 0;
};
cudaError_t seal_block(const Seal& seal, cudaStream_t stream);

// --- cache_read.cu ---
// Tokens first .. first + count - 1 of a block table, expanded to f32 and turned back where they are stored rotated. Token i of
// head h is written at out + i * token_stride + h * head_stride, in floats. table, table_pages: device; table_pages may be null.
struct ReadRows {
    CacheLayer cache;
    bool values = false;
    const std::uint32_t* table = nullptr;
    const std::uint32_t* table_pages = nullptr;
    std::uint32_t first = 0;
    std::uint32_t count = 0;
    float* out = nullptr;
    std::uint64_t token_stride = 0;
    std::uint64_t head_stride = 0;
};
cudaError_t read_rows(const ReadRows& args, cudaStream_t stream);
// to = a part of from, turned by a Hadamard matrix / sqrt(width), a power of two up to 1,024; both (rows, heads, stride), values first
// .. first + width - 1; in place too. positions (rows), device, null: rows are turned as they are; else first as sink keys see them
// (span, rotary). Without hadamard that is all.
struct TurnRows {
    const float* from = nullptr;
    float* to = nullptr;
    std::uint32_t rows = 0;
    std::uint32_t heads = 0;
    std::uint32_t width = 0;
    std::uint32_t stride = 0;
    std::uint32_t first = 0;
    bool hadamard = true;
    const std::uint32_t* positions = nullptr;
    KeySpan span;
    RotaryArgs rotary;
};
cudaError_t turn_rows(const TurnRows& args, cudaStream_t stream);

// --- cache_copy.cu ---
// Copies the first `tokens` slots of one block to another, all layers at once, codes and scales: device memory, or host memory
// that the device can reach (a swap). A part is K or V of one layer; it lies in the pool (0) and in host blocks (1) with
// strides of its own.
struct CopyPart {
    struct Lies {
        std::uint64_t begin = 0;         // bytes from the place's start
        std::uint64_t block_stride = 0;  // bytes from a block to the next
    };
    Lies lies[2];
    std::uint32_t rows = 0;              // of a block
    std::uint32_t row_bytes = 0;         // from a row's block to the next row's
    std::uint32_t code_bytes = 0;        // of a token's row
    std::uint32_t scale_begin = 0;       // of the scales, from the row's block's start
    std::uint32_t scale_bytes = 0;       // of a token's row
    std::uint32_t group = 0;             // KIVI's keys, and blocks copied as a whole: tokens that share group_bytes; else 0
    std::uint32_t group_bytes = 0;
};
struct BlockCopy {
    struct Place {
        std::byte* start = nullptr;
        std::uint32_t lies = 0;          // 0 pool, 1 host blocks
        std::uint32_t block = 0;
    };
    Place from, to;
    const CopyPart* parts = nullptr;     // (count) device
    std::uint32_t count = 0;
    std::uint32_t most_rows = 0;         // the largest of the parts' rows
    std::uint64_t longest_run = 0;       // bytes of `tokens` codes or scales of a row, the largest
    std::uint32_t tokens = 0;
};
cudaError_t copy_block(const BlockCopy& copy, cudaStream_t stream);

// --- matvec.cu ---
// out (rows, matrix.rows) (+)= in (rows, matrix.cols) * matrix^T for few rows (1 .. max_matvec_rows), any stored form:
// the weights are read once for all rows. Accumulates in f32. With heads, each has its part of the matrix's rows and of in:
// in (rows, heads, matrix.cols), out (rows, heads, matrix.rows / heads).
inline constexpr std::uint32_t max_matvec_rows = 8;
struct Product {
    const float* in = nullptr;
    float* out = nullptr;
    std::uint32_t rows = 0;
    bool accumulate = false;
    std::uint32_t heads = 1;  // divides matrix.rows
};
cudaError_t matvec(const Matrix& matrix, const Product& product, cudaStream_t stream);

// --- logits.cu ---
// Summaries of rows of logits (rows, vocabulary) for sampling: see LogitSummary in engine/backend.h. Two launches: parts of
// a row by many blocks into scratch, then one block a row.
struct DeviceLogitSummary {
    std::uint32_t finite = 1;
    float maximum = 0;
    double exponentials = 0;
    std::uint32_t top_tokens = 0;
    std::int32_t top[10] = {};
    float top_logits[10] = {};
    float asked_logit = 0;
    std::uint32_t asked_rank = 0;
};
struct Summarise {
    const float* logits = nullptr;
    std::uint32_t rows = 0;
    std::uint32_t vocabulary = 0;
    const std::int32_t* asked = nullptr;   // (rows) negative: none
    std::byte* scratch = nullptr;          // summary_scratch_bytes()
    DeviceLogitSummary* out = nullptr;     // (rows)
};
std::uint64_t summary_scratch_bytes(std::uint32_t rows, std::uint32_t vocabulary);
cudaError_t summarise(const Summarise& args, cudaStream_t stream);

// --- attention: what all kernels share ---
struct AttentionArgs {
    const float* q = nullptr;                    // (rows, query_heads, query_dim()), turned
    float* out = nullptr;                        // (rows, query_heads, out_dim())
    CacheLayer cache;
    const std::uint32_t* block_tables = nullptr; // device
    const SequenceRows* sequences = nullptr;     // device
    std::uint32_t query_heads = 0;
    float scale = 0;
    KeySpan span;                                // engine/key_span.h; span.rank turns sink keys (see there)
    RotaryArgs rotary;                           // read only where span.rank is set
    const std::uint32_t* table_pages = nullptr;  // device, as block_tables: page + 1 of the f16 page that stands for a block
    // Keys that are stored rotated: q is rotated too, and here it is as sink keys see it, rotated after that. Else null.
    const float* sink_q = nullptr;
    float soft_cap = 0;                          // scores become cap * tanh(score / cap); 0: they stay
    // Keys are a latent and, behind it, the rotary key, which the cache keeps as its K and V; values are the latents.
    bool latent = false;
};

// --- attention_decode.cu ---
// Sequences that have one row each. list (count): their indices in `sequences`, device. The keys that each sees are cut into
// `splits` parts of equal numbers of tokens, a whole number of decode_tile tokens (some parts may be empty); each part
// leaves its sum and log-sum-exp in scratch, a second kernel merges them in ascending order. One read of K and V per KV head
// for up to 8 query heads, of latents in f16 and bf16 for 16; larger groups in passes. Head sizes up to 256, latents up to 512 with
// keys of up to 768 values. The result does not depend on the block size, bit for bit.
inline constexpr std::uint32_t decode_tile = 64;
struct DecodeAttention {
    AttentionArgs args;
    const std::uint32_t* list = nullptr;
    std::uint32_t count = 0;
    std::uint32_t splits = 1;
    std::byte* scratch = nullptr;                // decode_scratch_bytes()
};
// Splits that fill the device (processors: multiprocessors) for a batch of that many sequences and KV heads of which the
// longest sees `context` keys. At least 1; a function of these numbers alone.
std::uint32_t decode_splits(std::uint32_t count, std::uint32_t kv_heads, std::uint32_t context, std::uint32_t processors);
// The same over latents: a multiprocessor holds one block of the kernel that reads them.
std::uint32_t latent_splits(std::uint32_t count, std::uint32_t query_heads, std::uint32_t context, std::uint32_t processors);
std::uint64_t decode_scratch_bytes(std::uint32_t count, std::uint32_t query_heads, std::uint32_t out_dim, std::uint32_t splits);
cudaError_t attention_decode(const DecodeAttention& decode, cudaStream_t stream);

// --- attention_prefill.cu ---
// Sequences with several rows. tiles (count), device: pieces of prefill_rows consecutive rows of one sequence. Online softmax
// over tiles of keys; f16 and bf16 caches on tensor cores (q and the weights are rounded to the cache's precision), codes
// likewise (they are expanded tile by tile to f16), f32 caches in f32.
inline constexpr std::uint32_t prefill_rows = 64;
struct PrefillTile {
    std::uint32_t sequence = 0;
    std::uint32_t first_row = 0;  // of the sequence, a multiple of prefill_rows
};
struct PrefillAttention {
    AttentionArgs args;
    const PrefillTile* tiles = nullptr;
    std::uint32_t count = 0;
};
cudaError_t attention_prefill(const PrefillAttention& prefill, cudaStream_t stream);

// --- attention_materialised.cu ---
// As the textbook has it: rows first_row .. first_row + rows - 1 of one sequence, which see keys 0 .. keys - 1 at most; scores
// (query_heads, rows, keys), device, are written with masked ones as -infinity, become softmax weights, and are read again.
struct MaterialisedAttention {
    AttentionArgs args;
    std::uint32_t sequence = 0;
    std::uint32_t first_row = 0;
    std::uint32_t rows = 0;
    std::uint32_t keys = 0;
    float* scores = nullptr;
};
cudaError_t attention_materialised(const MaterialisedAttention& attention, cudaStream_t stream);

// --- attention_probe.cu ---
// Softmax weights of one query head for all rows of the batch. weights: row r's begin at offsets[r], positions[r] + 1 of
// them, 0 where the span masks a key. rows of the batch: row_sequence (rows) names each row's sequence. All device.
struct AttentionProbeArgs {
    AttentionArgs args;
    const std::uint32_t* positions = nullptr;     // (rows)
    const std::uint32_t* row_sequence = nullptr;  // (rows)
    const std::uint64_t* offsets = nullptr;       // (rows)
    std::uint32_t rows = 0;
    std::uint32_t head = 0;
    float* weights = nullptr;
};
cudaError_t attention_probe(const AttentionProbeArgs& probe, cudaStream_t stream);

// --- bandwidth.cu ---
// *out (device) += all 32-bit words of `bytes` bytes (a multiple of 16; data aligned to 16).
cudaError_t read_all(const std::byte* data, std::uint64_t bytes, unsigned* out, std::uint32_t processors, cudaStream_t stream);

}  // namespace kvloupe::cuda
