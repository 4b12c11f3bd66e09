// SPDX-License-Identifier: GPL-3.0-or-later
//
// Product of rows with an f32, f16 or bf16 matrix. One row is bound by reading the matrix; more rows share each expanded
// weight, in tiles of four matrix rows and up to four input rows whose sums stay in registers.
// Four rows are four streams, and the processor's own prefetching starts anew with each of them every 4 KiB: alone it
// reaches 78 % of what reading the bytes in one stream reaches. So the same place of the next four rows is fetched into the
// second-level cache and the next lines into the first, which reaches all of it.
// Tried: two sums per pair of rows (even and odd vectors), one matrix row at a time: half as fast from four input rows on,
// and no faster for one, because four matrix rows already hide the latency of the multiply-adds.
#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/matvec_plain.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/simd-inl.h"

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace kvloupe::cpu::HWY_NAMESPACE {

using Floats = hn::ScalableTag<float>;

constexpr std::uint64_t lines_ahead = 512;  // bytes

// Sums of R matrix rows times N input rows. The order of additions of one sum is the same for every R and N: vectors,
// then lanes, then the columns that fill no vector.
template <int R, int N, class T>
void plain_block(T type, const std::byte* weights, std::uint64_t cols, const float* in, float* sums) {
    const Floats d;
    const std::uint64_t lanes = hn::Lanes(d);
    const std::uint64_t stride = cols * T::size;
    hn::Vec<Floats> totals[R * N];
    for (int k = 0; k < R * N; ++k) totals[k] = hn::Zero(d);
    const auto add_vector = [&](std::uint64_t at) HWY_ATTR {
        hn::Vec<Floats> x[N];
        for (int n = 0; n < N; ++n) x[n] = hn::LoadU(d, in + static_cast<std::uint64_t>(n) * cols + at);
        for (int r = 0; r < R; ++r) {
            const auto w = load_f32(d, type, weights + static_cast<std::uint64_t>(r) * stride + at * T::size);
            for (int n = 0; n < N; ++n) totals[r * N + n] = hn::MulAdd(w, x[n], totals[r * N + n]);
        }
    };
    std::uint64_t i = 0;
    const std::uint64_t line = std::max<std::uint64_t>(64 / T::size, lanes);  // elements, whole vectors
    for (; i + line <= cols; i += line) {
        for (int r = 0; r < R; ++r) {
            const std::byte* at = weights + static_cast<std::uint64_t>(r) * stride + i * T::size;
            __builtin_prefetch(at + lines_ahead, 0, 3);
            __builtin_prefetch(at + R * stride, 0, 2);  // may lie behind the matrix: a prefetch never faults
        }
        for (std::uint64_t k = 0; k < line; k += lanes) add_vector(i + k);
    }
    for (; i + lanes <= cols; i += lanes) add_vector(i);
    const hn::CappedTag<float, 1> one;
    for (int r = 0; r < R; ++r) {
        const std::byte* row = weights + static_cast<std::uint64_t>(r) * stride;
        for (int n = 0; n < N; ++n) {
            const float* x = in + static_cast<std::uint64_t>(n) * cols;
            float sum = hn::GetLane(hn::SumOfLanes(d, totals[r * N + n]));
            for (std::uint64_t k = i; k < cols; ++k) sum += hn::GetLane(load_f32(one, type, row + k * T::size)) * x[k];
            sums[r * N + n] = sum;
        }
    }
}

inline void store_sums(const float* sums, int r_count, int n_count, float* out, std::uint64_t out_stride, bool add) {
    for (int r = 0; r < r_count; ++r)
        for (int n = 0; n < n_count; ++n) {
            float& target = out[static_cast<std::uint64_t>(n) * out_stride + static_cast<std::uint64_t>(r)];
            target = add ? target + sums[r * n_count + n] : sums[r * n_count + n];
        }
}

template <int R, int N, class T>
std::uint64_t plain_rows(T type, const PackedMatrix& matrix, std::uint64_t begin, std::uint64_t end,
                         const ProductRows& rows) {
    float sums[R * N];
    std::uint64_t r = begin;
    for (; r + R <= end; r += R) {
        plain_block<R, N>(type, matrix.row(r), matrix.cols, rows.in, sums);
        store_sums(sums, R, N, rows.out + r, rows.out_stride, rows.accumulate);
    }
    return r;
}

template <class T>
void plain(T type, const PackedMatrix& matrix, std::uint64_t begin, std::uint64_t end, ProductRows rows) {
    if (rows.out_stride == 0) rows.out_stride = matrix.rows;
    while (rows.count > 0) {
        std::uint32_t step = 1;
        if (rows.count >= 4) {
            step = 4;
            plain_rows<1, 4>(type, matrix, plain_rows<4, 4>(type, matrix, begin, end, rows), end, rows);
        } else if (rows.count >= 2) {
            step = 2;
            plain_rows<1, 2>(type, matrix, plain_rows<4, 2>(type, matrix, begin, end, rows), end, rows);
        } else {
            plain_rows<1, 1>(type, matrix, plain_rows<4, 1>(type, matrix, begin, end, rows), end, rows);
        }
        rows.in += step * matrix.cols;
        rows.out += step * rows.out_stride;
        rows.count -= step;
    }
}

void matvec_plain_simd(const PackedMatrix& matrix, std::uint64_t begin, std::uint64_t end, const ProductRows& rows) {
    if (matrix.dtype == DType::f32) plain(F32{}, matrix, begin, end, rows);
    if (matrix.dtype == DType::f16) plain(F16{}, matrix, begin, end, rows);
    if (matrix.dtype == DType::bf16) plain(BF16{}, matrix, begin, end, rows);
}

}  // namespace kvloupe::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvloupe::cpu {

HWY_EXPORT(matvec_plain_simd);

void matvec_plain(const PackedMatrix& matrix, std::uint64_t begin, std::uint64_t end, const ProductRows& rows) {
    HWY_DYNAMIC_DISPATCH(matvec_plain_simd)(matrix, begin, end, rows);
}

}  // namespace kvloupe::cpu
#endif
