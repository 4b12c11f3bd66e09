// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cuda/products.h"

#include <algorithm>

namespace kvloupe::cuda {

namespace {

constexpr const char* task = "a matrix product";

bool quantised(DType type) { return is_packed(type); }

}  // namespace

std::uint32_t Products::rows_expanded_at_once(const Matrix& matrix) const {
    const std::uint64_t fitting = m_most_expanded / (std::uint64_t{matrix.cols} * sizeof(std::uint16_t));
    return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(fitting, 1, matrix.rows));
}

Result<void> Products::prepare(const Matrix& matrix) {
    if (!quantised(matrix.dtype) || matrix.rows == 1) return {};
    return m_expanded.reserve(std::uint64_t{rows_expanded_at_once(matrix)} * matrix.cols * sizeof(std::uint16_t));
}

const void* Products::narrowed(const float* in, DType type, std::uint64_t count) {
    if (type == DType::f32) return in;
    std::byte* to = m_narrowed.take(count * sizeof(std::uint16_t));
    if (to == nullptr) return nullptr;
    if (in == m_narrowed_from && type == m_narrowed_type && count == m_narrowed_count) return to;
    if (!m_card.fault().note(narrow(in, type, count, to, m_card.stream), task)) return nullptr;
    m_narrowed_from = in;
    m_narrowed_type = type;
    m_narrowed_count = count;
    return to;
}

bool Products::run(const Gemm& gemm) {
    if (const char* problem = m_library.multiply(gemm)) {
        m_card.fault().note(task, problem);
        return false;
    }
    return true;
}

bool Products::run_stored(const Matrix& matrix, const Product& product, Gemm gemm) {
    gemm.matrix = matrix.data;
    gemm.out = product.out;
    gemm.matrix_rows = matrix.rows / product.heads;
    gemm.count = product.heads;
    return run(gemm);
}

bool Products::run_expanded(const Matrix& matrix, const Product& product, Gemm gemm) {
    const std::uint32_t of_head = matrix.rows / product.heads, step = std::min(of_head, rows_expanded_at_once(matrix));
    const auto* const in = static_cast<const std::uint16_t*>(gemm.in);
    for (std::uint32_t head = 0; head < product.heads; ++head)
        for (std::uint32_t row = 0; row < of_head; row += step) {
            const std::uint32_t first = head * of_head + row;
            gemm.matrix_rows = std::min(step, of_head - row);
            gemm.in = in + std::uint64_t{head} * matrix.cols;
            gemm.out = product.out + first;
            std::byte* const to = m_expanded.take(std::uint64_t{step} * matrix.cols * sizeof(std::uint16_t));
            if (to == nullptr || !m_card.fault().note(expand(matrix, first, gemm.matrix_rows, to, m_card.stream), task)) return false;
            gemm.matrix = to;
            if (!run(gemm)) return false;
        }
    return true;
}

void Products::multiply(const Matrix& matrix, const Product& product) {
    if (product.rows == 0) return;
    if (product.rows <= max_matvec_rows) {
        m_card.fault().note(matvec(matrix, product, m_card.stream), task);
    } else {
        Gemm gemm;
        gemm.type = quantised(matrix.dtype) ? DType::f16 : matrix.dtype;
        gemm.in_width = product.heads * matrix.cols;
        gemm.in = narrowed(product.in, gemm.type, std::uint64_t{product.rows} * gemm.in_width);
        gemm.rows = product.rows;
        gemm.cols = matrix.cols;
        gemm.out_width = matrix.rows;
        gemm.accumulate = product.accumulate;
        if (gemm.in == nullptr || !(quantised(matrix.dtype) ? run_expanded(matrix, product, gemm) : run_stored(matrix, product, gemm))) return;
    }
    // Written over what was narrowed?
    if (product.out == m_narrowed_from) forget();
}

}  // namespace kvloupe::cuda
