// SPDX-License-Identifier: GPL-3.0-or-later
//
// From f32 rows to codes and scales of the cache, family by family; the formulas are those of engine/record/kv_format.h.
// Plain loops: a step writes one row per token and head, and reads thousands. The scalar twins: scalar_kv.h.
#pragma once

#include "engine/record/dtype.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace kvloupe::cpu {

// Rows are turned by a Hadamard matrix / sqrt(size) (Sylvester's order), which is its own inverse; size: a power of two.
// n log2 n additions in place.
void hadamard(float* x, std::uint32_t size);

// Codes are x / scale. Returns how many finite values lay beyond the range and were set to its end.
std::uint64_t store_fp8(DType type, std::span<const float> x, float scale, std::byte* codes);

// Largest magnitude of a row; NaN where one value is not finite: a scale made of it then shows as NaN whatever the codes are.
float magnitude_of(std::span<const float> x);
// max(magnitude / top, 1e-6); NaN stays.
float token_scale(float magnitude, float top);
// Codes are x / scale, ties away from zero, within -127 .. 127.
void store_int8(std::span<const float> x, float scale, std::byte* codes);

// f16 bits of the step and the minimum of asymmetric codes 0 .. 2^bits - 1: value = code * step + minimum.
struct StepAndMinimum {
    std::uint16_t step = 0;
    std::uint16_t minimum = 0;
};
struct ValueRange {
    float low = 0, high = 0;  // NaN where one value is not finite
    void take(std::span<const float> x);
    void take(float x);
    bool empty = true;
};
StepAndMinimum step_and_minimum(const ValueRange& range, int bits);
// The code of a value, to nearest, ties to even: by the step and minimum as they are stored.
std::uint8_t code_of(float value, StepAndMinimum by, int bits);
// Codes of a row, 8 / bits in a byte, the lower bits first.
void store_codes(std::span<const float> x, StepAndMinimum by, int bits, std::byte* codes);
// Finite values of a row that f16 cannot hold: steps and minima saturate there.
std::uint64_t beyond_f16(std::span<const float> x);

}  // namespace kvloupe::cpu
