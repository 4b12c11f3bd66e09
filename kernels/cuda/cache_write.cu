// SPDX-License-Identifier: GPL-3.0-or-later
//
// Cache writes in precisions that are not plain rows of numbers: rotary embedding, Hadamard rotation, quantising and storing in one
// launch; scales per head from the first step; KIVI's blocks quantised from their f16 pages.
//
// Bytes per row: as in rotary.cu, with the bytes of codes and scales in place of the cache's element. Floor: those over the bandwidth;
// k is read once and written once (turned), v is read once.
// Form: a block takes a token's row and four plane rows (heads, or heads that share packs) of K or of V, a warp each: the row lies in
// shared memory, so that extremes, rotation and packs of any shape are loops over it. The warp of a key row whose scale is joint
// takes the value row as well. The precision is a run-time switch, the same for a launch: a step writes one token where
// it reads thousands. Rejected: a kernel a precision (14 x 4 instances for what is never the bound); turned queries in a launch of
// their own (a launch more for each layer).
#include "kernels/cuda/cache_write.h"
#include "kernels/cuda/hadamard.h"
#include "kernels/cuda/quantise_rows.h"

#include <algorithm>

namespace kvloupe::cuda {

namespace {

constexpr unsigned warps = turn_threads / 32;

struct StoreParts {
    unsigned of_queries = 0, of_keys = 0;  // blocks in y; those of values follow, unless scales are joint
    unsigned width = 0;                    // floats of a staged row
    bool joint = false;
    bool store = true;                     // false: q and k are turned, nothing is stored
};

// Where a token's row goes.
struct Slot {
    std::uint64_t block;
    std::uint32_t offset;
    std::uint32_t page;
};

// One row of K or V, staged in shared memory, into its place.
__device__ __forceinline__ unsigned store_row(const CacheTensor& t, std::uint32_t block_size, const float* row, unsigned width,
                                              std::uint32_t plane_row, const Slot& slot) {
    if (t.scale == KvScale::channel) {
        if (slot.page == 0) return 0;
        const std::uint64_t at = (std::uint64_t{plane_row} * block_size + slot.offset) * width;
        return store_numbers<__half>(row, width, t.pages + (slot.page - 1) * t.page_stride + 2 * at);
    }
    std::byte* const codes = t.data + slot.block * t.block_stride + std::uint64_t{plane_row} * t.row_stride + std::uint64_t{slot.offset} * t.code_bytes;
    std::byte* const scales = t.scales + slot.block * t.scale_block_stride + std::uint64_t{plane_row} * t.scale_row_stride +
                              std::uint64_t{slot.offset} * t.scale_stride;
    switch (t.scale) {
    case KvScale::none:
        if (t.dtype == DType::f16) return store_numbers<__half>(row, width, codes);
        return t.dtype == DType::bf16 ? store_numbers<__nv_bfloat16>(row, width, codes) : store_numbers<float>(row, width, codes);
    case KvScale::tensor:
    case KvScale::head: return store_fp8(t.dtype, row, width, *reinterpret_cast<const float*>(scales), codes);
    case KvScale::pack: {
        unsigned beyond = 0;
        const unsigned bytes = pack_layout(t.dtype).bytes;
        for (unsigned pack = 0; pack < width / 32; ++pack) beyond += store_pack(t.dtype, row[32 * pack + threadIdx.x % 32], codes + pack * bytes);
        return beyond;
    }
    default: break;
    }
    RowRange range;
    range.take(row, width);
    range.join();
    if (t.dtype == DType::int4) {
        const std::uint32_t by = step_and_minimum_of(range, 15.0f);
        if (threadIdx.x % 32 == 0) *reinterpret_cast<std::uint32_t*>(scales) = by;
        return store_int4(row, width, by, codes);
    }
    const float scale = token_scale(range.magnitude(), t.dtype == DType::int8 ? 127.0f : largest_fp8(t.dtype));
    if (threadIdx.x % 32 == 0) *reinterpret_cast<float*>(scales) = scale;
    if (t.dtype != DType::int8) return store_fp8(t.dtype, row, width, scale, codes);
    store_int8(row, width, scale, codes);
    return 0;
}

// The same of K and V by one scale, which lies with K.
__device__ __forceinline__ unsigned store_joint(const CacheLayer& cache, const float* k, const float* v, std::uint32_t head, const Slot& slot) {
    RowRange range;
    range.take(k, cache.head_dim_k);
    range.take(v, cache.head_dim_v);
    range.join();
    const auto codes = [&](const CacheTensor& t) {
        return t.data + slot.block * t.block_stride + std::uint64_t{head} * t.row_stride + std::uint64_t{slot.offset} * t.code_bytes;
    };
    const CacheTensor& keys = cache.keys;
    std::byte* const scales = keys.scales + slot.block * keys.scale_block_stride + std::uint64_t{head} * keys.scale_row_stride +
                              std::uint64_t{slot.offset} * keys.scale_stride;
    if (keys.dtype == DType::int4) {
        const std::uint32_t by = step_and_minimum_of(range, 15.0f);
        if (threadIdx.x % 32 == 0) *reinterpret_cast<std::uint32_t*>(scales) = by;
        return store_int4(k, cache.head_dim_k, by, codes(keys)) + store_int4(v, cache.head_dim_v, by, codes(cache.values));
    }
    const float scale = token_scale(range.magnitude(), 127.0f);
    if (threadIdx.x % 32 == 0) *reinterpret_cast<float*>(scales) = scale;
    store_int8(k, cache.head_dim_k, scale, codes(keys));
    store_int8(v, cache.head_dim_v, scale, codes(cache.values));
    return 0;
}

// Brings a plane row of K into shared memory, turned by position (in place too) and by Hadamard.
template <RotaryLayout layout>
__device__ __forceinline__ void stage_keys(const RotaryStore& args, std::uint32_t token, std::uint32_t plane_row, const float2* turns, float* staged) {
    const CacheLayer& cache = args.cache;
    const unsigned dim = cache.head_dim_k, half = args.rotary.rotary_dim / 2, lane = threadIdx.x % 32;
    for (unsigned h = 0; h < cache.keys.heads_per_row; ++h) {
        float* const k = args.k + (std::uint64_t{token} * cache.kv_heads + plane_row * cache.keys.heads_per_row + h) * dim;
        float* const to = staged + h * dim;
        for (unsigned i = lane; i < half; i += 32) {
            Pairs<layout, 1> pair;
            pair.load_from(k, i, half);
            pair.turn(turns, i);
            pair.store_to(k, i, half);
            pair.store_to(to, i, half);
        }
        for (unsigned i = 2 * half + lane; i < dim; i += 32) to[i] = k[i];
        if (cache.keys.rotate) hadamard_row(to, dim);
    }
    __syncwarp();
}
__device__ __forceinline__ void stage_values(const RotaryStore& args, std::uint32_t token, std::uint32_t plane_row, float* staged) {
    const CacheLayer& cache = args.cache;
    const unsigned dim = cache.head_dim_v, width = dim * cache.values.heads_per_row;
    const float* const v = args.v + (std::uint64_t{token} * cache.kv_heads + plane_row * cache.values.heads_per_row) * dim;
    for (unsigned i = threadIdx.x % 32; i < width; i += 32) staged[i] = v[i];
    if (cache.values.rotate)
        for (unsigned h = 0; h < cache.values.heads_per_row; ++h) hadamard_row(staged + h * dim, dim);
    __syncwarp();
}

// Block (row of the batch, part). width: pairs of a query per thread and access.
template <RotaryLayout layout, unsigned width>
__global__ void __launch_bounds__(turn_threads) turn_and_quantise(const RotaryStore args, const StoreParts parts) {
    KVLOUPE_KERNEL(turn_and_quantise);
    KVLOUPE_DYNAMIC_SHARED(float, shared);  // rows (warps, 1 or 2, parts.width), then angles (rotary_dim / 2)
    const CacheLayer& cache = args.cache;
    const unsigned token = blockIdx.x, part = blockIdx.y, warp = threadIdx.x / 32, each = parts.joint ? 2 : 1;
    const bool values = part >= parts.of_queries + parts.of_keys;  // the same for the whole block
    float2* const turns = reinterpret_cast<float2*>(shared + warps * each * parts.width);
    if (!values) {
        find_turns(args.rotary, args.positions[token], turns);
        __syncthreads();
    }
    if (part < parts.of_queries) return turn_queries<layout, width>(args, token, part * turn_heads, turns);
    const CacheTensor& keys = cache.keys;
    const unsigned rows = cache.kv_heads / (values ? cache.values.heads_per_row : keys.heads_per_row);
    const unsigned plane_row = (part - parts.of_queries - (values ? parts.of_keys : 0)) * warps + warp;
    if (plane_row >= rows) return;
    float* const staged = shared + warp * each * parts.width;
    if (values) stage_values(args, token, plane_row, staged);
    else stage_keys<layout>(args, token, plane_row, turns, staged);
    if (!parts.store) return;
    const std::uint64_t at = args.slots[token];
    Slot slot;
    slot.block = at / cache.block_size;
    slot.offset = static_cast<std::uint32_t>(at - slot.block * cache.block_size);
    slot.page = args.slot_pages != nullptr ? args.slot_pages[token] : 0;
    unsigned beyond;
    if (values) {
        beyond = store_row(cache.values, cache.block_size, staged, cache.head_dim_v * cache.values.heads_per_row, plane_row, slot);
    } else if (!parts.joint) {
        beyond = store_row(keys, cache.block_size, staged, cache.head_dim_k * keys.heads_per_row, plane_row, slot);
    } else {
        stage_values(args, token, plane_row, staged + parts.width);
        beyond = store_joint(cache, staged, staged + parts.width, plane_row, slot);
    }
    if (beyond > 0) atomicAdd(args.overflowed, static_cast<unsigned long long>(beyond));  // seldom
}

// Block (head, K or V).
__global__ void __launch_bounds__(turn_threads) find_head_scales(const RotaryStore args, const unsigned width) {
    KVLOUPE_KERNEL(find_head_scales);
    KVLOUPE_DYNAMIC_SHARED(float, shared);  // (warps, width)
    KVLOUPE_SHARED(float, largest_of_warps, warps);
    const CacheLayer& cache = args.cache;
    const bool values = blockIdx.y != 0;
    const CacheTensor& of = values ? cache.values : cache.keys;
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32, dim = values ? cache.head_dim_v : cache.head_dim_k;
    if (of.scale != KvScale::head || dim == 0) return;
    float* const staged = shared + warp * width;
    float largest = 0;
    for (std::uint32_t token = warp; token < args.rows; token += warps) {
        const float* const from = (values ? args.v : args.k) + (std::uint64_t{token} * cache.kv_heads + blockIdx.x) * dim;
        for (unsigned i = lane; i < dim; i += 32) staged[i] = from[i];
        if (of.rotate) hadamard_row(staged, dim);
        __syncwarp();
        for (unsigned i = lane; i < dim; i += 32)
            if (isfinite(staged[i])) largest = fmaxf(largest, fabsf(staged[i]));
        __syncwarp();
    }
    largest = warp_max(largest);
    if (lane == 0) largest_of_warps[warp] = largest;
    __syncthreads();
    if (threadIdx.x != 0) return;
    for (unsigned w = 0; w < warps; ++w) largest = fmaxf(largest, largest_of_warps[w]);
    float* const scale = reinterpret_cast<float*>(of.scales + std::uint64_t{blockIdx.x} * of.scale_row_stride);
    if (*scale == 0) *scale = largest > 0 ? token_scale(largest, largest_fp8(of.dtype)) : 1.0f;
}

// Keys: block (head, group of tokens), a thread a byte of codes; values: block (head, token), a thread a group of channels.
template <unsigned bits>
__global__ void __launch_bounds__(turn_threads) seal_pages(const Seal seal) {
    KVLOUPE_KERNEL(seal_pages);
    constexpr unsigned in_byte = 8 / bits;
    constexpr int top = (1 << bits) - 1;
    const CacheTensor& t = seal.tensor;
    const unsigned head = blockIdx.x, dim = seal.head_dim;
    const auto page_row = [&](unsigned token) {
        return reinterpret_cast<const __half*>(t.pages + seal.page * t.page_stride) + (std::uint64_t{head} * seal.block_size + token) * dim;
    };
    std::byte* const codes = t.data + seal.block * t.block_stride + std::uint64_t{head} * t.row_stride;
    std::byte* const scales = t.scales + seal.block * t.scale_block_stride + std::uint64_t{head} * t.scale_row_stride;
    if (seal.keys) {
        const unsigned first = blockIdx.y * t.group;
        for (unsigned byte = threadIdx.x; byte < dim / in_byte; byte += turn_threads) {
            std::uint32_t by[in_byte];
            KVLOUPE_UNROLL
            for (unsigned j = 0; j < in_byte; ++j) {
                RowRange range;
                for (unsigned token = first; token < first + t.group; ++token) range.take(to_float(page_row(token)[byte * in_byte + j]));
                by[j] = step_and_minimum_of(range, static_cast<float>(top));
                reinterpret_cast<std::uint32_t*>(scales)[std::uint64_t{blockIdx.y} * dim + byte * in_byte + j] = by[j];
            }
            for (unsigned token = first; token < first + t.group; ++token) {
                unsigned code = 0;
                KVLOUPE_UNROLL
                for (unsigned j = 0; j < in_byte; ++j) code |= asymmetric_code(to_float(page_row(token)[byte * in_byte + j]), by[j], top) << bits * j;
                codes[std::uint64_t{token} * t.code_bytes + byte] = static_cast<std::byte>(code);
            }
        }
        return;
    }
    const unsigned token = blockIdx.y, groups = dim / t.group;
    for (unsigned group = threadIdx.x; group < groups; group += turn_threads) {
        const __half* const x = page_row(token) + group * t.group;
        RowRange range;
        for (unsigned i = 0; i < t.group; ++i) range.take(to_float(x[i]));
        const std::uint32_t by = step_and_minimum_of(range, static_cast<float>(top));
        reinterpret_cast<std::uint32_t*>(scales + std::uint64_t{token} * t.scale_stride)[group] = by;
        for (unsigned i = 0; i < t.group; i += in_byte) {
            unsigned code = 0;
            KVLOUPE_UNROLL
            for (unsigned j = 0; j < in_byte; ++j) code |= asymmetric_code(to_float(x[i + j]), by, top) << bits * j;
            codes[std::uint64_t{token} * t.code_bytes + (group * t.group + i) / in_byte] = static_cast<std::byte>(code);
        }
    }
}

unsigned widest(const CacheLayer& cache) {
    return std::max(cache.head_dim_k * cache.keys.heads_per_row, cache.head_dim_v * cache.values.heads_per_row);
}

bool storable(const CacheLayer& cache) {
    const auto of = [&](const CacheTensor& t, std::uint32_t dim) {
        return readable(t) && cache.kv_heads % t.heads_per_row == 0 && (!t.rotate || turnable(dim)) && (t.scale != KvScale::channel || t.pages != nullptr);
    };
    const bool values = cache.head_dim_v == 0 || of(cache.values, cache.head_dim_v);  // a latent without a rotary key has none
    return cache.block_size > 0 && of(cache.keys, cache.head_dim_k) && values && widest(cache) <= widest_stored_row;
}

// Plain rows of numbers as everything else is described.
RotaryStore with_strides(RotaryStore args) {
    const auto describe = [&](CacheTensor& t, std::uint32_t dim) {
        if (!t.in_rows) return;
        t.code_bytes = static_cast<std::uint32_t>(row_bytes(t.dtype, dim));
        t.row_stride = t.code_bytes * args.cache.block_size;
        t.block_stride = std::uint64_t{t.row_stride} * args.cache.kv_heads;
        t.scale = KvScale::none;
        t.heads_per_row = 1;
    };
    describe(args.cache.keys, args.cache.head_dim_k);
    describe(args.cache.values, args.cache.head_dim_v);
    return args;
}

cudaError_t turn(const RotaryStore& args, bool store, cudaStream_t stream) {
    const CacheLayer& cache = args.cache;
    StoreParts parts;
    parts.joint = store && cache.keys.scale == KvScale::joint;
    parts.store = store;
    parts.width = widest(cache);
    parts.of_queries = args.rotary.rotary_dim > 0 ? parts_of(args.query_heads, turn_heads) : 0;
    parts.of_keys = parts_of(cache.kv_heads / cache.keys.heads_per_row, warps);
    const unsigned of_values = parts.joint || !store || cache.head_dim_v == 0 ? 0 : parts_of(cache.kv_heads / cache.values.heads_per_row, warps);
    const std::size_t bytes = std::size_t{warps} * parts.width * (parts.joint ? 2 : 1) * sizeof(float) + args.rotary.rotary_dim / 2 * sizeof(float2);
    const bool four = turns_fours(args), split = args.rotary.layout == RotaryLayout::half_split;
    const auto kernel = split ? (four ? turn_and_quantise<RotaryLayout::half_split, 4> : turn_and_quantise<RotaryLayout::half_split, 1>)
                              : (four ? turn_and_quantise<RotaryLayout::adjacent, 4> : turn_and_quantise<RotaryLayout::adjacent, 1>);
    return launch(kernel, dim3(args.rows, parts.of_queries + parts.of_keys + of_values), turn_threads, bytes, stream, args, parts);
}

}  // namespace

cudaError_t turn_and_quantise_rows(const RotaryStore& args, cudaStream_t stream) {
    if (!storable(args.cache)) return cudaErrorInvalidValue;
    return turn(with_strides(args), true, stream);
}

cudaError_t take_head_scales(const RotaryStore& args, cudaStream_t stream) {
    if (args.rotary.rotary_dim > args.cache.head_dim_k || args.rotary.rotary_dim % 2 != 0 || !storable(args.cache)) return cudaErrorInvalidValue;
    if (args.rows == 0) return cudaSuccess;
    if (args.rotary.rotary_dim > 0)
        if (const cudaError_t error = turn(args, false, stream); error != cudaSuccess) return error;
    const std::size_t bytes = std::size_t{warps} * widest(args.cache) * sizeof(float);
    return launch(find_head_scales, dim3(args.cache.kv_heads, 2), turn_threads, bytes, stream, args, widest(args.cache));
}

cudaError_t seal_block(const Seal& seal, cudaStream_t stream) {
    const CacheTensor& t = seal.tensor;
    const std::uint32_t in_group = seal.keys ? seal.block_size : seal.head_dim, in_byte = t.dtype == DType::kivi2 ? 4 : 2;
    if ((t.dtype != DType::kivi2 && t.dtype != DType::kivi4) || t.group == 0 || in_group % t.group != 0 || t.pages == nullptr ||
        seal.head_dim % in_byte != 0 || (!seal.keys && t.group % in_byte != 0) || seal.kv_heads == 0)
        return cudaErrorInvalidValue;
    const dim3 grid(seal.kv_heads, seal.keys ? seal.block_size / t.group : seal.block_size);
    return launch(t.dtype == DType::kivi2 ? seal_pages<2> : seal_pages<4>, grid, turn_threads, 0, stream, seal);
}

}  // namespace kvloupe::cuda
