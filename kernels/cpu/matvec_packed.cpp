// SPDX-License-Identifier: GPL-3.0-or-later
//
// Product of few rows with a q8_0, q4_0 or q4_1 matrix. Weights are expanded exactly in registers and multiplied with f32
// activations: nothing is rounded but the f32 sums.
// Tried: scales converted pack by pack or per group of four rows (a fifth slower: store-to-load stalls); two sums per row
// (slower from two input rows on). Not done: activations rounded to int8, which would halve the instructions but not keep
// the logits of an exact evaluation.
#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/matvec_packed.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <hwy/cache_control.h>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/simd-inl.h"

#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace kvloupe::cpu::HWY_NAMESPACE {

using Floats = hn::ScalableTag<float>;
using Ints = hn::Rebind<std::int32_t, Floats>;
using V = hn::Vec<Floats>;

// Scales that are expanded together, of several matrix rows: converting one f16 costs as much as converting a vector of
// them, and what was just stored in pieces can only be loaded as a whole once it has left the store buffer.
constexpr std::uint64_t scales_at_once = 1024;
constexpr std::uint64_t rows_at_once = 32;

// A pack's scale (and offset) as f16 at its front, then the quants.
struct Q8_0 { static constexpr std::uint64_t size = 34, front = 2; };
struct Q4_0 { static constexpr std::uint64_t size = 18, front = 2; };
struct Q4_1 { static constexpr std::uint64_t size = 20, front = 4; };

struct Scales {
    HWY_ALIGN float scale[scales_at_once];   // (rows, packs)
    HWY_ALIGN float offset[scales_at_once];
    HWY_ALIGN std::uint16_t bits[2][scales_at_once];
};

// Packs first .. first + count - 1 of `rows` rows of `packs` packs; rows * count <= scales_at_once.
template <class T>
void load_scales(T, const std::byte* matrix_rows, std::uint64_t rows, std::uint64_t packs, std::uint64_t count, Scales& scales) {
    constexpr bool offsets = T::front == 4;
    std::uint64_t at = 0;
    for (std::uint64_t r = 0; r < rows; ++r) {
        const std::byte* pack = matrix_rows + r * packs * T::size;
        for (std::uint64_t p = 0; p < count; ++p, ++at, pack += T::size) {
            std::memcpy(&scales.bits[0][at], pack, 2);
            if (offsets) std::memcpy(&scales.bits[1][at], pack + 2, 2);
        }
    }
    const Floats d;
    const std::uint64_t lanes = hn::Lanes(d);
    for (; at % lanes != 0; ++at) scales.bits[0][at] = scales.bits[1][at] = 0;
    for (std::uint64_t i = 0; i < at; i += lanes) {
        hn::Store(load_f32(d, F16{}, reinterpret_cast<const std::byte*>(&scales.bits[0][i])), d, scales.scale + i);
        if (offsets) hn::Store(load_f32(d, F16{}, reinterpret_cast<const std::byte*>(&scales.bits[1][i])), d, scales.offset + i);
    }
}

// What a nibble stands for, as scale * n + offset: the whole table of 16 in one vector where it has 16 lanes.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
struct Nibbles {
    V table;
    HWY_INLINE Nibbles(Floats d, V scale, V offset) : table(hn::MulAdd(hn::Iota(d, 0.0f), scale, offset)) {}
    // The permutation looks at the low four bits of an index only, so the high nibble need not be masked off.
    HWY_INLINE V low(Floats, hn::Vec<Ints> bytes) const { return V{_mm512_permutexvar_ps(bytes.raw, table.raw)}; }
};
#else
struct Nibbles {
    V scale, offset;
    HWY_INLINE Nibbles(Floats, V s, V o) : scale(s), offset(o) {}
    HWY_INLINE V low(Floats d, hn::Vec<Ints> bytes) const {
        const Ints di;
        return hn::MulAdd(hn::ConvertTo(d, hn::And(bytes, hn::Set(di, 15))), scale, offset);
    }
};
#endif

// Adds one pack of R matrix rows times N input rows to the sums.
template <int R, int N, class T>
HWY_INLINE void add_nibble_pack(T, const std::byte* const* packs, const float* const* scales, const float* const* offsets,
                                const float* const* x, V* sums) {
    const Floats d;
    const Ints di;
    const hn::Rebind<std::uint8_t, Floats> bytes_tag;
    const std::uint64_t lanes = hn::Lanes(d);
    for (int r = 0; r < R; ++r) {
        const V scale = hn::Set(d, *scales[r]);
        const V offset = T::front == 4 ? hn::Set(d, *offsets[r]) : hn::Mul(scale, hn::Set(d, -8.0f));
        const Nibbles nibbles(d, scale, offset);
        for (std::uint64_t v = 0; v < 16; v += lanes) {
            const auto* q = reinterpret_cast<const std::uint8_t*>(packs[r] + T::front + v);
            const auto bytes = hn::PromoteTo(di, hn::LoadU(bytes_tag, q));
            const V low = nibbles.low(d, bytes);
            const V high = nibbles.low(d, hn::ShiftRight<4>(bytes));
            for (int n = 0; n < N; ++n) {
                sums[r * N + n] = hn::MulAdd(low, hn::LoadU(d, x[n] + v), sums[r * N + n]);
                sums[r * N + n] = hn::MulAdd(high, hn::LoadU(d, x[n] + 16 + v), sums[r * N + n]);
            }
        }
    }
}

// q8_0: the quants are multiplied first and the scale once per pack.
template <int R, int N>
HWY_INLINE void add_pack(Q8_0, const std::byte* const* packs, const float* const* scales, const float* const*,
                         const float* const* x, V* sums) {
    const Floats d;
    const Ints di;
    const hn::Rebind<std::int8_t, Floats> bytes_tag;
    const std::uint64_t lanes = hn::Lanes(d);
    for (int r = 0; r < R; ++r) {
        V products[N];
        for (int n = 0; n < N; ++n) products[n] = hn::Zero(d);
        for (std::uint64_t v = 0; v < 32; v += lanes) {
            const auto* q = reinterpret_cast<const std::int8_t*>(packs[r] + Q8_0::front + v);
            const V w = hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(bytes_tag, q)));
            for (int n = 0; n < N; ++n) products[n] = hn::MulAdd(w, hn::LoadU(d, x[n] + v), products[n]);
        }
        const V scale = hn::Set(d, *scales[r]);
        for (int n = 0; n < N; ++n) sums[r * N + n] = hn::MulAdd(products[n], scale, sums[r * N + n]);
    }
}
template <int R, int N>
HWY_INLINE void add_pack(Q4_0 type, const std::byte* const* packs, const float* const* scales, const float* const* offsets,
                         const float* const* x, V* sums) {
    add_nibble_pack<R, N>(type, packs, scales, offsets, x, sums);
}
template <int R, int N>
HWY_INLINE void add_pack(Q4_1 type, const std::byte* const* packs, const float* const* scales, const float* const* offsets,
                         const float* const* x, V* sums) {
    add_nibble_pack<R, N>(type, packs, scales, offsets, x, sums);
}

// Adds `count` packs of R matrix rows times N input rows to the sums. scales: (R, count) of these packs.
template <int R, int N, class T>
HWY_INLINE void add_packs(T type, const std::byte* weights, std::uint64_t packs, std::uint64_t count, const Scales& scales,
                          std::uint64_t first_scale, const float* in, V* totals) {
    const std::byte* row[R];
    const float *x[N], *scale[R], *offset[R];
    for (int r = 0; r < R; ++r) {
        row[r] = weights + static_cast<std::uint64_t>(r) * packs * T::size;
        scale[r] = scales.scale + first_scale + static_cast<std::uint64_t>(r) * count;
        offset[r] = scales.offset + first_scale + static_cast<std::uint64_t>(r) * count;
    }
    for (int n = 0; n < N; ++n) x[n] = in + static_cast<std::uint64_t>(n) * packs * 32;
    for (std::uint64_t p = 0; p < count; ++p) {
        add_pack<R, N>(type, row, scale, offset, x, totals);
        for (int r = 0; r < R; ++r) row[r] += T::size, ++scale[r], ++offset[r];
        for (int n = 0; n < N; ++n) x[n] += 32;
    }
}

// Sums of R matrix rows times N input rows; the order of additions of one sum is the same for every R and N.
// ready: the rows' scales are in `scales` from first_scale on; else they are loaded here, a span of columns at a time.
template <int R, int N, class T>
void packed_block(T type, const std::byte* weights, std::uint64_t packs, Scales& scales, bool ready, std::uint64_t first_scale,
                  const float* in, float* sums) {
    const Floats d;
    V totals[R * N];
    for (int k = 0; k < R * N; ++k) totals[k] = hn::Zero(d);
    if (ready) {
        add_packs<R, N>(type, weights, packs, packs, scales, first_scale, in, totals);
    } else {
        constexpr std::uint64_t span = scales_at_once / R;
        for (std::uint64_t first = 0; first < packs; first += span) {
            const std::uint64_t count = packs - first < span ? packs - first : span;
            load_scales(type, weights + first * T::size, R, packs, count, scales);
            add_packs<R, N>(type, weights + first * T::size, packs, count, scales, 0, in + first * 32, totals);
        }
    }
    for (int k = 0; k < R * N; ++k) sums[k] = hn::GetLane(hn::SumOfLanes(d, totals[k]));
}

template <int R, int N, class T>
std::uint64_t packed_rows(T type, const PackedMatrix& matrix, std::uint64_t begin, std::uint64_t end,
                          const ProductRows& rows) {
    const std::uint64_t packs = matrix.cols / 32;
    const std::uint64_t fit = scales_at_once / packs / R * R;
    const std::uint64_t together = fit < rows_at_once ? fit : rows_at_once;
    Scales scales;
    std::uint64_t loaded = begin, first = begin;  // rows whose scales are ready: first .. loaded - 1
    float sums[R * N];
    std::uint64_t r = begin;
    for (; r + R <= end; r += R) {
        if (together > 0 && r + R > loaded) {
            first = r;
            loaded = r + together < end ? r + together : end;
            load_scales(type, matrix.row(r), loaded - first, packs, packs, scales);
        }
        // The scales of the next rows will be read all at once: their bytes come in while these rows are computed.
        const std::byte* next = matrix.row(r) + together * matrix.stride();
        for (std::uint64_t at = 0; at < R * matrix.stride(); at += 64) hwy::Prefetch(next + at);
        packed_block<R, N>(type, matrix.row(r), packs, scales, together > 0, (r - first) * packs, rows.in, sums);
        for (int i = 0; i < R; ++i)
            for (int n = 0; n < N; ++n) {
                float& target = rows.out[static_cast<std::uint64_t>(n) * rows.out_stride + r + static_cast<std::uint64_t>(i)];
                target = rows.accumulate ? target + sums[i * N + n] : sums[i * N + n];
            }
    }
    return r;
}

template <class T>
void packed(T type, const PackedMatrix& matrix, std::uint64_t begin, std::uint64_t end, ProductRows rows) {
    if (rows.out_stride == 0) rows.out_stride = matrix.rows;
    while (rows.count > 0) {
        std::uint32_t step = 1;
        if (rows.count >= 4) {
            step = 4;
            packed_rows<1, 4>(type, matrix, packed_rows<2, 4>(type, matrix, begin, end, rows), end, rows);
        } else if (rows.count >= 2) {
            step = 2;
            packed_rows<1, 2>(type, matrix, packed_rows<4, 2>(type, matrix, begin, end, rows), end, rows);
        } else {
            packed_rows<1, 1>(type, matrix, packed_rows<4, 1>(type, matrix, begin, end, rows), end, rows);
        }
        rows.in += step * matrix.cols;
        rows.out += step * rows.out_stride;
        rows.count -= step;
    }
}

void matvec_packed_simd(const PackedMatrix& matrix, std::uint64_t begin, std::uint64_t end, const ProductRows& rows) {
    if (matrix.dtype == DType::q8_0) packed(Q8_0{}, matrix, begin, end, rows);
    if (matrix.dtype == DType::q4_0) packed(Q4_0{}, matrix, begin, end, rows);
    if (matrix.dtype == DType::q4_1) packed(Q4_1{}, matrix, begin, end, rows);
}

}  // namespace kvloupe::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvloupe::cpu {

HWY_EXPORT(matvec_packed_simd);

void matvec_packed(const PackedMatrix& matrix, std::uint64_t begin, std::uint64_t end, const ProductRows& rows) {
    HWY_DYNAMIC_DISPATCH(matvec_packed_simd)(matrix, begin, end, rows);
}

}  // namespace kvloupe::cpu
#endif
