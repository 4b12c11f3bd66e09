// SPDX-License-Identifier: GPL-3.0-or-later
//
// Codes of 2, 4 and 5 bits to f32. A row of 128 values in 4 bits is 64 bytes, and the tile that is expanded lies in the
// second-level cache: what counts is few instructions per value. The loops are plain on purpose: compiled for each instruction
// set, they become wide shifts, masks and conversions by themselves.
#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/kv_expand.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "engine/model/half.h"
#include "kernels/cpu/kv_rows.h"

#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace kvloupe::cpu::HWY_NAMESPACE {

// The codes of 8 / Bits elements in a byte, as bytes in their order.
template <int Bits>
HWY_INLINE void unpack(const std::byte* codes, std::uint32_t count, std::uint8_t* out) {
    constexpr std::uint32_t per_byte = 8 / Bits;
    for (std::uint32_t i = 0; i < count / per_byte; ++i) {
        const auto byte = static_cast<unsigned>(codes[i]);
        for (std::uint32_t j = 0; j < per_byte; ++j)
            out[i * per_byte + j] = static_cast<std::uint8_t>((byte >> (j * Bits)) & ((1u << Bits) - 1));
    }
}

constexpr std::uint32_t codes_at_once = 64;

// Calls f(element, code bytes, how many) piece by piece.
template <class F>
HWY_INLINE void for_pieces(int bits, const std::byte* codes, std::uint32_t count, F&& f) {
    std::uint8_t unpacked[codes_at_once];
    for (std::uint32_t at = 0; at < count; at += codes_at_once) {
        const std::uint32_t here = count - at < codes_at_once ? count - at : codes_at_once;
        if (bits == 4) unpack<4>(codes + at / 2, here, unpacked);
        else unpack<2>(codes + at / 4, here, unpacked);
        f(at, unpacked, here);
    }
}

void expand_codes_simd(int bits, const std::byte* codes, std::uint32_t count, float step, float minimum, float* out) {
    for_pieces(bits, codes, count, [&](std::uint32_t at, const std::uint8_t* code, std::uint32_t here) {
        for (std::uint32_t i = 0; i < here; ++i) out[at + i] = static_cast<float>(code[i]) * step + minimum;
    });
}

void expand_channels_simd(int bits, const std::byte* codes, std::uint32_t count, const float* steps, const float* minima, float* out) {
    for_pieces(bits, codes, count, [&](std::uint32_t at, const std::uint8_t* code, std::uint32_t here) {
        for (std::uint32_t i = 0; i < here; ++i) out[at + i] = static_cast<float>(code[i]) * steps[at + i] + minima[at + i];
    });
}

void expand_fives_simd(DType dtype, const std::byte* packs, std::uint32_t count, float* out) {
    const bool shifted = dtype == DType::q5_0;
    for (std::uint32_t at = 0; at < count; at += 32, packs += bytes_per_pack(dtype)) {
        std::uint16_t half[2] = {};
        std::memcpy(half, packs, shifted ? 2 : 4);
        std::uint32_t fifth;
        std::memcpy(&fifth, packs + (shifted ? 2 : 4), 4);
        const std::byte* nibbles = packs + (shifted ? 6 : 8);
        const float step = f16_to_f32(half[0]);
        const float minimum = shifted ? -16 * step : f16_to_f32(half[1]);
        std::int32_t code[32];
        for (std::uint32_t j = 0; j < 16; ++j) {
            code[j] = static_cast<std::int32_t>(nibbles[j]) & 15;
            code[j + 16] = static_cast<std::int32_t>(nibbles[j]) >> 4;
        }
        for (std::uint32_t j = 0; j < 32; ++j) code[j] |= static_cast<std::int32_t>((fifth >> j) & 1u) << 4;
        for (std::uint32_t j = 0; j < 32; ++j) out[at + j] = static_cast<float>(code[j]) * step + minimum;
    }
}

}  // namespace kvloupe::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvloupe::cpu {

HWY_EXPORT(expand_codes_simd);
HWY_EXPORT(expand_channels_simd);
HWY_EXPORT(expand_fives_simd);

void expand_codes(int bits, const std::byte* codes, std::uint32_t count, float step, float minimum, float* out) {
    HWY_DYNAMIC_DISPATCH(expand_codes_simd)(bits, codes, count, step, minimum, out);
}
void expand_channels(int bits, const std::byte* codes, std::uint32_t count, const float* steps, const float* minima, float* out) {
    HWY_DYNAMIC_DISPATCH(expand_channels_simd)(bits, codes, count, steps, minima, out);
}
void expand_fives(DType dtype, const std::byte* packs, std::uint32_t count, float* out) {
    HWY_DYNAMIC_DISPATCH(expand_fives_simd)(dtype, packs, count, out);
}

}  // namespace kvloupe::cpu
#endif
