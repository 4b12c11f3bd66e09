// SPDX-License-Identifier: GPL-3.0-or-later
//
// A row of f32 in shared memory becomes codes and scales of the cache (formulas: engine/record/kv_format.h; FORMATS 2.3 for the
// packs), by one warp. Every rounding is written out, so that kernels/cpu and the device agree to the bit; a compiler must not
// join a product and a sum to one operation here.
//
// Lanes take neighbouring bytes of codes, so that a warp writes 32 bytes at once; a pack of 32 is a lane an element, its extremes
// and fifth bits come from shuffles and votes.
#pragma once

#include "kernels/cuda/cache_rows.h"
#include "kernels/cuda/rotary_turn.h"
#include "kernels/cuda/warp.h"

namespace kvloupe::cuda {

inline constexpr float largest_f16 = 65504.0f;

// Smallest and largest of a row; NaN where one value is not finite.
struct RowRange {
    float low = INFINITY, high = -INFINITY;
    bool finite = true;

    __device__ __forceinline__ void take(float x) {
        finite = finite && isfinite(x);
        low = fminf(low, x);
        high = fmaxf(high, x);
    }
    __device__ __forceinline__ void take(const float* row, unsigned count) {
        for (unsigned i = threadIdx.x % 32; i < count; i += 32) take(row[i]);
    }
    // Over the lanes of a warp.
    __device__ __forceinline__ void join() {
        low = -warp_max(-low);
        high = warp_max(high);
        finite = __all_sync(all_lanes, finite) != 0;
    }
    __device__ __forceinline__ float magnitude() const { return finite ? fmaxf(fabsf(low), fabsf(high)) : NAN; }
};

// max(magnitude / top, 1e-6); NaN stays.
__device__ __forceinline__ float token_scale(float magnitude, float top) { return isnan(magnitude) ? magnitude : fmaxf(magnitude / top, 1e-6f); }

__device__ __forceinline__ std::uint16_t f16_bits(float value) { return __half_as_ushort(__float2half_rn(value)); }
__device__ __forceinline__ std::uint16_t saturated_f16_bits(float value) {
    return f16_bits(isnan(value) ? value : fminf(fmaxf(value, -largest_f16), largest_f16));
}

// Step and minimum of asymmetric codes 0 .. top, as f16 bits in the low and high half of a word.
__device__ __forceinline__ std::uint32_t step_and_minimum_of(const RowRange& range, float top) {
    // Divided first: the difference of two f32 may be infinite.
    const float step = range.finite ? __fadd_rn(range.high / top, -(range.low / top)) : NAN;
    return saturated_f16_bits(step) | static_cast<std::uint32_t>(saturated_f16_bits(range.finite ? range.low : NAN)) << 16;
}
// To nearest, ties to even, by the step and the minimum as they are stored.
__device__ __forceinline__ unsigned asymmetric_code(float value, std::uint32_t by, int top) {
    const float step = f16_value(static_cast<std::uint16_t>(by)), minimum = f16_value(static_cast<std::uint16_t>(by >> 16));
    const float code = rintf(__fadd_rn(value, -minimum) / step);
    if (step == 0 || !(code > 0)) return 0;
    return code < static_cast<float>(top) ? static_cast<unsigned>(code) : static_cast<unsigned>(top);
}
// Ties away from zero; 0 for what is no number.
__device__ __forceinline__ int symmetric_code(float scaled) {
    const float code = roundf(scaled);
    return code >= -127 && code <= 127 ? static_cast<int>(code) : 0;
}
// The whole part, within 0 .. top; 0 of NaN.
__device__ __forceinline__ unsigned whole_code(float value, unsigned top) {
    if (!(value > 0)) return 0;
    return value < static_cast<float>(top) ? static_cast<unsigned>(value) : top;
}

// --- rows; `count` elements, their codes at `to`; returns how many of this lane's finite values the precision cannot hold ---

template <class Element>
__device__ __forceinline__ unsigned store_numbers(const float* row, unsigned count, std::byte* to) {
    unsigned beyond = 0;
    for (unsigned i = threadIdx.x % 32; i < count; i += 32) {
        beyond += becomes_infinite<Element>(row[i]);
        reinterpret_cast<Element*>(to)[i] = from_float<Element>(row[i]);
    }
    return beyond;
}
__device__ __forceinline__ unsigned store_fp8(DType type, const float* row, unsigned count, float scale, std::byte* to) {
    unsigned beyond = 0;
    for (unsigned i = threadIdx.x % 32; i < count; i += 32) {
        const float scaled = row[i] / scale;
        beyond += isfinite(row[i]) && fabsf(scaled) > cut_fp8(type) ? 1u : 0u;
        to[i] = static_cast<std::byte>(fp8_from_float(type, scaled));
    }
    return beyond;
}
__device__ __forceinline__ void store_int8(const float* row, unsigned count, float scale, std::byte* to) {
    for (unsigned i = threadIdx.x % 32; i < count; i += 32) to[i] = static_cast<std::byte>(symmetric_code(row[i] / scale) & 0xFF);
}
// by: step_and_minimum_of().
__device__ __forceinline__ unsigned store_int4(const float* row, unsigned count, std::uint32_t by, std::byte* to) {
    unsigned beyond = 0;
    for (unsigned i = threadIdx.x % 32; i < count / 2; i += 32) {
        const float low = row[2 * i], high = row[2 * i + 1];
        to[i] = static_cast<std::byte>(asymmetric_code(low, by, 15) | asymmetric_code(high, by, 15) << 4);
        beyond += (isfinite(low) && fabsf(low) > largest_f16 ? 1u : 0u) + (isfinite(high) && fabsf(high) > largest_f16 ? 1u : 0u);
    }
    return beyond;
}

// One pack of 32, lane i has element i.
__device__ __forceinline__ unsigned store_pack(DType type, float x, std::byte* pack) {
    const unsigned lane = threadIdx.x % 32;
    const PackLayout layout = pack_layout(type);
    float step, minimum = 0, offset = 0;
    unsigned top = 127;
    if (layout.minimum > 0) {
        const float low = -warp_max(-x), high = warp_max(x);
        top = type == DType::q5_1 ? 31 : 15;
        step = __fadd_rn(high, -low) / static_cast<float>(top);
        minimum = low;
        offset = 0.5f;
    } else {
        const float largest = fmaxf(warp_max(fabsf(x)), 0.0f);  // 0 where all are NaN
        if (type == DType::q8_0) {
            step = largest / 127.0f;
        } else {
            // The signed value of the largest magnitude, the first of equals.
            const unsigned voted = __ballot_sync(all_lanes, fabsf(x) == largest);
            const float found = __shfl_sync(all_lanes, x, (__ffs(static_cast<int>(voted)) - 1) & 31);
            const float half = type == DType::q5_0 ? 16.0f : 8.0f;
            step = (largest > 0 ? found : 0.0f) / -half;
            top = type == DType::q5_0 ? 31 : 15;
            offset = half + 0.5f;
        }
    }
    const float inverse = step != 0 ? 1.0f / step : 0.0f;
    const std::uint16_t step_bits = f16_bits(step), minimum_bits = f16_bits(minimum);
    const float scaled = __fmul_rn(__fadd_rn(x, -minimum), inverse);
    if (type == DType::q8_0) {
        const float code = roundf(scaled);
        const float held = code >= -127 ? fminf(code, 127.0f) : code < -127 ? -127.0f : 0.0f;
        pack[layout.quants + lane] = static_cast<std::byte>(static_cast<int>(held) & 0xFF);
    } else {
        const unsigned code = whole_code(__fadd_rn(scaled, offset), top);
        const unsigned fifths = __ballot_sync(all_lanes, (code & 16u) != 0);
        const unsigned upper = __shfl_down_sync(all_lanes, code, 16);
        if (lane < 16) pack[layout.quants + lane] = static_cast<std::byte>((code & 15u) | (upper & 15u) << 4);
        if (lane < 2 && layout.high > 0) reinterpret_cast<std::uint16_t*>(pack + layout.high)[lane] = static_cast<std::uint16_t>(fifths >> 16 * lane);
    }
    if (lane == 0) *reinterpret_cast<std::uint16_t*>(pack) = step_bits;
    if (lane == 0 && layout.minimum > 0) *reinterpret_cast<std::uint16_t*>(pack + layout.minimum) = minimum_bits;
    const bool held = isfinite(f16_value(step_bits)) && isfinite(f16_value(minimum_bits));
    return !held && isfinite(x) ? 1u : 0u;
}

}  // namespace kvloupe::cuda
