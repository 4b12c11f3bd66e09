// SPDX-License-Identifier: GPL-3.0-or-later
//
// Eight consecutive columns of one row of a weight matrix, for every stored form: loaded as they lie in memory first and
// expanded to f32 later, so that a thread has many loads on their way before it uses any.
//
// Plain types: one 16-byte load (f32: two). Packs of q8_0 and q4_0 (34 and 18 bytes) are aligned to 2 bytes only: the
// eight or four and four bytes come as the aligned words around them, and the last two bytes by themselves, so that no byte
// beyond the matrix is read. Rejected for them: 16-bit loads (five instead of three and a half per eight columns, and the
// load unit is what bounds this kernel), and 16-byte loads by way of shared memory (a write and a read more per byte).
// The types of super-blocks and fifth bits: super_packs.h.
#pragma once

#include "engine/record/dtype.h"
#include "kernels/cuda/conversions.h"
#include "kernels/cuda/platform.h"
#include "kernels/cuda/super_packs.h"

#include <cstddef>
#include <cstdint>

namespace kvloupe::cuda {

struct alignas(16) Words {
    std::uint32_t word[4] = {};
};

// 16 bytes that are read once: they pass the first-level cache by, which then keeps the activations.
__device__ inline Words load_once(const std::byte* at) {
#if defined(__CUDA_ARCH__)
    Words words;
    asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
        : "=r"(words.word[0]), "=r"(words.word[1]), "=r"(words.word[2]), "=r"(words.word[3])
        : "l"(at));
    return words;
#else
    return *reinterpret_cast<const Words*>(at);
#endif
}

// load(): row: the row's first byte; column: a multiple of 8. expand(): value (8), of which an element is
// scale() * value + offset(); plain types have neither. Before load() everything is 0.
template <DType Type>
struct Columns;

template <>
struct Columns<DType::f32> {
    Words low, high;
    __device__ void load(const std::byte* row, std::uint32_t column) {
        low = load_once(row + std::size_t{column} * 4);
        high = load_once(row + std::size_t{column} * 4 + 16);
    }
    __device__ void expand(float (&value)[8]) const {
        KVLOUPE_UNROLL
        for (unsigned i = 0; i < 4; ++i) {
            value[i] = __uint_as_float(low.word[i]);
            value[4 + i] = __uint_as_float(high.word[i]);
        }
    }
};

template <>
struct Columns<DType::f16> {
    Words words;
    __device__ void load(const std::byte* row, std::uint32_t column) { words = load_once(row + std::size_t{column} * 2); }
    __device__ void expand(float (&value)[8]) const {
        KVLOUPE_UNROLL
        for (unsigned i = 0; i < 8; ++i) value[i] = f16_value(static_cast<std::uint16_t>(words.word[i / 2] >> (i % 2 * 16)));
    }
};

template <>
struct Columns<DType::bf16> {
    Words words;
    __device__ void load(const std::byte* row, std::uint32_t column) { words = load_once(row + std::size_t{column} * 2); }
    __device__ void expand(float (&value)[8]) const {
        KVLOUPE_UNROLL
        for (unsigned i = 0; i < 4; ++i) {
            value[2 * i] = __uint_as_float(words.word[i] << 16);
            value[2 * i + 1] = __uint_as_float(words.word[i] & 0xFFFF0000u);
        }
    }
};

template <>
struct Columns<DType::q8_0> {
    Octet quants;  // signed
    std::uint16_t d = 0;
    __device__ void load(const std::byte* row, std::uint32_t column) {
        const std::byte* pack = row + std::size_t{column / 32} * 34;
        d = *reinterpret_cast<const std::uint16_t*>(pack);
        quants.load(pack + 2 + column % 32);
    }
    __device__ float scale() const { return f16_value(d); }
    __device__ float offset() const { return 0; }
    __device__ void expand(float (&value)[8]) const {
        const std::uint32_t low = quants.low() ^ 0x80808080u, high = quants.high() ^ 0x80808080u;  // plus 128
        KVLOUPE_UNROLL
        for (unsigned i = 0; i < 4; ++i) {
            value[i] = byte_value(low, i, 128);
            value[4 + i] = byte_value(high, i, 128);
        }
    }
};

// Columns 0 .. 15 of a pack are the low halves of its 16 bytes, columns 16 .. 31 the high ones.
struct Nibbles {
    std::uint32_t low = 0, high = 0;
    __device__ Nibbles(std::uint32_t low_bytes, std::uint32_t high_bytes, std::uint32_t column)
        : low(low_bytes >> (column / 16 % 2 * 4) & 0x0F0F0F0Fu), high(high_bytes >> (column / 16 % 2 * 4) & 0x0F0F0F0Fu) {}
    __device__ void expand(float (&value)[8], float zero) const {
        KVLOUPE_UNROLL
        for (unsigned i = 0; i < 4; ++i) {
            value[i] = byte_value(low, i, zero);
            value[4 + i] = byte_value(high, i, zero);
        }
    }
};

template <>
struct Columns<DType::q4_0> {
    Octet quants;
    std::uint16_t d = 0;
    std::uint16_t place = 0;  // column in the pack
    __device__ void load(const std::byte* row, std::uint32_t column) {
        const std::byte* pack = row + std::size_t{column / 32} * 18;
        place = static_cast<std::uint16_t>(column % 32);
        d = *reinterpret_cast<const std::uint16_t*>(pack);
        quants.load(pack + 2 + column % 16);
    }
    __device__ float scale() const { return f16_value(d); }
    __device__ float offset() const { return 0; }
    __device__ void expand(float (&value)[8]) const { Nibbles(quants.low(), quants.high(), place).expand(value, 8); }
};

template <>
struct Columns<DType::q4_1> {
    std::uint32_t first = 0, second = 0;  // packs of 20 bytes are aligned to 4
    std::uint32_t d_and_m = 0;
    std::uint32_t place = 0;
    __device__ void load(const std::byte* row, std::uint32_t column) {
        const auto* pack = reinterpret_cast<const std::uint32_t*>(row + std::size_t{column / 32} * 20);
        place = column % 32;
        d_and_m = pack[0];
        first = pack[1 + column % 16 / 4];
        second = pack[2 + column % 16 / 4];
    }
    __device__ float scale() const { return f16_value(static_cast<std::uint16_t>(d_and_m)); }
    __device__ float offset() const { return f16_value(static_cast<std::uint16_t>(d_and_m >> 16)); }
    __device__ void expand(float (&value)[8]) const { Nibbles(first, second, place).expand(value, 0); }
};

template <>
struct Columns<DType::q5_0> : SuperColumns<DType::q5_0> {};
template <>
struct Columns<DType::q5_1> : SuperColumns<DType::q5_1> {};
template <>
struct Columns<DType::q4_k> : SuperColumns<DType::q4_k> {};
template <>
struct Columns<DType::q5_k> : SuperColumns<DType::q5_k> {};
template <>
struct Columns<DType::q6_k> : SuperColumns<DType::q6_k> {};

}  // namespace kvloupe::cuda
