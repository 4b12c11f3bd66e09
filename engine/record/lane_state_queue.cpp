// SPDX-License-Identifier: GPL-3.0-or-later
//
// The free queue of a LaneState. A link that was never written says its neighbours by id, so that the pages of a fresh
// pool, whose queue is in the order of ids, are all one page.
#include "engine/record/lane_state.h"

namespace kvloupe {

std::uint32_t LaneState::previous(std::uint32_t block) const {
    const std::uint32_t stored = m_links[block].previous;
    return stored == none ? block - 1 : stored;
}

std::uint32_t LaneState::next(std::uint32_t block) const {
    const std::uint32_t stored = m_links[block].next;
    return stored == none ? block + 1 : stored;
}

void LaneState::link(std::uint32_t block, std::uint32_t before) {
    const std::uint32_t after = previous(before);
    m_links.edit(block, m_made) = {after, before};
    m_links.edit(before, m_made).previous = block;
    m_links.edit(after, m_made).next = block;
}

void LaneState::link_back(std::uint32_t block) { link(block, static_cast<std::uint32_t>(m_blocks.size())); }

void LaneState::link_front(std::uint32_t block) { link(block, next(static_cast<std::uint32_t>(m_blocks.size()))); }

void LaneState::unlink(std::uint32_t block) {
    const std::uint32_t before = previous(block);
    const std::uint32_t after = next(block);
    m_links.edit(before, m_made).next = after;
    m_links.edit(after, m_made).previous = before;
}

std::vector<BlockId> LaneState::free_order(std::size_t limit) const {
    std::vector<BlockId> order;
    if (m_blocks.empty()) return order;
    const auto sentinel = static_cast<std::uint32_t>(m_blocks.size());
    for (std::uint32_t block = next(sentinel); block != sentinel && order.size() < limit; block = next(block))
        order.emplace_back(block);
    return order;
}

}  // namespace kvloupe
