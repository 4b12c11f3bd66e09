// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/pool_blocks.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kvloupe {

void PoolBlocks::clear() {
    m_owners.clear();
    m_evicted.clear();
    m_copies.clear();
    m_regions.clear();
    m_values.clear();
    m_greatest = 0;
    m_anyValue = false;
}

bool PoolBlocks::evicted(std::uint32_t block) const {
    return std::binary_search(m_evicted.begin(), m_evicted.end(), block);
}

std::optional<double> PoolBlocks::value(std::uint32_t block) const {
    if (block >= m_values.size() || std::isnan(m_values[block])) return std::nullopt;
    return m_values[block];
}

void PoolBlocks::collectEvents(const LaneRecord& lane, std::size_t step) {
    m_evicted.clear();
    m_copies.clear();
    const LogRange range = lane.step(step).events;
    for (std::uint64_t i = range.begin; i < range.end; ++i) {
        const Event& event = lane.events()[i];
        if (event.kind == EventKind::evict && event.block.valid()) m_evicted.push_back(event.block.value);
        if (event.kind == EventKind::copy_on_write && event.block.valid())
            m_copies.push_back({i, event.block, BlockId(event.other), event.tokens});
    }
    std::sort(m_evicted.begin(), m_evicted.end());
}

void PoolBlocks::collectRegions(const LaneState& state) {
    forEveryEntry(state, [this](const BlockOwner& owner, std::uint32_t block) {
        if (!m_regions.empty() && m_regions.back().sequence == owner.sequence &&
            m_regions.back().first + m_regions.back().count == block)
            ++m_regions.back().count;
        else
            m_regions.push_back({block, 1, owner.sequence});
    });
}

// Attention of the newest query of each sequence on its blocks, by the layer and head in focus. A shared block shows what
// the sequence in focus gives it, or the largest mass.
void PoolBlocks::collectMass(const Cursor& cursor) {
    const LaneState& state = *cursor.state();
    const auto step = static_cast<std::size_t>(cursor.stepOf(cursor.lane()));
    const std::uint32_t size = state.block_size();
    const LaneRecord& lane = *cursor.laneRecord();
    const NewestRows rows = newestRows(lane, step, cursor.layer(), state.holders());
    for (const std::uint32_t holder : state.holders()) {
        const auto found = rows.find({holder, cursor.head()});
        if (found == rows.end()) continue;
        const AttentionRow& row = *found->second;
        const auto& table = state.sequences()[holder].table;
        for (std::uint32_t logical = 0; logical < table.size(); ++logical) {
            const std::uint32_t block = table[logical].value;
            if (block == null_block_id.value || block >= m_values.size()) continue;
            double mass = 0;
            for (std::uint32_t key = logical * size; key < std::min((logical + 1) * size, row.key_count); ++key)
                mass += static_cast<double>(lane.attention_weights()[row.weights_begin + key]);
            double& value = m_values[block];
            if (std::isnan(value) || SequenceId(holder) == cursor.sequence())
                value = mass;
            else if (const auto own = owners(block); std::none_of(own.begin(), own.end(), [&](const BlockOwner& owner) {
                         return owner.sequence == cursor.sequence();
                     }))
                value = std::max(value, mass);
        }
    }
}

void PoolBlocks::update(const Cursor& cursor, PoolColour colour) {
    const LaneState& state = *cursor.state();
    const LaneRecord& lane = *cursor.laneRecord();
    const auto step = static_cast<std::uint32_t>(cursor.stepOf(cursor.lane()));
    m_owners.collect(state);
    collectEvents(lane, step);
    m_regions.clear();
    if (lane.info().policy.kind == "contiguous") collectRegions(state);
    m_values.clear();
    m_greatest = 0;
    m_anyValue = false;
    if (colour == PoolColour::owner) return;
    m_values.assign(state.blocks().size(), std::numeric_limits<double>::quiet_NaN());
    const auto since = [step](std::uint32_t when) {
        return when == BlockState::no_step || when > step ? std::numeric_limits<double>::quiet_NaN()
                                                          : static_cast<double>(step - when);
    };
    for (std::size_t b = 1; b < m_values.size(); ++b) {
        const BlockState& block = state.blocks()[b];
        const bool holds = block.owners > 0 || block.hashed || block.held;
        if (colour == PoolColour::count) m_values[b] = block.owners;
        if (colour == PoolColour::age && holds) m_values[b] = since(block.born);
        if (colour == PoolColour::lastUse) m_values[b] = since(state.last_use_of(BlockId(static_cast<std::uint32_t>(b))));
    }
    if (colour == PoolColour::mass) collectMass(cursor);
    for (const double value : m_values) {
        if (std::isnan(value)) continue;
        m_anyValue = true;
        m_greatest = std::max(m_greatest, value);
    }
}

}  // namespace kvloupe
