// SPDX-License-Identifier: GPL-3.0-or-later
//
// BlockTable: logical block index of a sequence -> physical block. SlotMapping: where a position's K/V lies.
#pragma once

#include "engine/record/ids.h"

#include <cstdint>
#include <span>
#include <vector>

namespace kvloupe {

// Append-only while its sequence lives: an id once given never changes (CACHE_SEMANTICS 1.1).
struct BlockTable {
    std::vector<BlockId> blocks;    // (logical blocks)
    std::uint32_t tokens = 0;       // tokens that the sequence has slots for: positions 0 .. tokens - 1
};

// Blocks that `tokens` tokens take.
constexpr std::uint32_t blocks_for(std::uint64_t tokens, std::uint32_t block_size) {
    return static_cast<std::uint32_t>((tokens + block_size - 1) / block_size);
}

// Slot = block * block_size + offset.
class SlotMapping {
public:
    SlotMapping(std::span<const BlockId> table, std::uint32_t block_size) : m_table(table), m_block_size(block_size) {}

    // position / block_size must lie in the table.
    std::uint64_t slot(std::uint32_t position) const {
        return std::uint64_t{m_table[position / m_block_size].value} * m_block_size + position % m_block_size;
    }

    // Appends the slots of positions first .. first + count - 1.
    void append(std::uint32_t first, std::uint32_t count, std::vector<std::uint64_t>& slots) const {
        for (std::uint32_t i = 0; i < count; ++i) slots.push_back(slot(first + i));
    }

private:
    std::span<const BlockId> m_table;
    std::uint32_t m_block_size;
};

}  // namespace kvloupe
