// SPDX-License-Identifier: GPL-3.0-or-later
//
// Attention as the textbook has it, for comparison with the tiled form: all scores are written, read and normalised, and read
// again to weigh the values.
//
// Bytes beside those of q, K, V and out: 16 for each query, head and key (a score written and read, a weight written and read; the
// second read of a row's scores, after its maximum and sum are known, comes from the second-level cache), where the tiled form moves
// none of them. Floor: those over the bandwidth: 4,096 queries, 32 heads: 8.6 GB, 1.8 ms at 4.8 TB/s.
// Form: scores and outputs by blocks of 128 threads over 32 rows of one query head, thread (y, x) of (16, 8) with rows y and y + 16:
// 32 keys, or 64 columns of the output; factors pass through shared memory 32 at a time, so that any width of head fits, latents too;
// any precision (cache_rows.h). Every score is written, those of masked keys as -infinity without reading the key. Six reads of
// shared memory for eight multiply-adds bound products to about a sixth of the f32 rate; a decode step has one row of the 32. Not
// made faster: it is there so that what it moves can be compared, and a library's products would need the pages of the cache copied
// into one piece first. The softmax: a block a row.
//
// Rejected: tensor cores (a second form of each precision, for what nobody runs for speed); heads of a group together (K is read
// once more for each, from L2).
#include "kernels/cuda/attention_common.h"
#include "kernels/cuda/attention_prefill_rows.h"
#include "kernels/cuda/warp.h"

namespace kvloupe::cuda {

namespace {

constexpr unsigned whole_threads = 128;
constexpr unsigned whole_rows = 32;      // of a block
constexpr unsigned whole_keys = 32;      // of a tile
constexpr unsigned whole_depth = 32;     // elements of a key at a time
constexpr unsigned whole_columns = 64;   // of the output
constexpr unsigned softmax_threads = 256;

__device__ __forceinline__ unsigned own_x() { return threadIdx.x % 8; }
__device__ __forceinline__ unsigned own_y() { return threadIdx.x / 8; }

__device__ __forceinline__ PrefillRows rows_of_block(const MaterialisedAttention& a) {
    PrefillRows rows(a.args, {a.sequence, a.first_row}, blockIdx.y * whole_rows, whole_rows, blockIdx.z);
    const std::uint32_t left = a.rows - blockIdx.y * whole_rows;
    rows.count = min(rows.count, left);
    return rows;
}
__device__ __forceinline__ float* scores_of(const MaterialisedAttention& a, std::uint32_t row) {
    return a.scores + (std::uint64_t{blockIdx.z} * a.rows + blockIdx.y * whole_rows + row) * a.keys;
}

// products (rows y, y + 16; keys x, x + 8, …) of the keys at `places` and the queries, as sinks see them or as they are.
__device__ __forceinline__ void multiply_keys(const AttentionArgs& args, const PrefillRows& rows, bool turned, const TokenPlace* places,
                                              float* q, float* k, float (&products)[2][4]) {
    const AttendedRows cached(args.cache, args.latent, rows.keys.kv_head);
    const std::uint32_t dim = query_dim(args);
    for (std::uint32_t begin = 0; begin < dim; begin += whole_depth) {
        KVLOUPE_NO_UNROLL
        for (unsigned index = threadIdx.x; index < whole_rows * whole_depth; index += whole_threads) {
            const unsigned row = index / whole_depth, at = index % whole_depth;
            float query = 0, key[1] = {};
            if (begin + at < dim && row < rows.count) {
                const float* const from = args.q + rows.query(args, row, blockIdx.z) * dim;
                query = turned ? as_sinks_see(args, from, begin + at, rows.dropped(args.span, row)) : from[begin + at];
            }
            if (begin + at < dim && places[row].block != no_row) cached.key(places[row], begin + at, key);
            q[row * (whole_depth + 1) + at] = query;
            k[row * (whole_depth + 1) + at] = key[0];
        }
        __syncthreads();
        for (unsigned at = 0; at < whole_depth; ++at) {
            const float first = q[own_y() * (whole_depth + 1) + at], second = q[(own_y() + 16) * (whole_depth + 1) + at];
            KVLOUPE_UNROLL
            for (unsigned j = 0; j < 4; ++j) {
                const float key = k[(own_x() + 8 * j) * (whole_depth + 1) + at];
                products[0][j] = fmaf(first, key, products[0][j]);
                products[1][j] = fmaf(second, key, products[1][j]);
            }
        }
        __syncthreads();
    }
}

// Grid (tiles of keys, rows, query heads).
__global__ void __launch_bounds__(whole_threads, 4) write_whole_scores(const MaterialisedAttention a) {
    KVLOUPE_KERNEL(write_whole_scores);
    KVLOUPE_SHARED(float, q, whole_rows * (whole_depth + 1));
    KVLOUPE_SHARED(float, k, whole_keys * (whole_depth + 1));
    KVLOUPE_SHARED(TokenPlace, places, whole_keys);
    static_assert(whole_rows == whole_keys, "both are staged by one loop");
    const AttentionArgs& args = a.args;
    const PrefillRows rows = rows_of_block(a);
    const std::uint32_t first = blockIdx.x * whole_keys;
    float scores[2][4];
    KVLOUPE_UNROLL
    for (unsigned j = 0; j < 4; ++j) scores[0][j] = scores[1][j] = -INFINITY;
    // Sinks, then the window: where sinks are read by rank they meet other queries.
    KVLOUPE_NO_UNROLL
    for (unsigned number = 0; number < 2; ++number) {
        const KeyPass pass = rows.pass(args.span, number);
        if (pass.end <= first || pass.begin >= first + whole_keys || pass.begin >= pass.end) continue;  // all threads alike
        if (threadIdx.x < whole_keys) {
            const std::uint32_t position = first + threadIdx.x;
            places[threadIdx.x] = pass.holds(position) ? rows.keys.place(position) : TokenPlace{no_row, 0, 0};
        }
        __syncthreads();
        float products[2][4] = {};
        multiply_keys(args, rows, pass.sinks && args.span.rank, places, q, k, products);
        KVLOUPE_UNROLL
        for (unsigned half = 0; half < 2; ++half) {
            const KeyRange seen = pass.seen_by(rows, args.span, own_y() + 16 * half);
            KVLOUPE_UNROLL
            for (unsigned j = 0; j < 4; ++j) {
                const std::uint32_t key = first + own_x() + 8 * j;
                if (key >= seen.begin && key < seen.end) scores[half][j] = capped_score(products[half][j] * args.scale, args.soft_cap);
            }
        }
        __syncthreads();
    }
    KVLOUPE_UNROLL
    for (unsigned half = 0; half < 2; ++half) {
        const std::uint32_t row = own_y() + 16 * half;
        if (row >= rows.count) continue;
        float* const to = scores_of(a, row);
        KVLOUPE_UNROLL
        for (unsigned j = 0; j < 4; ++j)
            if (first + own_x() + 8 * j < a.keys) to[first + own_x() + 8 * j] = scores[half][j];
    }
}

// Scores of a row become its softmax weights. Grid (query_heads * rows).
__global__ void __launch_bounds__(softmax_threads) normalise_whole_scores(float* scores, std::uint32_t keys) {
    KVLOUPE_KERNEL(normalise_whole_scores);
    KVLOUPE_SHARED(float, maxima, softmax_threads / 32);
    KVLOUPE_SHARED(float, parts, softmax_threads / 32);
    float* const row = scores + std::uint64_t{blockIdx.x} * keys;
    float largest = -INFINITY;
    for (std::uint32_t key = threadIdx.x; key < keys; key += softmax_threads) largest = fmaxf(largest, row[key]);
    largest = warp_max(largest);
    if (threadIdx.x % 32 == 0) maxima[threadIdx.x / 32] = largest;
    __syncthreads();
    KVLOUPE_UNROLL
    for (unsigned warp = 0; warp < softmax_threads / 32; ++warp) largest = fmaxf(largest, maxima[warp]);
    float sum = 0;
    for (std::uint32_t key = threadIdx.x; key < keys; key += softmax_threads) sum += expf(row[key] - largest);
    sum = block_sum<softmax_threads>(sum, parts);
    for (std::uint32_t key = threadIdx.x; key < keys; key += softmax_threads) row[key] = expf(row[key] - largest) / sum;
}

// Grid (columns of the output, rows, query heads). A weight of 0 counts nothing, whatever the value is.
__global__ void __launch_bounds__(whole_threads) weigh_values_whole(const MaterialisedAttention a) {
    KVLOUPE_KERNEL(weigh_values_whole);
    KVLOUPE_SHARED(float, weights, whole_rows * (whole_keys + 1));
    KVLOUPE_SHARED(float, values, whole_keys * (whole_columns + 1));
    KVLOUPE_SHARED(TokenPlace, places, whole_keys);
    const AttentionArgs& args = a.args;
    const PrefillRows rows = rows_of_block(a);
    const AttendedRows cached(args.cache, args.latent, rows.keys.kv_head);
    const std::uint32_t dim = out_dim(args), column = blockIdx.x * whole_columns;
    const KeyPass sinks = rows.pass(args.span, 0), window = rows.pass(args.span, 1);
    const auto touches = [](const KeyPass& pass, std::uint32_t first) {
        return pass.begin < pass.end && first < pass.end && first + whole_keys > pass.begin;
    };
    float out[2][whole_columns / 8] = {};
    for (std::uint32_t first = 0; first < a.keys; first += whole_keys) {
        if (!touches(sinks, first) && !touches(window, first)) continue;  // all threads alike
        if (threadIdx.x < whole_keys) {
            const std::uint32_t position = first + threadIdx.x;
            places[threadIdx.x] = sinks.holds(position) || window.holds(position) ? rows.keys.place(position) : TokenPlace{no_row, 0, 0};
        }
        __syncthreads();
        for (unsigned index = threadIdx.x; index < whole_rows * whole_keys; index += whole_threads) {
            const unsigned row = index / whole_keys, key = index % whole_keys;
            weights[row * (whole_keys + 1) + key] = row < rows.count && first + key < a.keys ? scores_of(a, row)[first + key] : 0.0f;
        }
        for (unsigned index = threadIdx.x; index < whole_keys * whole_columns; index += whole_threads) {
            const unsigned key = index / whole_columns, at = index % whole_columns;
            float value[1] = {};
            if (column + at < dim && places[key].block != no_row) cached.value(places[key], column + at, value);
            values[key * (whole_columns + 1) + at] = value[0];
        }
        __syncthreads();
        for (unsigned key = 0; key < whole_keys; ++key) {
            const float weight[2] = {weights[own_y() * (whole_keys + 1) + key], weights[(own_y() + 16) * (whole_keys + 1) + key]};
            KVLOUPE_UNROLL
            for (unsigned i = 0; i < whole_columns / 8; ++i) {
                const float value = values[key * (whole_columns + 1) + own_x() + 8 * i];
                KVLOUPE_UNROLL
                for (unsigned half = 0; half < 2; ++half)
                    if (weight[half] != 0) out[half][i] = fmaf(weight[half], value, out[half][i]);
            }
        }
        __syncthreads();
    }
    KVLOUPE_UNROLL
    for (unsigned half = 0; half < 2; ++half) {
        const std::uint32_t row = own_y() + 16 * half;
        if (row >= rows.count) continue;
        float* const to = args.out + rows.query(args, row, blockIdx.z) * dim;
        KVLOUPE_UNROLL
        for (unsigned i = 0; i < whole_columns / 8; ++i)
            if (column + own_x() + 8 * i < dim) to[column + own_x() + 8 * i] = out[half][i];
    }
}

}  // namespace

cudaError_t attention_materialised(const MaterialisedAttention& a, cudaStream_t stream) {
    const AttentionArgs& args = a.args;
    if (a.rows == 0 || args.query_heads == 0) return cudaSuccess;
    if (args.cache.kv_heads == 0 || args.query_heads % args.cache.kv_heads != 0 || args.cache.block_size == 0 || a.keys < a.rows ||
        query_dim(args) == 0 || out_dim(args) == 0 || !readable(args.cache.keys) || !readable(args.cache.values))
        return cudaErrorInvalidValue;
    const unsigned pieces = (a.rows + whole_rows - 1) / whole_rows, tiles = (a.keys + whole_keys - 1) / whole_keys;
    cudaError_t error = launch(write_whole_scores, dim3(tiles, pieces, args.query_heads), whole_threads, 0, stream, a);
    if (error == cudaSuccess)
        error = launch(normalise_whole_scores, args.query_heads * a.rows, softmax_threads, 0, stream, a.scores, a.keys);
    if (error != cudaSuccess) return error;
    const unsigned columns = (out_dim(args) + whole_columns - 1) / whole_columns;
    return launch(weigh_values_whole, dim3(columns, pieces, args.query_heads), whole_threads, 0, stream, a);
}

}  // namespace kvloupe::cuda
