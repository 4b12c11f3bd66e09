// SPDX-License-Identifier: GPL-3.0-or-later
//
// Weights whose codes have bits in two places or whose scales have two levels, on the device: q5_0, q5_1, q4_k, q5_k, q6_k
// (FORMATS 2.3, engine/model/k_quants.cpp). One element by its definition, and eight neighbouring ones as they lie in memory
// first and expanded later, as matvec_columns.h has it for the other types.
//
// Packs of 144, 176 and 24 bytes let eight codes be read as two aligned words; those of 22 and 210 bytes are aligned to 2 only.
// Eight columns share one scale, because every scale is for 16 or 32. Scales of 6 bits are read as three bytes: neighbouring
// lanes read the same ones, so the load unit serves a warp at once. Rejected: the twelve bytes as words (three loads as well,
// and shifts by a lane's part of the pack in 96 bits).
#pragma once

#include "engine/record/dtype.h"
#include "kernels/cuda/conversions.h"
#include "kernels/cuda/packed_words.h"
#include "kernels/cuda/platform.h"

#include <cstddef>
#include <cstdint>

namespace kvloupe::cuda {

template <DType dtype>
inline constexpr bool is_super = dtype >= DType::q5_0 && dtype <= DType::q6_k;
// Whether a pack has a minimum beside its scale.
template <DType dtype>
inline constexpr bool has_offset = dtype == DType::q4_1 || dtype == DType::q5_1 || dtype == DType::q4_k || dtype == DType::q5_k;

__device__ __forceinline__ float half_at(const std::byte* at) { return f16_value(*reinterpret_cast<const std::uint16_t*>(at)); }
__device__ __forceinline__ std::uint32_t byte_at(const std::byte* at) { return *reinterpret_cast<const unsigned char*>(at); }
__device__ __forceinline__ std::uint32_t word_at(const std::byte* at) { return *reinterpret_cast<const std::uint32_t*>(at); }

// --- one element ---

// `part` of a pack's eight: the scale in the low 8 bits, the minimum above, both of 6 bits.
__device__ __forceinline__ std::uint32_t six_bit_pair(std::uint32_t own, std::uint32_t next, std::uint32_t before,
                                                      unsigned part) {
    if (part < 4) return (own & 63u) | (next & 63u) << 8;
    return (next & 15u) | (before >> 6) << 4 | (next >> 4 | (own >> 6) << 4) << 8;
}
__device__ __forceinline__ std::uint32_t six_bit_pair_at(const std::byte* scales, unsigned part) {
    return six_bit_pair(byte_at(scales + part), byte_at(scales + part + 4), part < 4 ? 0u : byte_at(scales + part - 4), part);
}

template <DType dtype>
__device__ __forceinline__ float super_value(const std::byte* pack, unsigned inside) {
    if constexpr (dtype == DType::q5_0 || dtype == DType::q5_1) {
        constexpr unsigned fifth_at = dtype == DType::q5_0 ? 2 : 4;
        const std::uint32_t byte = byte_at(pack + fifth_at + 4 + inside % 16);
        const std::uint32_t fifth = byte_at(pack + fifth_at + inside / 8) >> inside % 8 & 1u;
        const int code = static_cast<int>((inside < 16 ? byte & 15u : byte >> 4) | fifth << 4);
        if constexpr (dtype == DType::q5_0) return half_at(pack) * static_cast<float>(code - 16);
        else return half_at(pack) * static_cast<float>(code) + half_at(pack + 2);
    } else if constexpr (dtype == DType::q6_k) {
        const unsigned half = inside / 128, part = inside % 128 / 32, at = inside % 32;
        const std::uint32_t low = byte_at(pack + half * 64 + part % 2 * 32 + at), high = byte_at(pack + 128 + half * 32 + at);
        const int code = static_cast<int>((part < 2 ? low & 15u : low >> 4) | (high >> 2 * part & 3u) << 4) - 32;
        const int scale = static_cast<signed char>(byte_at(pack + 192 + inside / 16));
        return half_at(pack + 208) * static_cast<float>(scale) * static_cast<float>(code);
    } else {
        constexpr bool five = dtype == DType::q5_k;
        const unsigned part = inside / 32, at = inside % 32;
        const std::uint32_t pair = six_bit_pair_at(pack + 4, part);
        const std::uint32_t byte = byte_at(pack + (five ? 48 : 16) + part / 2 * 32 + at);
        std::uint32_t code = part % 2 == 0 ? byte & 15u : byte >> 4;
        if constexpr (five) code |= (byte_at(pack + 16 + at) >> part & 1u) << 4;
        return half_at(pack) * static_cast<float>(pair & 0xFFu) * static_cast<float>(code) -
               half_at(pack + 2) * static_cast<float>(pair >> 8);
    }
}

// --- eight columns ---

// Eight codes, one in each byte.
struct EightCodes {
    std::uint32_t low = 0, high = 0;
    __device__ void expand(float (&value)[8], float zero) const {
        KVLOUPE_UNROLL
        for (unsigned i = 0; i < 4; ++i) {
            value[i] = byte_value(low, i, zero);
            value[4 + i] = byte_value(high, i, zero);
        }
    }
};
// Bits 0 .. 3 as bit 4 of four bytes.
__device__ __forceinline__ std::uint32_t spread_fifth_bits(std::uint32_t bits) {
    return ((bits & 15u) * 0x00204081u & 0x01010101u) << 4;
}

// As Columns (matvec_columns.h): an element is scale() * value + offset().
template <DType dtype>
struct SuperColumns;

template <>
struct SuperColumns<DType::q5_0> {
    Octet quants;
    std::uint16_t d = 0;
    std::uint8_t fifth = 0, shift = 0;
    __device__ void load(const std::byte* row, std::uint32_t column) {
        const std::byte* pack = row + std::size_t{column / 32} * 22;
        d = *reinterpret_cast<const std::uint16_t*>(pack);
        fifth = static_cast<std::uint8_t>(byte_at(pack + 2 + column % 32 / 8));
        shift = static_cast<std::uint8_t>(column / 16 % 2 * 4);
        quants.load(pack + 6 + column % 16);
    }
    __device__ float scale() const { return f16_value(d); }
    __device__ float offset() const { return 0; }
    __device__ void expand(float (&value)[8]) const {
        const EightCodes codes{(quants.low() >> shift & 0x0F0F0F0Fu) | spread_fifth_bits(fifth),
                               (quants.high() >> shift & 0x0F0F0F0Fu) | spread_fifth_bits(fifth >> 4)};
        codes.expand(value, 16);
    }
};

template <>
struct SuperColumns<DType::q5_1> {
    std::uint32_t first = 0, second = 0, d_and_m = 0;
    std::uint8_t fifth = 0, shift = 0;
    __device__ void load(const std::byte* row, std::uint32_t column) {
        const std::byte* pack = row + std::size_t{column / 32} * 24;
        d_and_m = word_at(pack);
        fifth = static_cast<std::uint8_t>(byte_at(pack + 4 + column % 32 / 8));
        shift = static_cast<std::uint8_t>(column / 16 % 2 * 4);
        first = word_at(pack + 8 + column % 16);
        second = word_at(pack + 12 + column % 16);
    }
    __device__ float scale() const { return f16_value(static_cast<std::uint16_t>(d_and_m)); }
    __device__ float offset() const { return f16_value(static_cast<std::uint16_t>(d_and_m >> 16)); }
    __device__ void expand(float (&value)[8]) const {
        const EightCodes codes{(first >> shift & 0x0F0F0F0Fu) | spread_fifth_bits(fifth),
                               (second >> shift & 0x0F0F0F0Fu) | spread_fifth_bits(fifth >> 4)};
        codes.expand(value, 0);
    }
};

// q4_k, and q5_k with its fifth bits.
template <bool Five>
struct SuperColumnsOfK {
    std::uint32_t first = 0, second = 0, d_and_minimum = 0;
    std::uint32_t fifth[Five ? 2 : 1] = {};
    std::uint8_t own = 0, next = 0, before = 0, part = 0;
    __device__ void load(const std::byte* row, std::uint32_t column) {
        const std::byte* pack = row + std::size_t{column / 256} * (Five ? 176 : 144);
        const unsigned at = column % 32;
        part = static_cast<std::uint8_t>(column % 256 / 32);
        d_and_minimum = word_at(pack);
        own = static_cast<std::uint8_t>(byte_at(pack + 4 + part));
        next = static_cast<std::uint8_t>(byte_at(pack + 8 + part));
        before = part < 4 ? std::uint8_t{0} : static_cast<std::uint8_t>(byte_at(pack + part));
        const std::byte* const codes = pack + (Five ? 48 : 16) + part / 2 * 32 + at;
        first = word_at(codes);
        second = word_at(codes + 4);
        if constexpr (Five) {
            fifth[0] = word_at(pack + 16 + at);
            fifth[1] = word_at(pack + 20 + at);
        }
    }
    __device__ float scale() const {
        return f16_value(static_cast<std::uint16_t>(d_and_minimum)) *
               static_cast<float>(six_bit_pair(own, next, before, part) & 0xFFu);
    }
    __device__ float offset() const {
        return -f16_value(static_cast<std::uint16_t>(d_and_minimum >> 16)) *
               static_cast<float>(six_bit_pair(own, next, before, part) >> 8);
    }
    __device__ void expand(float (&value)[8]) const {
        const unsigned shift = part % 2u * 4u;
        EightCodes codes{first >> shift & 0x0F0F0F0Fu, second >> shift & 0x0F0F0F0Fu};
        if constexpr (Five) {
            codes.low |= (fifth[0] >> part & 0x01010101u) << 4;
            codes.high |= (fifth[1] >> part & 0x01010101u) << 4;
        }
        codes.expand(value, 0);
    }
};
template <>
struct SuperColumns<DType::q4_k> : SuperColumnsOfK<false> {};
template <>
struct SuperColumns<DType::q5_k> : SuperColumnsOfK<true> {};

template <>
struct SuperColumns<DType::q6_k> {
    Octet low, high;
    std::uint16_t d = 0;
    std::int8_t step = 0;
    std::uint8_t part = 0;  // of a half of 128
    __device__ void load(const std::byte* row, std::uint32_t column) {
        const std::byte* pack = row + std::size_t{column / 256} * 210;
        const unsigned inside = column % 256, half = inside / 128, at = inside % 32;
        part = static_cast<std::uint8_t>(inside % 128 / 32);
        d = *reinterpret_cast<const std::uint16_t*>(pack + 208);
        step = static_cast<std::int8_t>(byte_at(pack + 192 + inside / 16));
        low.load(pack + half * 64 + part % 2 * 32 + at);
        high.load(pack + 128 + half * 32 + at);
    }
    __device__ float scale() const { return f16_value(d) * static_cast<float>(step); }
    __device__ float offset() const { return 0; }
    __device__ void expand(float (&value)[8]) const {
        const unsigned shift = part < 2 ? 0 : 4, bits = 2u * part;
        const EightCodes codes{(low.low() >> shift & 0x0F0F0F0Fu) | (high.low() >> bits & 0x03030303u) << 4,
                               (low.high() >> shift & 0x0F0F0F0Fu) | (high.high() >> bits & 0x03030303u) << 4};
        codes.expand(value, 32);
    }
};

}  // namespace kvloupe::cuda
