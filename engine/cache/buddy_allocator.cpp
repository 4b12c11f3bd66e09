// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/cache/buddy_allocator.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <string>

namespace kvloupe {

namespace {

Error broken(const Chunk& chunk, const std::string& what) {
    return Error{"Buddy allocator: the chunk of " + std::to_string(chunk.blocks) + " blocks from block " +
                     std::to_string(chunk.first.value) + " " + what,
                 "This is a defect of the program; please report it with the scenario."};
}

int order_of(std::uint64_t chunk_blocks) { return std::countr_zero(chunk_blocks); }

}  // namespace

BuddyAllocator::BuddyAllocator(std::uint32_t blocks)
    : m_blocks(blocks - 1), m_free_blocks(blocks - 1), m_free(static_cast<std::size_t>(std::bit_width(blocks - 1))) {
    assert(blocks >= 1);
    std::uint32_t offset = 0;
    for (std::size_t order = m_free.size(); order-- > 0;) {
        const std::uint32_t length = std::uint32_t{1} << order;
        if (!(m_blocks & length)) continue;
        m_free[order].insert(offset);
        offset += length;
    }
}

std::uint64_t BuddyAllocator::chunk_blocks(std::uint64_t blocks) { return blocks == 0 ? 0 : std::bit_ceil(blocks); }

std::uint32_t BuddyAllocator::largest_arena() const { return std::bit_floor(m_blocks); }

std::uint32_t BuddyAllocator::largest_free() const {
    for (std::size_t order = m_free.size(); order-- > 0;)
        if (!m_free[order].empty()) return std::uint32_t{1} << order;
    return 0;
}

std::uint64_t BuddyAllocator::free_below(std::uint64_t blocks) const {
    std::uint64_t sum = 0;
    for (std::size_t order = 0; order < m_free.size() && (std::uint64_t{1} << order) < blocks; ++order)
        sum += std::uint64_t{m_free[order].size()} << order;
    return sum;
}

std::optional<Chunk> BuddyAllocator::allocate(std::uint64_t blocks) {
    assert(blocks >= 1);
    if (blocks > largest_free()) return std::nullopt;
    const auto wanted = static_cast<std::size_t>(order_of(chunk_blocks(blocks)));
    std::size_t order = wanted;
    while (order < m_free.size() && m_free[order].empty()) ++order;
    if (order == m_free.size()) return std::nullopt;
    const std::uint32_t offset = *m_free[order].begin();
    m_free[order].erase(m_free[order].begin());
    while (order > wanted) {
        --order;
        m_free[order].insert(offset + (std::uint32_t{1} << order));
    }
    m_free_blocks -= std::uint32_t{1} << wanted;
    return Chunk{BlockId(offset + 1), std::uint32_t{1} << wanted};
}

void BuddyAllocator::release(const Chunk& chunk) {
    auto order = static_cast<std::size_t>(order_of(chunk.blocks));
    std::uint32_t offset = chunk.first.value - 1;
    m_free_blocks += chunk.blocks;
    // At an arena's own order the buddy lies in a smaller arena or behind the pool, where no chunk of this order begins.
    while (m_free[order].erase(offset ^ (std::uint32_t{1} << order)) > 0) {
        offset &= ~(std::uint32_t{1} << order);
        ++order;
    }
    m_free[order].insert(offset);
}

std::vector<Chunk> BuddyAllocator::free_chunks() const {
    std::vector<Chunk> chunks;
    for (std::size_t order = 0; order < m_free.size(); ++order)
        for (const std::uint32_t offset : m_free[order]) chunks.push_back({BlockId(offset + 1), std::uint32_t{1} << order});
    std::sort(chunks.begin(), chunks.end(), [](const Chunk& a, const Chunk& b) { return a.first < b.first; });
    return chunks;
}

Result<void> BuddyAllocator::audit(std::vector<Chunk> taken) const {
    const std::vector<Chunk> free = free_chunks();
    std::uint64_t free_sum = 0;
    for (std::size_t index = 0; index < free.size(); ++index) {
        free_sum += free[index].blocks;
        if (index == 0 || free[index - 1].blocks != free[index].blocks) continue;
        const std::uint32_t before = free[index - 1].first.value - 1, offset = free[index].first.value - 1;
        if ((before ^ offset) == free[index].blocks) return broken(free[index], "is free beside its free buddy");
    }
    if (free_sum != m_free_blocks)
        return Error{"Buddy allocator: " + std::to_string(free_sum) + " blocks are free, the counter says " +
                         std::to_string(m_free_blocks),
                     "This is a defect of the program; please report it with the scenario."};
    taken.insert(taken.end(), free.begin(), free.end());
    std::sort(taken.begin(), taken.end(), [](const Chunk& a, const Chunk& b) { return a.first < b.first; });
    std::uint64_t next = 1;
    for (const Chunk& chunk : taken) {
        if (!std::has_single_bit(chunk.blocks) || (chunk.first.value - 1) % chunk.blocks != 0)
            return broken(chunk, "is not aligned");
        if (chunk.first.value != next) return broken(chunk, "does not begin at block " + std::to_string(next));
        next += chunk.blocks;
    }
    if (next != std::uint64_t{m_blocks} + 1)
        return Error{"Buddy allocator: its chunks end before block " + std::to_string(next) + " of " +
                         std::to_string(m_blocks + std::uint64_t{1}),
                     "This is a defect of the program; please report it with the scenario."};
    return {};
}

}  // namespace kvloupe
