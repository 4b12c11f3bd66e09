// SPDX-License-Identifier: GPL-3.0-or-later
//
// What the vectorised files share: loads that expand to f32, exp. Included once per instruction set.
#if defined(KVLOUPE_CPU_SIMD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef KVLOUPE_CPU_SIMD_INL_H
#undef KVLOUPE_CPU_SIMD_INL_H
#else
#define KVLOUPE_CPU_SIMD_INL_H
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace kvloupe::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Elements of memory by their dtype; the pointer may be unaligned and is never dereferenced as T.
struct F32 { static constexpr std::size_t size = 4; };
struct F16 { static constexpr std::size_t size = 2; };
struct BF16 { static constexpr std::size_t size = 2; };
struct I8 { static constexpr std::size_t size = 1; };
struct E4M3 { static constexpr std::size_t size = 1; };  // loads 1/256 of the value
struct E5M2 { static constexpr std::size_t size = 1; };

// Vectors load from any address, a single lane is read as its type: it is copied to an aligned place first.
template <class D, class T>
HWY_INLINE hn::VFromD<D> load_any(D d, const std::byte* from, const T*) {
    if constexpr (hn::MaxLanes(D()) == 1) {
        T value;
        std::memcpy(&value, from, sizeof value);
        return hn::Load(d, &value);
    } else {
        return hn::LoadU(d, reinterpret_cast<const T*>(from));
    }
}

template <class D>
HWY_INLINE hn::Vec<D> load_f32(D d, F32, const std::byte* from) {
    return load_any(d, from, static_cast<const float*>(nullptr));
}
template <class D>
HWY_INLINE hn::Vec<D> load_f32(D d, F16, const std::byte* from) {
    const hn::Rebind<hwy::float16_t, D> half;
    return hn::PromoteTo(d, load_any(half, from, static_cast<const hwy::float16_t*>(nullptr)));
}
template <class D>
HWY_INLINE hn::Vec<D> load_f32(D d, BF16, const std::byte* from) {
    const hn::Rebind<std::uint16_t, D> bits;
    const hn::Rebind<std::uint32_t, D> wide;
    return hn::BitCast(
        d, hn::ShiftLeft<16>(hn::PromoteTo(wide, load_any(bits, from, static_cast<const std::uint16_t*>(nullptr)))));
}

template <class D>
HWY_INLINE hn::Vec<D> load_f32(D d, I8, const std::byte* from) {
    const hn::Rebind<std::int8_t, D> bytes;
    const hn::Rebind<std::int32_t, D> wide;
    return hn::ConvertTo(d, hn::PromoteTo(wide, load_any(bytes, from, static_cast<const std::int8_t*>(nullptr))));
}
// Eight bits as the upper ones of an f16, which is exact; the exponent of E4M3 is then 8 too small.
template <class D>
HWY_INLINE hn::Vec<D> load_f32(D d, E4M3, const std::byte* from) {
    const hn::Rebind<std::uint8_t, D> bytes;
    const hn::Rebind<std::uint16_t, D> half;
    const auto code = hn::ShiftLeft<7>(hn::PromoteTo(half, load_any(bytes, from, static_cast<const std::uint8_t*>(nullptr))));
    const auto magnitude = hn::And(code, hn::Set(half, 0x3F80));
    // All ones are NaN: their successor has the bit that makes the exponent the largest one.
    const auto number = hn::OrAnd(magnitude, hn::Add(magnitude, hn::Set(half, 0x80)), hn::Set(half, 0x4000));
    const auto bits = hn::OrAnd(number, hn::Add(code, code), hn::Set(half, 0x8000));
    return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), bits));
}
template <class D>
HWY_INLINE hn::Vec<D> load_f32(D d, E5M2, const std::byte* from) {
    const hn::Rebind<std::uint8_t, D> bytes;
    const hn::Rebind<std::uint16_t, D> half;
    const auto code = hn::PromoteTo(half, load_any(bytes, from, static_cast<const std::uint8_t*>(nullptr)));
    return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), hn::ShiftLeft<8>(code)));
}

// exp(x) for x <= 88 to within 2 units of the last place; below -87 it is 0, and NaN stays NaN.
// x = n ln 2 + r with |r| <= ln 2 / 2; exp(r) by its Taylor polynomial of degree 7 (remainder below 1e-8 relative).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_f32(D d, V x) {
    const hn::Rebind<std::int32_t, D> di;
    const V n = hn::Round(hn::Mul(x, hn::Set(d, 1.44269504088896341f)));
    V r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);          // ln 2 in two parts, the first exact in few bits
    r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
    V p = hn::Set(d, 1.0f / 5040);
    p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 720));
    p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 120));
    p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 24));
    p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 6));
    p = hn::MulAdd(p, r, hn::Set(d, 0.5f));
    p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
    p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
    const auto power = hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(di, n), hn::Set(di, 127)));
    const V y = hn::Mul(p, hn::BitCast(d, power));
    return hn::IfThenElse(hn::Lt(x, hn::Set(d, -87.0f)), hn::Zero(d), y);
}

// tanh(x) to within 4 units of the last place; NaN stays NaN. Near 0, where 1 - e^-2x would cancel, by its Taylor polynomial
// of degree 9 (remainder below 1e-8 relative at 1/4).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V tanh_f32(D d, V x) {
    const V size = hn::Abs(x);
    const V e = exp_f32(d, hn::Mul(size, hn::Set(d, -2.0f)));  // below -87 it is 0, and the result 1
    const V one = hn::Set(d, 1.0f);
    const V far = hn::CopySign(hn::Div(hn::Sub(one, e), hn::Add(one, e)), x);
    const V square = hn::Mul(x, x);
    V p = hn::Set(d, 62.0f / 2835);
    p = hn::MulAdd(p, square, hn::Set(d, -17.0f / 315));
    p = hn::MulAdd(p, square, hn::Set(d, 2.0f / 15));
    p = hn::MulAdd(p, square, hn::Set(d, -1.0f / 3));
    const V near = hn::MulAdd(hn::Mul(p, square), x, x);
    return hn::IfThenElse(hn::Lt(size, hn::Set(d, 0.25f)), near, far);
}

}  // namespace kvloupe::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
