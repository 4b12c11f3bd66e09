// SPDX-License-Identifier: GPL-3.0-or-later
//
// What a cache in any precision holds, element by element and exactly (in double), from its bytes and KvPlane alone: what the kernels
// that write and read it are held against. Nothing of kernels/cuda is used.
#pragma once

#include "engine/model/half.h"
#include "engine/record/kv_format.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace kvloupe::test {

// K or V of one layer.
struct KvBytes {
    KvPlane plane;
    const std::byte* data = nullptr;    // (blocks, plane.block_bytes)
    const std::byte* pages = nullptr;   // (pages, plane.residual_page_bytes)
    const float* fixed = nullptr;       // scales per tensor or head
    // Where the scales of the rows lie: K's plane where they are joint.
    const KvPlane* scale_plane = nullptr;
    const std::byte* scale_data = nullptr;
};

template <class T>
T loaded(const std::byte* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
}
inline double half_of(const std::byte* at) { return static_cast<double>(f16_to_f32(loaded<std::uint16_t>(at))); }

// By the definition of the format: sign, exponent, mantissa.
inline double fp8_of(DType type, unsigned code) {
    const int mantissa_bits = type == DType::fp8_e4m3 ? 3 : 2, bias = type == DType::fp8_e4m3 ? 7 : 15;
    const int exponent = static_cast<int>((code & 0x7Fu) >> mantissa_bits), mantissa = static_cast<int>(code & ((1u << mantissa_bits) - 1));
    const double sign = (code & 0x80u) != 0 ? -1 : 1;
    if (type == DType::fp8_e4m3 && (code & 0x7Fu) == 0x7Fu) return NAN;
    if (type == DType::fp8_e5m2 && exponent == 31) return mantissa == 0 ? sign * INFINITY : NAN;
    const int whole = exponent == 0 ? mantissa : mantissa + (1 << mantissa_bits);
    return sign * std::ldexp(whole, (exponent == 0 ? 1 : exponent) - bias - mantissa_bits);
}

inline unsigned small_code(const std::byte* codes, unsigned bits, std::uint64_t index) {
    const unsigned in_byte = 8 / bits;
    return static_cast<unsigned>(codes[index / in_byte]) >> bits * (index % in_byte) & ((1u << bits) - 1);
}

// Element `index` of a row of packs.
inline double pack_element(DType type, const std::byte* row, std::uint64_t index) {
    const std::byte* const pack = row + index / 32 * bytes_per_pack(type);
    const unsigned i = static_cast<unsigned>(index % 32);
    const double d = half_of(pack);
    const auto nibble = [&](const std::byte* quants) { return static_cast<int>(static_cast<unsigned>(quants[i % 16]) >> (i < 16 ? 0 : 4) & 15u); };
    const auto fifth = [&](const std::byte* high) { return static_cast<int>(loaded<std::uint32_t>(high) >> i & 1u) * 16; };
    switch (type) {
    case DType::q8_0: return d * static_cast<double>(static_cast<std::int8_t>(pack[2 + i]));
    case DType::q4_0: return d * (nibble(pack + 2) - 8);
    case DType::q4_1: return d * nibble(pack + 4) + half_of(pack + 2);
    case DType::q5_0: return d * (nibble(pack + 6) + fifth(pack + 2) - 16);
    default: return d * (nibble(pack + 8) + fifth(pack + 4)) + half_of(pack + 2);  // q5_1
    }
}

// page: page + 1 of the f16 page that stands for the block, or 0.
inline double kv_value(const KvBytes& of, std::uint64_t block, std::uint32_t page, std::uint32_t head, std::uint32_t offset, std::uint32_t element) {
    const KvPlane& plane = of.plane;
    const DType type = plane.format.dtype;
    if (page > 0 && plane.format.keeps_residual()) {
        const std::uint64_t row = (std::uint64_t{page - 1} * plane.heads + head) * plane.block_size + offset;
        return half_of(of.pages + (row * plane.head_dim + element) * 2);
    }
    const std::uint32_t row = head / plane.heads_per_row;
    const std::byte* const codes = of.data + plane.codes(block, row, offset);
    const std::byte* const scales = of.scale_data + of.scale_plane->scales(block, row, offset);
    switch (type) {
    case DType::f32: return static_cast<double>(loaded<float>(codes + 4 * element));
    case DType::f16: return half_of(codes + 2 * element);
    case DType::bf16: return static_cast<double>(bf16_to_f32(loaded<std::uint16_t>(codes + 2 * element)));
    case DType::int4: return small_code(codes, 4, element) * half_of(scales) + half_of(scales + 2);
    case DType::kivi2:
    case DType::kivi4: {
        const std::uint32_t group = plane.format.group;
        const std::uint32_t pair = plane.part == KvPart::keys ? offset / group * plane.head_dim + element : element / group;
        return small_code(codes, type == DType::kivi2 ? 2 : 4, element) * half_of(scales + 4 * pair) + half_of(scales + 4 * pair + 2);
    }
    case DType::int8:
    case DType::fp8_e4m3:
    case DType::fp8_e5m2: {
        const bool fixed = plane.format.scale == KvScale::tensor || plane.format.scale == KvScale::head;
        const float scale = fixed ? of.fixed[plane.format.scale == KvScale::head ? head : 0] : loaded<float>(scales);
        const unsigned code = static_cast<unsigned>(codes[element]);
        return static_cast<double>(scale) * (type == DType::int8 ? static_cast<double>(static_cast<std::int8_t>(code)) : fp8_of(type, code));
    }
    default: return pack_element(type, codes, head % plane.heads_per_row * plane.head_dim + element);
    }
}

}  // namespace kvloupe::test
