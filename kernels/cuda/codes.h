// SPDX-License-Identifier: GPL-3.0-or-later
//
// Codes of quantised caches (engine/record/kv_format.h) on the device: 8-bit floats both ways, and codes expanded to pairs of
// f16 for tensor cores. Every code is a number that f16 holds exactly (integers up to 255, E4M3 up to 448, E5M2 is the upper
// half of an f16), so that products with it are as exact as those with an f16 cache; scales come afterwards.
//
// Narrowing is written out for every card: a step writes one row per token, and what hardware does (sm_89 and newer, to the
// same bits but for the sign of NaN) saves nothing there. Widening E4M3 in decode uses the hardware's conversion where there
// is one: it is exact, NaN stays NaN.
#pragma once

#include "engine/record/dtype.h"
#include "kernels/cuda/conversions.h"

#include <cstdint>

namespace kvloupe::cuda {

// --- 8-bit floats (OCP 8-bit Floating Point Specification) ---

__host__ __device__ __forceinline__ float largest_fp8(DType type) { return type == DType::fp8_e4m3 ? 448.0f : 57344.0f; }
// Beyond it a value counts as cut; see kernels/cpu/fp8.h.
__host__ __device__ __forceinline__ float cut_fp8(DType type) { return largest_fp8(type) * 1.000001f; }

// To nearest, ties to even; beyond the largest number it is that one (infinity too); NaN stays NaN.
__device__ __forceinline__ std::uint8_t fp8_from_float(DType type, float value) {
    const bool narrow = type == DType::fp8_e4m3;
    const unsigned mantissa = narrow ? 3 : 2, lowest = narrow ? 127 - 6 : 127 - 14;  // exponent of a normal number, biased
    const std::uint32_t bits = __float_as_uint(value), sign = bits >> 24 & 0x80u, magnitude = bits & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u) return static_cast<std::uint8_t>(sign | 0x7Fu);
    if (__uint_as_float(magnitude) >= largest_fp8(type)) return static_cast<std::uint8_t>(sign | (narrow ? 0x7Eu : 0x7Bu));
    if (magnitude < lowest << 23) {
        // In units of the smallest step: adding 2^23 of them leaves the rounded number in the low bits.
        const std::uint32_t base = (lowest - mantissa + 23) << 23;
        const std::uint32_t shifted = __float_as_uint(__fadd_rn(__uint_as_float(magnitude), __uint_as_float(base)));
        return static_cast<std::uint8_t>(sign | (shifted - base));
    }
    const unsigned shift = 23 - mantissa;
    const std::uint32_t rounded = (magnitude + (1u << (shift - 1)) - 1 + (magnitude >> shift & 1u)) >> shift;
    return static_cast<std::uint8_t>(sign | (rounded - ((lowest - 1) << mantissa)));
}

__device__ __forceinline__ float fp8_value(DType type, std::uint32_t code) {
    if (type == DType::fp8_e5m2) return f16_value(static_cast<std::uint16_t>(code << 8));
    // An f16 whose exponent is 8 too small; of subnormal numbers too.
    const std::uint32_t magnitude = code & 0x7Fu;
    const std::uint16_t bits = static_cast<std::uint16_t>((code & 0x80u) << 8 | (magnitude == 0x7Fu ? 0x7E00u : magnitude << 7));
    return f16_value(bits) * 256.0f;
}

// --- pairs of f16 from a word of codes ---

__device__ __forceinline__ std::uint32_t permuted_bytes(std::uint32_t a, std::uint32_t b, std::uint32_t selector) {
#if defined(__CUDACC__)
    return __byte_perm(a, b, selector);
#else
    const std::uint64_t both = std::uint64_t{b} << 32 | a;
    std::uint32_t bytes = 0;
    for (unsigned i = 0; i < 4; ++i) bytes |= static_cast<std::uint32_t>(both >> 8 * (selector >> 4 * i & 7u) & 0xFFu) << 8 * i;
    return bytes;
#endif
}
__device__ __forceinline__ __half2 as_half2(std::uint32_t word) { return reinterpret_cast<const __half2&>(word); }
__device__ __forceinline__ std::uint32_t as_word(const __half2& pair) { return reinterpret_cast<const std::uint32_t&>(pair); }
// pair - both, where the difference is exact.
__device__ __forceinline__ std::uint32_t minus(std::uint32_t pair, std::uint32_t both) {
    return as_word(__hsub2(as_half2(pair), as_half2(both)));
}

// What decode_codes.h needs of a precision:
//   in_word        codes of a 32-bit word; pairs: in_word / 2 words of two f16 that expand() makes of it
//   distance       pair p holds codes first(p) and first(p) + distance
//   side_by_side   two words such that expanding them gives pairs (code of a, code of b): of codes 0, 1, 2, …
template <DType dtype>
struct ByteCodes {
    static constexpr unsigned in_word = 4, distance = 1;
    static constexpr bool has_minimum = false;
    __device__ __forceinline__ static unsigned first(unsigned pair) { return 2 * pair; }
    // Of a token's scale, as it is stored: value = number * step(bits).
    __device__ __forceinline__ static float step(std::uint32_t bits) { return __uint_as_float(bits); }
    __device__ __forceinline__ static float centre(std::uint32_t) { return 0; }

    __device__ __forceinline__ static void expand(std::uint32_t word, std::uint32_t (&to)[2]) {
        if constexpr (dtype == DType::int8) {
            // 0x6400 + n is 1024 + n as f16, for n below 1024; the sign bit turned makes n = code + 128.
            const std::uint32_t shifted = word ^ 0x80808080u;
            to[0] = minus(permuted_bytes(shifted, 0x64646464u, 0x4140), 0x64806480u);
            to[1] = minus(permuted_bytes(shifted, 0x64646464u, 0x4342), 0x64806480u);
        } else if constexpr (dtype == DType::fp8_e5m2) {
            to[0] = permuted_bytes(word, 0, 0x1404);
            to[1] = permuted_bytes(word, 0, 0x3424);
        } else {
            static_assert(dtype == DType::fp8_e4m3);
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
            asm("{ .reg .b16 low, high; mov.b32 {low, high}, %2; cvt.rn.f16x2.e4m3x2 %0, low; cvt.rn.f16x2.e4m3x2 %1, high; }"
                : "=r"(to[0]), "=r"(to[1]) : "r"(word));
#else
            to[0] = from_high_bytes(permuted_bytes(word, 0, 0x1404));
            to[1] = from_high_bytes(permuted_bytes(word, 0, 0x3424));
#endif
        }
    }
    __device__ __forceinline__ static void side_by_side(std::uint32_t a, std::uint32_t b, std::uint32_t (&to)[2]) {
        to[0] = permuted_bytes(a, b, 0x5140);
        to[1] = permuted_bytes(a, b, 0x7362);
    }

private:
    // Two E4M3 in the upper bytes of the halves.
    __device__ __forceinline__ static std::uint32_t from_high_bytes(std::uint32_t word) {
        const std::uint32_t magnitude = word >> 1 & 0x3F803F80u;
        const std::uint32_t nan = (magnitude + 0x00800080u) & 0x40004000u;  // 0x7F alone carries into bit 14
        const std::uint32_t bits = (word & 0x80008000u) | magnitude | nan | (nan - (nan >> 4));
        return as_word(__hmul2(as_half2(bits), as_half2(0x5C005C00u)));   // times 256
    }
};

// int4: codes 0 .. 15, the first of a byte in its low bits; value = code * step + minimum. They expand to code - 8, so that what
// is multiplied lies around 0 as the values do, and sums of products stay as small as those of the values.
struct NibbleCodes {
    static constexpr unsigned in_word = 8, distance = 4;
    static constexpr bool has_minimum = true;
    __device__ __forceinline__ static unsigned first(unsigned pair) { return pair; }
    // value = number * step(bits) + centre(bits)
    __device__ __forceinline__ static float step(std::uint32_t bits) { return f16_value(static_cast<std::uint16_t>(bits)); }
    __device__ __forceinline__ static float centre(std::uint32_t bits) {
        return fmaf(8.0f, step(bits), f16_value(static_cast<std::uint16_t>(bits >> 16)));
    }

    __device__ __forceinline__ static void expand(std::uint32_t word, std::uint32_t (&to)[4]) {
        KVLOUPE_UNROLL
        for (unsigned i = 0; i < 4; ++i) to[i] = minus((word >> 4 * i & 0x000F000Fu) | 0x64006400u, 0x64086408u);
    }
    __device__ __forceinline__ static void side_by_side(std::uint32_t a, std::uint32_t b, std::uint32_t (&to)[2]) {
        to[0] = permuted_bytes(a, b, 0x5410);
        to[1] = permuted_bytes(a, b, 0x7632);
    }
};

}  // namespace kvloupe::cuda
