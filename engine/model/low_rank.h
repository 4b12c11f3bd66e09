// SPDX-License-Identifier: GPL-3.0-or-later
//
// LowRank: a projection W (rows, cols) as a product up · down of any width, with the least error that a product of this width can
// have: down = U^T W and up = U, where the columns of U are the left singular vectors of W L and L L^T is the covariance of the
// projection's inputs (the identity where none is given). So the error counts where inputs lie: E |W x - up down x|^2 is least.
// U comes from the eigenvectors of W C W^T in double. That halves the digits of small singular values, which only decide whom a
// cut drops; the product of full width stays exact, because U is orthonormal whatever they are. It is many times faster than
// a singular value decomposition of W itself, and asks for no inverse of L.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kvloupe {

class LowRank {
public:
    // matrix: (rows, cols), row-major. covariance: (cols, cols) of the inputs, symmetric; empty: the identity.
    LowRank(std::span<const float> matrix, std::uint32_t rows, std::uint32_t cols, std::span<const double> covariance = {});

    std::uint32_t rank() const { return static_cast<std::uint32_t>(m_squared.size()); }  // min(rows, cols)
    const std::vector<double>& squared() const { return m_squared; }  // (rank) squared singular values of W L, descending
    // Share of the squared singular values behind the first `width`.
    double lost(std::uint32_t width) const;
    std::vector<float> down(std::uint32_t width) const;  // (width, cols)
    std::vector<float> up(std::uint32_t width) const;    // (rows, width)

private:
    std::uint32_t m_rows, m_cols;
    std::vector<double> m_squared;
    std::vector<float> m_basis;  // (rank, rows): U^T
    std::vector<float> m_down;   // (rank, cols): U^T W
};

}  // namespace kvloupe
