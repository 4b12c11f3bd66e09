// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/cache/block_pool.h"

#include <algorithm>
#include <cassert>

namespace kvloupe {

BlockPool::BlockPool(std::uint32_t blocks, FreeOrder order, std::span<const BlockId> first) : m_order(order) {
    assert(blocks >= 2);
    m_blocks.resize(std::size_t{blocks} + 1);
    m_hashes.reset(new BlockHash[blocks]);
    m_blocks[sentinel()].previous = m_blocks[sentinel()].next = sentinel();
    append(first);
    for (std::uint32_t id = 1; id < blocks; ++id)
        if (!m_blocks[id].linked()) link_between(m_blocks[sentinel()].previous, id, sentinel());
}

BlockPool::BlockPool(const BlockPool& other)
    : m_blocks(other.m_blocks), m_hashes(new BlockHash[other.size()]), m_age(other.m_age), m_order(other.m_order), m_free(other.m_free),
      m_free_hashed(other.m_free_hashed), m_held(other.m_held), m_extra_references(other.m_extra_references) {
    for (std::uint32_t id = 0; id < size(); ++id)
        if (hashed(BlockId{id})) m_hashes[id] = other.m_hashes[id];
}

std::optional<BlockId> BlockPool::take(bool* evicted) {
    const std::uint32_t head = m_blocks[sentinel()].next;
    if (head == sentinel()) return std::nullopt;
    const BlockId id{head};
    unlink(id);
    Block& block = m_blocks[head];
    if (evicted) *evicted = hashed(id);
    block.hash_age = 0;
    block.references = 1;
    return id;
}

void BlockPool::touch(BlockId id) {
    Block& block = m_blocks[id.value];
    if (id == null_block_id) return;
    if (block.linked())
        unlink(id);
    else if (block.references == 0)
        --m_held;
    else
        ++m_extra_references;
    ++block.references;
}

BlockPool::Released BlockPool::release(BlockId id, bool hold) {
    Block& block = m_blocks[id.value];
    if (id == null_block_id || block.references <= 0) return {};
    if (--block.references > 0) {
        --m_extra_references;
        return {block.references, false};
    }
    if (!hold) return {0, link_by_rule(id)};
    ++m_held;
    return {};
}

bool BlockPool::let_go(BlockId id) {
    assert(!m_blocks[id.value].linked() && m_blocks[id.value].references == 0);
    --m_held;
    return link_by_rule(id);
}

bool BlockPool::link_by_rule(BlockId id) {
    const bool front = m_order == FreeOrder::vllm && !hashed(id);
    if (front)
        prepend(std::span(&id, 1));
    else
        append(std::span(&id, 1));
    return front;
}

void BlockPool::set_hash(BlockId id, const BlockHash& hash) {
    Block& block = m_blocks[id.value];
    if (block.linked() && !hashed(id)) ++m_free_hashed;
    m_hashes[id.value] = hash;
    block.hash_age = m_age;
}

void BlockPool::clear_hash(BlockId id) {
    Block& block = m_blocks[id.value];
    if (block.linked() && hashed(id)) --m_free_hashed;
    block.hash_age = 0;
}

void BlockPool::clear_all_hashes() {
    ++m_age;
    m_free_hashed = 0;
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
    assert(block.linked());
    m_blocks[block.previous].next = block.next;
    m_blocks[block.next].previous = block.previous;
    block.previous = block.next = Block::not_linked;
    --m_free;
    if (hashed(id)) --m_free_hashed;
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
    assert(!block.linked());
    block.previous = previous;
    block.next = next;
    m_blocks[previous].next = id;
    m_blocks[next].previous = id;
    ++m_free;
    if (hashed(BlockId{id})) ++m_free_hashed;
}

}  // namespace kvloupe
