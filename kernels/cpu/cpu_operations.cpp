// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/cpu_operations.h"

#include "kernels/backend_checks.h"
#include "kernels/cpu/cpu_buffers.h"
#include "kernels/cpu/matmul.h"

#include <cassert>
#include <cstring>
#include <limits>
#include <string>

namespace kvloupe::cpu {

CpuOperations::CpuOperations(unsigned threads) : m_pool(threads), m_panels(m_pool.threads()), m_panel_of(m_pool.threads()) {
    m_blas = prepare_blas();
}

Result<std::unique_ptr<Weight>> CpuOperations::weight(const Tensor& tensor) {
    if (auto checked = check_weight(tensor, "the CPU's"); !checked) return checked.error();
    if (is_packed(tensor.dtype) || tensor.rows > 1)
        if (auto grown = grow_panels(panel_floats(tensor.cols)); !grown) return grown.error();
    return std::unique_ptr<Weight>(new CpuWeight({tensor.data, tensor.dtype, tensor.rows, tensor.cols}));
}

Result<std::unique_ptr<Buffer>> CpuOperations::buffer(std::uint64_t bytes, Purpose purpose) {
    auto memory = AlignedBytes::make(bytes, m_counters.of(purpose), "a buffer");
    if (!memory) return memory.error();
    return std::unique_ptr<Buffer>(new CpuBuffer(std::move(*memory)));
}

void CpuOperations::embed(const Weight& table, Buffer& out) {
    const PackedMatrix& m = matrix(table);
    float* to = floats(out);
    for_rows(m_batch.rows(), m.cols, [&](std::uint32_t row) {
        const auto token = static_cast<std::uint64_t>(m_batch.tokens[row]);
        float* row_out = to + row * m.cols;
        if (token < m.rows)
            expand_row(m.dtype, m.row(token), m.cols, row_out);
        else  // outside the vocabulary: shows as a failed step, never as a read beyond the table
            std::fill(row_out, row_out + m.cols, std::numeric_limits<float>::quiet_NaN());
    });
}

void CpuOperations::rms_norm(const Buffer& in, const Weight& weight, float epsilon, std::uint32_t rows, Buffer& out) {
    const PackedMatrix& m = matrix(weight);
    const float* from = floats(in);
    float* to = floats(out);
    const float* factors = vector_of(m);
    for_rows(rows, m.cols, [&](std::uint32_t row) {
        rms_norm_row(from + row * m.cols, factors, epsilon, m.cols, to + row * m.cols);
    });
}

void CpuOperations::rms_norm_heads(Buffer& x, const Weight& weight, float epsilon, std::uint32_t rows, std::uint32_t heads) {
    const PackedMatrix& m = matrix(weight);
    const float* factors = vector_of(m);
    float* values = floats(x);
    for_rows(rows, heads * m.cols, [&](std::uint32_t row) {
        for (std::uint32_t head = 0; head < heads; ++head) {
            float* at = values + (std::uint64_t{row} * heads + head) * m.cols;
            rms_norm_row(at, factors, epsilon, m.cols, at);
        }
    });
}

// BLAS sums small products in another order than large ones, and which is which depends on the number of rows: prefix hits, chunks
// and blocks would then move the last bits. Our kernels sum every row alike and are as fast where a matrix is small, so bits move
// only where a model is large enough for BLAS to matter.
bool CpuOperations::uses_blas(const PackedMatrix& matrix) const {
    constexpr std::uint64_t smallest = 1u << 18;  // elements: 512 x 512
    return m_blas && matrix.rows * matrix.cols >= smallest;
}

void CpuOperations::matmul(const Weight& weight, const Buffer& in, std::uint32_t rows, Buffer& out, bool accumulate) {
    multiply(matrix(weight), {floats(in), floats(out), rows, accumulate}, m_pool, {m_panel_of, uses_blas(matrix(weight))});
}

// Few rows: the heads are shared out over the threads, each reads its part of the weight once. Many: head by head, each a
// product on all threads; its input is packed first, which costs as much as reading it once more.
void CpuOperations::matmul_heads(const Weight& weight, const Buffer& in, std::uint32_t rows, std::uint32_t heads, Buffer& out) {
    const PackedMatrix& m = matrix(weight);
    assert(heads > 0 && m.rows % heads == 0);
    const std::uint64_t out_width = m.rows / heads;
    const float* from = floats(in);
    float* to = floats(out);
    if (m_head_rows.size() < rows * heads * m.cols) m_head_rows.resize(rows * heads * m.cols);
    const auto of_head = [&](std::uint32_t head) {
        float* packed = m_head_rows.data() + std::uint64_t{head} * rows * m.cols;
        for (std::uint32_t row = 0; row < rows; ++row)
            std::memcpy(packed + row * m.cols, from + (std::uint64_t{row} * heads + head) * m.cols, m.cols * sizeof(float));
        return ProductRows{packed, to + head * out_width, rows, false, m.rows};
    };
    const auto part = [&](std::uint32_t head) { return PackedMatrix{m.row(head * out_width), m.dtype, out_width, m.cols}; };
    if (rows > matvec_rows_limit) {
        for (std::uint32_t head = 0; head < heads; ++head)
            multiply(part(head), of_head(head), m_pool, {m_panel_of, uses_blas(part(head))});
        return;
    }
    m_pool.run(heads, [&](std::uint32_t head, unsigned) { matvec_rows(part(head), 0, out_width, of_head(head)); });
}

void CpuOperations::rotate(Buffer& x, std::uint32_t heads, std::uint32_t width, std::uint32_t first, const RotaryShape& rotary) {
    if (rotary.rotary_dim == 0) return;
    const RotaryTable& table = m_rotary.prepare(m_batch.positions, rotary);
    float* values = floats(x) + first;
    for_rows(m_batch.rows(), std::uint64_t{heads} * width,
             [&](std::uint32_t row) { table.rotate(row, values + std::uint64_t{row} * heads * width, heads, width); });
}

void CpuOperations::add_bias(Buffer& x, const Weight& bias, std::uint32_t rows) {
    const PackedMatrix& m = matrix(bias);
    const float* added = vector_of(m);
    float* values = floats(x);
    for_rows(rows, m.cols, [&](std::uint32_t row) { add_scaled_row(added, 1, m.cols, values + row * m.cols); });
}

void CpuOperations::scale(Buffer& x, float factor, std::uint64_t count) {
    float* values = floats(x);
    for_elements(count, [&](std::uint64_t first, std::uint64_t part) { scale_row(values + first, factor, part); });
}

void CpuOperations::soft_cap(Buffer& x, float cap, std::uint64_t count) {
    float* values = floats(x);
    for_elements(count, [&](std::uint64_t first, std::uint64_t part) { soft_cap_row(values + first, cap, part); });
}

void CpuOperations::add(const Buffer& from, Buffer& to, std::uint64_t count) {
    const float* added = floats(from);
    float* values = floats(to);
    for_elements(count, [&](std::uint64_t first, std::uint64_t part) { add_scaled_row(added + first, 1, part, values + first); });
}

void CpuOperations::copy_columns(const Buffer& in, const Columns& c, Buffer& out) {
    const float* from = floats(in) + c.in_first;
    float* to = floats(out) + c.out_first;
    const std::uint32_t in_heads = c.in_heads == 0 ? c.heads : c.in_heads;
    for_rows(c.rows, std::uint64_t{c.heads} * c.columns, [&](std::uint32_t row) {
        for (std::uint32_t head = 0; head < c.heads; ++head)
            std::memcpy(to + (std::uint64_t{row} * c.heads + head) * c.out_width,
                        from + (std::uint64_t{row} * in_heads + (in_heads == 1 ? 0 : head)) * c.in_width,
                        std::uint64_t{c.columns} * sizeof(float));
    });
}

void CpuOperations::gate_multiply(Activation activation, Buffer& gate, const Buffer& up, std::uint32_t rows,
                                  std::uint32_t width) {
    float* g = floats(gate);
    const float* u = floats(up);
    for_rows(rows, width, [&](std::uint32_t row) {
        float* gate_row = g + std::uint64_t{row} * width;
        const float* up_row = u + std::uint64_t{row} * width;
        if (activation == Activation::silu) silu_multiply_row(gate_row, up_row, width);
        else gelu_multiply_row(gate_row, up_row, width);
    });
}

void CpuOperations::gather_rows(const Buffer& in, std::span<const std::uint32_t> rows, std::uint32_t width, Buffer& out) {
    for (std::size_t i = 0; i < rows.size(); ++i)
        std::memcpy(floats(out) + i * width, floats(in) + std::uint64_t{rows[i]} * width, std::uint64_t{width} * sizeof(float));
}

// In the order of `rows`, on one thread: rows may repeat.
void CpuOperations::scatter_add(const Buffer& in, std::span<const std::uint32_t> rows, std::span<const float> weights,
                                std::uint32_t width, Buffer& out) {
    for (std::size_t i = 0; i < rows.size(); ++i)
        add_scaled_row(floats(in) + i * width, weights[i], width, floats(out) + std::uint64_t{rows[i]} * width);
}

Result<void> CpuOperations::read(const Buffer& in, std::span<float> destination) {
    if (destination.size_bytes() > in.bytes())
        return Error{std::to_string(destination.size_bytes()) + " bytes were asked of a buffer of " + std::to_string(in.bytes()),
                     "This is a defect of the program"};
    std::memcpy(destination.data(), floats(in), destination.size_bytes());
    return {};
}

const float* CpuOperations::vector_of(const PackedMatrix& m) {
    if (m.dtype == DType::f32 && reinterpret_cast<std::uintptr_t>(m.data) % alignof(float) == 0)
        return reinterpret_cast<const float*>(m.data);
    if (m_vector.size() < m.cols) m_vector.resize(m.cols);
    expand_row(m.dtype, m.data, m.cols, m_vector.data());
    return m_vector.data();
}

Result<void> CpuOperations::grow_panels(std::uint64_t wanted) {
    if (m_panel_floats >= wanted) return {};
    for (std::size_t thread = 0; thread < m_panels.size(); ++thread) {
        auto panel = AlignedBytes::make(wanted * sizeof(float), m_counters.activations, "the scratch of products");
        if (!panel) return panel.error();
        m_panels[thread] = std::move(*panel);
        m_panel_of[thread] = m_panels[thread].as<float>();
    }
    m_panel_floats = wanted;
    return {};
}

}  // namespace kvloupe::cpu
