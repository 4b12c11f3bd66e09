// SPDX-License-Identifier: GPL-3.0-or-later
//
// Scalar conversions between f32 and the two 8-bit floats of the OCP "8-bit Floating Point Specification" (2023), as bit
// patterns. Narrowing rounds to nearest, ties to even, and saturates: what lies beyond the largest number becomes it (infinity
// too), NaN stays NaN. E4M3 has no infinity; of E5M2 none is ever written.
#pragma once

#include "engine/model/half.h"
#include "engine/record/dtype.h"

#include <bit>
#include <cstdint>

namespace kvloupe::cpu {

inline float largest_of_fp8(DType type) { return type == DType::fp8_e4m3 ? 448.0f : 57344.0f; }
// Beyond it a value counts as cut: a value divided by the scale that was made from it rounds to within two units of the largest.
inline float cut_of_fp8(DType type) { return largest_of_fp8(type) * 1.000001f; }

inline float e4m3_to_f32(std::uint8_t code) {
    // As an f16 whose exponent is 8 too small: exact, subnormal numbers too.
    const std::uint32_t magnitude = code & 0x7Fu;
    if (magnitude == 0x7F) return f16_to_f32(static_cast<std::uint16_t>((code & 0x80u) << 8 | 0x7E00u));
    return f16_to_f32(static_cast<std::uint16_t>((code & 0x80u) << 8 | magnitude << 7)) * 256.0f;
}

// The upper half of an f16.
inline float e5m2_to_f32(std::uint8_t code) { return f16_to_f32(static_cast<std::uint16_t>(code << 8)); }

inline float fp8_to_f32(DType type, std::uint8_t code) {
    return type == DType::fp8_e4m3 ? e4m3_to_f32(code) : e5m2_to_f32(code);
}

inline std::uint8_t f32_to_fp8(DType type, float value) {
    const bool narrow = type == DType::fp8_e4m3;
    const unsigned mantissa_bits = narrow ? 3 : 2;
    const std::uint32_t lowest_exponent = narrow ? 127 - 6 : 127 - 14;  // of a normal number, as f32 stores it
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    const std::uint8_t sign = static_cast<std::uint8_t>((bits >> 24) & 0x80u);
    const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u) return static_cast<std::uint8_t>(sign | 0x7Fu);
    if (std::bit_cast<float>(magnitude) >= largest_of_fp8(type)) return static_cast<std::uint8_t>(sign | (narrow ? 0x7Eu : 0x7Bu));
    if (magnitude < lowest_exponent << 23) {
        // Adding 2^23 of the smallest step leaves the value in such steps, rounded to even, in the low bits.
        const std::uint32_t base = (lowest_exponent - mantissa_bits + 23) << 23;
        const float shifted = std::bit_cast<float>(magnitude) + std::bit_cast<float>(base);
        return static_cast<std::uint8_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - base));
    }
    const unsigned shift = 23 - mantissa_bits;
    const std::uint32_t odd = (magnitude >> shift) & 1u;
    const std::uint32_t rounded = (magnitude + (1u << (shift - 1)) - 1 + odd) >> shift;
    return static_cast<std::uint8_t>(sign | (rounded - ((lowest_exponent - 1) << mantissa_bits)));
}

}  // namespace kvloupe::cpu
