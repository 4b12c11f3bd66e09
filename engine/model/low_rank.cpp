// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/low_rank.h"

#include <Eigen/Eigenvalues>

#include <algorithm>
#include <cassert>

namespace kvloupe {

namespace {

// Of the mean variance: directions that the inputs never took still count, behind all others.
constexpr double ridge = 1e-6;

}  // namespace

LowRank::LowRank(std::span<const float> matrix, std::uint32_t rows, std::uint32_t cols, std::span<const double> covariance)
    : m_rows(rows), m_cols(cols) {
    assert(matrix.size() == std::size_t{rows} * cols && (covariance.empty() || covariance.size() == std::size_t{cols} * cols));
    using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    const Eigen::MatrixXd w = Eigen::Map<const Rows>(matrix.data(), rows, cols).cast<double>();
    Eigen::MatrixXd gram;
    if (covariance.empty()) {
        gram = w * w.transpose();
    } else {
        Eigen::MatrixXd inputs = Eigen::Map<const Eigen::MatrixXd>(covariance.data(), cols, cols);
        inputs.diagonal().array() += ridge * inputs.trace() / cols;
        gram = w * inputs * w.transpose();
    }
    const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(gram);  // eigenvalues ascending
    const std::uint32_t rank = std::min(rows, cols);
    const Eigen::MatrixXd basis = solver.eigenvectors().rowwise().reverse().leftCols(rank);
    for (std::uint32_t i = 0; i < rank; ++i) m_squared.push_back(std::max(0.0, solver.eigenvalues()[rows - 1 - i]));
    const Eigen::MatrixXd down = basis.transpose() * w;
    m_basis.resize(std::size_t{rank} * rows);
    m_down.resize(std::size_t{rank} * cols);
    Eigen::Map<Rows>(m_basis.data(), rank, rows) = basis.transpose().cast<float>();
    Eigen::Map<Rows>(m_down.data(), rank, cols) = down.cast<float>();
}

double LowRank::lost(std::uint32_t width) const {
    double kept = 0, sum = 0;
    for (std::uint32_t i = 0; i < rank(); ++i) {
        sum += m_squared[i];
        if (i < width) kept += m_squared[i];
    }
    return sum > 0 ? std::max(0.0, 1 - kept / sum) : 0;
}

std::vector<float> LowRank::down(std::uint32_t width) const {
    return {m_down.begin(), m_down.begin() + static_cast<std::ptrdiff_t>(std::size_t{width} * m_cols)};
}

std::vector<float> LowRank::up(std::uint32_t width) const {
    std::vector<float> result(std::size_t{m_rows} * width);
    for (std::uint32_t i = 0; i < width; ++i)
        for (std::uint32_t row = 0; row < m_rows; ++row) result[std::size_t{row} * width + i] = m_basis[std::size_t{i} * m_rows + row];
    return result;
}

}  // namespace kvloupe
