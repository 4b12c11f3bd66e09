// SPDX-License-Identifier: GPL-3.0-or-later
//
// PoolBlocks: what the picture of a pool says about each block at the cursor: its owners, what the step did to it, the
// value that colours it, and the regions of a contiguous allocator. One pass over tables and events, none per block.
#pragma once

#include "views/attention_index.h"
#include "views/block_owners.h"
#include "views/picking.h"

#include <span>
#include <vector>

namespace kvloupe {

// What gives a block its colour: who owns it, or a number.
enum class PoolColour { owner, count, age, lastUse, mass };
inline constexpr int pool_colour_count = 5;

// A copy that the step made; drawn while the step is shown.
struct PoolCopy {
    std::uint64_t event = 0;  // index into the lane's events
    BlockId source, destination;
    std::uint32_t slots = 0;
};

// Neighbouring blocks that one table names in a row: what a contiguous allocator gave in one piece.
struct PoolRegion {
    std::uint32_t first = 0, count = 0;
    SequenceId sequence;
};

class PoolBlocks {
public:
    // The cursor must have a state. The numbers of `colour` are computed, those of the others not.
    void update(const Cursor& cursor, PoolColour colour);
    void clear();

    std::span<const BlockOwner> owners(std::uint32_t block) const { return m_owners.of(block); }
    bool evicted(std::uint32_t block) const;  // it lost its hash in this step
    const std::vector<PoolCopy>& copies() const { return m_copies; }
    const std::vector<PoolRegion>& regions() const { return m_regions; }

    // The number that colours the block; empty where there is none (not recorded, no attention row, the null block).
    std::optional<double> value(std::uint32_t block) const;
    double greatest() const { return m_greatest; }  // of all values; the colour scale begins at 0
    double share(double value) const { return m_greatest > 0 ? value / m_greatest : 0; }
    bool anyValue() const { return m_anyValue; }
    // Origin of the numbers: counts are counted, ages are differences of steps, mass a sum of recorded weights.
    static Origin originOf(PoolColour colour) { return colour == PoolColour::count ? Origin::measured : Origin::derived; }

private:
    void collectEvents(const LaneRecord& lane, std::size_t step);
    void collectRegions(const LaneState& state);
    void collectMass(const Cursor& cursor);

    BlockOwners m_owners;
    std::vector<std::uint32_t> m_evicted; // ascending
    std::vector<PoolCopy> m_copies;
    std::vector<PoolRegion> m_regions;
    std::vector<double> m_values;         // NaN: none; empty when owners give the colour
    double m_greatest = 0;
    bool m_anyValue = false;
};

}  // namespace kvloupe
