// SPDX-License-Identifier: GPL-3.0-or-later
//
// Prefill attention in f32, for what tensor cores do not take: f32 caches, K and V of different types or head sizes, head
// sizes without an instance, up to 256, capped scores, latents. Nothing is rounded but sums.
//
// A block of 128 threads takes 32 rows of one query head and tiles of 32 keys: thread (y, x) of (16, 8) owns rows y and y + 16,
// scores of keys x, x + 8, …, and columns x, x + 8, … of the output. K and V share one buffer, one after the other. Rows of
// shared memory have an odd number of floats, so that eight neighbouring keys lie in eight banks.
// Six reads of shared memory for eight multiply-adds bound it to about a sixth of the card's f32 rate. Not made faster:
// models whose cache is f32 are small, and a cache of mixed types is there to be looked at.
// Latents: 16 rows and tiles of 16 keys, because rows of 576 values would take 150 KiB of shared memory otherwise (74 KiB so), and
// the outputs 128 registers. A prompt that is attended to over latents costs four times the products of its expanded form, so that
// whoever wants speed expands; a kernel on tensor cores was left out for that.
#pragma once

#include "kernels/cuda/attention_common.h"
#include "kernels/cuda/attention_prefill_rows.h"
#include "kernels/cuda/warp.h"

#include <cstddef>
#include <cstdint>

namespace kvloupe::cuda {

template <unsigned Rows, unsigned Keys>
struct PlainPrefillLayout {
    static constexpr unsigned threads = 128;
    static constexpr unsigned rows = Rows;
    static constexpr unsigned keys = Keys;

    unsigned stride_k = 0, stride_v = 0;  // floats of a row
    unsigned tile_floats = 0;             // of the buffer that K and V share

    __host__ __device__ explicit PlainPrefillLayout(const AttentionArgs& args)
        : stride_k(query_dim(args) | 1), stride_v(out_dim(args) | 1),
          tile_floats(keys * (stride_k > stride_v ? stride_k : stride_v)) {}
    __host__ __device__ unsigned shared_bytes() const {
        return 4 * (rows * stride_k + tile_floats + rows * (keys + 1)) + keys * static_cast<unsigned>(sizeof(TokenPlace));
    }
};

// MaxDim: the head size of values is at most this. Rows: 16 or 32.
template <unsigned MaxDim, unsigned Rows, unsigned Keys>
class PlainPrefillBlock {
public:
    using Layout = PlainPrefillLayout<Rows, Keys>;
    static constexpr unsigned own_rows = Rows / 16, own_keys = Keys / 8;  // of a thread

    __device__ PlainPrefillBlock(const AttentionArgs& args, const PrefillRows& rows, std::uint32_t head, float* shared)
        : m_args(args), m_rows(rows), m_cached(args.cache, args.latent, rows.keys.kv_head), m_layout(args), m_head(head), m_q(shared),
          m_tile(m_q + Layout::rows * m_layout.stride_k), m_weights(m_tile + m_layout.tile_floats),
          m_places(reinterpret_cast<TokenPlace*>(m_weights + Layout::rows * (Layout::keys + 1))) {
        KVLOUPE_UNROLL
        for (unsigned half = 0; half < own_rows; ++half) m_maximum[half] = -INFINITY;
    }

    __device__ void attend(const KeyPass& pass) {
        load_queries(pass.sinks && m_args.span.rank);
        for (std::uint32_t first = pass.begin / Layout::keys * Layout::keys; first < pass.end; first += Layout::keys) {
            if (threadIdx.x < Layout::keys) {
                const std::uint32_t position = first + threadIdx.x;
                m_places[threadIdx.x] = pass.holds(position) ? m_rows.keys.place(position) : TokenPlace{no_row, 0, 0};
            }
            __syncthreads();
            load<false>(query_dim(m_args), m_layout.stride_k);
            __syncthreads();
            float scores[own_rows][own_keys] = {};
            score(scores);
            KVLOUPE_UNROLL
            for (unsigned half = 0; half < own_rows; ++half)
                soften(half, pass.seen_by(m_rows, m_args.span, y() + 16 * half), first, scores[half]);
            __syncthreads();  // nobody reads K any more; the weights are here
            load<true>(out_dim(m_args), m_layout.stride_v);
            __syncthreads();
            add_values();
            __syncthreads();  // nobody reads V and the weights any more
        }
    }

    __device__ void finish() {
        const std::uint32_t dim = out_dim(m_args);
        KVLOUPE_UNROLL
        for (unsigned half = 0; half < own_rows; ++half) {
            const std::uint32_t row = y() + 16 * half;
            if (row >= m_rows.count) continue;
            float* out = m_args.out + m_rows.query(m_args, row, m_head) * dim;
            KVLOUPE_UNROLL
            for (unsigned i = 0; i < MaxDim / 8; ++i)
                if (x() + 8 * i < dim) out[x() + 8 * i] = m_out[half][i] / m_sum[half];
        }
    }

private:
    __device__ static unsigned x() { return threadIdx.x % 8; }
    __device__ static unsigned y() { return threadIdx.x / 8; }

    __device__ void load_queries(bool turned) {
        const std::uint32_t dim = query_dim(m_args);
        for (unsigned index = threadIdx.x; index < Layout::rows * dim; index += Layout::threads) {
            const unsigned row = index / dim, i = index % dim;
            float value = 0;
            if (row < m_rows.count) {
                const float* query = m_args.q + m_rows.query(m_args, row, m_head) * dim;
                value = turned ? as_sinks_see(m_args, query, i, m_rows.dropped(m_args.span, row)) : query[i];
            }
            m_q[row * m_layout.stride_k + i] = value;
        }
    }

    // A tile of K or V, expanded; zeros where no row sees the key.
    template <bool values>
    __device__ void load(std::uint32_t dim, unsigned stride) {
        for (unsigned index = threadIdx.x; index < Layout::keys * dim; index += Layout::threads) {
            const unsigned key = index / dim, i = index % dim;
            const TokenPlace place = m_places[key];
            float element[1] = {};
            if (place.block != no_row) {
                if constexpr (values) m_cached.value(place, i, element);
                else m_cached.key(place, i, element);
            }
            m_tile[key * stride + i] = element[0];
        }
    }

    __device__ void score(float (&scores)[own_rows][own_keys]) {
        const float* q = m_q + y() * m_layout.stride_k;
        const float* k = m_tile + x() * m_layout.stride_k;
        const std::uint32_t dim = query_dim(m_args);
        for (std::uint32_t i = 0; i < dim; ++i) {
            float query[own_rows];
            KVLOUPE_UNROLL
            for (unsigned half = 0; half < own_rows; ++half) query[half] = q[16 * half * m_layout.stride_k + i];
            KVLOUPE_UNROLL
            for (unsigned j = 0; j < own_keys; ++j) {
                const float key = k[8 * j * m_layout.stride_k + i];
                KVLOUPE_UNROLL
                for (unsigned half = 0; half < own_rows; ++half) scores[half][j] = fmaf(query[half], key, scores[half][j]);
            }
        }
    }

    // The eight threads of a row agree on its maximum and leave their weights in shared memory.
    __device__ void soften(unsigned half, const KeyRange& seen, std::uint32_t first_key, float (&scores)[own_keys]) {
        float largest = m_maximum[half];
        KVLOUPE_UNROLL
        for (unsigned j = 0; j < own_keys; ++j) {
            const std::uint32_t key = first_key + x() + 8 * j;
            scores[j] = key >= seen.begin && key < seen.end ? capped_score(scores[j] * m_args.scale, m_args.soft_cap) : -INFINITY;
            largest = fmaxf(largest, scores[j]);
        }
        largest = warp_max<8>(largest);
        const float base = largest == -INFINITY ? 0.0f : largest;
        const float shrink = expf(m_maximum[half] - base);
        m_maximum[half] = largest;
        float sum = 0;
        KVLOUPE_UNROLL
        for (unsigned j = 0; j < own_keys; ++j) {
            const float weight = expf(scores[j] - base);
            m_weights[(y() + 16 * half) * (Layout::keys + 1) + x() + 8 * j] = weight;
            sum += weight;
        }
        m_sum[half] = m_sum[half] * shrink + warp_sum<8>(sum);
        KVLOUPE_UNROLL
        for (unsigned i = 0; i < MaxDim / 8; ++i) m_out[half][i] *= shrink;
    }

    // A weight of 0 counts nothing, whatever the value is: a key that the row does not see may be infinite.
    __device__ void add_values() {
        const std::uint32_t dim = out_dim(m_args);
        for (unsigned key = 0; key < Layout::keys; ++key) {
            float weight[own_rows];
            KVLOUPE_UNROLL
            for (unsigned half = 0; half < own_rows; ++half) weight[half] = m_weights[(y() + 16 * half) * (Layout::keys + 1) + key];
            const float* row = m_tile + key * m_layout.stride_v + x();
            KVLOUPE_UNROLL
            for (unsigned i = 0; i < MaxDim / 8; ++i) {
                if (x() + 8 * i >= dim) continue;
                const float value = row[8 * i];
                KVLOUPE_UNROLL
                for (unsigned half = 0; half < own_rows; ++half)
                    if (weight[half] != 0) m_out[half][i] = fmaf(weight[half], value, m_out[half][i]);
            }
        }
    }

    const AttentionArgs& m_args;
    const PrefillRows& m_rows;
    AttendedRows m_cached;
    Layout m_layout;
    std::uint32_t m_head;
    float* m_q;        // (rows, stride_k)
    float* m_tile;     // (keys, stride_k or stride_v)
    float* m_weights;  // (rows, keys + 1)
    TokenPlace* m_places;  // (keys)
    float m_out[own_rows][MaxDim / 8] = {};
    float m_sum[own_rows] = {};
    float m_maximum[own_rows];
};

template <unsigned MaxDim, unsigned Rows, unsigned Keys>
__global__ void __launch_bounds__(128) prefill_plain_kernel(PrefillAttention prefill) {
    KVLOUPE_KERNEL(prefill_plain_kernel);
    KVLOUPE_DYNAMIC_SHARED(float, shared);
    constexpr unsigned pieces = prefill_rows / Rows;  // of a tile
    const AttentionArgs& args = prefill.args;
    const std::uint32_t head = blockIdx.x % args.query_heads, piece = blockIdx.x / args.query_heads;
    const PrefillTile tile = prefill.tiles[piece / pieces];
    const PrefillRows rows(args, tile, piece % pieces * Rows, Rows, head);
    if (rows.count == 0) return;
    PlainPrefillBlock<MaxDim, Rows, Keys> block(args, rows, head, shared);
    for (unsigned number = 0; number < 2; ++number) {
        const KeyPass pass = rows.pass(args.span, number);
        if (pass.begin < pass.end) block.attend(pass);
    }
    block.finish();
}

}  // namespace kvloupe::cuda
