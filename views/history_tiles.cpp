// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/history_tiles.h"

#include <algorithm>
#include <array>

namespace kvloupe {

std::uint8_t history_cell::of(HistoryIndex::Code code) {
    switch (HistoryIndex::kindOf(code)) {
    case BlockKind::free: return free;
    case BlockKind::cached: return cached;
    case BlockKind::shared: return shared;
    case BlockKind::owned: break;
    }
    return static_cast<std::uint8_t>(owned + HistoryIndex::detailOf(code) % hues);
}

std::uint8_t chosen(const HistoryCount& count) {
    using namespace history_cell;
    if (count.total == 0) return outside;
    std::uint64_t inUse = 0;
    std::uint8_t hue = 0;
    for (std::uint8_t i = 0; i < hues; ++i) {
        inUse += count.kinds[owned + i];
        if (count.kinds[owned + i] > count.kinds[owned + hue]) hue = i;
    }
    std::uint8_t best = static_cast<std::uint8_t>(owned + hue);
    std::uint64_t most = inUse;
    for (const std::uint8_t kind : {shared, cached, free})
        if (count.kinds[kind] > most) {
            most = count.kinds[kind];
            best = kind;
        }
    return best;
}

namespace {

// Calls f(begin, end, code) for each stretch of the block's life in steps first .. end - 1.
template <class F>
void stretches(const HistoryIndex& index, std::uint32_t block, std::uint32_t first, std::uint32_t end, F&& f) {
    for (const auto& slab : index.slabs()) {
        if (slab->end <= first) continue;
        if (slab->begin >= end) break;
        std::uint32_t from = std::max(slab->begin, first);
        const std::uint32_t last = std::min(slab->end, end);
        HistoryIndex::Code code = slab->codes[block];
        const HistoryIndex::Change* change = slab->changes.data() + slab->offsets[block];
        const HistoryIndex::Change* none = slab->changes.data() + slab->offsets[block + std::size_t{1}];
        for (; change != none && change->step < last; ++change) {
            if (change->step > from) {
                f(from, change->step, code);
                from = change->step;
            }
            code = change->code;
        }
        if (from < last) f(from, last, code);
    }
}

struct Bounds {  // of a tile, clipped
    std::uint64_t firstBlock = 0, endBlock = 0, firstStep = 0, endStep = 0;
};

Bounds boundsOf(const HistoryIndex& index, const HistoryTileKey& key) {
    const std::uint64_t high = std::uint64_t{HistoryTile::edge} << key.blockLevel;
    const std::uint64_t wide = std::uint64_t{HistoryTile::edge} << key.stepLevel;
    Bounds bounds;
    bounds.firstBlock = std::max<std::uint64_t>(key.row * high, 1);  // the null block has no history
    bounds.endBlock = std::min<std::uint64_t>((key.row + std::uint64_t{1}) * high, index.blocks());
    bounds.firstStep = key.column * wide;
    bounds.endStep = std::min<std::uint64_t>((key.column + std::uint64_t{1}) * wide, index.steps());
    return bounds;
}

}  // namespace

HistoryCount countCell(const HistoryIndex& index, std::uint32_t firstBlock, std::uint32_t endBlock, std::uint32_t firstStep,
                       std::uint32_t endStep) {
    HistoryCount count;
    for (std::uint32_t block = std::max(firstBlock, 1u); block < std::min(endBlock, index.blocks()); ++block)
        stretches(index, block, firstStep, std::min(endStep, index.steps()), [&](std::uint32_t from, std::uint32_t to, HistoryIndex::Code code) {
            count.kinds[history_cell::of(code)] += to - from;
            count.total += to - from;
        });
    return count;
}

std::uint64_t tileCost(const HistoryIndex& index, const HistoryTileKey& key) {
    const Bounds bounds = boundsOf(index, key);
    if (bounds.firstBlock >= bounds.endBlock || bounds.firstStep >= bounds.endStep) return 1;
    std::uint64_t cost = HistoryTile::edge * HistoryTile::edge / 16;
    for (const auto& slab : index.slabs()) {
        if (slab->end <= bounds.firstStep || slab->begin >= bounds.endStep) continue;
        cost += bounds.endBlock - bounds.firstBlock + slab->offsets[bounds.endBlock] - slab->offsets[bounds.firstBlock];
    }
    return cost;
}

// Each row of cells: per kind the changes of its number of blocks, times steps, from cell to cell; then one pass that
// sums them up. Cost: the stretches of life in the tile, not its area.
std::shared_ptr<const HistoryTile> countTile(const HistoryIndex& index, const HistoryTileKey& key,
                                             const std::atomic<bool>& cancelled) {
    constexpr std::uint32_t edge = HistoryTile::edge;
    auto tile = std::make_shared<HistoryTile>();
    tile->steps = index.steps();
    tile->cells.assign(std::size_t{edge} * edge, history_cell::outside);
    const Bounds bounds = boundsOf(index, key);
    if (bounds.firstBlock >= bounds.endBlock || bounds.firstStep >= bounds.endStep) return tile;
    const std::uint64_t high = std::uint64_t{1} << key.blockLevel, top = key.row * high * edge;
    const auto width = std::int64_t{1} << key.stepLevel;
    std::vector<std::array<std::int64_t, history_cell::kinds>> changes(edge + 2);
    for (std::uint32_t row = 0; row < edge; ++row) {
        if (cancelled.load(std::memory_order_relaxed)) return nullptr;
        const std::uint64_t first = std::max(top + row * high, bounds.firstBlock);
        const std::uint64_t end = std::min(top + (row + 1) * high, bounds.endBlock);
        if (first >= end) continue;
        for (auto& each : changes) each.fill(0);
        for (std::uint64_t block = first; block < end; ++block)
            stretches(index, static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(bounds.firstStep),
                      static_cast<std::uint32_t>(bounds.endStep), [&](std::uint32_t from, std::uint32_t to, HistoryIndex::Code code) {
                          const std::uint8_t kind = history_cell::of(code);
                          const std::int64_t a = from - static_cast<std::int64_t>(bounds.firstStep);
                          const std::int64_t b = to - static_cast<std::int64_t>(bounds.firstStep);
                          const auto cellA = static_cast<std::size_t>(a >> key.stepLevel);
                          const auto cellB = static_cast<std::size_t>(b >> key.stepLevel);
                          // Steps of [a, b) before the end of each cell, as second differences.
                          const std::int64_t restA = (static_cast<std::int64_t>(cellA) + 1) * width - a;
                          const std::int64_t restB = (static_cast<std::int64_t>(cellB) + 1) * width - b;
                          changes[cellA][kind] += restA;
                          changes[cellA + 1][kind] += width - restA;
                          changes[cellB][kind] -= restB;
                          changes[cellB + 1][kind] -= width - restB;
                      });
        std::array<std::int64_t, history_cell::kinds> sums{};
        const std::uint64_t columns = (bounds.endStep - bounds.firstStep + static_cast<std::uint64_t>(width) - 1) >> key.stepLevel;
        for (std::size_t column = 0; column < columns; ++column) {
            HistoryCount count;
            for (std::size_t kind = 0; kind < history_cell::kinds; ++kind) {
                sums[kind] += changes[column][kind];
                count.kinds[kind] = static_cast<std::uint64_t>(sums[kind]);
                count.total += count.kinds[kind];
            }
            tile->cells[row * std::size_t{edge} + column] = chosen(count);
        }
    }
    return tile;
}

std::size_t HistoryTiles::Hash::operator()(const HistoryTileKey& key) const noexcept {
    const std::uint64_t x = (std::uint64_t{key.row} << 32 | key.column) * 0x9E3779B97F4A7C15u;
    return static_cast<std::size_t>(x ^ (x >> 29) ^ (std::uint64_t{key.blockLevel} << 8 | key.stepLevel) * 0xC2B2AE3D27D4EB4Fu);
}

void HistoryTiles::clear() {
    m_tiles.clear();
    m_uses.clear();
    ++m_version;
}

void HistoryTiles::insert(const HistoryTileKey& key, std::shared_ptr<const HistoryTile> tile) {
    ++m_version;
    const auto [place, isNew] = m_tiles.try_emplace(key);
    if (isNew) {
        m_uses.push_front(key);
        place->second.use = m_uses.begin();
    }
    place->second.tile = std::move(tile);
    while (memoryBytes() > m_budget && m_uses.size() > 1) {
        m_tiles.erase(m_uses.back());
        m_uses.pop_back();
    }
}

HistoryTiles::Found HistoryTiles::find(const HistoryTileKey& key, std::uint32_t steps) {
    const auto place = m_tiles.find(key);
    if (place == m_tiles.end()) return {};
    m_uses.splice(m_uses.begin(), m_uses, place->second.use);
    const HistoryTile* tile = place->second.tile.get();
    const std::uint64_t end = (key.column + std::uint64_t{1}) * HistoryTile::edge << key.stepLevel;
    return {tile, tile->steps < steps && tile->steps < end};
}

HistoryTiles::Coarser HistoryTiles::coarser(const HistoryTileKey& key, std::uint8_t mostBlockLevel, std::uint8_t mostStepLevel) const {
    // The nearest first: by the sum of the levels that it is coarser.
    const int up = mostBlockLevel - key.blockLevel, across = mostStepLevel - key.stepLevel;
    for (int sum = 1; sum <= up + across; ++sum)
        for (int a = std::max(0, sum - across); a <= std::min(sum, up); ++a) {
            const int b = sum - a;
            const HistoryTileKey above{static_cast<std::uint8_t>(key.blockLevel + a), static_cast<std::uint8_t>(key.stepLevel + b),
                                       key.row >> a, key.column >> b};
            if (const auto place = m_tiles.find(above); place != m_tiles.end()) return {place->second.tile.get(), above};
        }
    return {};
}

}  // namespace kvloupe
