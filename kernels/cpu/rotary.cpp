// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/rotary.h"

#include "kernels/cpu/kernels.h"

#include <cmath>

namespace kvloupe::cpu {

void RotaryTable::prepare(std::span<const std::uint32_t> positions, const RotaryShape& rotary, Turn turn) {
    const bool same = rotary.theta == m_shape.theta && rotary.rotary_dim == m_shape.rotary_dim;
    const std::uint32_t half = rotary.rotary_dim / 2;
    if (!same || m_frequencies.size() != half) {
        m_frequencies.resize(half);
        for (std::uint32_t i = 0; i < half; ++i)
            m_frequencies[i] = std::pow(static_cast<double>(rotary.theta), -2.0 * i / rotary.rotary_dim);
    }
    m_shape = rotary;
    if (m_prepared && same) return;
    m_prepared = true;
    m_cosines.resize(positions.size() * half);
    m_sines.resize(positions.size() * half);
    for (std::size_t row = 0; row < positions.size(); ++row)
        for (std::uint32_t i = 0; i < half; ++i) {
            const double angle = static_cast<double>(turn) * positions[row] * m_frequencies[i];
            m_cosines[row * half + i] = static_cast<float>(std::cos(angle));
            m_sines[row * half + i] = static_cast<float>(std::sin(angle));
        }
}

void RotaryTable::rotate(std::uint32_t row, float* x, std::uint32_t heads, std::uint32_t head_dim) const {
    const std::uint32_t half = m_shape.rotary_dim / 2;
    const float* cosines = m_cosines.data() + std::size_t{row} * half;
    const float* sines = m_sines.data() + std::size_t{row} * half;
    for (std::uint32_t head = 0; head < heads; ++head, x += head_dim) {
        if (m_shape.layout == RotaryLayout::half_split) {
            rotate_half_split(x, cosines, sines, half);
            continue;
        }
        for (std::uint32_t i = 0; i < half; ++i) {
            const float a = x[2 * i], b = x[2 * i + 1];
            x[2 * i] = a * cosines[i] - b * sines[i];
            x[2 * i + 1] = a * sines[i] + b * cosines[i];
        }
    }
}

}  // namespace kvloupe::cpu
