// SPDX-License-Identifier: GPL-3.0-or-later
//
// Codes of 2, 4 and 5 bits to f32. A row of 128 values in 4 bits is 64 bytes, and the tile that is expanded lies in the
// second-level cache: what counts is few instructions per value. Codes are unpacked as bytes, 16 bytes of them at a time, then
// widened, converted and multiplied. Bytes: those of the codes, and 4 per value written into the scratch. Rejected: plain loops,
// which compilers do not interleave by themselves (attention over 4-bit codes took 7 times that over f16, with this form twice).
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

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::CappedTag<float, 16>;

#if HWY_TARGET == HWY_SCALAR
template <int Bits>
void unpack(const std::byte* codes, std::uint8_t* out) {
    for (std::uint32_t i = 0; i < 16; ++i)
        for (std::uint32_t j = 0; j < 8 / Bits; ++j)
            *out++ = static_cast<std::uint8_t>(static_cast<unsigned>(codes[i]) >> (j * Bits) & ((1u << Bits) - 1));
}
void unpack_halves(const std::byte* codes, std::uint8_t* out) { unpack<4>(codes, out); }
void unpack_quarters(const std::byte* codes, std::uint8_t* out) { unpack<2>(codes, out); }

void unpack_fives(const std::byte* fifths, const std::byte* nibbles, std::uint8_t* out) {
    for (std::uint32_t j = 0; j < 32; ++j) {
        const auto byte = static_cast<unsigned>(nibbles[j % 16]);
        const unsigned fifth = static_cast<unsigned>(fifths[j / 8]) >> (j % 8) & 1u;
        out[j] = static_cast<std::uint8_t>((j < 16 ? byte & 15u : byte >> 4) | fifth << 4);
    }
}
#else
using Bytes = hn::FixedTag<std::uint8_t, 16>;

// 16 bytes of two codes each, in order.
HWY_INLINE void unpack_halves(const std::byte* codes, std::uint8_t* out) {
    const Bytes d;
    const auto both = hn::LoadU(d, reinterpret_cast<const std::uint8_t*>(codes));
    const auto low = hn::And(both, hn::Set(d, 15)), high = hn::ShiftRight<4>(both);
    hn::StoreU(hn::InterleaveLower(d, low, high), d, out);
    hn::StoreU(hn::InterleaveUpper(d, low, high), d, out + 16);
}

// 16 bytes of four codes each, in order.
HWY_INLINE void unpack_quarters(const std::byte* codes, std::uint8_t* out) {
    const Bytes d;
    const hn::Repartition<std::uint16_t, Bytes> pairs;
    const auto all = hn::LoadU(d, reinterpret_cast<const std::uint8_t*>(codes));
    const auto three = hn::Set(d, 3);
    const auto first = hn::And(all, three), second = hn::And(hn::ShiftRight<2>(all), three);
    const auto third = hn::And(hn::ShiftRight<4>(all), three), fourth = hn::ShiftRight<6>(all);
    const auto put = [&](auto a, auto b, std::uint8_t* to) {
        const auto x = hn::BitCast(pairs, a), y = hn::BitCast(pairs, b);
        hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, x, y)), d, to);
        hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, x, y)), d, to + 16);
    };
    put(hn::InterleaveLower(d, first, second), hn::InterleaveLower(d, third, fourth), out);
    put(hn::InterleaveUpper(d, first, second), hn::InterleaveUpper(d, third, fourth), out + 32);
}

// Low nibbles are elements 0 .. 15 of a pack, high ones 16 .. 31; the fifth bits are one word.
HWY_INLINE void unpack_fives(const std::byte* fifths, const std::byte* nibbles, std::uint8_t* out) {
    const Bytes d;
    alignas(16) static constexpr std::uint8_t byte_of[16] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
    alignas(16) static constexpr std::uint8_t bit_of[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    alignas(16) std::uint8_t word[16] = {};
    std::memcpy(word, fifths, 4);
    const auto words = hn::Load(d, word), index = hn::Load(d, byte_of), bit = hn::Load(d, bit_of);
    const auto both = hn::LoadU(d, reinterpret_cast<const std::uint8_t*>(nibbles));
    const auto with_fifth = [&](auto low, auto bytes) {
        return hn::Or(low, hn::IfThenElseZero(hn::TestBit(hn::TableLookupBytes(words, bytes), bit), hn::Set(d, 16)));
    };
    hn::StoreU(with_fifth(hn::And(both, hn::Set(d, 15)), index), d, out);
    hn::StoreU(with_fifth(hn::ShiftRight<4>(both), hn::Add(index, hn::Set(d, 2))), d, out + 16);
}
#endif

constexpr std::uint32_t codes_at_once = 64;

// Calls f(element, code bytes, how many) piece by piece.
template <class F>
HWY_INLINE void for_pieces(int bits, const std::byte* codes, std::uint32_t count, F&& f) {
    alignas(64) std::uint8_t unpacked[codes_at_once];
    for (std::uint32_t at = 0; at < count; at += codes_at_once) {
        const std::uint32_t here = count - at < codes_at_once ? count - at : codes_at_once;
        const std::uint32_t bytes = here * static_cast<std::uint32_t>(bits) / 8;
        const std::byte* from = codes + at / 8 * static_cast<std::uint32_t>(bits);
        std::byte rest[codes_at_once / 2];  // reads go over 16 bytes
        if (here < codes_at_once) {
            std::memset(rest, 0, sizeof rest);
            std::memcpy(rest, from, bytes);
            from = rest;
        }
        if (bits == 2) {
            unpack_quarters(from, unpacked);
        } else {
            unpack_halves(from, unpacked);
            if (here > 32) unpack_halves(from + 16, unpacked + 32);
        }
        f(at, unpacked, here);
    }
}

// out (count) = code * step + minimum, whose vectors are given by element.
template <class Step, class Minimum>
HWY_INLINE void convert(const std::uint8_t* codes, std::uint32_t count, Step&& step, Minimum&& minimum, float* out) {
    const auto with = [&](auto d, std::uint32_t i) {
        const hn::Rebind<std::int32_t, decltype(d)> wide;
        const hn::Rebind<std::uint8_t, decltype(d)> bytes;
        const auto code = hn::ConvertTo(d, hn::PromoteTo(wide, hn::LoadU(bytes, codes + i)));
        hn::StoreU(hn::MulAdd(code, step(d, i), minimum(d, i)), d, out + i);
    };
    const Floats d;
    const auto n = static_cast<std::uint32_t>(hn::Lanes(d));
    std::uint32_t i = 0;
    for (; i + n <= count; i += n) with(d, i);
    for (; i < count; ++i) with(hn::CappedTag<float, 1>(), i);
}

void expand_codes_simd(int bits, const std::byte* codes, std::uint32_t count, float step, float minimum, float* out) {
    for_pieces(bits, codes, count, [&](std::uint32_t at, const std::uint8_t* code, std::uint32_t here) {
        convert(code, here, [&](auto d, std::uint32_t) { return hn::Set(d, step); },
                [&](auto d, std::uint32_t) { return hn::Set(d, minimum); }, out + at);
    });
}

void expand_channels_simd(int bits, const std::byte* codes, std::uint32_t count, const float* steps, const float* minima, float* out) {
    for_pieces(bits, codes, count, [&](std::uint32_t at, const std::uint8_t* code, std::uint32_t here) {
        convert(code, here, [&](auto d, std::uint32_t i) { return hn::LoadU(d, steps + at + i); },
                [&](auto d, std::uint32_t i) { return hn::LoadU(d, minima + at + i); }, out + at);
    });
}

void expand_fives_simd(DType dtype, const std::byte* packs, std::uint32_t count, float* out) {
    const bool shifted = dtype == DType::q5_0;
    for (std::uint32_t at = 0; at < count; at += 32, packs += bytes_per_pack(dtype)) {
        std::uint16_t half[2] = {};
        std::memcpy(half, packs, shifted ? 2 : 4);
        const float step = f16_to_f32(half[0]);
        const float minimum = shifted ? -16 * step : f16_to_f32(half[1]);
        std::uint8_t code[32];
        unpack_fives(packs + (shifted ? 2 : 4), packs + (shifted ? 6 : 8), code);
        convert(code, 32, [&](auto d, std::uint32_t) { return hn::Set(d, step); },
                [&](auto d, std::uint32_t) { return hn::Set(d, minimum); }, out + at);
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
