// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/rotary.h"

#include "kernels/cpu/kernels.h"

#include <cmath>

namespace kvloupe::cpu {

void RotaryTable::prepare(std::span<const std::uint32_t> positions, const RotaryShape& rotary, Turn turn) {
    const bool same = rotary == m_shape;
    const std::uint32_t half = rotary.rotary_dim / 2;
    if (!same || m_frequencies.size() != half) m_frequencies = rotary_frequencies(rotary);
    m_shape = rotary;
    if (m_prepared && same) return;
    m_prepared = true;
    m_cosines.resize(positions.size() * half);
    m_sines.resize(positions.size() * half);
    const double magnitude = turn == Turn::forward ? static_cast<double>(rotary.scaling.magnitude) : 1.0;
    for (std::size_t row = 0; row < positions.size(); ++row)
        for (std::uint32_t i = 0; i < half; ++i) {
            const double angle = static_cast<double>(turn) * positions[row] * m_frequencies[i];
            m_cosines[row * half + i] = static_cast<float>(magnitude * std::cos(angle));
            m_sines[row * half + i] = static_cast<float>(magnitude * std::sin(angle));
        }
}

const RotaryTable& RotaryTables::prepare(std::span<const std::uint32_t> positions, const RotaryShape& rotary) {
    constexpr std::size_t most = 8;  // models on one device seldom differ in more; an old table costs memory only
    for (const auto& table : m_tables)
        if (table->shape() == rotary) {
            table->prepare(positions, rotary);
            return *table;
        }
    if (m_tables.size() == most) m_tables.erase(m_tables.begin());
    RotaryTable& table = *m_tables.emplace_back(std::make_unique<RotaryTable>());
    table.prepare(positions, rotary);
    return table;
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
