// SPDX-License-Identifier: GPL-3.0-or-later
//
// __nv_bfloat16 and __nv_bfloat162 as cuda_bf16.h has them on the device, as far as kernels use them. Written apart from
// engine/model/half.h, so that the two check each other (tst_emulation_numbers). Arithmetic: see half.h.
#pragma once

#include "emulation/vectors.h"

#include <bit>
#include <cmath>
#include <cstdint>

namespace kvloupe::emulation {

inline float bfloat16_value(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

// Rounds to nearest, ties to even.
inline std::uint16_t bfloat16_bits(float value) {
    if (std::isnan(value)) return 0x7FFF;  // cuda_bf16.h: the canonical NaN
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t cut = bits & 0xFFFFu;
    std::uint32_t kept = bits >> 16;
    if (cut > 0x8000u || (cut == 0x8000u && (kept & 1u) != 0)) ++kept;
    return static_cast<std::uint16_t>(kept);
}

}  // namespace kvloupe::emulation

struct __nv_bfloat16 {
    std::uint16_t bits;

    __nv_bfloat16() = default;
    __nv_bfloat16(float value) : bits(kvloupe::emulation::bfloat16_bits(value)) {}
    operator float() const { return kvloupe::emulation::bfloat16_value(bits); }
};

struct alignas(4) __nv_bfloat162 {
    __nv_bfloat16 x, y;
};
using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;

inline float __bfloat162float(__nv_bfloat16 value) { return value; }
inline __nv_bfloat16 __float2bfloat16(float value) { return __nv_bfloat16(value); }
inline __nv_bfloat16 __float2bfloat16_rn(float value) { return __nv_bfloat16(value); }
inline std::uint16_t __bfloat16_as_ushort(__nv_bfloat16 value) { return value.bits; }
inline __nv_bfloat16 __ushort_as_bfloat16(std::uint16_t bits) {
    __nv_bfloat16 value;
    value.bits = bits;
    return value;
}
inline __nv_bfloat16 operator+(__nv_bfloat16 a, __nv_bfloat16 b) { return __nv_bfloat16(float(a) + float(b)); }
inline __nv_bfloat16 operator-(__nv_bfloat16 a, __nv_bfloat16 b) { return __nv_bfloat16(float(a) - float(b)); }
inline __nv_bfloat16 operator*(__nv_bfloat16 a, __nv_bfloat16 b) { return __nv_bfloat16(float(a) * float(b)); }
inline __nv_bfloat16 operator/(__nv_bfloat16 a, __nv_bfloat16 b) { return __nv_bfloat16(float(a) / float(b)); }
inline __nv_bfloat16 operator-(__nv_bfloat16 a) {
    return __ushort_as_bfloat16(static_cast<std::uint16_t>(a.bits ^ 0x8000u));
}

inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 low, __nv_bfloat16 high) { return {low, high}; }
inline __nv_bfloat162 __floats2bfloat162_rn(float low, float high) { return {__nv_bfloat16(low), __nv_bfloat16(high)}; }
inline __nv_bfloat162 __float22bfloat162_rn(float2 values) {
    return {__nv_bfloat16(values.x), __nv_bfloat16(values.y)};
}
inline __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 both) { return {both, both}; }
inline float2 __bfloat1622float2(__nv_bfloat162 pair) { return {pair.x, pair.y}; }
inline float __low2float(__nv_bfloat162 pair) { return pair.x; }
inline float __high2float(__nv_bfloat162 pair) { return pair.y; }
inline __nv_bfloat162 operator+(__nv_bfloat162 a, __nv_bfloat162 b) { return {a.x + b.x, a.y + b.y}; }
inline __nv_bfloat162 operator-(__nv_bfloat162 a, __nv_bfloat162 b) { return {a.x - b.x, a.y - b.y}; }
inline __nv_bfloat162 operator*(__nv_bfloat162 a, __nv_bfloat162 b) { return {a.x * b.x, a.y * b.y}; }
inline __nv_bfloat162 __hadd2(__nv_bfloat162 a, __nv_bfloat162 b) { return a + b; }
inline __nv_bfloat162 __hmul2(__nv_bfloat162 a, __nv_bfloat162 b) { return a * b; }
inline __nv_bfloat16 __hadd(__nv_bfloat16 a, __nv_bfloat16 b) { return a + b; }
inline __nv_bfloat16 __hmul(__nv_bfloat16 a, __nv_bfloat16 b) { return a * b; }
