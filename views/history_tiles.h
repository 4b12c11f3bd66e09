// SPDX-License-Identifier: GPL-3.0-or-later
//
// Tiles of the block history: cells of 2^a blocks by 2^b steps, each showing what most of its block-steps were. Both axes
// halve on their own, so that a picture can be zoomed along one of them. A cell's state is chosen first (free, cached,
// shared, in use), then, where it is in use, the most frequent hue.
// Every cell is counted exactly from the index; tiles are kept while they are used, at most `budget` bytes of them.
// Rejected: each level from the one below (the most frequent of the most frequent is not the most frequent).
#pragma once

#include "views/history_index.h"

#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

namespace kvloupe {

// What a cell shows: one byte, coloured when it is drawn.
namespace history_cell {
inline constexpr std::uint8_t free = 0, cached = 1, shared = 2, owned = 3;  // owned + hue, 8 of them
inline constexpr std::uint8_t hues = 8, kinds = owned + hues;
inline constexpr std::uint8_t outside = 254;  // no block or step there, or the null block
inline constexpr std::uint8_t unknown = 255;  // not counted yet
std::uint8_t of(HistoryIndex::Code code);
}  // namespace history_cell

struct HistoryTileKey {
    std::uint8_t blockLevel = 0, stepLevel = 0;  // cells of 2^level
    std::uint32_t row = 0, column = 0;           // of tiles
    bool operator==(const HistoryTileKey&) const = default;
};

struct HistoryTile {
    static constexpr std::uint32_t edge = 256;   // cells
    std::uint32_t steps = 0;                     // of the index when it was counted
    std::vector<std::uint8_t> cells;             // (edge rows of blocks, edge columns of steps)
};

// Block-steps of a rectangle by what they were.
struct HistoryCount {
    std::uint64_t kinds[history_cell::kinds] = {};
    std::uint64_t total = 0;
};
HistoryCount countCell(const HistoryIndex& index, std::uint32_t firstBlock, std::uint32_t endBlock, std::uint32_t firstStep,
                       std::uint32_t endStep);
// Most frequent state, then hue; ties go to what is in use.
std::uint8_t chosen(const HistoryCount& count);

// Null when cancelled.
std::shared_ptr<const HistoryTile> countTile(const HistoryIndex& index, const HistoryTileKey& key,
                                             const std::atomic<bool>& cancelled);
// Changes and blocks that countTile() would read.
std::uint64_t tileCost(const HistoryIndex& index, const HistoryTileKey& key);

class HistoryTiles {
public:
    explicit HistoryTiles(std::uint64_t budget) : m_budget(budget) {}

    void clear();
    void insert(const HistoryTileKey& key, std::shared_ptr<const HistoryTile> tile);
    // Null where there is none. `steps`: of the index; a tile that was counted with fewer and reaches beyond is stale.
    struct Found {
        const HistoryTile* tile = nullptr;
        bool stale = false;
    };
    Found find(const HistoryTileKey& key, std::uint32_t steps);
    // A coarser tile that covers this one's place, by how many levels, or null.
    struct Coarser {
        const HistoryTile* tile = nullptr;
        HistoryTileKey key;
    };
    Coarser coarser(const HistoryTileKey& key, std::uint8_t mostBlockLevel, std::uint8_t mostStepLevel) const;

    std::uint64_t version() const { return m_version; }  // changes with every insertion
    std::uint64_t memoryBytes() const { return m_tiles.size() * (HistoryTile::edge * HistoryTile::edge + 96); }

private:
    struct Hash {
        std::size_t operator()(const HistoryTileKey& key) const noexcept;
    };
    struct Entry {
        std::shared_ptr<const HistoryTile> tile;
        std::list<HistoryTileKey>::iterator use;
    };
    std::uint64_t m_budget;
    std::uint64_t m_version = 0;
    std::unordered_map<HistoryTileKey, Entry, Hash> m_tiles;
    std::list<HistoryTileKey> m_uses;  // the latest first
};

}  // namespace kvloupe
