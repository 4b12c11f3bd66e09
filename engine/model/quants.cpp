// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/quants.h"

#include "engine/model/half.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace kvloupe {

namespace {

constexpr std::size_t pack = 32;  // elements per block of every quantised form

template <class T>
T load(const std::byte* at) {
    T value;
    std::memcpy(&value, at, sizeof(T));
    return value;
}

template <class T>
void store(std::byte* at, T value) {
    std::memcpy(at, &value, sizeof(T));
}

float load_f16(const std::byte* at) { return f16_to_f32(load<std::uint16_t>(at)); }

// The whole part of value, within 0 to limit; NaN becomes 0.
std::uint8_t clamp_code(float value, int limit) {
    if (!(value > 0)) return 0;
    return static_cast<std::uint8_t>(value < static_cast<float>(limit) ? static_cast<int>(value) : limit);
}

// Low nibble of byte j: element j; high nibble: element j + 16.
void store_nibbles(const std::uint8_t (&codes)[pack], std::byte* out) {
    for (std::size_t j = 0; j < pack / 2; ++j) out[j] = static_cast<std::byte>(codes[j] | codes[j + pack / 2] << 4);
}

void quantise_q8_0(const float* x, std::byte* out) {
    float largest = 0;
    for (std::size_t j = 0; j < pack; ++j) largest = std::max(largest, std::fabs(x[j]));
    const float d = largest / 127.0f;
    const float inverse = d != 0 ? 1.0f / d : 0.0f;
    store(out, f32_to_f16(d));
    for (std::size_t j = 0; j < pack; ++j) {
        const float scaled = std::round(x[j] * inverse);  // halves away from zero
        const float code = scaled >= -127 ? std::min(scaled, 127.0f) : scaled < -127 ? -127.0f : 0.0f;
        out[2 + j] = static_cast<std::byte>(static_cast<std::int8_t>(code));
    }
}

void quantise_q4_0(const float* x, std::byte* out) {
    float extreme = 0;  // signed value of the largest magnitude, the first on ties
    for (std::size_t j = 0; j < pack; ++j)
        if (std::fabs(x[j]) > std::fabs(extreme)) extreme = x[j];
    const float d = extreme / -8.0f;
    const float inverse = d != 0 ? 1.0f / d : 0.0f;
    store(out, f32_to_f16(d));
    std::uint8_t codes[pack];
    for (std::size_t j = 0; j < pack; ++j) codes[j] = clamp_code(x[j] * inverse + 8.5f, 15);
    store_nibbles(codes, out + 2);
}

void quantise_q4_1(const float* x, std::byte* out) {
    const auto [low, high] = std::minmax_element(x, x + pack);
    const float minimum = *low;
    const float d = (*high - minimum) / 15.0f;
    const float inverse = d != 0 ? 1.0f / d : 0.0f;
    store(out, f32_to_f16(d));
    store(out + 2, f32_to_f16(minimum));
    std::uint8_t codes[pack];
    for (std::size_t j = 0; j < pack; ++j) codes[j] = clamp_code((x[j] - minimum) * inverse + 0.5f, 15);
    store_nibbles(codes, out + 4);
}

// The fifth bits of 32 codes are one word, bit j of element j; the lower four lie as in q4_0.
void store_fifth_bits(const std::uint8_t (&codes)[pack], std::byte* high, std::byte* low) {
    std::uint32_t bits = 0;
    std::uint8_t nibbles[pack];
    for (std::size_t j = 0; j < pack; ++j) {
        bits |= static_cast<std::uint32_t>(codes[j] >> 4) << j;
        nibbles[j] = codes[j] & 15;
    }
    store(high, bits);
    store_nibbles(nibbles, low);
}

void quantise_q5_0(const float* x, std::byte* out) {
    float extreme = 0;  // as in q4_0
    for (std::size_t j = 0; j < pack; ++j)
        if (std::fabs(x[j]) > std::fabs(extreme)) extreme = x[j];
    const float d = extreme / -16.0f;
    const float inverse = d != 0 ? 1.0f / d : 0.0f;
    store(out, f32_to_f16(d));
    std::uint8_t codes[pack];
    for (std::size_t j = 0; j < pack; ++j) codes[j] = clamp_code(x[j] * inverse + 16.5f, 31);
    store_fifth_bits(codes, out + 2, out + 6);
}

void quantise_q5_1(const float* x, std::byte* out) {
    const auto [low, high] = std::minmax_element(x, x + pack);
    const float minimum = *low;
    const float d = (*high - minimum) / 31.0f;
    const float inverse = d != 0 ? 1.0f / d : 0.0f;
    store(out, f32_to_f16(d));
    store(out + 2, f32_to_f16(minimum));
    std::uint8_t codes[pack];
    for (std::size_t j = 0; j < pack; ++j) codes[j] = clamp_code((x[j] - minimum) * inverse + 0.5f, 31);
    store_fifth_bits(codes, out + 4, out + 8);
}

void dequantise_q5(bool shifted, const std::byte* block, float* row) {
    const float d = load_f16(block);
    const float m = shifted ? 0.0f : load_f16(block + 2);
    const int zero = shifted ? 16 : 0;
    const std::uint32_t bits = load<std::uint32_t>(block + (shifted ? 2 : 4));
    const std::byte* const nibbles = block + (shifted ? 6 : 8);
    for (std::size_t j = 0; j < pack; ++j) {
        const int byte = std::to_integer<int>(nibbles[j % (pack / 2)]);
        const int code = (j < pack / 2 ? byte & 15 : byte >> 4) | static_cast<int>((bits >> j) & 1u) << 4;
        row[j] = static_cast<float>(code - zero) * d + m;
    }
}

}  // namespace

void dequantise_row(DType type, const std::byte* packed, std::span<float> out) {
    assert(out.size() % elements_per_pack(type) == 0);
    float* const y = out.data();
    const std::size_t blocks = out.size() / elements_per_pack(type);
    const std::size_t stride = bytes_per_pack(type);
    for (std::size_t b = 0; b < blocks; ++b) {
        const std::byte* const block = packed + b * stride;
        float* const row = y + b * elements_per_pack(type);
        switch (type) {
        case DType::f32: *row = load<float>(block); break;
        case DType::f16: *row = load_f16(block); break;
        case DType::bf16: *row = bf16_to_f32(load<std::uint16_t>(block)); break;
        case DType::q8_0: {
            const float d = load_f16(block);
            for (std::size_t j = 0; j < pack; ++j) row[j] = d * static_cast<float>(load<std::int8_t>(block + 2 + j));
            break;
        }
        case DType::q4_0:
        case DType::q4_1: {
            const bool shifted = type == DType::q4_0;
            const float d = load_f16(block);
            const float m = shifted ? 0.0f : load_f16(block + 2);
            const int zero = shifted ? 8 : 0;
            const std::byte* const codes = block + (shifted ? 2 : 4);
            for (std::size_t j = 0; j < pack / 2; ++j) {
                const int code = std::to_integer<int>(codes[j]);
                row[j] = static_cast<float>((code & 15) - zero) * d + m;
                row[j + pack / 2] = static_cast<float>((code >> 4) - zero) * d + m;
            }
            break;
        }
        case DType::q5_0: dequantise_q5(true, block, row); break;
        case DType::q5_1: dequantise_q5(false, block, row); break;
        default: assert(!"a type without expansion"); break;
        }
    }
}

void quantise_row(DType type, std::span<const float> values, std::byte* packed) {
    assert(values.size() % elements_per_pack(type) == 0);
    const float* const x = values.data();
    const std::size_t blocks = values.size() / elements_per_pack(type);
    const std::size_t stride = bytes_per_pack(type);
    for (std::size_t b = 0; b < blocks; ++b) {
        std::byte* const block = packed + b * stride;
        const float* const row = x + b * elements_per_pack(type);
        switch (type) {
        case DType::f32: store(block, *row); break;
        case DType::f16: store(block, f32_to_f16(*row)); break;
        case DType::bf16: store(block, f32_to_bf16(*row)); break;
        case DType::q8_0: quantise_q8_0(row, block); break;
        case DType::q4_0: quantise_q4_0(row, block); break;
        case DType::q4_1: quantise_q4_1(row, block); break;
        case DType::q5_0: quantise_q5_0(row, block); break;
        case DType::q5_1: quantise_q5_1(row, block); break;
        default: assert(!"a type without quantisation"); break;
        }
    }
}

}  // namespace kvloupe
