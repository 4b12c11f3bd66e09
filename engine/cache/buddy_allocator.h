// SPDX-License-Identifier: GPL-3.0-or-later
//
// BuddyAllocator: runs of blocks whose length is a power of two, out of a pool of any size (the allocator of the
// contiguous caches that the PagedAttention paper compares with; FORMATS 3.2).
//
// Shape: blocks 1 .. blocks - 1 are cut into arenas of powers of two, the largest first from block 1 (983 = 512 + 256 +
// 128 + 64 + 16 + 4 + 2 + 1). Every chunk of order k begins at a multiple of 2^k counted from block 1, its buddy differs
// in bit k of that offset; no chunk reaches over the end of its arena.
// Rules: the smallest free chunk that is large enough is taken, of equal ones the one with the lowest address, and halved
// until it fits, the lower half being kept; a freed chunk joins with its buddy as long as that is free. So two free chunks
// are never buddies, and an aligned free run is always inside one free chunk.
// Cost: at most log2(blocks) halvings or joins, each a look-up in an ordered set.
#pragma once

#include "engine/record/ids.h"
#include "engine/record/result.h"

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

namespace kvloupe {

struct Chunk {
    BlockId first;
    std::uint32_t blocks = 0;  // a power of two
    bool operator==(const Chunk&) const = default;
};

class BuddyAllocator {
public:
    // blocks: of the whole pool, null block included; >= 1.
    explicit BuddyAllocator(std::uint32_t blocks);

    // A chunk of the smallest power of two that is at least `blocks` (>= 1), or nothing.
    std::optional<Chunk> allocate(std::uint64_t blocks);
    // chunk: from allocate() and not released since.
    void release(const Chunk& chunk);

    // Length of the chunk that holds `blocks` blocks; 0 for none.
    static std::uint64_t chunk_blocks(std::uint64_t blocks);

    std::uint32_t blocks() const { return m_blocks; }  // null block not among them
    std::uint32_t free_blocks() const { return m_free_blocks; }
    std::uint32_t largest_free() const;                // blocks of the longest free chunk
    std::uint32_t largest_arena() const;               // the longest chunk there can ever be
    // Blocks in free chunks of fewer than `blocks` blocks.
    std::uint64_t free_below(std::uint64_t blocks) const;
    std::vector<Chunk> free_chunks() const;            // by address

    // Free chunks and `taken` (every chunk in use) cover each block once, aligned, and no two free chunks are buddies.
    Result<void> audit(std::vector<Chunk> taken) const;

private:
    std::uint32_t m_blocks;
    std::uint32_t m_free_blocks = 0;
    std::vector<std::set<std::uint32_t>> m_free;  // order -> offsets (block id - 1) of free chunks
};

}  // namespace kvloupe
