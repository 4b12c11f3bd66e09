// SPDX-License-Identifier: GPL-3.0-or-later
//
// Products: activations times a weight matrix. Few rows: our matrix-vector kernel over the weights as stored, which reads
// them once. More: the matrix library, with the activations narrowed to the weights' own type; a quantised matrix is expanded
// to f16 piece by piece into a bounded scratch, because expanding all of it would double its memory.
//
// Products head by head (absorbed latents) are as many products side by side: one call of the library, one of our kernel.
// The narrowed activations are used again by the next product of the same rows (query, key and value; gate and up).
#pragma once

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/matrix_library.h"
#include "kernels/cuda/scratch.h"

namespace kvloupe::cuda {

class Products {
public:
    // most_expanded: bytes of a quantised matrix as f16 that are expanded at once.
    Products(Card& card, MatrixLibrary& library, std::uint64_t most_expanded)
        : m_card(card), m_library(library), m_most_expanded(most_expanded), m_narrowed(card, "the activations of a product"),
          m_expanded(card, "a matrix expanded to f16") {}

    // Makes room for what products with that matrix need, whatever the rows. Errors: not enough memory.
    Result<void> prepare(const Matrix& matrix);
    void multiply(const Matrix& matrix, const Product& product);
    // Values changed: nothing that was narrowed before counts.
    void forget() { m_narrowed_from = nullptr; }

private:
    const void* narrowed(const float* in, DType type, std::uint64_t count);
    std::uint32_t rows_expanded_at_once(const Matrix& matrix) const;
    bool run(const Gemm& gemm);
    // Many rows by a matrix as it is stored, and by a quantised one piece by piece. False: the step has failed.
    bool run_stored(const Matrix& matrix, const Product& product, Gemm gemm);
    bool run_expanded(const Matrix& matrix, const Product& product, Gemm gemm);

    Card& m_card;
    MatrixLibrary& m_library;
    std::uint64_t m_most_expanded;
    Scratch m_narrowed, m_expanded;
    const float* m_narrowed_from = nullptr;
    DType m_narrowed_type = DType::f32;
    std::uint64_t m_narrowed_count = 0;
};

}  // namespace kvloupe::cuda
