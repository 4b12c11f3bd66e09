// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/cache/block_pool.h"

#include <algorithm>
#include <cassert>

namespace kvloupe {

BlockPool::BlockPool(std::uint32_t blocks) {
    assert(blocks >= 2);
    m_blocks.resize(std::size_t{blocks} + 1);
    m_blocks[sentinel()].previous = m_blocks[sentinel()].next = sentinel();
    for (std::uint32_t id = 0; id < blocks; ++id) link_between(m_blocks[sentinel()].previous, id, sentinel());
    unlink(null_block_id);
    m_blocks[null_block_id.value].is_null = true;
}

std::optional<BlockId> BlockPool::take(bool* evicted) {
    const std::uint32_t head = m_blocks[sentinel()].next;
    if (head == sentinel()) return std::nullopt;
    const BlockId id{head};
    unlink(id);
    Block& block = m_blocks[head];
    if (evicted) *evicted = block.hash.has_value();
    block.hash.reset();
    block.references = 1;
    return id;
}

void BlockPool::touch(BlockId id) {
    Block& block = m_blocks[id.value];
    if (block.is_null) return;
    if (block.linked) unlink(id);
    ++block.references;
}

BlockPool::Released BlockPool::release(BlockId id) {
    Block& block = m_blocks[id.value];
    if (block.is_null || block.references <= 0) return {};
    if (--block.references > 0) return {block.references, false};
    const bool front = !block.hash.has_value();
    if (front)
        prepend(std::span(&id, 1));
    else
        append(std::span(&id, 1));
    return {0, front};
}

void BlockPool::append(std::span<const BlockId> ids) {
    for (const BlockId id : ids) link_between(m_blocks[sentinel()].previous, id.value, sentinel());
}

void BlockPool::prepend(std::span<const BlockId> ids) {
    const std::uint32_t first = m_blocks[sentinel()].next;
    std::uint32_t previous = sentinel();
    for (const BlockId id : ids) {
        link_between(previous, id.value, first);
        previous = id.value;
    }
}

void BlockPool::unlink(BlockId id) {
    Block& block = m_blocks[id.value];
    assert(block.linked);
    m_blocks[block.previous].next = block.next;
    m_blocks[block.next].previous = block.previous;
    block.linked = false;
    --m_free;
}

std::vector<BlockId> BlockPool::free_order(std::size_t limit) const {
    std::vector<BlockId> order;
    order.reserve(std::min<std::size_t>(limit, m_free));
    // Bounded by the pool's size, so that a broken list ends too and the auditor can say so.
    for (std::uint32_t id = m_blocks[sentinel()].next; id != sentinel() && order.size() < limit && order.size() <= size();
         id = m_blocks[id].next)
        order.push_back(BlockId{id});
    return order;
}

void BlockPool::link_between(std::uint32_t previous, std::uint32_t id, std::uint32_t next) {
    Block& block = m_blocks[id];
    assert(!block.linked);
    block.previous = previous;
    block.next = next;
    block.linked = true;
    m_blocks[previous].next = id;
    m_blocks[next].previous = id;
    ++m_free;
}

}  // namespace kvloupe
