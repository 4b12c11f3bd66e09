// SPDX-License-Identifier: GPL-3.0-or-later
//
// Which instance of decode_codes.h runs. A source of its own, so that it compiles beside attention_decode.cu.
//
// The loop, per warp and tile (compiler 13.0, sm_90, wide loads; the slots are those of an H200's bandwidth, see decode_codes.h):
//                      fp8 64   fp8 128   fp8 256   int8 64   int8 128   int8 256   int4 64   int4 128   int4 256
//     keys of a tile       32        32        16        32         32         16        32         32         16
//     instructions        499       671       688       596        863        878       730       1076       1036
//     of them mma          32        64        64        32         64         64        32         64         64
//     of the slots       63 %      42 %      43 %      71 %       53 %       55 %     164 %      128 %      127 %
//     registers           146       237       255       136        237        255       126        212        254
// So fp8 and int8 leave room up to memory's rate; int4's unpacking is the bound there, at 61 to 79 % of it, which is still fewer
// clocks a key than int8's bytes take. fp8: fixed scales; a scale a token adds 3 % of bytes. Nothing of
// this was measured on a card.
#include "kernels/cuda/decode_codes.h"

namespace kvloupe::cuda {

namespace {

struct CodesLaunch {
    const DecodePlan& plan;
    std::uint32_t group;
    bool sinks;
    cudaStream_t stream;

    template <class Codes, std::uint32_t HeadDim>
    cudaError_t width() const {
        const dim3 grid(plan.count * plan.splits * plan.args.cache.kv_heads * plan.passes);
        const std::size_t bytes = codes_decode_bytes<Codes, HeadDim>(group, sinks);
        const auto kernel = wide() ? decode_codes<Codes, HeadDim, true> : decode_codes<Codes, HeadDim, false>;
        return launch(kernel, grid, decode_threads, bytes, stream, plan);
    }
    template <class Codes>
    cudaError_t size() const {
        switch (plan.args.cache.head_dim_k) {
        case 64: return width<Codes, 64>();
        case 128: return width<Codes, 128>();
        default: return width<Codes, 256>();
        }
    }
    // Whether every row is aligned to 16 bytes.
    bool wide() const {
        const auto aligned = [](const CacheTensor& tensor) {
            return is_aligned(tensor.data, 16) && tensor.block_stride % 16 == 0 && tensor.row_stride % 16 == 0 && tensor.code_bytes % 16 == 0;
        };
        return aligned(plan.args.cache.keys) && aligned(plan.args.cache.values);
    }
};

// Rows and scales begin at multiples of 4 bytes.
bool in_words(const CacheTensor& tensor) {
    return is_aligned(tensor.data, 4) && tensor.block_stride % 4 == 0 && tensor.row_stride % 4 == 0 && tensor.code_bytes % 4 == 0 &&
           is_aligned(tensor.scales, 4);
}

}  // namespace

bool takes_codes(const CacheLayer& cache) {
    const DType dtype = cache.keys.dtype;
    const bool coded = dtype == DType::int8 || dtype == DType::int4 || dtype == DType::fp8_e4m3 || dtype == DType::fp8_e5m2;
    const std::uint32_t size = cache.head_dim_k;
    return coded && cache.values.dtype == dtype && !cache.keys.in_rows && !cache.values.in_rows && size == cache.head_dim_v &&
           (size == 64 || size == 128 || size == 256) && in_words(cache.keys) && in_words(cache.values);
}

cudaError_t launch_decode_codes(const DecodePlan& plan, std::uint32_t group, bool sinks, cudaStream_t stream) {
    const CodesLaunch work{plan, group, sinks, stream};
    switch (plan.args.cache.keys.dtype) {
    case DType::int8: return work.size<ByteCodes<DType::int8>>();
    case DType::fp8_e4m3: return work.size<ByteCodes<DType::fp8_e4m3>>();
    case DType::fp8_e5m2: return work.size<ByteCodes<DType::fp8_e5m2>>();
    default: return work.size<NibbleCodes>();
    }
}

}  // namespace kvloupe::cuda
