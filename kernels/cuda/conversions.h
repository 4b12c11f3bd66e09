// SPDX-License-Identifier: GPL-3.0-or-later
//
// Plain elements on the device, f32, f16 and bf16, one at a time and in 16-byte vectors. Widening is exact; narrowing rounds to
// nearest, ties to even, overflow to infinity. The packs of GGUF: elements.h.
#pragma once

#include "engine/record/dtype.h"
#include "kernels/cuda/platform.h"

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace kvloupe::cuda {

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(__half value) { return __half2float(value); }
__device__ __forceinline__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

// Of a bit pattern.
__device__ __forceinline__ float f16_value(std::uint16_t bits) { return __half2float(__ushort_as_half(bits)); }
__device__ __forceinline__ float bf16_value(std::uint16_t bits) { return __uint_as_float(static_cast<unsigned>(bits) << 16); }

template <class Element>
__device__ __forceinline__ Element from_float(float value) {
    if constexpr (std::is_same_v<Element, float>) return value;
    else if constexpr (std::is_same_v<Element, __half>) return __float2half_rn(value);
    else return __float2bfloat16_rn(value);
}

// Two elements as the low and high half of a word.
template <class Element>
__device__ __forceinline__ std::uint32_t pack_two(float low, float high) {
    if constexpr (std::is_same_v<Element, __half>) {
        const __half2 pair = __floats2half2_rn(low, high);
        return reinterpret_cast<const std::uint32_t&>(pair);
    } else {
        const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
        return reinterpret_cast<const std::uint32_t&>(pair);
    }
}
template <class Element>
__device__ __forceinline__ float2 unpack_two(std::uint32_t word) {
    if constexpr (std::is_same_v<Element, __half>) return __half22float2(reinterpret_cast<const __half2&>(word));
    else return __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(word));
}

// Four elements; `at` is aligned to 4 * sizeof(Element).
template <class Element>
__device__ __forceinline__ void load_four(const Element* at, float (&to)[4]) {
    if constexpr (std::is_same_v<Element, float>) {
        const float4 four = *reinterpret_cast<const float4*>(at);
        to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
    } else {
        const uint2 words = *reinterpret_cast<const uint2*>(at);
        const float2 low = unpack_two<Element>(words.x), high = unpack_two<Element>(words.y);
        to[0] = low.x, to[1] = low.y, to[2] = high.x, to[3] = high.y;
    }
}
template <class Element>
__device__ __forceinline__ void store_four(Element* at, const float (&from)[4]) {
    if constexpr (std::is_same_v<Element, float>)
        *reinterpret_cast<float4*>(at) = make_float4(from[0], from[1], from[2], from[3]);
    else
        *reinterpret_cast<uint2*>(at) = make_uint2(pack_two<Element>(from[0], from[1]), pack_two<Element>(from[2], from[3]));
}

// 16 bytes: four f32, or eight f16 or bf16. `at` is aligned to 16.
template <class Element>
inline constexpr unsigned elements_of_16_bytes = 16 / sizeof(Element);

template <class Element>
__device__ __forceinline__ void load_16_bytes(const Element* at, float (&to)[elements_of_16_bytes<Element>]) {
    if constexpr (std::is_same_v<Element, float>) {
        load_four(at, to);
    } else {
        const uint4 words = *reinterpret_cast<const uint4*>(at);
        const std::uint32_t word[4] = {words.x, words.y, words.z, words.w};
        KVLOUPE_UNROLL
        for (unsigned i = 0; i < 4; ++i) {
            const float2 pair = unpack_two<Element>(word[i]);
            to[2 * i] = pair.x, to[2 * i + 1] = pair.y;
        }
    }
}
template <class Element>
__device__ __forceinline__ void store_16_bytes(Element* at, const float (&from)[elements_of_16_bytes<Element>]) {
    if constexpr (std::is_same_v<Element, float>)
        store_four(at, from);
    else
        *reinterpret_cast<uint4*>(at) =
            make_uint4(pack_two<Element>(from[0], from[1]), pack_two<Element>(from[2], from[3]),
                       pack_two<Element>(from[4], from[5]), pack_two<Element>(from[6], from[7]));
}

// The element type of a plain DType.
template <DType dtype>
using Plain = std::conditional_t<dtype == DType::f32, float, std::conditional_t<dtype == DType::f16, __half, __nv_bfloat16>>;

// --- host: from a DType to a template argument ---

// use(Element{}) for f32, f16 and bf16. Errors: cudaErrorInvalidValue for a packed type.
template <class Use>
cudaError_t with_element(DType dtype, const Use& use) {
    switch (dtype) {
    case DType::f32: return use(float{});
    case DType::f16: return use(__half{});
    case DType::bf16: return use(__nv_bfloat16{});
    default: return cudaErrorInvalidValue;
    }
}

inline bool is_aligned(const void* at, std::uintptr_t bytes) { return reinterpret_cast<std::uintptr_t>(at) % bytes == 0; }

}  // namespace kvloupe::cuda
