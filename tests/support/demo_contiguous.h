// SPDX-License-Identifier: GPL-3.0-or-later
//
// Contiguous lanes of the sharing demo: one region per sequence from a buddy allocator over the blocks 1 .. blocks - 1.
#pragma once

#include "tests/support/demo_engine.h"

#include <map>
#include <optional>

namespace kvloupe {

class DemoContiguous : public DemoEngine {
public:
    DemoContiguous(RecordingWriter& writer, LaneWriter& lane, const DemoSharingOptions& options);

private:
    struct Region {
        std::uint32_t first = 0;    // block
        std::uint32_t blocks = 0;   // a power of two
        std::uint64_t asked = 0;    // slots
    };

    std::uint64_t most_slots() const override;
    bool grow(std::size_t index, std::uint32_t count) override;
    bool admit(Sequence& sequence, std::uint32_t budget, std::uint32_t& count) override;
    void release(Sequence& sequence, Cause cause) override;
    bool can_fork() const override { return false; }
    void count(SlotCounts& slots, StepRecord& counters) const override;

    std::uint64_t asked(const Sequence& sequence, std::uint32_t count) const;  // slots, for `count` more tokens
    std::optional<Region> take(std::uint64_t slots);
    void give_back(const Region& region);
    std::uint32_t arena_of(std::uint32_t block) const;  // its first block

    std::map<std::uint32_t, std::uint32_t> m_arenas;    // first block -> blocks
    std::map<std::uint32_t, std::uint32_t> m_free;      // first block -> blocks, a power of two
    std::map<std::uint32_t, Region> m_regions;          // by sequence
};

}  // namespace kvloupe
