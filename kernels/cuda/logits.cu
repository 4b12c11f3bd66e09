// SPDX-License-Identifier: GPL-3.0-or-later
//
// Summaries of rows of logits: what sampling needs, so that a step hands 120 bytes a row to the host and not 512 KB.
//
// Bytes: the logits once (4 per token of the vocabulary). Floor: 128,256 tokens are 0.5 MB, from the second-level cache; two
// launches of a few microseconds each are latency, not bandwidth.
// Form: a block of 256 threads takes 2,048 tokens of a row, eight in registers a thread; a second kernel, one block a row,
// joins the parts in ascending order. The best ten: every candidate is a 64-bit key whose order is the order asked for, so
// that a warp finds its ten by ten maxima of what lies below the last one, and one warp those of the eight warps.
// Rejected: a sort (we need ten of 10^5); float atomics for the sum (the order, and with it the last bits, would vary).
// Exponentials are summed in double: 40 instructions for each of 10^5 tokens are under a microsecond on a data-centre card.
//
// Deterministic: every sum and maximum has a fixed order. A logit that is not finite is left out of all of it and clears
// `finite`.
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/warp.h"

#include <cmath>

namespace kvloupe::cuda {

namespace {

constexpr unsigned threads = 256;
constexpr unsigned warps = threads / 32;
constexpr unsigned tokens_per_thread = 8;
constexpr std::uint32_t tokens_per_part = threads * tokens_per_thread;
constexpr unsigned best = 10;
constexpr float none = -INFINITY;

// What a block found in its part of a row.
struct LogitPart {
    double exponentials = 0;        // of logit - maximum
    unsigned long long top[best] = {};
    float maximum = none;           // -infinity: no finite logit
    std::uint32_t finite = 1;
    std::uint32_t before = 0;       // tokens that come before the asked one
};

std::uint32_t parts_of(std::uint32_t vocabulary) { return vocabulary / tokens_per_part + (vocabulary % tokens_per_part != 0); }

// Orders tokens: the larger logit first, of equal ones the lower id. 0 is below every key.
__device__ unsigned long long key_of(float logit, std::uint32_t token) {
    const std::uint32_t bits = __float_as_uint(logit + 0.0f);  // -0 is equal to 0
    const std::uint32_t ordered = bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
    return static_cast<unsigned long long>(ordered) << 32 | (0xFFFFFFFFu - token);
}

__device__ std::uint32_t token_of(unsigned long long key) { return 0xFFFFFFFFu - static_cast<std::uint32_t>(key); }

__device__ bool is_finite(float value) { return (__float_as_uint(value) & 0x7F800000u) != 0x7F800000u; }

// The warp's ten largest keys below each other; candidate(i), i < count, are the lane's. Every lane calls it.
template <class Candidate>
__device__ void warp_best(std::uint32_t count, Candidate candidate, unsigned long long* to) {
    unsigned long long last = ~0ull;
    for (unsigned place = 0; place < best; ++place) {
        unsigned long long largest = 0;
        KVLOUPE_UNROLL
        for (std::uint32_t i = 0; i < count; ++i) {
            const unsigned long long key = candidate(i);
            if (key < last && key > largest) largest = key;
        }
        for (unsigned offset = 16; offset > 0; offset /= 2) {
            const unsigned long long other = __shfl_xor_sync(all_lanes, largest, static_cast<int>(offset));
            largest = other > largest ? other : largest;
        }
        if (threadIdx.x % 32 == 0) to[place] = largest;
        last = largest;
    }
}

// One value of each warp, joined in the order of the warps: every thread gets it. Two barriers.
template <class T, class Join>
__device__ T block_join(T value, T* of_warps, Join join) {
    __syncthreads();  // readers of the last call
    for (unsigned offset = 16; offset > 0; offset /= 2)
        value = join(value, __shfl_xor_sync(all_lanes, value, static_cast<int>(offset)));
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
    __syncthreads();
    T all = of_warps[0];
    for (unsigned warp = 1; warp < warps; ++warp) all = join(all, of_warps[warp]);
    return all;
}

struct Larger {
    __device__ float operator()(float a, float b) const { return b > a ? b : a; }
};
struct Sum {
    template <class T>
    __device__ T operator()(T a, T b) const { return a + b; }
};

// The block's ten best keys into `to`, from the ten of each warp.
__device__ void block_best(const unsigned long long* of_warps, unsigned long long* to) {
    __syncthreads();
    if (threadIdx.x >= 32) return;
    const unsigned lane = threadIdx.x;
    warp_best((warps * best + 31) / 32, [&](std::uint32_t i) {
        const unsigned index = i * 32 + lane;
        return index < warps * best ? of_warps[index] : 0ull;
    }, to);
}

// Block (part, row).
__global__ void __launch_bounds__(threads) summarise_part_kernel(Summarise args, LogitPart* parts) {
    KVLOUPE_KERNEL(summarise_part_kernel);
    KVLOUPE_SHARED(unsigned long long, warp_keys, warps * best);
    KVLOUPE_SHARED(double, sums, warps);
    KVLOUPE_SHARED(float, maxima, warps);
    KVLOUPE_SHARED(std::uint32_t, counts, warps);
    const std::uint32_t row = blockIdx.y, begin = blockIdx.x * tokens_per_part;
    const float* logits = args.logits + std::size_t{row} * args.vocabulary;
    const std::int32_t asked = args.asked[row];
    const bool asks = asked >= 0 && static_cast<std::uint32_t>(asked) < args.vocabulary;
    const unsigned long long asked_key = asks ? key_of(logits[asked], static_cast<std::uint32_t>(asked)) : ~0ull;

    float values[tokens_per_thread];
    unsigned long long keys[tokens_per_thread];
    float maximum = none;
    std::uint32_t infinite = 0, before = 0;
    KVLOUPE_UNROLL
    for (unsigned i = 0; i < tokens_per_thread; ++i) {
        const std::uint32_t token = begin + i * threads + threadIdx.x;
        values[i] = none;
        keys[i] = 0;
        if (token >= args.vocabulary) continue;
        const float logit = logits[token];
        if (!is_finite(logit)) {
            ++infinite;
            continue;
        }
        values[i] = logit;
        keys[i] = key_of(logit, token);
        maximum = logit > maximum ? logit : maximum;
        before += keys[i] > asked_key ? 1 : 0;
    }
    maximum = block_join(maximum, maxima, Larger{});
    double exponentials = 0;
    KVLOUPE_UNROLL
    for (unsigned i = 0; i < tokens_per_thread; ++i)
        if (keys[i] != 0) exponentials += exp(static_cast<double>(values[i]) - static_cast<double>(maximum));
    exponentials = block_join(exponentials, sums, Sum{});
    infinite = block_join(infinite, counts, Sum{});
    before = block_join(before, counts, Sum{});
    LogitPart& part = parts[std::size_t{row} * gridDim.x + blockIdx.x];
    warp_best(tokens_per_thread, [&](std::uint32_t i) { return keys[i]; }, warp_keys + threadIdx.x / 32 * best);
    block_best(warp_keys, part.top);
    if (threadIdx.x != 0) return;
    part.exponentials = exponentials;
    part.maximum = maximum;
    part.finite = infinite == 0 ? 1 : 0;
    part.before = before;
}

// Block (row): joins its parts.
__global__ void __launch_bounds__(threads) summarise_row_kernel(Summarise args, const LogitPart* parts, std::uint32_t count) {
    KVLOUPE_KERNEL(summarise_row_kernel);
    KVLOUPE_SHARED(unsigned long long, warp_keys, warps * best);
    KVLOUPE_SHARED(unsigned long long, top, best);
    KVLOUPE_SHARED(double, sums, warps);
    KVLOUPE_SHARED(float, maxima, warps);
    KVLOUPE_SHARED(std::uint32_t, counts, warps);
    const std::uint32_t row = blockIdx.x;
    const float* logits = args.logits + std::size_t{row} * args.vocabulary;
    const LogitPart* own = parts + std::size_t{row} * count;
    float maximum = none;
    std::uint32_t infinite = 0, before = 0;
    for (std::uint32_t p = threadIdx.x; p < count; p += threads) {
        maximum = own[p].maximum > maximum ? own[p].maximum : maximum;
        infinite += own[p].finite == 0 ? 1 : 0;
        before += own[p].before;
    }
    maximum = block_join(maximum, maxima, Larger{});
    double exponentials = 0;
    for (std::uint32_t p = threadIdx.x; p < count; p += threads)
        if (own[p].maximum != none)
            exponentials += own[p].exponentials * exp(static_cast<double>(own[p].maximum) - static_cast<double>(maximum));
    exponentials = block_join(exponentials, sums, Sum{});
    infinite = block_join(infinite, counts, Sum{});
    before = block_join(before, counts, Sum{});
    const std::uint32_t candidates = (count * best + threads - 1) / threads;
    warp_best(candidates, [&](std::uint32_t i) {
        const std::uint32_t index = i * threads + threadIdx.x;
        return index < count * best ? own[index / best].top[index % best] : 0ull;
    }, warp_keys + threadIdx.x / 32 * best);
    block_best(warp_keys, top);
    if (threadIdx.x != 0) return;
    DeviceLogitSummary summary;
    summary.finite = infinite == 0 ? 1 : 0;
    summary.maximum = maximum == none ? 0 : maximum;
    summary.exponentials = exponentials;
    for (unsigned place = 0; place < best; ++place) {
        if (top[place] == 0) break;
        const std::uint32_t token = token_of(top[place]);
        summary.top_tokens = place + 1;
        summary.top[place] = static_cast<std::int32_t>(token);
        summary.top_logits[place] = logits[token];
    }
    const std::int32_t asked = args.asked[row];
    if (asked >= 0 && static_cast<std::uint32_t>(asked) < args.vocabulary) {
        summary.asked_logit = logits[asked];
        summary.asked_rank = before;
    }
    args.out[row] = summary;
}

}  // namespace

std::uint64_t summary_scratch_bytes(std::uint32_t rows, std::uint32_t vocabulary) {
    return std::uint64_t{rows} * parts_of(vocabulary) * sizeof(LogitPart);
}

cudaError_t summarise(const Summarise& args, cudaStream_t stream) {
    if (args.rows == 0 || args.vocabulary == 0) return cudaSuccess;
    const std::uint32_t parts = parts_of(args.vocabulary);
    auto* scratch = reinterpret_cast<LogitPart*>(args.scratch);
    const cudaError_t first = launch(summarise_part_kernel, dim3(parts, args.rows), dim3(threads), 0, stream, args, scratch);
    if (first != cudaSuccess) return first;
    return launch(summarise_row_kernel, dim3(args.rows), dim3(threads), 0, stream, args, scratch, parts);
}

}  // namespace kvloupe::cuda
