// SPDX-License-Identifier: GPL-3.0-or-later
//
// Eight packed bytes of a weight as words, and bytes of a word as floats.
//
// Integers become floats by placing them into the low bits of 2^23 and subtracting 2^23: a permutation and an
// addition, where the conversion instruction has a quarter of their rate.
#pragma once

#include "kernels/cuda/platform.h"

#include <cstddef>
#include <cstdint>

namespace kvloupe::cuda {

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

}  // namespace kvloupe::cuda
