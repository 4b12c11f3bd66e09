// SPDX-License-Identifier: GPL-3.0-or-later
//
// Rotary embedding: the angles of a batch, computed once in double and used by all layers.
// Formula: pair i of a head is turned by position * theta^(-2 i / rotary_dim) (Su et al., RoFormer, 2021).
#pragma once

#include "engine/backend.h"

#include <cstdint>
#include <span>
#include <vector>

namespace kvloupe::cpu {

class RotaryTable {
public:
    void begin_batch() { m_prepared = false; }
    enum class Turn : std::int8_t { back = -1, forward = 1 };
    // Cosines and sines of the batch's rows, unless they are there already.
    void prepare(std::span<const std::uint32_t> positions, const RotaryShape& rotary, Turn turn = Turn::forward);
    // x (heads, head_dim) of a row, in place.
    void rotate(std::uint32_t row, float* x, std::uint32_t heads, std::uint32_t head_dim) const;

private:
    bool m_prepared = false;
    RotaryShape m_shape;
    std::vector<double> m_frequencies;      // (rotary_dim / 2)
    std::vector<float> m_cosines, m_sines;  // (rows, rotary_dim / 2)
};

}  // namespace kvloupe::cpu
