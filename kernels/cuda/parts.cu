// SPDX-License-Identifier: GPL-3.0-or-later
//
// What only some models need, over rows of activations: parts of heads turned, norms of heads, biases, factors, caps, sums,
// columns, rows scattered. Each element is read once and written once, so the floor is bytes over bandwidth:
//
//   turn_part       8 bytes per value that is turned
//   rms_norm_heads  4 + 4 bytes per element; a head's second read comes from L1
//   add_bias        8 bytes per element, and the bias from L1
//   scale, soft_cap 8 bytes per element
//   add             12 bytes per element
//   copy_columns    8 bytes per element
//   scatter_add     12 bytes per element
//
// Form: 16 bytes per thread and access where widths, first columns and addresses allow it, one element otherwise. Norms: a warp a
// head, because a block of 256 threads would leave seven eighths of them without work at 128 values. Scattered rows: the first of
// those that go to one row adds them all, in order, so that sums are the same every time; it finds the others by reading the list
// (a few hundred numbers, from L1). Rejected: atomics for them (another order, other bits, every time); norm and rotation of a
// head in one launch (a launch less for each layer, for a kernel a family); tanh.approx for caps (2^-11 of the cap, which is more
// than a logit's own precision).
#include "kernels/cuda/elements.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/rotary_turn.h"
#include "kernels/cuda/warp.h"

#include <algorithm>

namespace kvloupe::cuda {

namespace {

constexpr unsigned part_threads = 128;
constexpr unsigned heads_at_once = part_threads / 32;  // of norms: a warp each

unsigned blocks_for_items(std::uint64_t items) {
    return static_cast<unsigned>(std::min<std::uint64_t>((items + part_threads - 1) / part_threads, 1u << 20));
}
__device__ __forceinline__ std::uint64_t own_item() { return std::uint64_t{blockIdx.x} * part_threads + threadIdx.x; }
__device__ __forceinline__ std::uint64_t next_item() { return std::uint64_t{gridDim.x} * part_threads; }

// Block (row, eight heads). width: pairs per thread and access.
template <RotaryLayout layout, unsigned width>
__global__ void __launch_bounds__(turn_threads) turn_part_of_heads(const TurnPart args) {
    KVLOUPE_KERNEL(turn_part_of_heads);
    KVLOUPE_DYNAMIC_SHARED(float2, turns);  // (rotary_dim / 2)
    const unsigned first_head = blockIdx.y * turn_heads;
    find_turns(args.rotary, args.positions[blockIdx.x], turns);
    __syncthreads();
    float* const x = args.x + (std::uint64_t{blockIdx.x} * args.heads + first_head) * args.width + args.first;
    turn_some_heads<layout, width>(x, min(turn_heads, args.heads - first_head), args.width, args.rotary.rotary_dim / 2, turns);
}

// A warp a row.
template <DType dtype>
__global__ void __launch_bounds__(part_threads)
normalise_heads(float* x, const std::byte* weight, float epsilon, std::uint64_t rows, std::uint32_t cols) {
    KVLOUPE_KERNEL(normalise_heads);
    const std::uint64_t row = std::uint64_t{blockIdx.x} * heads_at_once + threadIdx.x / 32;
    if (row >= rows) return;
    float* const values = x + row * cols;
    float squares = 0;
    for (std::uint32_t i = threadIdx.x % 32; i < cols; i += 32) squares = fmaf(values[i], values[i], squares);
    const float factor = 1.0f / sqrtf(warp_sum(squares) / static_cast<float>(cols) + epsilon);
    for (std::uint32_t i = threadIdx.x % 32; i < cols; i += 32) values[i] = values[i] * factor * load_element<dtype>(weight, i);
}

// Block (row, part of it).
template <DType dtype>
__global__ void __launch_bounds__(part_threads) add_bias_to_rows(float* x, const std::byte* bias, std::uint32_t cols) {
    KVLOUPE_KERNEL(add_bias_to_rows);
    const std::uint32_t index = blockIdx.y * part_threads + threadIdx.x;
    if (index < cols) x[std::uint64_t{blockIdx.x} * cols + index] += load_element<dtype>(bias, index);
}

// What becomes of a value by itself.
struct Scaled {
    float factor;
    __device__ __forceinline__ float operator()(float x) const { return x * factor; }
};
struct Capped {
    float cap;
    __device__ __forceinline__ float operator()(float x) const { return cap * tanhf(x / cap); }
};

template <class Change, bool wide>
__global__ void __launch_bounds__(part_threads) change_values(float* x, const Change change, std::uint64_t items) {
    KVLOUPE_KERNEL(change_values);
    for (std::uint64_t item = own_item(); item < items; item += next_item()) {
        if constexpr (wide) {
            float four[4];
            load_four(x + 4 * item, four);
            KVLOUPE_UNROLL
            for (unsigned i = 0; i < 4; ++i) four[i] = change(four[i]);
            store_four(x + 4 * item, four);
        } else {
            x[item] = change(x[item]);
        }
    }
}

template <bool wide>
__global__ void __launch_bounds__(part_threads) sum_values(const float* from, float* to, std::uint64_t items) {
    KVLOUPE_KERNEL(sum_values);
    for (std::uint64_t item = own_item(); item < items; item += next_item()) {
        if constexpr (wide) {
            float a[4], b[4];
            load_four(from + 4 * item, a);
            load_four(to + 4 * item, b);
            KVLOUPE_UNROLL
            for (unsigned i = 0; i < 4; ++i) b[i] += a[i];
            store_four(to + 4 * item, b);
        } else {
            to[item] += from[item];
        }
    }
}

// Block (row, part of its heads' columns).
template <bool wide>
__global__ void __launch_bounds__(part_threads) copy_some_columns(const ColumnCopy copy) {
    KVLOUPE_KERNEL(copy_some_columns);
    constexpr unsigned width = wide ? 4 : 1;
    const std::uint32_t pieces = copy.columns / width, item = blockIdx.y * part_threads + threadIdx.x;
    if (item >= copy.heads * pieces) return;
    const std::uint32_t head = item / pieces, column = item % pieces * width, in_head = copy.in_heads == 1 ? 0 : head;
    const float* const from = copy.in + (std::uint64_t{blockIdx.x} * copy.in_heads + in_head) * copy.in_width + copy.in_first + column;
    float* const to = copy.out + (std::uint64_t{blockIdx.x} * copy.heads + head) * copy.out_width + copy.out_first + column;
    if constexpr (wide) *reinterpret_cast<float4*>(to) = *reinterpret_cast<const float4*>(from);
    else *to = *from;
}

// Block (row of in, part of it).
__global__ void __launch_bounds__(part_threads) scatter_rows(const Scatter scatter) {
    KVLOUPE_KERNEL(scatter_rows);
    const std::uint32_t own = blockIdx.x, target = scatter.rows[own], index = blockIdx.y * part_threads + threadIdx.x;
    for (std::uint32_t i = 0; i < own; ++i)
        if (scatter.rows[i] == target) return;  // that one adds this one's too
    if (index >= scatter.width) return;
    float& out = scatter.out[std::uint64_t{target} * scatter.width + index];
    float sum = out;
    for (std::uint32_t i = own; i < scatter.count; ++i)
        if (scatter.rows[i] == target) sum = fmaf(scatter.weights[i], scatter.in[std::uint64_t{i} * scatter.width + index], sum);
    out = sum;
}

unsigned parts_for(std::uint64_t items) { return static_cast<unsigned>((items + part_threads - 1) / part_threads); }

template <class Change>
cudaError_t change(float* x, const Change& by, std::uint64_t count, cudaStream_t stream) {
    if (count == 0) return cudaSuccess;
    const bool wide = count % 4 == 0 && is_aligned(x, 16);
    const std::uint64_t items = wide ? count / 4 : count;
    return launch(wide ? change_values<Change, true> : change_values<Change, false>, blocks_for_items(items), part_threads, 0, stream, x, by,
                  items);
}

}  // namespace

cudaError_t turn_part(const TurnPart& args, cudaStream_t stream) {
    const std::uint32_t turned = args.rotary.rotary_dim;
    if (turned % 2 != 0 || std::uint64_t{args.first} + turned > args.width) return cudaErrorInvalidValue;
    if (args.rows == 0 || args.heads == 0 || turned == 0) return cudaSuccess;
    const bool four = turned % 8 == 0 && args.width % 4 == 0 && args.first % 4 == 0 && is_aligned(args.x, 16);
    const bool split = args.rotary.layout == RotaryLayout::half_split;
    const auto kernel = split ? (four ? turn_part_of_heads<RotaryLayout::half_split, 4> : turn_part_of_heads<RotaryLayout::half_split, 1>)
                              : (four ? turn_part_of_heads<RotaryLayout::adjacent, 4> : turn_part_of_heads<RotaryLayout::adjacent, 1>);
    return launch(kernel, dim3(args.rows, parts_of(args.heads, turn_heads)), turn_threads, turned / 2 * sizeof(float2), stream, args);
}

cudaError_t rms_norm_heads(float* x, const Matrix& weight, float epsilon, std::uint32_t rows, cudaStream_t stream) {
    if (rows == 0 || weight.cols == 0) return cudaSuccess;
    return with_dtype(weight.dtype, [&](auto dtype) {
        return launch(normalise_heads<dtype()>, (rows + heads_at_once - 1) / heads_at_once, part_threads, 0, stream, x, weight.data,
                      epsilon, std::uint64_t{rows}, weight.cols);
    });
}

cudaError_t add_bias(float* x, const Matrix& bias, std::uint32_t rows, cudaStream_t stream) {
    if (rows == 0 || bias.cols == 0) return cudaSuccess;
    return with_dtype(bias.dtype, [&](auto dtype) {
        return launch(add_bias_to_rows<dtype()>, dim3(rows, parts_for(bias.cols)), part_threads, 0, stream, x, bias.data, bias.cols);
    });
}

cudaError_t scale(float* x, float factor, std::uint64_t count, cudaStream_t stream) { return change(x, Scaled{factor}, count, stream); }

cudaError_t soft_cap(float* x, float cap, std::uint64_t count, cudaStream_t stream) { return change(x, Capped{cap}, count, stream); }

cudaError_t add(const float* from, float* to, std::uint64_t count, cudaStream_t stream) {
    if (count == 0) return cudaSuccess;
    const bool wide = count % 4 == 0 && is_aligned(from, 16) && is_aligned(to, 16);
    const std::uint64_t items = wide ? count / 4 : count;
    return launch(wide ? sum_values<true> : sum_values<false>, blocks_for_items(items), part_threads, 0, stream, from, to, items);
}

cudaError_t copy_columns(const ColumnCopy& copy, cudaStream_t stream) {
    if (copy.in_heads != 1 && copy.in_heads != copy.heads) return cudaErrorInvalidValue;
    if (copy.rows == 0 || copy.heads == 0 || copy.columns == 0) return cudaSuccess;
    const bool wide = (copy.columns | copy.in_width | copy.in_first | copy.out_width | copy.out_first) % 4 == 0 && is_aligned(copy.in, 16) &&
                      is_aligned(copy.out, 16);
    const std::uint64_t pieces = std::uint64_t{copy.heads} * (wide ? copy.columns / 4 : copy.columns);
    return launch(wide ? copy_some_columns<true> : copy_some_columns<false>, dim3(copy.rows, parts_for(pieces)), part_threads, 0, stream, copy);
}

cudaError_t scatter_add(const Scatter& scatter, cudaStream_t stream) {
    if (scatter.count == 0 || scatter.width == 0) return cudaSuccess;
    return launch(scatter_rows, dim3(scatter.count, parts_for(scatter.width)), part_threads, 0, stream, scatter);
}

}  // namespace kvloupe::cuda
