// SPDX-License-Identifier: GPL-3.0-or-later
//
// Stored elements on the device: f32, f16, bf16 and the packs of GGUF (FORMATS 2.3), one at a time, in 16-byte vectors, and
// eight at a time. Widening is exact; narrowing rounds to nearest, ties to even, overflow to infinity.
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

// q8_0: f16 d, 32 int8. q4_0: f16 d, 16 bytes of nibbles. q4_1: f16 d, f16 m, 16 bytes of nibbles; the low nibbles are
// elements 0 .. 15. Packs are aligned to 2 bytes only.
template <DType dtype>
inline constexpr unsigned pack_bytes = dtype == DType::q8_0 ? 34 : dtype == DType::q4_0 ? 18 : 20;
template <DType dtype>
inline constexpr bool is_packed = dtype == DType::q8_0 || dtype == DType::q4_0 || dtype == DType::q4_1;

__device__ __forceinline__ float half_at(const std::byte* at) { return f16_value(*reinterpret_cast<const std::uint16_t*>(at)); }

// The value of quant q (0 .. 15, or -128 .. 127) of a pack: exact in f32, but for q4_1's sum.
template <DType dtype>
__device__ __forceinline__ float pack_value(const std::byte* pack, int quant) {
    if constexpr (dtype == DType::q8_0) return half_at(pack) * static_cast<float>(quant);
    else if constexpr (dtype == DType::q4_0) return half_at(pack) * static_cast<float>(quant - 8);
    else return half_at(pack) * static_cast<float>(quant) + half_at(pack + 2);
}

// Element `index` of a row.
template <DType dtype>
__device__ __forceinline__ float load_element(const std::byte* row, std::uint64_t index) {
    if constexpr (!is_packed<dtype>) {
        return to_float(reinterpret_cast<const Plain<dtype>*>(row)[index]);
    } else {
        const std::byte* const pack = row + index / 32 * pack_bytes<dtype>;
        const unsigned inside = static_cast<unsigned>(index % 32);
        if constexpr (dtype == DType::q8_0) {
            return pack_value<dtype>(pack, reinterpret_cast<const signed char*>(pack)[2 + inside]);
        } else {
            const unsigned byte = reinterpret_cast<const unsigned char*>(pack)[pack_bytes<dtype> - 16 + inside % 16];
            return pack_value<dtype>(pack, static_cast<int>(inside < 16 ? byte & 15u : byte >> 4));
        }
    }
}

// Elements index .. index + 7 of a row; index is a multiple of 8, and plain rows are aligned to 16.
template <DType dtype>
__device__ __forceinline__ void load_eight(const std::byte* row, std::uint64_t index, float (&to)[8]) {
    if constexpr (dtype == DType::f32) {
        const float* const at = reinterpret_cast<const float*>(row) + index;
        float low[4], high[4];
        load_four(at, low);
        load_four(at + 4, high);
        KVLOUPE_UNROLL
        for (unsigned i = 0; i < 4; ++i) to[i] = low[i], to[4 + i] = high[i];
    } else if constexpr (!is_packed<dtype>) {
        load_16_bytes(reinterpret_cast<const Plain<dtype>*>(row) + index, to);
    } else {
        const std::byte* const pack = row + index / 32 * pack_bytes<dtype>;
        const unsigned inside = static_cast<unsigned>(index % 32);
        // Two quants a load: all that the alignment allows.
        const unsigned at = dtype == DType::q8_0 ? 2 + inside : pack_bytes<dtype> - 16 + inside % 16;
        const unsigned short* const words = reinterpret_cast<const unsigned short*>(pack + at);
        KVLOUPE_UNROLL
        for (unsigned i = 0; i < 4; ++i) {
            const unsigned word = words[i];
            if constexpr (dtype == DType::q8_0) {
                to[2 * i] = pack_value<dtype>(pack, static_cast<signed char>(word & 0xFFu));
                to[2 * i + 1] = pack_value<dtype>(pack, static_cast<signed char>(word >> 8));
            } else {
                const unsigned nibbles = inside < 16 ? word : word >> 4;
                to[2 * i] = pack_value<dtype>(pack, static_cast<int>(nibbles & 15u));
                to[2 * i + 1] = pack_value<dtype>(pack, static_cast<int>(nibbles >> 8 & 15u));
            }
        }
    }
}

// --- host: from a DType to a template argument ---

// use(std::integral_constant<DType, dtype>{})
template <class Use>
cudaError_t with_dtype(DType dtype, const Use& use) {
    switch (dtype) {
    case DType::f32: return use(std::integral_constant<DType, DType::f32>{});
    case DType::f16: return use(std::integral_constant<DType, DType::f16>{});
    case DType::bf16: return use(std::integral_constant<DType, DType::bf16>{});
    case DType::q8_0: return use(std::integral_constant<DType, DType::q8_0>{});
    case DType::q4_0: return use(std::integral_constant<DType, DType::q4_0>{});
    case DType::q4_1: return use(std::integral_constant<DType, DType::q4_1>{});
    default: break;
    }
    return cudaErrorInvalidValue;
}

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
