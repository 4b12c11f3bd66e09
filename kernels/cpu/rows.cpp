// SPDX-License-Identifier: GPL-3.0-or-later
//
// Kernels over single rows: conversions, norm, activation, rotation. They move little and are far from the profile's
// top; what matters here is exact rounding (to the cache's precision) and NaN that stays NaN.
#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "engine/model/half.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/simd-inl.h"

#include <cmath>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace kvloupe::cpu::HWY_NAMESPACE {

using Floats = hn::ScalableTag<float>;

inline std::uint16_t load16(const std::byte* from) {
    std::uint16_t value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

template <class T>
void expand_plain(T type, const std::byte* in, std::uint64_t count, float* out) {
    const Floats d;
    const std::uint64_t lanes = hn::Lanes(d);
    std::uint64_t i = 0;
    for (; i + lanes <= count; i += lanes) hn::StoreU(load_f32(d, type, in + i * T::size), d, out + i);
    const hn::CappedTag<float, 1> one;
    for (; i < count; ++i) hn::StoreU(load_f32(one, type, in + i * T::size), one, out + i);
}

// The packed formats (FORMATS of GGUF); count is that of the packs of 32 elements.
void expand_q8_0(const std::byte* in, std::uint64_t packs, float* out) {
    const Floats d;
    const hn::Rebind<std::int32_t, Floats> di;
    const hn::Rebind<std::int8_t, Floats> bytes;
    const std::uint64_t lanes = hn::Lanes(d);
    for (std::uint64_t p = 0; p < packs; ++p, in += 34, out += 32) {
        const auto scale = hn::Set(d, f16_to_f32(load16(in)));
        for (std::uint64_t i = 0; i < 32; i += lanes) {
            const auto q = hn::LoadU(bytes, reinterpret_cast<const std::int8_t*>(in + 2 + i));
            hn::StoreU(hn::Mul(hn::ConvertTo(d, hn::PromoteTo(di, q)), scale), d, out + i);
        }
    }
}

// value = nibble * scale + offset; low nibbles are elements 0 .. 15, high ones 16 .. 31.
HWY_INLINE void expand_nibbles(const std::byte* q, float scale, float offset, float* out) {
    const hn::CappedTag<float, 16> d;
    const hn::Rebind<std::int32_t, decltype(d)> di;
    const hn::Rebind<std::uint8_t, decltype(d)> bytes;
    const auto scales = hn::Set(d, scale), offsets = hn::Set(d, offset);
    for (std::uint64_t i = 0; i < 16; i += hn::Lanes(d)) {
        const auto both = hn::PromoteTo(di, hn::LoadU(bytes, reinterpret_cast<const std::uint8_t*>(q + i)));
        const auto low = hn::ConvertTo(d, hn::And(both, hn::Set(di, 15)));
        const auto high = hn::ConvertTo(d, hn::ShiftRight<4>(both));
        hn::StoreU(hn::MulAdd(low, scales, offsets), d, out + i);
        hn::StoreU(hn::MulAdd(high, scales, offsets), d, out + 16 + i);
    }
}

void expand_row_simd(DType dtype, const std::byte* in, std::uint64_t count, float* out) {
    const std::uint64_t packs = count / 32;
    switch (dtype) {
    case DType::f32: return expand_plain(F32{}, in, count, out);
    case DType::f16: return expand_plain(F16{}, in, count, out);
    case DType::bf16: return expand_plain(BF16{}, in, count, out);
    case DType::q8_0: return expand_q8_0(in, packs, out);
    case DType::q4_0:
        for (std::uint64_t p = 0; p < packs; ++p, in += 18) {
            const float scale = f16_to_f32(load16(in));
            expand_nibbles(in + 2, scale, -8 * scale, out + p * 32);
        }
        return;
    case DType::q4_1:
        for (std::uint64_t p = 0; p < packs; ++p, in += 20)
            expand_nibbles(in + 4, f16_to_f32(load16(in)), f16_to_f32(load16(in + 2)), out + p * 32);
        return;
    default: return;
    }
}

void narrow_f16(const float* in, std::uint64_t count, std::byte* out) {
    std::uint64_t i = 0;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
    // The instruction rounds to nearest even; Highway's emulation for older sets does not.
    const Floats d;
    const hn::Rebind<hwy::float16_t, Floats> half;
    const std::uint64_t lanes = hn::Lanes(d);
    for (; i + lanes <= count; i += lanes)
        hn::StoreU(hn::DemoteTo(half, hn::LoadU(d, in + i)), half, reinterpret_cast<hwy::float16_t*>(out + 2 * i));
#endif
    for (; i < count; ++i) {
        const std::uint16_t bits = f32_to_f16(in[i]);
        std::memcpy(out + 2 * i, &bits, sizeof bits);
    }
}

// Magnitudes (bits without the sign) from which on a finite value rounds to infinity: 65520 in f16, half a unit above the
// largest value in bf16.
constexpr std::uint32_t infinite_f16 = 0x477FF000u, infinite_bf16 = 0x7F7F8000u, infinity_bits = 0x7F800000u;

std::uint64_t count_overflows(const float* in, std::uint64_t count, std::uint32_t limit) {
    std::uint64_t found = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
        std::uint32_t bits;
        std::memcpy(&bits, in + i, sizeof bits);
        found += (bits & 0x7FFFFFFFu) - limit < infinity_bits - limit ? 1u : 0u;
    }
    return found;
}

std::uint64_t narrow_row_simd(DType dtype, const float* in, std::uint64_t count, std::byte* out) {
    if (dtype == DType::f32) std::memcpy(out, in, count * sizeof(float));
    if (dtype == DType::f16) {
        narrow_f16(in, count, out);
        return count_overflows(in, count, infinite_f16);
    }
    if (dtype != DType::bf16) return 0;
    for (std::uint64_t i = 0; i < count; ++i) {
        const std::uint16_t bits = f32_to_bf16(in[i]);
        std::memcpy(out + 2 * i, &bits, sizeof bits);
    }
    return count_overflows(in, count, infinite_bf16);
}

void rms_norm_row_simd(const float* in, const float* weight, float epsilon, std::uint64_t width, float* out) {
    const Floats d;
    const std::uint64_t lanes = hn::Lanes(d);
    auto squares = hn::Zero(d);
    auto more_squares = hn::Zero(d);
    std::uint64_t i = 0;
    for (; i + 2 * lanes <= width; i += 2 * lanes) {
        const auto a = hn::LoadU(d, in + i);
        const auto b = hn::LoadU(d, in + i + lanes);
        squares = hn::MulAdd(a, a, squares);
        more_squares = hn::MulAdd(b, b, more_squares);
    }
    double sum = static_cast<double>(hn::GetLane(hn::SumOfLanes(d, hn::Add(squares, more_squares))));
    for (; i < width; ++i) sum += static_cast<double>(in[i]) * static_cast<double>(in[i]);
    const float factor =
        static_cast<float>(1.0 / std::sqrt(sum / static_cast<double>(width) + static_cast<double>(epsilon)));
    const auto factors = hn::Set(d, factor);
    for (i = 0; i + lanes <= width; i += lanes)
        hn::StoreU(hn::Mul(hn::Mul(hn::LoadU(d, in + i), factors), hn::LoadU(d, weight + i)), d, out + i);
    for (; i < width; ++i) out[i] = in[i] * factor * weight[i];
}

template <class D>
HWY_INLINE void silu_multiply_vector(D d, float* gate, const float* up) {
    const auto x = hn::LoadU(d, gate);
    const auto minus = hn::Neg(x);
    const auto limit = hn::Set(d, 87.0f);  // exp(87) is finite; beyond it silu is 0 to f32's precision. NaN passes
    const auto e = exp_f32(d, hn::IfThenElse(hn::Gt(minus, limit), limit, minus));
    const auto silu = hn::Div(x, hn::Add(hn::Set(d, 1.0f), e));
    hn::StoreU(hn::Mul(silu, hn::LoadU(d, up)), d, gate);
}

void silu_multiply_row_simd(float* gate, const float* up, std::uint64_t count) {
    const Floats d;
    const std::uint64_t lanes = hn::Lanes(d);
    std::uint64_t i = 0;
    for (; i + lanes <= count; i += lanes) silu_multiply_vector(d, gate + i, up + i);
    const hn::CappedTag<float, 1> one;
    for (; i < count; ++i) silu_multiply_vector(one, gate + i, up + i);
}

template <class D>
HWY_INLINE void rotate_vector(D d, float* head, const float* cosines, const float* sines, std::uint32_t half) {
    const auto a = hn::LoadU(d, head);
    const auto b = hn::LoadU(d, head + half);
    const auto c = hn::LoadU(d, cosines);
    const auto s = hn::LoadU(d, sines);
    hn::StoreU(hn::NegMulAdd(b, s, hn::Mul(a, c)), d, head);
    hn::StoreU(hn::MulAdd(a, s, hn::Mul(b, c)), d, head + half);
}

void rotate_half_split_simd(float* head, const float* cosines, const float* sines, std::uint32_t half) {
    const Floats d;
    const auto lanes = static_cast<std::uint32_t>(hn::Lanes(d));
    std::uint32_t i = 0;
    for (; i + lanes <= half; i += lanes) rotate_vector(d, head + i, cosines + i, sines + i, half);
    const hn::CappedTag<float, 1> one;
    for (; i < half; ++i) rotate_vector(one, head + i, cosines + i, sines + i, half);
}

std::uint64_t read_all_simd(const std::byte* data, std::uint64_t bytes) {
    const hn::ScalableTag<std::uint64_t> d;
    const std::uint64_t step = hn::Lanes(d);
    const auto* words = reinterpret_cast<const std::uint64_t*>(data);
    const std::uint64_t count = bytes / sizeof(std::uint64_t);
    auto a = hn::Zero(d), b = hn::Zero(d), c = hn::Zero(d), e = hn::Zero(d);
    std::uint64_t i = 0;
    for (; i + 4 * step <= count; i += 4 * step) {
        a = hn::Xor(a, hn::LoadU(d, words + i));
        b = hn::Xor(b, hn::LoadU(d, words + i + step));
        c = hn::Xor(c, hn::LoadU(d, words + i + 2 * step));
        e = hn::Xor(e, hn::LoadU(d, words + i + 3 * step));
    }
    std::uint64_t result = hn::GetLane(hn::SumOfLanes(d, hn::Xor(hn::Xor(a, b), hn::Xor(c, e))));
    for (; i < count; ++i) result ^= words[i];
    return result;
}

const char* target_name() { return hwy::TargetName(HWY_TARGET); }

}  // namespace kvloupe::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvloupe::cpu {

HWY_EXPORT(expand_row_simd);
HWY_EXPORT(narrow_row_simd);
HWY_EXPORT(rms_norm_row_simd);
HWY_EXPORT(silu_multiply_row_simd);
HWY_EXPORT(rotate_half_split_simd);
HWY_EXPORT(read_all_simd);
HWY_EXPORT(target_name);

void expand_row(DType dtype, const std::byte* in, std::uint64_t count, float* out) {
    if (is_super(dtype)) return expand_super(dtype, in, count, out);
    HWY_DYNAMIC_DISPATCH(expand_row_simd)(dtype, in, count, out);
}
std::uint64_t narrow_row(DType dtype, const float* in, std::uint64_t count, std::byte* out) {
    return HWY_DYNAMIC_DISPATCH(narrow_row_simd)(dtype, in, count, out);
}
void rms_norm_row(const float* in, const float* weight, float epsilon, std::uint64_t width, float* out) {
    HWY_DYNAMIC_DISPATCH(rms_norm_row_simd)(in, weight, epsilon, width, out);
}
void silu_multiply_row(float* gate, const float* up, std::uint64_t count) {
    HWY_DYNAMIC_DISPATCH(silu_multiply_row_simd)(gate, up, count);
}
void rotate_half_split(float* head, const float* cosines, const float* sines, std::uint32_t half) {
    HWY_DYNAMIC_DISPATCH(rotate_half_split_simd)(head, cosines, sines, half);
}
std::uint64_t read_all(const std::byte* data, std::uint64_t bytes) {
    return HWY_DYNAMIC_DISPATCH(read_all_simd)(data, bytes);
}
std::string simd_target() { return HWY_DYNAMIC_DISPATCH(target_name)(); }

}  // namespace kvloupe::cpu
#endif
