// SPDX-License-Identifier: GPL-3.0-or-later
//
// __half and __half2 as cuda_fp16.h has them on the device, as far as kernels use them. Written apart from
// engine/model/half.h, so that the two check each other (tst_emulation_numbers).
//
// Sums, differences, products and quotients are computed in f32 and rounded once more: the result is correctly rounded,
// because f32 has more than twice the digits of the halves plus two.
#pragma once

#include "emulation/vectors.h"

#include <bit>
#include <cmath>
#include <cstdint>

namespace kvloupe::emulation {

inline float half_value(std::uint16_t bits) {
    const int exponent = (bits >> 10) & 31;
    const std::uint32_t mantissa = bits & 1023u;
    float magnitude;
    if (exponent == 31) magnitude = std::bit_cast<float>(0x7F800000u | (mantissa << 13));  // infinity, NaN
    else if (exponent == 0) magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    else magnitude = std::ldexp(static_cast<float>(mantissa | 1024u), exponent - 25);
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | (static_cast<std::uint32_t>(bits & 0x8000u) << 16));
}

// Rounds to nearest, ties to even, beyond 65504 to infinity.
inline std::uint16_t half_bits(float value) {
    const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    if (std::isnan(value)) return 0x7FFF;  // cuda_fp16.h: the canonical NaN
    const float magnitude = std::fabs(value);
    if (magnitude >= 65520.0f) return sign | 0x7C00;
    if (magnitude < 0x1p-24f * 0.5f) return sign;
    int exponent = std::ilogb(magnitude);           // magnitude = 1.xxx * 2^exponent
    if (exponent < -14) exponent = -14;             // subnormal halves share the smallest exponent
    // Exact: the units of a half at that exponent, as a number of which the integer part is kept.
    const float units = std::ldexp(magnitude, 10 - exponent);
    const std::uint32_t whole = static_cast<std::uint32_t>(std::nearbyint(units));
    // A carry out of the mantissa lands in the exponent, as it should.
    const std::uint32_t bits = exponent == -14 ? whole : (static_cast<std::uint32_t>(exponent + 14) << 10) + whole;
    return static_cast<std::uint16_t>(sign | bits);
}

}  // namespace kvloupe::emulation

struct __half {
    std::uint16_t bits;

    __half() = default;
    __half(float value) : bits(kvloupe::emulation::half_bits(value)) {}
    operator float() const { return kvloupe::emulation::half_value(bits); }
};

struct alignas(4) __half2 {
    __half x, y;
};
using half = __half;
using half2 = __half2;

inline float __half2float(__half value) { return value; }
inline __half __float2half(float value) { return __half(value); }
inline __half __float2half_rn(float value) { return __half(value); }
inline std::uint16_t __half_as_ushort(__half value) { return value.bits; }
inline __half __ushort_as_half(std::uint16_t bits) {
    __half value;
    value.bits = bits;
    return value;
}
inline __half operator+(__half a, __half b) { return __half(float(a) + float(b)); }
inline __half operator-(__half a, __half b) { return __half(float(a) - float(b)); }
inline __half operator*(__half a, __half b) { return __half(float(a) * float(b)); }
inline __half operator/(__half a, __half b) { return __half(float(a) / float(b)); }
inline __half operator-(__half a) { return __ushort_as_half(static_cast<std::uint16_t>(a.bits ^ 0x8000u)); }

inline __half2 __halves2half2(__half low, __half high) { return {low, high}; }
inline __half2 __floats2half2_rn(float low, float high) { return {__half(low), __half(high)}; }
inline __half2 __float22half2_rn(float2 values) { return {__half(values.x), __half(values.y)}; }
inline __half2 __half2half2(__half both) { return {both, both}; }
inline __half2 __float2half2_rn(float both) { return {__half(both), __half(both)}; }
inline float2 __half22float2(__half2 pair) { return {pair.x, pair.y}; }
inline float __low2float(__half2 pair) { return pair.x; }
inline float __high2float(__half2 pair) { return pair.y; }
inline __half __low2half(__half2 pair) { return pair.x; }
inline __half __high2half(__half2 pair) { return pair.y; }
inline __half2 operator+(__half2 a, __half2 b) { return {a.x + b.x, a.y + b.y}; }
inline __half2 operator-(__half2 a, __half2 b) { return {a.x - b.x, a.y - b.y}; }
inline __half2 operator*(__half2 a, __half2 b) { return {a.x * b.x, a.y * b.y}; }
inline __half2 __hadd2(__half2 a, __half2 b) { return a + b; }
inline __half2 __hsub2(__half2 a, __half2 b) { return a - b; }
inline __half2 __hmul2(__half2 a, __half2 b) { return a * b; }
inline __half __hadd(__half a, __half b) { return a + b; }
inline __half __hmul(__half a, __half b) { return a * b; }
