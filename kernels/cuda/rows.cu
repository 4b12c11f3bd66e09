// SPDX-License-Identifier: GPL-3.0-or-later
//
// Kernels over rows: each element is read once and written once, so the floor is bytes over bandwidth, and all of them move
// 16 bytes per thread and access where rows allow it (their length and address), one element otherwise.
//
//   embed         rows of the table + 4 cols per token written
//   rms_norm      4 + 4 bytes per element, the second read of the row comes from L1
//   gate_multiply 12 bytes per element
//   gather_rows   8 bytes per element
//   narrow        6 bytes per element
//   expand        a pack's bytes over its elements (34/32 in q8_0) + 2 bytes per element
//
// Rejected: rows held in registers by rms_norm (a template per width, for a read that L1 serves anyway); __expf in
// gate_multiply (2 ulp more, and the kernel waits for memory, not for arithmetic).
#include "kernels/cuda/elements.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/warp.h"

#include <algorithm>
#include <limits>

namespace kvloupe::cuda {

namespace {

constexpr unsigned row_threads = 128;   // of kernels with a block per part of a row
constexpr unsigned norm_threads = 256;  // of a row
constexpr unsigned flat_threads = 256;  // of kernels over one long array

// Blocks for `count` items, one per thread, in a loop where that is too many for a grid.
unsigned flat_blocks(std::uint64_t count) {
    return static_cast<unsigned>(std::min<std::uint64_t>((count + flat_threads - 1) / flat_threads, 1u << 20));
}
unsigned parts_of_row(std::uint64_t items) { return static_cast<unsigned>((items + row_threads - 1) / row_threads); }

// This thread's first item of a long array, and the distance to its next.
__device__ __forceinline__ std::uint64_t first_item() { return std::uint64_t{blockIdx.x} * flat_threads + threadIdx.x; }
__device__ __forceinline__ std::uint64_t item_step() { return std::uint64_t{gridDim.x} * flat_threads; }

// Block (token, part of the row).
template <DType dtype, bool wide>
__global__ void __launch_bounds__(row_threads)
embed_rows(const std::byte* table, std::uint64_t row_bytes, std::uint32_t rows, std::uint32_t cols, const std::int32_t* tokens,
           float* out) {
    KVLOUPE_KERNEL(embed_rows);
    const std::uint32_t index = (blockIdx.y * row_threads + threadIdx.x) * (wide ? 8 : 1);
    if (index >= cols) return;
    const std::int32_t token = tokens[blockIdx.x];
    const bool known = token >= 0 && static_cast<std::uint32_t>(token) < rows;
    const std::byte* const row = table + (known ? static_cast<std::uint64_t>(token) * row_bytes : 0);
    float* const to = out + std::uint64_t{blockIdx.x} * cols + index;
    const float nothing = __int_as_float(-1);  // NaN
    if constexpr (wide) {
        float values[8] = {nothing, nothing, nothing, nothing, nothing, nothing, nothing, nothing};
        if (known) load_eight<dtype>(row, index, values);
        store_four(to, {values[0], values[1], values[2], values[3]});
        store_four(to + 4, {values[4], values[5], values[6], values[7]});
    } else {
        *to = known ? load_element<dtype>(row, index) : nothing;
    }
}

// A block per row.
template <DType dtype, bool wide>
__global__ void __launch_bounds__(norm_threads)
normalise_rows(const float* in, const std::byte* weight, float epsilon, std::uint32_t cols, float* out) {
    KVLOUPE_KERNEL(normalise_rows);
    KVLOUPE_SHARED(float, parts, norm_threads / 32);
    constexpr unsigned width = wide ? 4 : 1;
    const float* const row = in + std::uint64_t{blockIdx.x} * cols;
    float* const to = out + std::uint64_t{blockIdx.x} * cols;
    float squares = 0;
    for (std::uint32_t index = threadIdx.x * width; index < cols; index += norm_threads * width) {
        if constexpr (wide) {
            float x[4];
            load_four(row + index, x);
            squares += (x[0] * x[0] + x[1] * x[1]) + (x[2] * x[2] + x[3] * x[3]);
        } else {
            squares += row[index] * row[index];
        }
    }
    const float mean = block_sum<norm_threads>(squares, parts) / static_cast<float>(cols);
    const float factor = 1.0f / sqrtf(mean + epsilon);
    for (std::uint32_t index = threadIdx.x * width; index < cols; index += norm_threads * width) {
        if constexpr (wide) {
            float x[4];
            load_four(row + index, x);
            KVLOUPE_UNROLL
            for (unsigned i = 0; i < 4; ++i) x[i] = x[i] * factor * load_element<dtype>(weight, index + i);
            store_four(to + index, x);
        } else {
            to[index] = row[index] * factor * load_element<dtype>(weight, index);
        }
    }
}

// gelu by tanh: x / 2 * (1 + tanh(u)) = x / (1 + e^-2u), which does not cancel where tanh is near -1.
template <Activation activation>
__device__ __forceinline__ float activated(float x) {
    if constexpr (activation == Activation::silu) return x / (1.0f + expf(-x));
    else return x / (1.0f + expf(-1.5957691216057308f * (x + 0.044715f * (x * x) * x)));  // -2 sqrt(2 / pi)
}

template <Activation activation, bool wide>
__global__ void __launch_bounds__(flat_threads) multiply_gate(float* gate, const float* up, std::uint64_t items) {
    KVLOUPE_KERNEL(multiply_gate);
    for (std::uint64_t item = first_item(); item < items; item += item_step()) {
        if constexpr (wide) {
            float x[4], y[4];
            load_four(gate + 4 * item, x);
            load_four(up + 4 * item, y);
            KVLOUPE_UNROLL
            for (unsigned i = 0; i < 4; ++i) x[i] = activated<activation>(x[i]) * y[i];
            store_four(gate + 4 * item, x);
        } else {
            gate[item] = activated<activation>(gate[item]) * up[item];
        }
    }
}

// Block (row of out, part of the row).
template <bool wide>
__global__ void __launch_bounds__(row_threads)
copy_rows(const float* in, const std::uint32_t* rows, std::uint32_t width, float* out) {
    KVLOUPE_KERNEL(copy_rows);
    const std::uint32_t index = (blockIdx.y * row_threads + threadIdx.x) * (wide ? 4 : 1);
    if (index >= width) return;
    const float* const from = in + std::uint64_t{rows[blockIdx.x]} * width + index;
    float* const to = out + std::uint64_t{blockIdx.x} * width + index;
    if constexpr (wide) *reinterpret_cast<float4*>(to) = *reinterpret_cast<const float4*>(from);
    else *to = *from;
}

// Item: eight elements of the array when wide, one otherwise.
template <class Element, bool wide>
__global__ void __launch_bounds__(flat_threads) narrow_elements(const float* in, std::uint64_t count, Element* out) {
    KVLOUPE_KERNEL(narrow_elements);
    constexpr unsigned width = wide ? 8 : 1;
    for (std::uint64_t index = first_item() * width; index < count; index += item_step() * width) {
        if (wide && index + width <= count) {
            float values[8];
            load_eight<DType::f32>(reinterpret_cast<const std::byte*>(in), index, values);
            store_16_bytes(out + index, values);
        } else {
            for (std::uint64_t i = index; i < index + width && i < count; ++i) out[i] = from_float<Element>(in[i]);
        }
    }
}

// Block (row, part of the row).
template <DType dtype, bool wide>
__global__ void __launch_bounds__(row_threads)
expand_rows(const std::byte* matrix, std::uint64_t row_bytes, std::uint32_t cols, __half* out) {
    KVLOUPE_KERNEL(expand_rows);
    const std::uint32_t index = (blockIdx.y * row_threads + threadIdx.x) * (wide ? 8 : 1);
    if (index >= cols) return;
    const std::byte* const row = matrix + blockIdx.x * row_bytes;
    __half* const to = out + std::uint64_t{blockIdx.x} * cols + index;
    if constexpr (wide) {
        float values[8];
        load_eight<dtype>(row, index, values);
        store_16_bytes(to, values);
    } else {
        *to = from_float<__half>(load_element<dtype>(row, index));
    }
}

// Whether rows of that many elements, 4 (out) and row_bytes (in) apart, can be read and written in 16-byte pieces.
bool rows_are_aligned(const Matrix& matrix, std::uint32_t cols, const void* out) {
    return cols % 8 == 0 && is_aligned(matrix.data, 16) && is_aligned(out, 16);
}

}  // namespace

cudaError_t embed(const Matrix& table, const std::int32_t* tokens, std::uint32_t count, float* out, cudaStream_t stream) {
    if (count == 0 || table.cols == 0) return cudaSuccess;
    const std::uint64_t bytes = row_bytes(table.dtype, table.cols);
    const bool wide = rows_are_aligned(table, table.cols, out);
    return with_dtype(table.dtype, [&](auto dtype) {
        const auto kernel = wide ? embed_rows<dtype(), true> : embed_rows<dtype(), false>;
        return launch(kernel, dim3(count, parts_of_row(wide ? table.cols / 8 : table.cols)), row_threads, 0, stream, table.data,
                      bytes, table.rows, table.cols, tokens, out);
    });
}

cudaError_t rms_norm(const float* in, const Matrix& weight, float epsilon, std::uint32_t rows, float* out, cudaStream_t stream) {
    if (rows == 0 || weight.cols == 0) return cudaSuccess;
    const bool wide = weight.cols % 4 == 0 && is_aligned(in, 16) && is_aligned(out, 16);
    return with_dtype(weight.dtype, [&](auto dtype) {
        const auto kernel = wide ? normalise_rows<dtype(), true> : normalise_rows<dtype(), false>;
        return launch(kernel, rows, norm_threads, 0, stream, in, weight.data, epsilon, weight.cols, out);
    });
}

cudaError_t gate_multiply(Activation activation, float* gate, const float* up, std::uint64_t count, cudaStream_t stream) {
    if (count == 0) return cudaSuccess;
    const bool wide = count % 4 == 0 && is_aligned(gate, 16) && is_aligned(up, 16);
    const std::uint64_t items = wide ? count / 4 : count;
    const auto kernel = activation == Activation::silu ? (wide ? multiply_gate<Activation::silu, true> : multiply_gate<Activation::silu, false>)
                                                       : (wide ? multiply_gate<Activation::gelu_tanh, true> : multiply_gate<Activation::gelu_tanh, false>);
    return launch(kernel, flat_blocks(items), flat_threads, 0, stream, gate, up, items);
}

cudaError_t gather_rows(const float* in, const std::uint32_t* rows, std::uint32_t count, std::uint32_t width, float* out,
                        cudaStream_t stream) {
    if (count == 0 || width == 0) return cudaSuccess;
    const bool wide = width % 4 == 0 && is_aligned(in, 16) && is_aligned(out, 16);
    return launch(wide ? copy_rows<true> : copy_rows<false>, dim3(count, parts_of_row(wide ? width / 4 : width)), row_threads, 0,
                  stream, in, rows, width, out);
}

cudaError_t narrow(const float* in, DType to, std::uint64_t count, void* out, cudaStream_t stream) {
    if (to != DType::f16 && to != DType::bf16) return cudaErrorInvalidValue;
    if (count == 0) return cudaSuccess;
    const bool wide = is_aligned(in, 16) && is_aligned(out, 16);
    const unsigned blocks = flat_blocks(wide ? (count + 7) / 8 : count);
    if (to == DType::f16)
        return launch(wide ? narrow_elements<__half, true> : narrow_elements<__half, false>, blocks, flat_threads, 0, stream, in,
                      count, static_cast<__half*>(out));
    return launch(wide ? narrow_elements<__nv_bfloat16, true> : narrow_elements<__nv_bfloat16, false>, blocks, flat_threads, 0,
                  stream, in, count, static_cast<__nv_bfloat16*>(out));
}

cudaError_t expand(const Matrix& matrix, std::uint32_t first, std::uint32_t count, void* out, cudaStream_t stream) {
    if (first > matrix.rows || count > matrix.rows - first) return cudaErrorInvalidValue;
    if (count == 0 || matrix.cols == 0) return cudaSuccess;
    const std::uint64_t bytes = row_bytes(matrix.dtype, matrix.cols);
    const bool wide = rows_are_aligned(matrix, matrix.cols, out);
    return with_dtype(matrix.dtype, [&](auto dtype) {
        const auto kernel = wide ? expand_rows<dtype(), true> : expand_rows<dtype(), false>;
        return launch(kernel, dim3(count, parts_of_row(wide ? matrix.cols / 8 : matrix.cols)), row_threads, 0, stream,
                      matrix.data + first * bytes, bytes, matrix.cols, static_cast<__half*>(out));
    });
}

}  // namespace kvloupe::cuda
