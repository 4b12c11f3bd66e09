// SPDX-License-Identifier: GPL-3.0-or-later
//
// Activation buffers and weights in a card's memory. Giving either back forgets recorded passes, which may name it.
#pragma once

#include "kernels/cuda/card_memory.h"
#include "kernels/cuda/kernels.h"

namespace kvloupe::cuda {

class CudaBuffer final : public Buffer {
public:
    CudaBuffer(Card& card, CardMemory memory) : m_card(card), m_memory(std::move(memory)) {}
    ~CudaBuffer() override { m_card.forget_passes(); }
    std::uint64_t bytes() const override { return m_memory.bytes(); }
    float* floats() const { return m_memory.as<float>(); }

private:
    Card& m_card;
    CardMemory m_memory;
};

class CudaWeight final : public Weight {
public:
    CudaWeight(Card& card, CardMemory memory, const Tensor& tensor)
        : m_card(card), m_memory(std::move(memory)),
          m_matrix{m_memory.data(), tensor.dtype, static_cast<std::uint32_t>(tensor.rows), static_cast<std::uint32_t>(tensor.cols)} {}
    ~CudaWeight() override { m_card.forget_passes(); }
    std::uint64_t rows() const override { return m_matrix.rows; }
    std::uint64_t cols() const override { return m_matrix.cols; }
    DType dtype() const override { return m_matrix.dtype; }
    std::uint64_t bytes() const override { return m_memory.bytes(); }
    const Matrix& matrix() const { return m_matrix; }

private:
    Card& m_card;
    CardMemory m_memory;
    Matrix m_matrix;
};

inline float* floats(Buffer& buffer) { return static_cast<CudaBuffer&>(buffer).floats(); }
inline const float* floats(const Buffer& buffer) { return static_cast<const CudaBuffer&>(buffer).floats(); }
inline const Matrix& matrix(const Weight& weight) { return static_cast<const CudaWeight&>(weight).matrix(); }

}  // namespace kvloupe::cuda
