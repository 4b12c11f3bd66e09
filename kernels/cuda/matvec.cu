// SPDX-License-Identifier: GPL-3.0-or-later
//
// out (rows, matrix.rows) = in (rows, cols) * matrix^T for 1 .. 8 rows: decode's products.
//
// Bytes: the matrix once, 2 per element in f16; the activations (16 KiB a row of 4,096) come from the first-level cache.
// Floor: bytes over read bandwidth; 4,096 x 4,096 f16 is 32 MiB, 7 us at 4.8 TB/s.
// Form: a warp takes two matrix rows (four where there are more than two rows of `in`), a lane eight consecutive columns,
// 256 columns a warp and turn. A turn's loads, 128 bytes a thread, are all issued before the first is used. 2,048 warps of
// a 4,096-row matrix are 15 a multiprocessor on 132: 63 KB on their way where 4.8 TB/s times 0.8 us of latency asks for
// 29 KB. A matrix with fewer rows is cut along its columns too, so that as many warps run; their sums meet in shared memory.
// Per eight f16 columns and one row of `in`, a lane runs 1 load, 8 conversions, 8 multiply-adds and half of 2 loads of
// activations: about 20 instructions for 16 bytes, a fifth of what the schedulers can issue at full bandwidth.
// The first-level cache delivers 128 bytes a cycle: activations, 32 bytes a lane in steps of 32, cost 8 cycles a load. One
// row: 24 cycles for 1,024 bytes of weights, twice the memory's pace. Eight rows: 144 cycles for 2,048 bytes, about 70 % of
// it; cuBLAS is the better choice from about four rows on where the matrix is f16 or bf16.
// Expected share of the read bandwidth with one row, not measured: f32, f16, bf16 85 to 90 %. q8_0 about 60 %, bound by
// instructions (55 a lane for 8.5 bytes) and the load unit (3.5 words and a scale). q4_0 and q4_1 about 35 %, bound by
// instructions (about 60 a lane for 4.5 bytes): still the fastest form in time. Types of super-blocks and fifth bits about 30 %:
// some 70 to 80 instructions a lane for 4.5 to 6.6 bytes. Unaligned rows (f16 of odd width) about 30 %.
// Rejected: activations in shared memory (a barrier and 16 KiB from the second-level cache in front of every block's first
// weights); a block per matrix row (a reduction of eight warps for each row); asynchronous copies of the weights (registers
// suffice for the bytes on their way).
//
// The sum of one output does not depend on the number of rows of `in`, bit for bit: columns are cut by the matrix's shape.
#include "kernels/cuda/elements.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/matvec_columns.h"
#include "kernels/cuda/warp.h"

#include <algorithm>

namespace kvloupe::cuda {

namespace {

constexpr unsigned warps = 8;  // a block
constexpr unsigned columns_per_turn = 256;

struct alignas(16) Quad {
    float value[4];
};

// x (8) = the row's values from `column` on
__device__ void load_activations(const float* row, std::uint32_t column, float (&x)[8]) {
    const Quad low = *reinterpret_cast<const Quad*>(row + column), high = *reinterpret_cast<const Quad*>(row + column + 4);
    KVLOUPE_UNROLL
    for (unsigned i = 0; i < 4; ++i) {
        x[i] = low.value[i];
        x[4 + i] = high.value[i];
    }
}

template <DType Type>
__device__ float multiply_add(const Columns<Type>& loaded, const float (&weight)[8], const float (&x)[8], float sum) {
    if constexpr (!is_packed<Type>) {
        KVLOUPE_UNROLL
        for (unsigned i = 0; i < 8; ++i) sum = fmaf(weight[i], x[i], sum);
        return sum;
    } else {
        float product = 0;
        KVLOUPE_UNROLL
        for (unsigned i = 0; i < 8; ++i) product = fmaf(weight[i], x[i], product);
        sum = fmaf(loaded.scale(), product, sum);
        if constexpr (has_offset<Type>) {
            float all = 0;
            KVLOUPE_UNROLL
            for (unsigned i = 0; i < 8; ++i) all += x[i];
            sum = fmaf(loaded.offset(), all, sum);
        }
        return sum;
    }
}

// stride: bytes of a matrix row. split: warps that share matrix rows, each with every split-th run of 256 columns; divides `warps`.
template <DType Type, unsigned Rows, unsigned PerWarp, unsigned Turns>
__global__ void __launch_bounds__(warps * 32, Rows > 2 ? 2 : 3)
    matvec_kernel(Matrix matrix, Product product, std::uint64_t stride, std::uint32_t split) {
    KVLOUPE_KERNEL(matvec_kernel);
    static_assert(PerWarp * Rows <= 32, "a lane writes one sum");
    KVLOUPE_SHARED(float, partial, warps * 32);
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, part = warp % split;
    const std::uint32_t first = (blockIdx.x * (warps / split) + warp / split) * PerWarp;  // matrix row
    const std::byte* base = matrix.data + first * stride;
    // With heads, all rows of a warp are of one: PerWarp divides a head's. A warp behind the last row reads with the last head.
    const std::uint32_t head = product.heads > 1 ? min(first, matrix.rows - 1) / (matrix.rows / product.heads) : 0;
    const float* const in = product.in + head * std::size_t{matrix.cols};
    const std::size_t in_stride = std::size_t{product.heads} * matrix.cols;
    float sums[PerWarp][Rows] = {};
    for (std::uint32_t begin = part * columns_per_turn; begin < matrix.cols; begin += split * Turns * columns_per_turn) {
        Columns<Type> loaded[Turns][PerWarp];
        KVLOUPE_UNROLL
        for (unsigned turn = 0; turn < Turns; ++turn) {
            const std::uint32_t column = begin + turn * split * columns_per_turn + lane * 8;
            KVLOUPE_UNROLL
            for (unsigned r = 0; r < PerWarp; ++r)
                if (column < matrix.cols && first + r < matrix.rows) loaded[turn][r].load(base + r * stride, column);
        }
        KVLOUPE_UNROLL
        for (unsigned turn = 0; turn < Turns; ++turn) {
            const std::uint32_t column = begin + turn * split * columns_per_turn + lane * 8;
            if (column >= matrix.cols) continue;
            float weight[PerWarp][8];
            KVLOUPE_UNROLL
            for (unsigned r = 0; r < PerWarp; ++r) loaded[turn][r].expand(weight[r]);
            KVLOUPE_UNROLL
            for (unsigned n = 0; n < Rows; ++n) {
                if (n >= product.rows) break;
                float x[8];
                load_activations(in + n * in_stride, column, x);
                KVLOUPE_UNROLL
                for (unsigned r = 0; r < PerWarp; ++r)
                    sums[r][n] = multiply_add<Type>(loaded[turn][r], weight[r], x, sums[r][n]);
            }
        }
    }
    // Lane r * Rows + n keeps the sum of matrix row r and row n of `in`.
    float mine = 0;
    KVLOUPE_UNROLL
    for (unsigned r = 0; r < PerWarp; ++r)
        KVLOUPE_UNROLL
        for (unsigned n = 0; n < Rows; ++n) {
            const float sum = warp_sum(sums[r][n]);
            if (lane == r * Rows + n) mine = sum;
        }
    if (split > 1) {
        partial[threadIdx.x] = mine;
        __syncthreads();
        for (unsigned other = 1; part == 0 && other < split; ++other) mine += partial[threadIdx.x + other * 32];
    }
    const std::uint32_t row = first + lane / Rows, n = lane % Rows;
    if (part != 0 || lane >= PerWarp * Rows || row >= matrix.rows || n >= product.rows) return;
    float& out = product.out[std::size_t{n} * matrix.rows + row];
    out = product.accumulate ? out + mine : mine;
}

// Plain types whose rows are not aligned to 16 bytes, and heads of odd numbers of rows: a warp per matrix row, a lane every 32nd
// column. stride: bytes of a matrix row.
template <DType Type, unsigned Rows>
__global__ void __launch_bounds__(warps * 32) matvec_unaligned_kernel(Matrix matrix, Product product, std::uint64_t stride) {
    KVLOUPE_KERNEL(matvec_unaligned_kernel);
    const unsigned lane = threadIdx.x % 32;
    const std::uint32_t row = blockIdx.x * warps + threadIdx.x / 32;
    if (row >= matrix.rows) return;
    const std::byte* weights = matrix.data + row * stride;
    const float* const in = product.in + row / (matrix.rows / product.heads) * std::size_t{matrix.cols};
    float sums[Rows] = {};
    for (std::uint32_t column = lane; column < matrix.cols; column += 32) {
        const float weight = load_element<Type>(weights, column);
        KVLOUPE_UNROLL
        for (unsigned n = 0; n < Rows; ++n)
            if (n < product.rows) sums[n] = fmaf(weight, in[std::size_t{n} * product.heads * matrix.cols + column], sums[n]);
    }
    KVLOUPE_UNROLL
    for (unsigned n = 0; n < Rows; ++n) {
        const float sum = warp_sum(sums[n]);
        if (lane != 0 || n >= product.rows) continue;
        float& out = product.out[std::size_t{n} * matrix.rows + row];
        out = product.accumulate ? out + sum : sum;
    }
}

// Warps that share a row: until 2,048 warps run, while each keeps 1,024 columns. A function of the matrix alone.
std::uint32_t split_of(const Matrix& matrix) {
    std::uint32_t split = 1;
    while (split < warps && std::uint64_t{matrix.rows} * split < 4096 && matrix.cols / (2 * split) >= 1024) split *= 2;
    return split;
}

template <DType Type, unsigned Rows>
cudaError_t run(const Matrix& matrix, const Product& product, cudaStream_t stream) {
    constexpr unsigned per_warp = Rows > 2 ? 4 : 2;
    // 128 bytes a thread in f16 and f32. Types of super-blocks keep more words per eight columns: with as many turns registers spill.
    constexpr unsigned turns = Type == DType::f32 || is_super<Type> ? 8 / per_warp / 2 : 8 / per_warp;
    const std::uint32_t split = split_of(matrix), rows_per_block = warps / split * per_warp;
    const dim3 grid((matrix.rows + rows_per_block - 1) / rows_per_block);
    return launch(matvec_kernel<Type, Rows, per_warp, turns>, grid, dim3(warps * 32), 0, stream, matrix, product,
                  row_bytes(Type, matrix.cols), split);
}

template <DType Type>
cudaError_t run_type(const Matrix& matrix, const Product& product, cudaStream_t stream) {
    const bool by_16_bytes = is_aligned(matrix.data, 16) && is_aligned(product.in, 16) && matrix.cols % 8 == 0;
    const bool odd_heads = product.heads > 1 && matrix.rows / product.heads % 4 != 0;  // a warp's rows would be of two
    if (!by_16_bytes || odd_heads) {
        const dim3 grid((matrix.rows + warps - 1) / warps);
        const auto kernel = product.rows == 1 ? matvec_unaligned_kernel<Type, 1> : matvec_unaligned_kernel<Type, max_matvec_rows>;
        return launch(kernel, grid, dim3(warps * 32), 0, stream, matrix, product, row_bytes(Type, matrix.cols));
    }
    if (product.rows == 1) return run<Type, 1>(matrix, product, stream);
    if (product.rows == 2) return run<Type, 2>(matrix, product, stream);
    if (product.rows <= 4) return run<Type, 4>(matrix, product, stream);
    return run<Type, 8>(matrix, product, stream);
}

}  // namespace

cudaError_t matvec(const Matrix& matrix, const Product& product, cudaStream_t stream) {
    if (product.rows == 0 || matrix.rows == 0) return cudaSuccess;
    if (product.rows > max_matvec_rows || matrix.cols % elements_per_pack(matrix.dtype) != 0 || product.heads == 0 ||
        matrix.rows % product.heads != 0)
        return cudaErrorInvalidValue;
    if (kvloupe::is_packed(matrix.dtype) && !(is_aligned(matrix.data, 16) && is_aligned(product.in, 16)))
        return cudaErrorInvalidValue;
    return with_dtype(matrix.dtype, [&](auto type) { return run_type<decltype(type)::value>(matrix, product, stream); });
}

}  // namespace kvloupe::cuda
