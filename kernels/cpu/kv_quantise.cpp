// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/kv_quantise.h"

#include "engine/model/half.h"
#include "kernels/cpu/fp8.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kvloupe::cpu {

namespace {

constexpr float largest_f16 = 65504.0f;
constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

std::uint16_t saturated_f16(float value) {
    return f32_to_f16(std::isnan(value) ? value : std::clamp(value, -largest_f16, largest_f16));
}

}  // namespace

void hadamard(float* x, std::uint32_t size) {
    for (std::uint32_t half = 1; half < size; half *= 2)
        for (std::uint32_t base = 0; base < size; base += 2 * half)
            for (std::uint32_t i = base; i < base + half; ++i) {
                const float a = x[i], b = x[i + half];
                x[i] = a + b;
                x[i + half] = a - b;
            }
    const float factor = 1.0f / std::sqrt(static_cast<float>(size));
    for (std::uint32_t i = 0; i < size; ++i) x[i] *= factor;
}

std::uint64_t store_fp8(DType type, std::span<const float> x, float scale, std::byte* codes) {
    const float largest = cut_of_fp8(type);
    std::uint64_t clipped = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        const float scaled = x[i] / scale;
        clipped += std::isfinite(x[i]) && std::fabs(scaled) > largest;
        codes[i] = static_cast<std::byte>(f32_to_fp8(type, scaled));
    }
    return clipped;
}

float magnitude_of(std::span<const float> x) {
    float largest = 0;
    bool finite = true;
    for (const float value : x) {
        finite = finite && std::isfinite(value);
        largest = std::max(largest, std::fabs(value));
    }
    return finite ? largest : nan_value;
}

float token_scale(float magnitude, float top) { return std::isnan(magnitude) ? magnitude : std::max(magnitude / top, 1e-6f); }

void store_int8(std::span<const float> x, float scale, std::byte* codes) {
    for (std::size_t i = 0; i < x.size(); ++i) {
        const float code = std::round(x[i] / scale);  // halves away from zero
        codes[i] = static_cast<std::byte>(code >= -127 && code <= 127 ? static_cast<std::int8_t>(code) : std::int8_t{0});
    }
}

void ValueRange::take(std::span<const float> x) {
    for (const float value : x) take(value);
}

void ValueRange::take(float x) {
    if (!std::isfinite(x) || std::isnan(low)) {
        low = high = nan_value;
    } else if (empty) {
        low = high = x;
    } else {
        low = std::min(low, x);
        high = std::max(high, x);
    }
    empty = false;
}

StepAndMinimum step_and_minimum(const ValueRange& range, int bits) {
    const float steps = static_cast<float>((1 << bits) - 1);
    return {saturated_f16((range.high - range.low) / steps), saturated_f16(range.low)};
}

std::uint8_t code_of(float value, StepAndMinimum by, int bits) {
    const float step = f16_to_f32(by.step);
    const float code = std::nearbyint((value - f16_to_f32(by.minimum)) / step);
    if (step == 0 || !(code > 0)) return 0;
    const int top = (1 << bits) - 1;
    return static_cast<std::uint8_t>(code < static_cast<float>(top) ? static_cast<int>(code) : top);
}

void store_codes(std::span<const float> x, StepAndMinimum by, int bits, std::byte* codes) {
    const std::size_t per_byte = 8 / static_cast<std::size_t>(bits);
    for (std::size_t i = 0; i < x.size(); i += per_byte) {
        unsigned byte = 0;
        for (std::size_t j = 0; j < per_byte; ++j)
            byte |= static_cast<unsigned>(code_of(x[i + j], by, bits)) << (j * static_cast<unsigned>(bits));
        codes[i / per_byte] = static_cast<std::byte>(byte);
    }
}

std::uint64_t beyond_f16(std::span<const float> x) {
    std::uint64_t count = 0;
    for (const float value : x) count += std::isfinite(value) && std::fabs(value) > largest_f16;
    return count;
}

}  // namespace kvloupe::cpu
