// SPDX-License-Identifier: GPL-3.0-or-later
//
// Decode attention over latents on tensor cores (decode_latent.h): which caches it takes, and its launch.
#include "kernels/cuda/conversions.h"
#include "kernels/cuda/decode_latent.h"

namespace kvloupe::cuda {

namespace {

template <class T>
cudaError_t launch_latents(const DecodePlan& plan, cudaStream_t stream) {
    using Decode = LatentDecode<T>;
    return launch(decode_latents<T>, dim3(plan.count * plan.splits * plan.passes), dim3(Decode::threads),
                  sizeof(typename Decode::Shared), stream, plan);
}

}  // namespace

bool takes_latents(const AttentionArgs& args) {
    const CacheLayer& cache = args.cache;
    const bool plain = cache.keys.in_rows && cache.values.in_rows && cache.keys.dtype == cache.values.dtype && cache.keys.dtype != DType::f32;
    return args.latent && plain && args.soft_cap == 0 && cache.kv_heads == 1 && cache.head_dim_k == LatentDecode<__half>::rank &&
           cache.head_dim_v == LatentDecode<__half>::rotary && is_aligned(cache.keys.data, 16) && is_aligned(cache.values.data, 16) &&
           is_aligned(args.q, 8) && is_aligned(args.out, 8);
}

cudaError_t launch_decode_latents(const DecodePlan& plan, cudaStream_t stream) {
    return plan.args.cache.keys.dtype == DType::f16 ? launch_latents<__half>(plan, stream) : launch_latents<__nv_bfloat16>(plan, stream);
}

}  // namespace kvloupe::cuda
