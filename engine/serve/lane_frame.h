// SPDX-License-Identifier: GPL-3.0-or-later
//
// LaneFrame: a lane as it was at the end of a step, in main memory: its life, the bytes that lie in its pool, and where its recording
// stood. Blocks that nobody owns and nobody can hit are left out: they are written before they are read.
// Not in it, because steps do not depend on it: activations, the scratch of a lane without a cache, captured passes; the copy of values
// before they were stored (ShadowCache), which begins anew; scales per tensor or head, which stay in the pool once they are taken.
#pragma once

#include "engine/backend.h"
#include "engine/record/writer.h"
#include "engine/serve/lane_life.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace kvloupe {

struct LaneFrame {
    LaneLife life;
    LaneMark mark;
    std::vector<std::uint32_t> blocks;         // ids of the pool's that hold something
    std::unique_ptr<HostBlocks> contents;      // (blocks); null where there are none
    std::vector<std::uint32_t> swapped;        // ids of the host blocks that hold something
    std::unique_ptr<HostBlocks> swapped_contents;  // (swapped); null where there are none
    std::vector<std::uint32_t> pages;          // of the newest tokens, in f16 (KIVI)
    std::vector<std::byte> page_contents;      // (pages, bytes of a page)
};

}  // namespace kvloupe
