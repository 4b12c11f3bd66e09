// SPDX-License-Identifier: GPL-3.0-or-later
//
// Product of few rows with an f32, f16 or bf16 matrix: bound by reading the matrix, so every weight is loaded and
// expanded once for up to four input rows, and four sums per pass hide the latency of the multiply-adds.
#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/matvec_plain.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvloupe::cpu::HWY_NAMESPACE {

using Floats = hn::ScalableTag<float>;

// Sums of R matrix rows times N input rows. The order of additions of one sum is the same for every R and N: even and
// odd vectors, then lanes, then the columns that fill no vector.
template <int R, int N, class T>
void plain_block(T type, const std::byte* weights, std::uint64_t cols, const float* in, float* sums) {
    const Floats d;
    const std::uint64_t lanes = hn::Lanes(d);
    const std::uint64_t stride = cols * T::size;
    hn::Vec<Floats> even[R * N], odd[R * N];
    for (int k = 0; k < R * N; ++k) even[k] = odd[k] = hn::Zero(d);
    std::uint64_t i = 0;
    for (; i + 2 * lanes <= cols; i += 2 * lanes) {
        for (int r = 0; r < R; ++r) {
            const std::byte* from = weights + static_cast<std::uint64_t>(r) * stride + i * T::size;
            const auto w0 = load_f32(d, type, from);
            const auto w1 = load_f32(d, type, from + lanes * T::size);
            for (int n = 0; n < N; ++n) {
                const float* x = in + static_cast<std::uint64_t>(n) * cols + i;
                even[r * N + n] = hn::MulAdd(w0, hn::LoadU(d, x), even[r * N + n]);
                odd[r * N + n] = hn::MulAdd(w1, hn::LoadU(d, x + lanes), odd[r * N + n]);
            }
        }
    }
    const hn::CappedTag<float, 1> one;
    for (int r = 0; r < R; ++r) {
        const std::byte* row = weights + static_cast<std::uint64_t>(r) * stride;
        for (int n = 0; n < N; ++n) {
            const float* x = in + static_cast<std::uint64_t>(n) * cols;
            float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(even[r * N + n], odd[r * N + n])));
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
        store_sums(sums, R, N, rows.out + r, matrix.rows, rows.accumulate);
    }
    return r;
}

template <class T>
void plain(T type, const PackedMatrix& matrix, std::uint64_t begin, std::uint64_t end, ProductRows rows) {
    // Few matrix rows at a time, so that they are still in the cache for the next input rows.
    while (rows.count > 0) {
        std::uint32_t step = 1;
        if (rows.count >= 4) {
            step = 4;
            plain_rows<1, 4>(type, matrix, begin, end, rows);
        } else if (rows.count >= 2) {
            step = 2;
            plain_rows<1, 2>(type, matrix, plain_rows<2, 2>(type, matrix, begin, end, rows), end, rows);
        } else {
            plain_rows<1, 1>(type, matrix, plain_rows<4, 1>(type, matrix, begin, end, rows), end, rows);
        }
        rows.in += step * matrix.cols;
        rows.out += step * matrix.rows;
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
