// SPDX-License-Identifier: GPL-3.0-or-later
//
// Rotary embedding: the angles of a batch, computed once in double and used by all layers that turn alike.
// By how much a pair is turned: engine/model/rotary.h.
#pragma once

#include "engine/backend.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace kvloupe::cpu {

class RotaryTable {
public:
    void begin_batch() { m_prepared = false; }
    // back: by the same angles, and without the scaling's magnitude, which the rows already have.
    enum class Turn : std::int8_t { back = -1, forward = 1 };
    // Cosines and sines of the batch's rows, unless they are there already.
    void prepare(std::span<const std::uint32_t> positions, const RotaryShape& rotary, Turn turn = Turn::forward);
    const RotaryShape& shape() const { return m_shape; }
    // x (heads, head_dim) of a row, in place: the first rotary_dim values of a head.
    void rotate(std::uint32_t row, float* x, std::uint32_t heads, std::uint32_t head_dim) const;

private:
    bool m_prepared = false;
    RotaryShape m_shape;
    std::vector<double> m_frequencies;      // (rotary_dim / 2)
    std::vector<float> m_cosines, m_sines;  // (rows, rotary_dim / 2)
};

// Tables of one batch, one for each way of turning: layers may differ.
class RotaryTables {
public:
    void begin_batch() {
        for (const auto& table : m_tables) table->begin_batch();
    }
    const RotaryTable& prepare(std::span<const std::uint32_t> positions, const RotaryShape& rotary);

private:
    std::vector<std::unique_ptr<RotaryTable>> m_tables;
};

}  // namespace kvloupe::cpu
