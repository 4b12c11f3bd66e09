// SPDX-License-Identifier: GPL-3.0-or-later
//
// Eight consecutive columns of one row of a weight matrix, for every stored form: loaded as they lie in memory first and
// expanded to f32 later, so that a thread has many loads on their way before it uses any.
//
// Plain types: one 16-byte load (f32: two). Packs of q8_0 and q4_0 (34 and 18 bytes) are aligned to 2 bytes only: the
// eight or four and four bytes come as the aligned words around them, and the last two bytes by themselves, so that no byte
// beyond the matrix is read. Rejected for them: 16-bit loads (five instead of three and a half per eight columns, and the
// load unit is what bounds this kernel), and 16-byte loads by way of shared memory (a write and a read more per byte).
//
// Integers become floats by placing them into the low bits of 2^23 and subtracting 2^23: a permutation and an
// addition, where the conversion instruction has a quarter of their rate.
#pragma once

#include "engine/record/dtype.h"
#include "kernels/cuda/conversions.h"
#include "kernels/cuda/platform.h"

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

// Eight bytes at an even address, as the aligned words around them.
struct Octet {
    std::uint32_t first = 0, second = 0;
    std::uint32_t last = 0;   // the two bytes that the words lack where shift is 16
    std::uint32_t shift = 0;  // 0 or 16 bits

    __device__ void load(const std::byte* at) {
        const auto odd = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(at) & 2);
        const auto* words = reinterpret_cast<const std::uint32_t*>(at - odd);
        first = words[0];
        second = words[1];
        if (odd != 0) last = *reinterpret_cast<const std::uint16_t*>(at + 6);
        shift = 8 * odd;
    }
    __device__ std::uint32_t low() const { return both(first, second); }    // bytes 0 .. 3
    __device__ std::uint32_t high() const { return both(second, last); }    // bytes 4 .. 7

private:
    __device__ std::uint32_t both(std::uint32_t lower, std::uint32_t upper) const {
        return static_cast<std::uint32_t>((std::uint64_t{upper} << 32 | lower) >> shift);
    }
};

// Byte `index` of word, less `zero`. Exact.
__device__ inline float byte_value(std::uint32_t word, unsigned index, float zero) {
#if defined(__CUDA_ARCH__)
    std::uint32_t bits;  // the byte, two zeros, 0x4B: one byte permutation
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bits) : "r"(word), "r"(0x4B000000u), "r"(0x7440u | index));
#else
    const std::uint32_t bits = 0x4B000000u | ((word >> (8 * index)) & 0xFFu);
#endif
    return __uint_as_float(bits) - (8388608.0f + zero);
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

}  // namespace kvloupe::cuda
