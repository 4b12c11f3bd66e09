// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/scalar_kv.h"

#include "engine/model/half.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace kvloupe::cpu::scalar {

namespace {

// Value of an 8-bit float by its fields; NaN for a code that is no number.
double fp8_value(DType type, unsigned code) {
    const int mantissa_bits = type == DType::fp8_e4m3 ? 3 : 2, bias = type == DType::fp8_e4m3 ? 7 : 15;
    const unsigned mantissa = code & ((1u << mantissa_bits) - 1), exponent = (code & 0x7F) >> mantissa_bits;
    const double fraction = mantissa / static_cast<double>(1 << mantissa_bits);
    if (type == DType::fp8_e4m3 && (code & 0x7F) == 0x7F) return std::nan("");
    if (type == DType::fp8_e5m2 && exponent == 31) return mantissa == 0 ? INFINITY : std::nan("");
    const double magnitude =
        exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, static_cast<int>(exponent) - bias);
    return (code & 0x80) != 0 ? -magnitude : magnitude;
}

std::array<double, 256> fp8_values(DType type) {
    std::array<double, 256> values;
    for (unsigned code = 0; code < 256; ++code) values[code] = fp8_value(type, code);
    return values;
}

float rounded_f16(float x) { return f16_to_f32(f32_to_f16(x)); }
float saturated(float x) { return rounded_f16(std::min(65504.0f, std::max(-65504.0f, x))); }

// Asymmetric codes over all the values that `x` names: value = code * step + minimum, both in f16.
void asymmetric(const std::vector<float*>& x, int bits) {
    float low = std::numeric_limits<float>::infinity(), high = -low;
    for (const float* value : x) {
        low = std::min(low, *value);
        high = std::max(high, *value);
    }
    const float top = static_cast<float>((1 << bits) - 1);
    const float step = saturated((high - low) / top), minimum = saturated(low);
    for (float* value : x) {
        float code = step == 0 ? 0 : std::nearbyint((*value - minimum) / step);
        code = std::min(top, std::max(0.0f, code));
        *value = static_cast<float>(static_cast<double>(code) * static_cast<double>(step) + static_cast<double>(minimum));
    }
}

std::vector<float*> all_of(std::vector<float>& x) {
    std::vector<float*> list;
    for (float& value : x) list.push_back(&value);
    return list;
}

float largest_of(const std::vector<float>& x) {
    float largest = 0;
    for (const float value : x) largest = std::max(largest, std::fabs(value));
    return largest;
}

void as_int8(std::vector<float>& x, float scale) {
    for (float& value : x) {
        const float ratio = value / scale;
        const float code = std::trunc(ratio + (ratio < 0 ? -0.5f : 0.5f));
        value = std::min(127.0f, std::max(-127.0f, code)) * scale;
    }
}

void as_fp8(DType type, std::vector<float>& x, float scale) {
    for (float& value : x) value = nearest_fp8(type, value / scale) * scale;
}

// Packs of 32 by FORMATS 2.3: d and m as f16 when read, d before its rounding when written.
void as_packs(DType type, std::vector<float>& x) {
    const int bits = type == DType::q8_0 ? 8 : type == DType::q5_0 || type == DType::q5_1 ? 5 : 4;
    const bool with_minimum = type == DType::q4_1 || type == DType::q5_1;
    for (std::size_t at = 0; at < x.size(); at += 32) {
        float* pack = x.data() + at;
        const auto bigger = [](float a, float b) { return std::fabs(a) < std::fabs(b); };
        const float extreme = *std::max_element(pack, pack + 32, bigger);
        const float low = *std::min_element(pack, pack + 32), high = *std::max_element(pack, pack + 32);
        const float half = static_cast<float>(1 << (bits - 1)), top = static_cast<float>((1 << bits) - 1);
        const float d = type == DType::q8_0 ? std::fabs(extreme) / 127.0f : with_minimum ? (high - low) / top : extreme / -half;
        const float inverse = d == 0 ? 0 : 1 / d;
        for (int i = 0; i < 32; ++i) {
            if (type == DType::q8_0)
                pack[i] = std::round(pack[i] * inverse) * rounded_f16(d);
            else if (with_minimum)
                pack[i] = std::min(top, std::floor((pack[i] - low) * inverse + 0.5f)) * rounded_f16(d) + rounded_f16(low);
            else
                pack[i] = (std::min(top, std::floor(pack[i] * inverse + half + 0.5f)) - half) * rounded_f16(d);
        }
    }
}

void keep(const KvFormat& format, std::vector<float>& x, float head_scale) {
    switch (format.dtype) {
    case DType::f32: return;
    case DType::f16: for (float& value : x) value = rounded_f16(value); return;
    case DType::bf16: for (float& value : x) value = bf16_to_f32(f32_to_bf16(value)); return;
    case DType::int8: return as_int8(x, std::max(largest_of(x) / 127, 1e-6f));
    case DType::int4: return asymmetric(all_of(x), 4);
    case DType::fp8_e4m3:
    case DType::fp8_e5m2: {
        const float top = format.dtype == DType::fp8_e4m3 ? 448.0f : 57344.0f;
        return as_fp8(format.dtype, x, format.scale == KvScale::token_head ? std::max(largest_of(x) / top, 1e-6f) : head_scale);
    }
    default: return as_packs(format.dtype, x);
    }
}

}  // namespace

std::vector<float> turned(std::span<const float> x) {
    std::vector<float> out(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
        double sum = 0;
        for (std::size_t j = 0; j < x.size(); ++j)
            sum += std::popcount(i & j) % 2 == 0 ? static_cast<double>(x[j]) : -static_cast<double>(x[j]);
        out[i] = static_cast<float>(sum / std::sqrt(static_cast<double>(x.size())));
    }
    return out;
}

float nearest_fp8(DType type, float x) {
    if (std::isnan(x)) return x;
    static const std::array<double, 256> e4m3 = fp8_values(DType::fp8_e4m3), e5m2 = fp8_values(DType::fp8_e5m2);
    const std::array<double, 256>& values = type == DType::fp8_e4m3 ? e4m3 : e5m2;
    unsigned best = 0;
    double distance = std::numeric_limits<double>::infinity();
    const unsigned sign = std::signbit(x) ? 0x80 : 0;
    for (unsigned code = 0; code < 0x80; ++code) {
        const double value = values[code | sign];
        if (!std::isfinite(value)) continue;
        const double off = std::isinf(x) ? -std::fabs(value) : std::fabs(static_cast<double>(x) - value);
        if (off < distance || (off == distance && code % 2 == 0)) best = code, distance = off;
    }
    return static_cast<float>(values[best | sign]);
}

namespace {

// Head by head, where the format turns rows.
std::vector<float> turned_heads(const StoredRow& row, std::span<const float> x) {
    if (!row.format.rotate) return {x.begin(), x.end()};
    std::vector<float> out;
    for (std::size_t at = 0; at < x.size(); at += row.head_dim) {
        const std::vector<float> head = turned(x.subspan(at, row.head_dim));
        out.insert(out.end(), head.begin(), head.end());
    }
    return out;
}

}  // namespace

RowPair kept(const StoredRow& keys, const StoredRow& values) {
    RowPair pair{turned_heads(keys, keys.values), turned_heads(values, values.values)};
    if (keys.format.scale != KvScale::joint) {
        keep(keys.format, pair.k, keys.scale);
        keep(values.format, pair.v, values.scale);
    } else if (keys.format.dtype == DType::int4) {
        std::vector<float*> both = all_of(pair.k);
        for (float& value : pair.v) both.push_back(&value);
        asymmetric(both, 4);
    } else {
        const float scale = std::max(std::max(largest_of(pair.k), largest_of(pair.v)) / 127, 1e-6f);
        as_int8(pair.k, scale);
        as_int8(pair.v, scale);
    }
    return {turned_heads(keys, pair.k), turned_heads(values, pair.v)};
}

std::vector<float> unsealed(const KvFormat& format, std::span<const float> row) {
    std::vector<float> x = format.rotate ? turned(row) : std::vector<float>(row.begin(), row.end());
    for (float& value : x) value = rounded_f16(value);
    return format.rotate ? turned(x) : x;
}

std::vector<float> sealed(const KvFormat& format, KvPart part, std::span<const float> rows, std::uint32_t head_dim) {
    const std::size_t tokens = rows.size() / head_dim;
    const int bits = format.dtype == DType::kivi2 ? 2 : 4;
    std::vector<float> x;
    for (std::size_t t = 0; t < tokens; ++t) {
        const std::span<const float> row = rows.subspan(t * head_dim, head_dim);
        const std::vector<float> before = format.rotate ? turned(row) : std::vector<float>(row.begin(), row.end());
        for (const float value : before) x.push_back(rounded_f16(value));
    }
    const std::size_t groups = (part == KvPart::keys ? tokens : head_dim) / format.group;
    for (std::size_t line = 0; line < (part == KvPart::keys ? head_dim : tokens); ++line)
        for (std::size_t group = 0; group < groups; ++group) {
            std::vector<float*> members;
            for (std::size_t i = group * format.group; i < (group + 1) * format.group; ++i)
                members.push_back(&x[part == KvPart::keys ? i * head_dim + line : line * head_dim + i]);
            asymmetric(members, bits);
        }
    if (!format.rotate) return x;
    std::vector<float> out;
    for (std::size_t t = 0; t < tokens; ++t) {
        const std::vector<float> back = turned(std::span<const float>(x).subspan(t * head_dim, head_dim));
        out.insert(out.end(), back.begin(), back.end());
    }
    return out;
}

}  // namespace kvloupe::cpu::scalar
