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

// K or V of one layer: (blocks, kv_heads, block_size, head_dim). A slot is block * block_size + offset.
struct CacheTensor {
    std::byte* data = nullptr;
    DType dtype = DType::f16;  // f32, f16 or bf16
};

// Fewer than 2^32 rows (blocks * kv_heads * block_size).
struct CacheLayer {
    CacheTensor keys, values;
    std::uint32_t block_size = 0;
    std::uint32_t kv_heads = 0;
    std::uint32_t head_dim_k = 0;  // of queries and keys
    std::uint32_t head_dim_v = 0;  // of values and outputs; equal to head_dim_k until a latent comes
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
    float magnitude = 1;                  // cosines and sines are multiplied by it when a row is turned first, not when it is turned back
};

// --- rows.cu ---
// out (count, table.cols) = table[tokens]; a token outside the table gives NaN. tokens (count), device.
cudaError_t embed(const Matrix& table, const std::int32_t* tokens, std::uint32_t count, float* out, cudaStream_t stream);
// out (rows, weight.cols) = in / sqrt(mean(in^2) + epsilon) * weight (1, cols)
cudaError_t rms_norm(const float* in, const Matrix& weight, float epsilon, std::uint32_t rows, float* out, cudaStream_t stream);
// gate (count) = gate / (1 + exp(-gate)) * up
cudaError_t silu_multiply(float* gate, const float* up, std::uint64_t count, cudaStream_t stream);
// out (count, width) = in[rows]; rows (count), device
cudaError_t gather_rows(const float* in, const std::uint32_t* rows, std::uint32_t count, std::uint32_t width, float* out,
                        cudaStream_t stream);
// out (count) = in, rounded to nearest even, to f16 or bf16: the activations that cuBLAS multiplies with such weights.
cudaError_t narrow(const float* in, DType to, std::uint64_t count, void* out, cudaStream_t stream);
// out (matrix.rows, matrix.cols) as f16: a quantised matrix expanded for cuBLAS. Rows first .. first + count - 1 only.
cudaError_t expand(const Matrix& matrix, std::uint32_t first, std::uint32_t count, void* out, cudaStream_t stream);
// out (bytes / 4 rounded down) = NaN in every precision: all bits set.
cudaError_t poison(void* out, std::uint64_t bytes, cudaStream_t stream);

// --- rotary.cu ---
// Turns q (rows, query_heads, head_dim_k) and k (rows, kv_heads, head_dim_k) in place by the rows' positions and writes k and
// v (rows, kv_heads, head_dim_v) into the slots (rows) of the layer. *overflowed += finite values that became infinite.
// positions, slots, overflowed: device.
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
};
cudaError_t rotary_store(const RotaryStore& args, cudaStream_t stream);

// --- cache_copy.cu ---
// Copies the first `tokens` slots of every head from one block to another: device memory, or host memory that the device can
// reach (a swap).
// One block of all layers at once. keys and values of layer l lie at l * layer_stride from those of layer 0, in bytes;
// the two places may have strides of their own.
struct BlockCopy {
    struct Place {
        std::byte* keys = nullptr;    // of layer 0 of the block
        std::byte* values = nullptr;
        std::uint64_t key_stride = 0; // bytes from a layer to the next
        std::uint64_t value_stride = 0;
    };
    Place from, to;
    std::uint32_t layers = 0;
    std::uint32_t kv_heads = 0;
    std::uint32_t block_size = 0;
    std::uint32_t tokens = 0;         // <= block_size
    std::uint32_t key_bytes = 0;      // of one token's row of one head
    std::uint32_t value_bytes = 0;
};
cudaError_t copy_block(const BlockCopy& copy, cudaStream_t stream);

// --- matvec.cu ---
// out (rows, matrix.rows) (+)= in (rows, matrix.cols) * matrix^T for few rows (1 .. max_matvec_rows), any stored form:
// the weights are read once for all rows. Accumulates in f32.
inline constexpr std::uint32_t max_matvec_rows = 8;
struct Product {
    const float* in = nullptr;
    float* out = nullptr;
    std::uint32_t rows = 0;
    bool accumulate = false;
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
    const float* q = nullptr;                    // (rows, query_heads, head_dim_k), turned
    float* out = nullptr;                        // (rows, query_heads, head_dim_v)
    CacheLayer cache;
    const std::uint32_t* block_tables = nullptr; // device
    const SequenceRows* sequences = nullptr;     // device
    std::uint32_t query_heads = 0;
    float scale = 0;
    KeySpan span;                                // engine/key_span.h; span.rank turns sink keys (see there)
    RotaryArgs rotary;                           // read only where span.rank is set
};

// --- attention_decode.cu ---
// Sequences that have one row each. list (count): their indices in `sequences`, device. The keys that each sees are cut into
// `splits` parts of equal numbers of tokens, a whole number of decode_tile tokens (some parts may be empty); each part
// leaves its sum and log-sum-exp in scratch, a second kernel merges them in ascending order. One read of K and V per KV head
// for up to 8 query heads; larger groups in passes. Head sizes up to 256. The result does not depend on the block size, bit for bit.
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
std::uint64_t decode_scratch_bytes(std::uint32_t count, std::uint32_t query_heads, std::uint32_t head_dim_v, std::uint32_t splits);
cudaError_t attention_decode(const DecodeAttention& decode, cudaStream_t stream);

// --- attention_prefill.cu ---
// Sequences with several rows. tiles (count), device: pieces of prefill_rows consecutive rows of one sequence. Online softmax
// over tiles of keys; f16 and bf16 caches on tensor cores (q and the weights are rounded to the cache's precision), f32
// caches in f32.
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
