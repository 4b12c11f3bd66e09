// SPDX-License-Identifier: GPL-3.0-or-later
//
// Prefill attention on tensor cores: f16 or bf16 caches, K and V of one type and head size, and codes of any kind, K and V each
// their own. Reasons and figures: attention_prefill.cu.
//
// A block of four warps takes 64 rows of one sequence times `Heads` query heads of one KV head. Warp w owns rows 16 w .. 16 w + 15
// of every head: their scores, weights and outputs stay in its registers as mma fragments (mma.h); lane l holds parts of rows
// l / 4 and l / 4 + 8. The queries lie in shared memory; K and V tiles come one after the other, each on its way while the
// other is used.
//
// Rows of shared memory are Dim / 8 chunks of 16 bytes and one more that nobody reads: the number is odd, so that the eight rows
// of an 8x8 matrix lie in eight different groups of banks, and every address is a constant away from the lane's own.
#pragma once

#include "kernels/cuda/async_copy.h"
#include "kernels/cuda/attention_common.h"
#include "kernels/cuda/attention_prefill_rows.h"
#include "kernels/cuda/conversions.h"
#include "kernels/cuda/mma.h"
#include "kernels/cuda/warp.h"

#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>

namespace kvloupe::cuda {

// Codes: tiles are expanded to f16 on their way into shared memory, K and V each from its own precision.
template <unsigned Dim, unsigned Heads, bool Codes>
struct PrefillLayout {
    using Row = std::conditional_t<Codes, TokenPlace, std::uint32_t>;  // of a key
    static constexpr unsigned threads = 128;
    static constexpr unsigned keys = Dim > 128 ? 32 : 64;       // of a tile
    static constexpr unsigned chunks = Dim / 8;
    static constexpr unsigned stride = (chunks + 1) * 16;       // bytes of a row
    static constexpr unsigned q_bytes = Heads * prefill_rows * stride;
    static constexpr unsigned tile_bytes = keys * stride;
    static constexpr unsigned shared_bytes = q_bytes + 2 * tile_bytes + 2 * keys * sizeof(Row);
    static_assert(Dim % 16 == 0 && keys * chunks % threads == 0);
};

// 2^x, approximated by the special function unit (relative error 2^-22); 0 below 2^-126.
__device__ __forceinline__ float fast_exp2(float x) {
#if defined(__CUDA_ARCH__)
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return exp2f(x);
#endif
}

// threadIdx.x, read again: what seldom runs computes its places anew. Otherwise the compiler keeps them in registers, or in
// local memory, through the loop that has none to spare.
__device__ __forceinline__ unsigned thread_again() {
#if defined(__CUDA_ARCH__)
    unsigned thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread;
#else
    return threadIdx.x;
#endif
}

template <class T, unsigned Dim, unsigned Heads, bool Codes>
class PrefillBlock {
public:
    using Layout = PrefillLayout<Dim, Heads, Codes>;
    using Row = typename Layout::Row;

    __device__ PrefillBlock(const AttentionArgs& args, const PrefillWork& work, unsigned char* shared)
        : m_args(args), m_work(work), m_rows(work.rows), m_q(shared), m_keys(shared + Layout::q_bytes),
          m_values(m_keys + Layout::tile_bytes),
          m_key_rows(reinterpret_cast<Row*>(m_values + Layout::tile_bytes)) {
        KVLOUPE_UNROLL
        for (unsigned head = 0; head < Heads; ++head) m_maximum[head][0] = m_maximum[head][1] = -INFINITY;
    }

    __device__ __forceinline__ void attend(const KeyPass& pass) {
        const std::uint32_t first = pass.begin / Layout::keys, last = (pass.end + Layout::keys - 1) / Layout::keys;
        find_rows(pass, first);
        load_queries(pass.sinks && m_args.span.rank);
        __syncthreads();
        load<false>(key_rows(first), m_keys);
        for (std::uint32_t tile = first; tile < last; ++tile) {
            copy_async_wait<0>();
            __syncthreads();  // K is here; nobody reads V any more
            load<true>(key_rows(tile), m_values);
            if (tile + 1 < last) find_rows(pass, tile + 1);
            float scores[Heads][Layout::keys / 8][4] = {};
            score(scores);
            copy_async_wait<0>();
            __syncthreads();  // V and the next tile's rows are here; nobody reads K any more
            if (!Codes && tile + 1 < last) load<false>(key_rows(tile + 1), m_keys);
            const bool all_seen = pass.sees_all(tile * Layout::keys, Layout::keys);
            if (!all_seen) mask(pass, tile * Layout::keys, scores);
            KVLOUPE_UNROLL
            for (unsigned head = 0; head < Heads; ++head) soften(head, scores[head]);
            if (!all_seen && __syncthreads_or(infinite_chunk(0, Layout::keys))) take_out_infinite(scores);
            add_values(scores);
            if (Codes && tile + 1 < last) load<false>(key_rows(tile + 1), m_keys);  // where registers are free to expand it
        }
        __syncthreads();  // the next pass writes what this one read
    }

    __device__ __forceinline__ void finish() {
        const unsigned lane = thread_again() % 32, first_row = thread_again() / 32 * 16 + lane / 4;
        KVLOUPE_UNROLL
        for (unsigned head = 0; head < Heads; ++head)
            KVLOUPE_UNROLL
            for (unsigned half = 0; half < 2; ++half) {
                const float sum = warp_sum<4>(m_sum[head][half]);
                const std::uint32_t row = first_row + 8 * half;
                if (row >= m_rows.count) continue;
                float* out = m_args.out + m_rows.query(m_args, row, m_work.first_head + head) * Dim + 2 * (lane % 4);
                const float share = 1 / sum;
                KVLOUPE_UNROLL
                for (unsigned n = 0; n < Dim / 8; ++n)
                    *reinterpret_cast<float2*>(out + 8 * n) =
                        float2{m_out[head][n][2 * half] * share, m_out[head][n][2 * half + 1] * share};
            }
    }

private:
    __device__ static unsigned lane() { return threadIdx.x % 32; }
    __device__ static unsigned warp() { return threadIdx.x / 32; }

    __device__ Row* key_rows(std::uint32_t tile) { return m_key_rows + tile % 2 * Layout::keys; }

    // Where the rows of a tile's keys lie, for those that some row sees.
    __device__ __forceinline__ void find_rows(const KeyPass& pass, std::uint32_t tile) {
        const unsigned thread = thread_again();
        if (thread >= Layout::keys) return;
        const std::uint32_t position = tile * Layout::keys + thread;
        if constexpr (Codes)
            key_rows(tile)[thread] = pass.holds(position) ? m_rows.keys.place(position) : TokenPlace{no_row, 0, 0};
        else
            key_rows(tile)[thread] = pass.holds(position) ? m_rows.keys.row(position) : no_row;
    }

    // A tile of K or V on its way into shared memory; zeros where no row sees the key.
    template <bool values>
    __device__ __forceinline__ void load(const Row* rows, unsigned char* to) {
        const unsigned thread = thread_again();
        if constexpr (Codes) {
            const HeadRows head(m_args.cache, values, m_rows.keys.kv_head);
            KVLOUPE_NO_UNROLL
            for (unsigned index = thread; index < Layout::keys * Layout::chunks; index += Layout::threads) {
                const unsigned key = index / Layout::chunks, chunk = index % Layout::chunks;
                const TokenPlace place = rows[key];
                uint2 halves[2] = {};
                if (place.block != no_row) {
                    KVLOUPE_NO_UNROLL
                    for (unsigned half = 0; half < 2; ++half) {
                        float x[4];
                        head.load(place, chunk * 8 + half * 4, x);
                        halves[half] = make_uint2(pack_two<T>(x[0], x[1]), pack_two<T>(x[2], x[3]));
                    }
                }
                *reinterpret_cast<uint4*>(to + key * Layout::stride + chunk * 16) =
                    make_uint4(halves[0].x, halves[0].y, halves[1].x, halves[1].y);
            }
        } else {
            const std::byte* const data = values ? m_args.cache.values.data : m_args.cache.keys.data;
            KVLOUPE_UNROLL
            for (unsigned i = 0; i < Layout::keys * Layout::chunks / Layout::threads; ++i) {
                const unsigned index = i * Layout::threads + thread, key = index / Layout::chunks, chunk = index % Layout::chunks;
                const std::uint32_t row = rows[key];
                const bool inside = row != no_row;
                copy_async(to + key * Layout::stride + chunk * 16, data + (inside ? std::size_t{row} * (Dim * 2) + chunk * 16 : 0), inside);
            }
            copy_async_commit();
        }
    }

    // Queries times scale, rounded; zeros beyond the rows.
    __device__ __forceinline__ void load_queries(bool turned) {
        for (unsigned index = thread_again(); index < Heads * prefill_rows * Layout::chunks; index += Layout::threads) {
            const unsigned place = index / Layout::chunks, chunk = index % Layout::chunks;
            const unsigned head = place / prefill_rows, row = place % prefill_rows;
            float x[8] = {};
            if (row < m_rows.count) {
                const float* query = m_args.q + m_rows.query(m_args, row, m_work.first_head + head) * Dim;
                const std::uint32_t dropped = turned ? m_rows.dropped(m_args.span, row) : 0;
                for (unsigned i = 0; i < 8; ++i)
                    x[i] = m_args.scale *
                           (turned ? as_sinks_see(m_args, query, chunk * 8 + i, dropped) : query[chunk * 8 + i]);
            }
            auto* to = reinterpret_cast<std::uint32_t*>(m_q + place * Layout::stride + chunk * 16);
            KVLOUPE_UNROLL
            for (unsigned i = 0; i < 4; ++i) to[i] = pack_two<T>(x[2 * i], x[2 * i + 1]);
        }
    }

    __device__ __forceinline__ void score(float (&scores)[Heads][Layout::keys / 8][4]) {
        const unsigned char* q = m_q + (warp() * 16 + lane() % 16) * Layout::stride + lane() / 16 * 16;
        const unsigned char* k = m_keys + (lane() / 16 * 8 + lane() % 8) * Layout::stride + lane() / 8 % 2 * 16;
        KVLOUPE_UNROLL
        for (unsigned step = 0; step < Dim / 16; ++step) {
            std::uint32_t queries[Heads][4];
            KVLOUPE_UNROLL
            for (unsigned head = 0; head < Heads; ++head)
                load_matrices(queries[head], q + head * prefill_rows * Layout::stride + step * 32);
            KVLOUPE_UNROLL
            for (unsigned pair = 0; pair < Layout::keys / 16; ++pair) {
                std::uint32_t both[4];
                load_matrices(both, k + pair * 16 * Layout::stride + step * 32);
                const std::uint32_t first[2] = {both[0], both[1]}, second[2] = {both[2], both[3]};
                KVLOUPE_UNROLL
                for (unsigned head = 0; head < Heads; ++head) {
                    multiply_accumulate<T>(scores[head][2 * pair], queries[head], first);
                    multiply_accumulate<T>(scores[head][2 * pair + 1], queries[head], second);
                }
            }
        }
    }

    // What a row does not see becomes -infinity, whatever it was.
    __device__ __forceinline__ void mask(const KeyPass& pass, std::uint32_t first_key,
                                         float (&scores)[Heads][Layout::keys / 8][4]) {
        const unsigned lane = thread_again() % 32, first_row = thread_again() / 32 * 16 + lane / 4;
        KVLOUPE_UNROLL
        for (unsigned half = 0; half < 2; ++half) {
            const KeyRange seen = pass.seen_by(m_rows, m_args.span, first_row + 8 * half);
            KVLOUPE_UNROLL
            for (unsigned n = 0; n < Layout::keys / 8; ++n)
                KVLOUPE_UNROLL
                for (unsigned i = 0; i < 2; ++i) {
                    const std::uint32_t key = first_key + 8 * n + 2 * (lane % 4) + i;
                    const bool hidden = key < seen.begin || key >= seen.end;
                    KVLOUPE_UNROLL
                    for (unsigned head = 0; head < Heads; ++head)
                        if (hidden) scores[head][n][2 * half + i] = -INFINITY;
                }
        }
    }

    // Scores become weights 2^(log2(e) (score - maximum)); sum and outputs are brought to the new maximum.
    __device__ __forceinline__ void soften(unsigned head, float (&scores)[Layout::keys / 8][4]) {
        float shrink[2];
        KVLOUPE_UNROLL
        for (unsigned half = 0; half < 2; ++half) {
            float largest = m_maximum[head][half];
            KVLOUPE_UNROLL
            for (unsigned n = 0; n < Layout::keys / 8; ++n)
                largest = fmaxf(largest, fmaxf(scores[n][2 * half], scores[n][2 * half + 1]));
            largest = warp_max<4>(largest);
            // A row that has seen nothing yet keeps -infinity: its weights are 2^-infinity, not 2^(infinity - infinity).
            const float base = largest == -INFINITY ? 0.0f : largest * log2_e;
            shrink[half] = fast_exp2(fmaf(m_maximum[head][half], log2_e, -base));
            m_maximum[head][half] = largest;
            float sum = 0;
            KVLOUPE_UNROLL
            for (unsigned n = 0; n < Layout::keys / 8; ++n)
                KVLOUPE_UNROLL
                for (unsigned i = 2 * half; i < 2 * half + 2; ++i) {
                    scores[n][i] = fast_exp2(fmaf(scores[n][i], log2_e, -base));
                    sum += scores[n][i];
                }
            m_sum[head][half] = fmaf(m_sum[head][half], shrink[half], sum);
        }
        // After the first tiles the maximum seldom moves.
        if (!__any_sync(all_lanes, shrink[0] != 1 || shrink[1] != 1)) return;
        KVLOUPE_UNROLL
        for (unsigned n = 0; n < Dim / 8; ++n)
            KVLOUPE_UNROLL
            for (unsigned i = 0; i < 4; ++i) m_out[head][n][i] *= shrink[i / 2];
    }

    __device__ __forceinline__ void add_values(const float (&weights)[Heads][Layout::keys / 8][4]) {
        const unsigned char* v = m_values + lane() % 16 * Layout::stride + lane() / 16 * 16;
        KVLOUPE_UNROLL
        for (unsigned step = 0; step < Layout::keys / 16; ++step) {
            std::uint32_t rounded[Heads][4];
            KVLOUPE_UNROLL
            for (unsigned head = 0; head < Heads; ++head)
                KVLOUPE_UNROLL
                for (unsigned i = 0; i < 4; ++i) {
                    const float(&w)[4] = weights[head][2 * step + i / 2];
                    rounded[head][i] = pack_two<T>(w[i % 2 * 2], w[i % 2 * 2 + 1]);
                }
            KVLOUPE_UNROLL
            for (unsigned pair = 0; pair < Dim / 16; ++pair) {
                std::uint32_t both[4];
                load_matrices<true>(both, v + step * 16 * Layout::stride + pair * 32);
                const std::uint32_t first[2] = {both[0], both[1]}, second[2] = {both[2], both[3]};
                KVLOUPE_UNROLL
                for (unsigned head = 0; head < Heads; ++head) {
                    multiply_accumulate<T>(m_out[head][2 * pair], rounded[head], first);
                    multiply_accumulate<T>(m_out[head][2 * pair + 1], rounded[head], second);
                }
            }
        }
    }

    // Whether a value among the thread's chunks of rows begin .. end - 1 of the tile is infinite or NaN.
    __device__ bool infinite_chunk(unsigned begin, unsigned end) const {
        constexpr std::uint32_t exponent = std::is_same_v<T, __half> ? 0x7C00u : 0x7F80u;
        bool found = false;
        for (unsigned index = begin * Layout::chunks + thread_again(); index < end * Layout::chunks; index += Layout::threads) {
            const auto* words = reinterpret_cast<const std::uint32_t*>(
                m_values + index / Layout::chunks * Layout::stride + index % Layout::chunks * 16);
            for (unsigned i = 0; i < 4; ++i)
                found = found || (words[i] & exponent) == exponent || (words[i] >> 16 & exponent) == exponent;
        }
        return found;
    }

    // A product of 0 and an infinite value is NaN: where a tile holds keys that some rows do not see, such values are added by
    // themselves, to the rows that see them, and leave the tile.
    __device__ __forceinline__ void take_out_infinite(const float (&weights)[Heads][Layout::keys / 8][4]) {
        for (unsigned key = 0; key < Layout::keys; ++key) {
            if (!__syncthreads_or(infinite_chunk(key, key + 1))) continue;
            auto* row = reinterpret_cast<T*>(m_values + key * Layout::stride);
            const unsigned lane = thread_again() % 32;
            KVLOUPE_UNROLL
            for (unsigned head = 0; head < Heads; ++head)
                KVLOUPE_UNROLL
                for (unsigned half = 0; half < 2; ++half) {
                    std::uint32_t bits = 0;  // by masks: an index would put the weights into local memory
                    KVLOUPE_UNROLL
                    for (unsigned i = 0; i < Layout::keys / 4; ++i)
                        bits |= __float_as_uint(weights[head][i / 2][2 * half + i % 2]) & (0u - (i == key / 8 * 2 + key % 2));
                    const float weight =
                        __shfl_sync(all_lanes, __uint_as_float(bits), static_cast<int>(lane / 4 * 4 + key % 8 / 2));
                    if (weight == 0) continue;
                    KVLOUPE_UNROLL
                    for (unsigned n = 0; n < Dim / 8; ++n)
                        KVLOUPE_UNROLL
                        for (unsigned i = 0; i < 2; ++i)
                            m_out[head][n][2 * half + i] += weight * to_float(row[8 * n + 2 * (lane % 4) + i]);
                }
            __syncthreads();
            for (unsigned i = thread_again(); i < Dim; i += Layout::threads) row[i] = T{};
            __syncthreads();
        }
    }

    const AttentionArgs& m_args;
    const PrefillWork& m_work;
    const PrefillRows& m_rows;
    unsigned char* m_q;       // (Heads, prefill_rows) rows
    unsigned char* m_keys;    // (keys) rows
    unsigned char* m_values;  // (keys) rows
    Row* m_key_rows;          // (2, keys) of tiles of even and odd number
    float m_out[Heads][Dim / 8][4] = {};
    float m_sum[Heads][2] = {};  // the lane's own weights only, until finish()
    float m_maximum[Heads][2];   // -infinity: no key yet
};

template <class T, unsigned Dim, unsigned Heads, bool Codes>
__global__ void __launch_bounds__(128, Heads == 1 && Dim <= 128 ? 3 : 2) prefill_tensor_kernel(PrefillAttention prefill) {
    KVLOUPE_KERNEL(prefill_tensor_kernel);
    KVLOUPE_DYNAMIC_SHARED(unsigned char, shared);
    const AttentionArgs& args = prefill.args;
    const std::uint32_t per_tile = args.query_heads / Heads;
    const PrefillTile tile = prefill.tiles[prefill.count - 1 - blockIdx.x / per_tile];
    const std::uint32_t first_head = blockIdx.x % per_tile * Heads;
    KVLOUPE_SHARED(unsigned long long, memory, (sizeof(PrefillWork) + 7) / 8);
    const PrefillWork& work = *reinterpret_cast<const PrefillWork*>(memory);
    if (threadIdx.x == 0) new (memory) PrefillWork(args, tile, first_head);
    __syncthreads();
    PrefillBlock<T, Dim, Heads, Codes> block(args, work, shared);
    for (unsigned number = 0; number < 2; ++number)
        if (work.passes[number].begin < work.passes[number].end) block.attend(work.passes[number]);
    block.finish();
}

}  // namespace kvloupe::cuda
