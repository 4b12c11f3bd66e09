// SPDX-License-Identifier: GPL-3.0-or-later
//
// Packs of 32 with their scales inside, loaded as f32 vectors where they lie (layouts: FORMATS 2.3). A vector never crosses the
// middle of a pack: lanes divide 16, and it begins at a multiple of its lanes. Included once per instruction set.
#if defined(KVLOUPE_CPU_PACKS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef KVLOUPE_CPU_PACKS_INL_H
#undef KVLOUPE_CPU_PACKS_INL_H
#else
#define KVLOUPE_CPU_PACKS_INL_H
#endif

#include "engine/record/dtype.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvloupe::cpu::HWY_NAMESPACE {

template <DType Type>
struct Pack {
    static constexpr std::size_t bytes = bytes_per_pack(Type);
};

// Bytes of a row of `count` elements.
template <class T>
HWY_INLINE std::size_t bytes_of(T, std::size_t count) { return count * T::size; }
template <DType Type>
HWY_INLINE std::size_t bytes_of(Pack<Type>, std::size_t count) { return count * Pack<Type>::bytes / 32; }

// Elements from `at` on of a row.
template <class D, class T>
HWY_INLINE hn::Vec<D> load_at(D d, T type, const std::byte* row, std::size_t at) { return load_f32(d, type, row + at * T::size); }

// The f16 at `from` in all lanes.
template <class D>
HWY_INLINE hn::Vec<D> half_in_all(D d, const std::byte* from) {
    const hn::Rebind<std::uint16_t, D> half;
    std::uint16_t bits;
    std::memcpy(&bits, from, sizeof bits);
    return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), hn::Set(half, bits)));
}

template <class D, DType Type>
HWY_INLINE hn::Vec<D> load_at(D d, Pack<Type>, const std::byte* row, std::size_t at) {
    const hn::Rebind<std::int32_t, D> wide;
    const std::byte* pack = row + at / 32 * Pack<Type>::bytes;
    const std::size_t first = at % 32;
    const auto step = half_in_all(d, pack);
    if constexpr (Type == DType::q8_0) {
        return hn::Mul(load_f32(d, I8{}, pack + 2 + first), step);
    } else {
        constexpr bool with_minimum = Type == DType::q4_1 || Type == DType::q5_1;
        constexpr bool fives = Type == DType::q5_0 || Type == DType::q5_1;
        constexpr std::size_t scales = with_minimum ? 4 : 2;
        const hn::Rebind<std::uint8_t, D> bytes;
        const std::byte* nibbles = pack + scales + (fives ? 4 : 0) + first % 16;
        const auto both = hn::PromoteTo(wide, load_any(bytes, nibbles, static_cast<const std::uint8_t*>(nullptr)));
        // Low nibbles are elements 0 .. 15, high ones 16 .. 31.
        auto code = hn::And(hn::ShiftRightSame(both, static_cast<int>(first / 16 * 4)), hn::Set(wide, 15));
        if constexpr (fives) {  // and bit j of a word the fifth of element j
            std::uint32_t word;
            std::memcpy(&word, pack + scales, sizeof word);
            const auto bit = hn::Shl(hn::Set(wide, 1), hn::Iota(wide, 0));
            const auto fifth = hn::TestBit(hn::Set(wide, static_cast<std::int32_t>(word >> first)), bit);
            code = hn::Or(code, hn::IfThenElseZero(fifth, hn::Set(wide, 16)));
        }
        if constexpr (with_minimum) return hn::MulAdd(hn::ConvertTo(d, code), step, half_in_all(d, pack + 2));
        else return hn::Mul(hn::ConvertTo(d, hn::Sub(code, hn::Set(wide, fives ? 16 : 8))), step);
    }
}

}  // namespace kvloupe::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
