// SPDX-License-Identifier: GPL-3.0-or-later
//
// BlockOwners: who owns each block of a pool, from one pass over the block tables.
#pragma once

#include "engine/record/lane_state.h"
#include "views/picking.h"

#include <algorithm>
#include <span>
#include <vector>

namespace kvloupe {

// Calls back with every entry of every table but those at the null block: BlockOwner, block. Sequences ascend.
template <typename Visit>
void forEveryEntry(const LaneState& state, const Visit& visit) {
    std::vector<std::uint32_t> holders = state.holders();
    std::sort(holders.begin(), holders.end());
    for (const std::uint32_t holder : holders) {
        const SequenceState& sequence = state.sequences()[holder];
        const auto visitTable = [&](const TableState& table, std::uint8_t group) {
            for (std::uint32_t logical = 0; logical < table.size(); ++logical)
                if (table[logical] != null_block_id && table[logical].value < state.blocks().size())
                    visit(BlockOwner{SequenceId(holder), logical, group}, table[logical].value);
        };
        visitTable(sequence.table, 0);
        for (std::size_t g = 0; g < sequence.group_tables.size(); ++g)
            visitTable(sequence.group_tables[g], static_cast<std::uint8_t>(g + 1));
    }
}

class BlockOwners {
public:
    void collect(const LaneState& state) {
        m_begin.assign(state.blocks().size() + 1, 0);
        forEveryEntry(state, [this](const BlockOwner&, std::uint32_t block) { ++m_begin[block + 1]; });
        for (std::size_t b = 1; b < m_begin.size(); ++b) m_begin[b] += m_begin[b - 1];
        m_owners.assign(m_begin.back(), {});
        std::vector<std::uint32_t> next = m_begin;
        forEveryEntry(state, [&](const BlockOwner& owner, std::uint32_t block) { m_owners[next[block]++] = owner; });
    }

    void clear() {
        m_begin.clear();
        m_owners.clear();
    }

    std::span<const BlockOwner> of(std::uint32_t block) const {
        if (block + std::size_t{1} >= m_begin.size()) return {};
        return std::span(m_owners).subspan(m_begin[block], m_begin[block + 1] - m_begin[block]);
    }

private:
    std::vector<std::uint32_t> m_begin;   // per block: first of its owners; one more at the end
    std::vector<BlockOwner> m_owners;
};

}  // namespace kvloupe
