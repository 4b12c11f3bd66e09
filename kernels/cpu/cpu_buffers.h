// SPDX-License-Identifier: GPL-3.0-or-later
//
// Buffers and weights in main memory, and how the CPU's operations reach into them.
#pragma once

#include "engine/backend.h"
#include "kernels/cpu/aligned_bytes.h"
#include "kernels/cpu/kernels.h"

#include <utility>

namespace kvloupe::cpu {

class CpuBuffer final : public Buffer {
public:
    explicit CpuBuffer(AlignedBytes bytes) : m_bytes(std::move(bytes)) {}
    std::uint64_t bytes() const override { return m_bytes.size(); }
    float* floats() const { return m_bytes.as<float>(); }

private:
    AlignedBytes m_bytes;
};

class CpuWeight final : public Weight {
public:
    explicit CpuWeight(const PackedMatrix& matrix) : m_matrix(matrix) {}
    std::uint64_t rows() const override { return m_matrix.rows; }
    std::uint64_t cols() const override { return m_matrix.cols; }
    DType dtype() const override { return m_matrix.dtype; }
    std::uint64_t bytes() const override { return m_matrix.bytes(); }
    const PackedMatrix& matrix() const { return m_matrix; }

private:
    PackedMatrix m_matrix;
};

inline float* floats(Buffer& buffer) { return static_cast<CpuBuffer&>(buffer).floats(); }
inline const float* floats(const Buffer& buffer) { return static_cast<const CpuBuffer&>(buffer).floats(); }
inline const PackedMatrix& matrix(const Weight& weight) { return static_cast<const CpuWeight&>(weight).matrix(); }

}  // namespace kvloupe::cpu
