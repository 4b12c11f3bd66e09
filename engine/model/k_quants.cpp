// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/k_quants.h"

#include "engine/model/half.h"

#include <cassert>
#include <cstdint>
#include <cstring>

namespace kvloupe {

namespace {

float half_at(const std::byte* at) {
    std::uint16_t bits;
    std::memcpy(&bits, at, sizeof bits);
    return f16_to_f32(bits);
}

int byte_at(const std::byte* at, std::size_t index) { return std::to_integer<int>(at[index]); }

struct ScaleAndMinimum {
    int scale, minimum;
};

// Eight pairs of 6 bits in 12 bytes: the first four whole in bytes 0 .. 7, of the others the low four bits in bytes 8 .. 11 and
// the high two in the top of the former.
ScaleAndMinimum unpack_scale(const std::byte* s, std::size_t j) {
    if (j < 4) return {byte_at(s, j) & 63, byte_at(s, j + 4) & 63};
    return {(byte_at(s, j + 4) & 15) | (byte_at(s, j - 4) >> 6) << 4, byte_at(s, j + 4) >> 4 | (byte_at(s, j) >> 6) << 4};
}

// 64 elements share 32 bytes: low nibbles are the first 32, high ones the next. fifth: bit 2k of byte i belongs to element i of
// the k-th 64, bit 2k + 1 to element 32 + i; null: there are none.
void unpack_four_bits(const std::byte* pack, const std::byte* fifth, const std::byte* codes, float* out) {
    const float d = half_at(pack), dmin = half_at(pack + 2);
    for (std::size_t j = 0; j < 8; ++j) {
        const ScaleAndMinimum part = unpack_scale(pack + 4, j);
        const float step = d * static_cast<float>(part.scale), minimum = dmin * static_cast<float>(part.minimum);
        for (std::size_t i = 0; i < 32; ++i) {
            const int byte = byte_at(codes, j / 2 * 32 + i);
            int code = j % 2 == 0 ? byte & 15 : byte >> 4;
            if (fifth) code |= (byte_at(fifth, i) >> j & 1) << 4;
            out[j * 32 + i] = step * static_cast<float>(code) - minimum;
        }
    }
}

// Halves of 128: element 32 k + i has its low four bits in a nibble of byte 32 (k mod 2) + i, low nibbles for k < 2, and its
// high two in bits 2k of byte i of the other array. A scale for 16 elements.
void unpack_six_bits(const std::byte* pack, float* out) {
    const float d = half_at(pack + 208);
    for (std::size_t half = 0; half < 2; ++half)
        for (std::size_t k = 0; k < 4; ++k)
            for (std::size_t i = 0; i < 32; ++i) {
                const int byte = byte_at(pack, half * 64 + k % 2 * 32 + i);
                const int high = byte_at(pack, 128 + half * 32 + i) >> 2 * k & 3;
                const int code = ((k < 2 ? byte & 15 : byte >> 4) | high << 4) - 32;
                const auto scale = static_cast<std::int8_t>(pack[192 + half * 8 + k * 2 + i / 16]);
                out[half * 128 + k * 32 + i] = d * static_cast<float>(scale) * static_cast<float>(code);
            }
}

}  // namespace

void dequantise_super_block(DType type, const std::byte* pack, float* out) {
    switch (type) {
    case DType::q4_k: return unpack_four_bits(pack, nullptr, pack + 16, out);
    case DType::q5_k: return unpack_four_bits(pack, pack + 16, pack + 48, out);
    case DType::q6_k: return unpack_six_bits(pack, out);
    default: assert(!"not a type of super-blocks"); return;
    }
}

}  // namespace kvloupe
