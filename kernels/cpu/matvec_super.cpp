// SPDX-License-Identifier: GPL-3.0-or-later
//
// Rows in q5_0, q5_1, q4_k, q5_k and q6_k: expanded to f32, or multiplied with few rows as they are. Weights are expanded
// exactly in registers and multiplied with f32 activations, as in matvec_packed.cpp.
//
// Bytes: the matrix once; 22 to 24 of 32 elements, 144 to 210 of 256. Floor: those over the read bandwidth. Per vector of
// elements a load, a shift or mask, the upper bits (two operations), a conversion and two multiply-adds: bound by instructions
// on one core, not by memory, unless several cores share it. Scales are unpacked once per super-block by scalar code.
// Rejected: activations rounded to int8 (half the instructions, other logits than an exact evaluation); the packs expanded to
// memory first (a store and a load more per element, and the sums would wait for them).
#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/matvec_super.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "engine/model/half.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/simd-inl.h"

#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace kvloupe::cpu::HWY_NAMESPACE {

// At most 16 lanes: runs of elements that share a scale are multiples of 16.
using Floats = hn::CappedTag<float, 16>;
using Ints = hn::Rebind<std::int32_t, Floats>;
using V = hn::Vec<Floats>;
using I = hn::Vec<Ints>;

HWY_INLINE float half_at(const std::byte* at) {
    std::uint16_t bits;
    std::memcpy(&bits, at, sizeof bits);
    return f16_to_f32(bits);
}

HWY_INLINE I load_bytes(const std::byte* at) {
    const hn::Rebind<std::uint8_t, Floats> bytes;
    return hn::PromoteTo(Ints(), hn::LoadU(bytes, reinterpret_cast<const std::uint8_t*>(at)));
}
HWY_INLINE I low_nibble(I bytes) { return hn::And(bytes, hn::Set(Ints(), 15)); }
HWY_INLINE I high_nibble(I bytes) { return hn::ShiftRight<4>(bytes); }
// code * step + offset
HWY_INLINE V value_of(I code, V step, V offset) { return hn::MulAdd(hn::ConvertTo(Floats(), code), step, offset); }

// What is done with a vector of elements `at` .. of a pack.
struct Store {
    float* out;
    HWY_INLINE void operator()(std::size_t at, V values) const { hn::StoreU(values, Floats(), out + at); }
};
// Into the sums of N rows of activations that are `stride` floats apart.
template <int N>
struct Multiply {
    const float* in;
    std::size_t stride;
    V* sums;
    HWY_INLINE void operator()(std::size_t at, V values) const {
        for (int n = 0; n < N; ++n)
            sums[n] = hn::MulAdd(values, hn::LoadU(Floats(), in + static_cast<std::size_t>(n) * stride + at), sums[n]);
    }
};

// The fifth bits are one word, bit j of element j; the nibbles are those of q4_0 and q4_1.
template <bool Shifted>
struct Five {
    static constexpr std::size_t elements = 32, bytes = Shifted ? 22 : 24;
    template <class Use>
    static HWY_INLINE void visit(const std::byte* pack, const Use& use) {
        const Floats d;
        const Ints di;
        const float scale = half_at(pack);
        const V step = hn::Set(d, scale), offset = hn::Set(d, Shifted ? -16.0f * scale : half_at(pack + 2));
        std::uint32_t fifth;
        std::memcpy(&fifth, pack + (Shifted ? 2 : 4), sizeof fifth);
        const std::byte* const codes = pack + (Shifted ? 6 : 8);
        const I sixteen = hn::Set(di, 16), single = hn::Shl(hn::Set(di, 1), hn::Iota(di, 0));
        const std::size_t lanes = hn::Lanes(d);
        for (std::size_t at = 0; at < 16; at += lanes) {
            const I both = load_bytes(codes + at);
            const I low_bits = hn::Set(di, static_cast<std::int32_t>(fifth >> at));
            const I high_bits = hn::Set(di, static_cast<std::int32_t>(fifth >> (16 + at)));
            const I low = hn::Or(low_nibble(both), hn::IfThenElseZero(hn::TestBit(low_bits, single), sixteen));
            const I high = hn::Or(high_nibble(both), hn::IfThenElseZero(hn::TestBit(high_bits, single), sixteen));
            use(at, value_of(low, step, offset));
            use(16 + at, value_of(high, step, offset));
        }
    }
};

// 64 elements share 32 bytes; a scale and a minimum, of 6 bits each, for 32 (engine/model/k_quants.cpp). The fifth bits of
// the k-th 64 are bits 2k and 2k + 1 of 32 bytes.
template <bool Fifth>
struct FourOrFiveK {
    static constexpr std::size_t elements = 256, bytes = Fifth ? 176 : 144;
    template <class Use>
    static HWY_INLINE void visit(const std::byte* pack, const Use& use) {
        const Floats d;
        const float scale = half_at(pack), minimum = half_at(pack + 2);
        const auto* const packed = reinterpret_cast<const std::uint8_t*>(pack + 4);
        float steps[8], offsets[8];
        for (int j = 0; j < 4; ++j) {
            steps[j] = scale * static_cast<float>(packed[j] & 63);
            offsets[j] = -minimum * static_cast<float>(packed[j + 4] & 63);
            steps[j + 4] = scale * static_cast<float>((packed[j + 8] & 15) | (packed[j] >> 6) << 4);
            offsets[j + 4] = -minimum * static_cast<float>(packed[j + 8] >> 4 | (packed[j + 4] >> 6) << 4);
        }
        const std::byte* const fifth = pack + 16;
        const std::byte* const codes = pack + (Fifth ? 48 : 16);
        const std::size_t lanes = hn::Lanes(d);
        const I sixteen = hn::Set(Ints(), 16);
        for (std::size_t k = 0; k < 4; ++k) {
            const V low_step = hn::Set(d, steps[2 * k]), low_offset = hn::Set(d, offsets[2 * k]);
            const V high_step = hn::Set(d, steps[2 * k + 1]), high_offset = hn::Set(d, offsets[2 * k + 1]);
            for (std::size_t at = 0; at < 32; at += lanes) {
                const I both = load_bytes(codes + 32 * k + at);
                I low = low_nibble(both), high = high_nibble(both);
                if constexpr (Fifth) {
                    const I bits = hn::ShiftRightSame(load_bytes(fifth + at), static_cast<int>(2 * k));
                    low = hn::Or(low, hn::And(hn::ShiftLeft<4>(bits), sixteen));
                    high = hn::Or(high, hn::And(hn::ShiftLeft<3>(bits), sixteen));
                }
                use(64 * k + at, value_of(low, low_step, low_offset));
                use(64 * k + 32 + at, value_of(high, high_step, high_offset));
            }
        }
    }
};

// Halves of 128 elements: 64 bytes of low nibbles, 32 bytes of upper pairs of bits, a signed scale for 16.
struct SixK {
    static constexpr std::size_t elements = 256, bytes = 210;
    template <class Use>
    static HWY_INLINE void visit(const std::byte* pack, const Use& use) {
        const Floats d;
        const Ints di;
        const float scale = half_at(pack + 208);
        const auto* const scales = reinterpret_cast<const std::int8_t*>(pack + 192);
        const std::size_t lanes = hn::Lanes(d);
        const I upper = hn::Set(di, 0x30), middle = hn::Set(di, 32);
        for (std::size_t half = 0; half < 2; ++half) {
            const std::byte* const low = pack + 64 * half;
            const std::byte* const high = pack + 128 + 32 * half;
            for (std::size_t run = 0; run < 2; ++run) {
                V steps[4];
                for (std::size_t k = 0; k < 4; ++k)
                    steps[k] = hn::Set(d, scale * static_cast<float>(scales[8 * half + 2 * k + run]));
                for (std::size_t at = 16 * run; at < 16 * run + 16; at += lanes) {
                    const I first = load_bytes(low + at), second = load_bytes(low + 32 + at), bits = load_bytes(high + at);
                    const I codes[4] = {hn::Or(low_nibble(first), hn::And(hn::ShiftLeft<4>(bits), upper)),
                                        hn::Or(low_nibble(second), hn::And(hn::ShiftLeft<2>(bits), upper)),
                                        hn::Or(high_nibble(first), hn::And(bits, upper)),
                                        hn::Or(high_nibble(second), hn::And(hn::ShiftRight<2>(bits), upper))};
                    for (std::size_t k = 0; k < 4; ++k)
                        use(128 * half + 32 * k + at, hn::Mul(hn::ConvertTo(d, hn::Sub(codes[k], middle)), steps[k]));
                }
            }
        }
    }
};

template <class Pack>
void expand(const std::byte* in, std::uint64_t count, float* out) {
    for (std::uint64_t at = 0; at < count; at += Pack::elements, in += Pack::bytes) Pack::visit(in, Store{out + at});
}

// N rows of activations at once. The order of additions of one sum is the same for every N.
template <class Pack, int N>
void multiply(const PackedMatrix& matrix, std::uint64_t begin, std::uint64_t end, const ProductRows& rows) {
    const Floats d;
    for (std::uint64_t r = begin; r < end; ++r) {
        const std::byte* pack = matrix.row(r);
        V sums[N];
        for (int n = 0; n < N; ++n) sums[n] = hn::Zero(d);
        for (std::uint64_t at = 0; at < matrix.cols; at += Pack::elements, pack += Pack::bytes)
            Pack::visit(pack, Multiply<N>{rows.in + at, matrix.cols, sums});
        for (int n = 0; n < N; ++n) {
            float& target = rows.out[static_cast<std::uint64_t>(n) * rows.out_stride + r];
            const float sum = hn::GetLane(hn::SumOfLanes(d, sums[n]));
            target = rows.accumulate ? target + sum : sum;
        }
    }
}

template <class Pack>
void multiply_rows(const PackedMatrix& matrix, std::uint64_t begin, std::uint64_t end, ProductRows rows) {
    if (rows.out_stride == 0) rows.out_stride = matrix.rows;
    while (rows.count > 0) {
        const std::uint32_t step = rows.count >= 4 ? 4 : rows.count >= 2 ? 2 : 1;
        if (step == 4) multiply<Pack, 4>(matrix, begin, end, rows);
        else if (step == 2) multiply<Pack, 2>(matrix, begin, end, rows);
        else multiply<Pack, 1>(matrix, begin, end, rows);
        rows.in += step * matrix.cols;
        rows.out += step * rows.out_stride;
        rows.count -= step;
    }
}

void expand_super_simd(DType dtype, const std::byte* in, std::uint64_t count, float* out) {
    if (dtype == DType::q5_0) expand<Five<true>>(in, count, out);
    if (dtype == DType::q5_1) expand<Five<false>>(in, count, out);
    if (dtype == DType::q4_k) expand<FourOrFiveK<false>>(in, count, out);
    if (dtype == DType::q5_k) expand<FourOrFiveK<true>>(in, count, out);
    if (dtype == DType::q6_k) expand<SixK>(in, count, out);
}

void matvec_super_simd(const PackedMatrix& matrix, std::uint64_t begin, std::uint64_t end, const ProductRows& rows) {
    if (matrix.dtype == DType::q5_0) multiply_rows<Five<true>>(matrix, begin, end, rows);
    if (matrix.dtype == DType::q5_1) multiply_rows<Five<false>>(matrix, begin, end, rows);
    if (matrix.dtype == DType::q4_k) multiply_rows<FourOrFiveK<false>>(matrix, begin, end, rows);
    if (matrix.dtype == DType::q5_k) multiply_rows<FourOrFiveK<true>>(matrix, begin, end, rows);
    if (matrix.dtype == DType::q6_k) multiply_rows<SixK>(matrix, begin, end, rows);
}

}  // namespace kvloupe::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvloupe::cpu {

HWY_EXPORT(expand_super_simd);
HWY_EXPORT(matvec_super_simd);

void expand_super(DType dtype, const std::byte* in, std::uint64_t count, float* out) {
    HWY_DYNAMIC_DISPATCH(expand_super_simd)(dtype, in, count, out);
}
void matvec_super(const PackedMatrix& matrix, std::uint64_t begin, std::uint64_t end, const ProductRows& rows) {
    HWY_DYNAMIC_DISPATCH(matvec_super_simd)(matrix, begin, end, rows);
}

}  // namespace kvloupe::cpu
#endif
