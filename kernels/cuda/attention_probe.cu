// SPDX-License-Identifier: GPL-3.0-or-later
//
// Softmax weights of one query head for all rows of a batch: what the views of attention show. Runs for watched heads
// alone, so it is plain: one block a row.
//
// Bytes: K of the keys that the row sees once, their weights (f32) written twice and read once. 8 lanes share a key and
// a warp has 4 of them at a time; 8 warps read 32 keys per round, latency-bound: about 1,000 clocks for 32 keys, 0.6 ms
// for a row with 32,768 keys. Scores go through the output, where they become weights once maximum and sum are known; a
// row whose keys are split over blocks would need a second launch for nothing that a person notices.
#include "kernels/cuda/attention_common.h"

namespace kvloupe::cuda {

namespace {

constexpr std::uint32_t probe_warps = 8;
constexpr std::uint32_t probe_threads = 32 * probe_warps;
constexpr std::uint32_t lanes_of_a_key = 8;
constexpr std::uint32_t keys_of_a_warp = 32 / lanes_of_a_key;
constexpr std::uint32_t most_elements = 768;  // of a key; see widths_fit()

// Grid (rows).
__global__ void __launch_bounds__(probe_threads) probe_weights(AttentionProbeArgs probe) {
    KVLOUPE_KERNEL(probe_weights);
    KVLOUPE_SHARED(float, query, most_elements);
    KVLOUPE_SHARED(float, sink_query, most_elements);
    KVLOUPE_SHARED(float2, states, probe_warps);
    const AttentionArgs& args = probe.args;
    const CacheLayer& cache = args.cache;
    const std::uint32_t elements = query_dim(args);
    const std::uint32_t row = blockIdx.x, thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    const SequenceRows sequence = args.sequences[probe.row_sequence[row]];
    const VisibleKeys keys = visible_keys(args.span, probe.positions[row]);
    const std::uint32_t dropped = dropped_keys(args.span, keys);
    const std::uint32_t kv_head = probe.head / (args.query_heads / cache.kv_heads);
    const std::uint32_t* const table = args.block_tables + sequence.table_begin;
    const std::uint32_t* const pages = args.table_pages == nullptr ? nullptr : args.table_pages + sequence.table_begin;
    const AttendedRows rows(cache, args.latent, kv_head);
    float* const weights = probe.weights + probe.offsets[row];

    const float* const own_query = args.q + (std::uint64_t{row} * args.query_heads + probe.head) * elements;
    for (std::uint32_t i = thread; i < elements; i += probe_threads) {
        query[i] = own_query[i] * (args.scale * log2_e);
        sink_query[i] = as_sinks_see(args, own_query, i, dropped) * (args.scale * log2_e);
    }
    for (std::uint32_t t = keys.sinks + thread; t < keys.begin; t += probe_threads) weights[t] = 0;
    __syncthreads();

    // Of the keys that this lane's group has seen.
    float maximum = -INFINITY, sum = 0;
    const std::uint32_t count = keys.sinks + (keys.end - keys.begin);
    for (std::uint32_t first = warp * keys_of_a_warp; first < count; first += probe_warps * keys_of_a_warp) {
        const std::uint32_t key = first + lane / lanes_of_a_key;
        const bool valid = key < count;
        const std::uint32_t position = key < keys.sinks ? key : keys.begin + (key - keys.sinks);
        float score = 0;
        if (valid) {
            const TokenPlace place = place_of(table, pages, position, cache.block_size);
            const float* const seen_by = key < keys.sinks ? sink_query : query;
            for (std::uint32_t i = lane % lanes_of_a_key; i < elements; i += lanes_of_a_key) {
                float element[1];
                rows.key(place, i, element);
                score += seen_by[i] * element[0];
            }
        }
        for (int other = lanes_of_a_key / 2; other > 0; other /= 2) score += __shfl_xor_sync(0xFFFFFFFFu, score, other);
        if (valid) {
            score = capped_score(score, args.soft_cap * log2_e);
            if (lane % lanes_of_a_key == 0) weights[position] = score;
            const float largest = fmaxf(maximum, score);
            sum = sum * merge_weight(maximum, largest) + exp2f(score - largest);
            maximum = largest;
        }
    }
    for (int other = lanes_of_a_key; other < 32; other *= 2) {
        const float other_maximum = __shfl_xor_sync(0xFFFFFFFFu, maximum, other);
        const float other_sum = __shfl_xor_sync(0xFFFFFFFFu, sum, other);
        const float largest = fmaxf(maximum, other_maximum);
        sum = sum * merge_weight(maximum, largest) + other_sum * merge_weight(other_maximum, largest);
        maximum = largest;
    }
    if (lane == 0) states[warp] = float2{maximum, sum};
    __syncthreads();
    for (std::uint32_t w = 0; w < probe_warps; ++w) maximum = fmaxf(maximum, states[w].x);
    sum = 0;
    for (std::uint32_t w = 0; w < probe_warps; ++w) sum += states[w].y * merge_weight(states[w].x, maximum);
    for (std::uint32_t key = thread; key < count; key += probe_threads) {
        const std::uint32_t position = key < keys.sinks ? key : keys.begin + (key - keys.sinks);
        weights[position] = exp2f(weights[position] - maximum) / sum;
    }
}

}  // namespace

cudaError_t attention_probe(const AttentionProbeArgs& probe, cudaStream_t stream) {
    const AttentionArgs& args = probe.args;
    if (probe.rows == 0) return cudaSuccess;
    if (args.cache.kv_heads == 0 || args.query_heads % args.cache.kv_heads != 0 || probe.head >= args.query_heads ||
        args.cache.block_size == 0 || !widths_fit(args) || !readable(args.cache.keys) || !readable(args.cache.values))
        return cudaErrorInvalidValue;
    return launch(probe_weights, probe.rows, probe_threads, 0, stream, probe);
}

}  // namespace kvloupe::cuda
