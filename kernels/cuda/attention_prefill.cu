// SPDX-License-Identifier: GPL-3.0-or-later
//
// Prefill attention: chooses the kernel. TO DO
#include "kernels/cuda/attention_prefill_plain.h"
#include "kernels/cuda/attention_prefill_tensor.h"
#include "kernels/cuda/conversions.h"
#include "kernels/cuda/kernels.h"

namespace kvloupe::cuda {

namespace {

constexpr std::uint32_t largest_head = 256;

template <class T, unsigned Dim, unsigned Heads>
cudaError_t run_tensor(const PrefillAttention& prefill, cudaStream_t stream) {
    using Layout = PrefillLayout<Dim, Heads>;
    return launch(prefill_tensor_kernel<T, Dim, Heads>, dim3(prefill.count * (prefill.args.query_heads / Heads)),
                  dim3(Layout::threads), Layout::shared_bytes, stream, prefill);
}

// Two query heads of a group read K and V together where there are two, and registers for them.
template <class T, unsigned Dim>
cudaError_t run_dim(const PrefillAttention& prefill, cudaStream_t stream) {
    if constexpr (Dim <= 128) {
        if (prefill.args.query_heads / prefill.args.cache.kv_heads % 2 == 0) return run_tensor<T, Dim, 2>(prefill, stream);
    }
    return run_tensor<T, Dim, 1>(prefill, stream);
}

template <class T>
cudaError_t run_type(const PrefillAttention& prefill, cudaStream_t stream) {
    switch (prefill.args.cache.head_dim_k) {
    case 64: return run_dim<T, 64>(prefill, stream);
    case 80: return run_dim<T, 80>(prefill, stream);
    case 96: return run_dim<T, 96>(prefill, stream);
    case 128: return run_dim<T, 128>(prefill, stream);
    default: return run_dim<T, 256>(prefill, stream);
    }
}

bool for_tensor_cores(const AttentionArgs& args) {
    const CacheLayer& cache = args.cache;
    const bool sizes = cache.head_dim_k == 64 || cache.head_dim_k == 80 || cache.head_dim_k == 96 || cache.head_dim_k == 128 ||
                       cache.head_dim_k == 256;
    return sizes && cache.head_dim_k == cache.head_dim_v && cache.keys.dtype == cache.values.dtype &&
           cache.keys.dtype != DType::f32 && is_aligned(cache.keys.data, 16) && is_aligned(cache.values.data, 16) && is_aligned(args.out, 8);
}

template <unsigned MaxDim>
cudaError_t run_plain(const PrefillAttention& prefill, cudaStream_t stream) {
    constexpr unsigned pieces = prefill_rows / PlainPrefillLayout::rows;
    return launch(prefill_plain_kernel<MaxDim>, dim3(prefill.count * pieces * prefill.args.query_heads),
                  dim3(PlainPrefillLayout::threads), PlainPrefillLayout(prefill.args.cache).shared_bytes(), stream, prefill);
}

bool plain(DType dtype) { return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16; }

}  // namespace

cudaError_t attention_prefill(const PrefillAttention& prefill, cudaStream_t stream) {
    const AttentionArgs& args = prefill.args;
    const CacheLayer& cache = args.cache;
    if (prefill.count == 0 || args.query_heads == 0) return cudaSuccess;
    if (cache.kv_heads == 0 || args.query_heads % cache.kv_heads != 0 || cache.block_size == 0 || cache.head_dim_k == 0 ||
        cache.head_dim_k > largest_head || cache.head_dim_v == 0 || cache.head_dim_v > largest_head ||
        !plain(cache.keys.dtype) || !plain(cache.values.dtype))
        return cudaErrorInvalidValue;
    if (for_tensor_cores(args))
        return cache.keys.dtype == DType::f16 ? run_type<__half>(prefill, stream) : run_type<__nv_bfloat16>(prefill, stream);
    if (cache.head_dim_v <= 64) return run_plain<64>(prefill, stream);
    if (cache.head_dim_v <= 128) return run_plain<128>(prefill, stream);
    return run_plain<256>(prefill, stream);
}

}  // namespace kvloupe::cuda
