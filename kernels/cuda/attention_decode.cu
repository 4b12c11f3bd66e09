// SPDX-License-Identifier: GPL-3.0-or-later
//
// Decode attention: one query row per sequence. What the kernels do, and why, stands in decode_tensor.h (f16 and bf16
// caches, tensor cores), decode_codes.h (int8, fp8 and int4, likewise), decode_latent.h (latents, likewise) and decode_plain.h (f32
// caches and the rest: packs, KIVI, mixed precisions, capped scores); how blocks share the work, in decode_parts.h.
// Here: which kernel, how many splits, and the merge of the splits' states.
//
// Merge: splits * (out_dim + 2) * 4 bytes per query head, written once and read once: with 4 heads in a group of
// f16, head 128, 0.8 % of what parts of 1,024 keys read, 3 % at 256. One block a query head fetches all states, then 16
// parts at a time: two waits for memory up to 16 splits, four for 33. Splits are added in ascending order.
#include "kernels/cuda/decode_plain.h"
#include "kernels/cuda/decode_tensor.h"

#include <algorithm>

namespace kvloupe::cuda {

namespace {

constexpr std::uint32_t merge_threads = 128;
constexpr std::uint32_t merge_at_once = 16;  // parts in flight
// A part is worth a block of its own from here on: 16 tiles, 4 for each warp.
constexpr std::uint32_t keys_worth_a_part = 256;

// Grid (count * query_heads). Dynamic shared memory: a state per split.
__global__ void __launch_bounds__(merge_threads) decode_merge(DecodePlan plan) {
    KVLOUPE_KERNEL(decode_merge);
    KVLOUPE_DYNAMIC_SHARED(float2, states);
    const AttentionArgs& args = plan.args;
    const std::uint32_t item = blockIdx.x / args.query_heads, head = blockIdx.x % args.query_heads;
    const std::uint32_t elements = out_dim(args);
    const std::uint64_t first = std::uint64_t{blockIdx.x} * plan.splits;
    for (std::uint32_t s = threadIdx.x; s < plan.splits; s += merge_threads) states[s] = plan.states[first + s];
    const std::uint32_t row = args.sequences[plan.list[item]].first_row;
    __syncthreads();
    float maximum = -INFINITY, sum = 0;
    for (std::uint32_t s = 0; s < plan.splits; ++s) maximum = fmaxf(maximum, states[s].x);
    for (std::uint32_t s = 0; s < plan.splits; ++s) sum += merge_weight(states[s].x, maximum) * states[s].y;
    for (std::uint32_t i = threadIdx.x; i < elements; i += merge_threads) {
        float value = 0;
        for (std::uint32_t s = 0; s < plan.splits; s += merge_at_once) {
            float part[merge_at_once];
            KVLOUPE_UNROLL
            for (std::uint32_t k = 0; k < merge_at_once; ++k)
                part[k] = s + k < plan.splits ? plan.sums[(first + s + k) * elements + i] : 0;
            KVLOUPE_UNROLL
            for (std::uint32_t k = 0; k < merge_at_once; ++k) {
                const float weight = s + k < plan.splits ? merge_weight(states[s + k].x, maximum) : 0;
                if (weight != 0) value += weight * part[k];  // an empty part's values were never written
            }
        }
        args.out[(std::uint64_t{row} * args.query_heads + head) * elements + i] = value / sum;
    }
}

struct Launch {
    DecodePlan plan;
    std::uint32_t group = 1;
    bool sinks = false;
    cudaStream_t stream = nullptr;

    dim3 grid() const { return {plan.count * plan.splits * plan.args.cache.kv_heads * plan.passes}; }

    template <class T, std::uint32_t HeadDim>
    cudaError_t tensor() const {
        return launch(decode_tensor<T, HeadDim>, grid(), decode_threads,
                      tensor_decode_bytes<T, HeadDim>(group, sinks), stream, plan);
    }
    template <class Rows, std::uint32_t Heads>
    cudaError_t plain() const {
        return launch(decode_plain<Rows, Heads>, grid(), decode_threads,
                      plain_decode_bytes<Heads>(plan.args, group, sinks), stream, plan);
    }
    template <std::uint32_t MostElements>
    cudaError_t plain_f32() const {
        return group <= 2 ? plain<PlainRows<MostElements>, 2>() : plain<PlainRows<MostElements>, 8>();
    }
    template <class T>
    cudaError_t tensor_or_any() const {
        switch (plan.args.cache.head_dim_k) {
        case 64: return tensor<T, 64>();
        case 80: return tensor<T, 80>();
        case 96: return tensor<T, 96>();
        case 128: return tensor<T, 128>();
        case 256: return tensor<T, 256>();
        default: return any();
        }
    }
    cudaError_t any() const {
        const CacheLayer& cache = plan.args.cache;
        const bool fours = cache.head_dim_k % 4 == 0 && cache.head_dim_v % 4 == 0 && reads_fours(cache.keys) && reads_fours(cache.values);
        if (plan.args.latent) return fours ? plain<AnyRows<4, 512>, 4>() : plain<AnyRows<1, 512>, 4>();
        return fours ? plain<AnyRows<4, 256>, 8>() : plain<AnyRows<1, 256>, 8>();
    }
    cudaError_t attend() const {
        const CacheLayer& cache = plan.args.cache;
        if (plan.args.latent) return takes_latents(plan.args) ? launch_decode_latents(plan, stream) : any();
        const bool capped = plan.args.soft_cap != 0;
        if (!capped && takes_codes(cache)) return launch_decode_codes(plan, group, sinks, stream);
        if (!cache.keys.in_rows || !cache.values.in_rows || cache.keys.dtype != cache.values.dtype) return any();
        if (cache.keys.dtype == DType::f32 && cache.head_dim_k % 4 == 0 && cache.head_dim_v % 4 == 0)
            return std::max(cache.head_dim_k, cache.head_dim_v) <= 128 ? plain_f32<128>() : plain_f32<256>();
        if (capped || cache.keys.dtype == DType::f32 || cache.head_dim_k != cache.head_dim_v) return any();
        return cache.keys.dtype == DType::f16 ? tensor_or_any<__half>() : tensor_or_any<__nv_bfloat16>();
    }
    std::uint32_t heads_at_once() const {
        if (!plan.args.latent) return decode_heads;
        return takes_latents(plan.args) ? latent_heads : 4;
    }
};

bool valid(const DecodeAttention& decode) {
    const CacheLayer& cache = decode.args.cache;
    return cache.kv_heads > 0 && cache.block_size > 0 && decode.args.query_heads % cache.kv_heads == 0 && decode.splits > 0 &&
           widths_fit(decode.args) && readable(cache.keys) && readable(cache.values);
}

}  // namespace

// A multiprocessor holds at least two blocks at once and a block alone cannot keep memory busy: two for each are
// wanted. Rounded to the nearest number of parts, so that 256 blocks on 132 multiprocessors stay whole: they read as
// fast, and a split costs a merge. Between 1.3 and 2.7 blocks for each multiprocessor come out, as long as the context
// is long enough.
std::uint32_t decode_splits(std::uint32_t count, std::uint32_t kv_heads, std::uint32_t context,
                            std::uint32_t processors) {
    const std::uint64_t pairs = std::uint64_t{count} * kv_heads, wanted = 2 * std::uint64_t{processors};
    if (pairs == 0) return 1;
    const std::uint64_t splits = (wanted + pairs / 2) / pairs;
    const std::uint64_t most = (std::uint64_t{context} + keys_worth_a_part - 1) / keys_worth_a_part;
    return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(std::min(splits, most), 1, 1024));
}

// A block for each multiprocessor, where decode_splits() has two.
std::uint32_t latent_splits(std::uint32_t count, std::uint32_t query_heads, std::uint32_t context, std::uint32_t processors) {
    return decode_splits(2 * count, (query_heads + latent_heads - 1) / latent_heads, context, processors);
}

// states, then sums; see DecodePlan.
std::uint64_t decode_scratch_bytes(std::uint32_t count, std::uint32_t query_heads, std::uint32_t out_dim,
                                   std::uint32_t splits) {
    if (splits <= 1) return 0;
    return std::uint64_t{count} * query_heads * splits * (sizeof(float2) + std::uint64_t{out_dim} * sizeof(float));
}

cudaError_t attention_decode(const DecodeAttention& decode, cudaStream_t stream) {
    if (decode.count == 0) return cudaSuccess;
    if (!valid(decode)) return cudaErrorInvalidValue;
    Launch work;
    work.plan.args = decode.args;
    work.plan.list = decode.list;
    work.plan.count = decode.count;
    work.plan.splits = decode.splits;
    work.group = decode.args.query_heads / decode.args.cache.kv_heads;
    work.plan.heads_at_once = work.heads_at_once();
    work.plan.passes = (work.group + work.plan.heads_at_once - 1) / work.plan.heads_at_once;
    work.sinks = decode.args.span.window > 0 && decode.args.span.sinks > 0;
    work.stream = stream;
    const std::uint64_t states = std::uint64_t{decode.count} * decode.args.query_heads * decode.splits;
    if (decode.splits > 1) {
        work.plan.states = reinterpret_cast<float2*>(decode.scratch);
        work.plan.sums = reinterpret_cast<float*>(decode.scratch + states * sizeof(float2));
    }
    const cudaError_t error = work.attend();
    if (error != cudaSuccess || decode.splits == 1) return error;
    return launch(decode_merge, decode.count * decode.args.query_heads, merge_threads, decode.splits * sizeof(float2),
                  stream, work.plan);
}

}  // namespace kvloupe::cuda
